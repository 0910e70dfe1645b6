"""Retrying: whether a failed call is retried, and when.

Only calls that may end better: UNAVAILABLE, PEER_DOWN and RESOURCE_EXHAUSTED, for work that may be repeated (its operation is
idempotent, or the call has an idempotency key) or that has certainly not begun (`is_refused`). Never past the deadline, and
never beyond the budget: in an outage, everybody's retries would be the load that keeps it going. The budget is Finagle's,
without its clock: a share of the calls of the last seconds, plus a few a second for clients that call seldom. Pure: time and
randomness are parameters. Clients and the objects of backplanes retry by the same `Retries`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic

from .call_spec import CallSpec
from .calls import OutstandingCalls, Token
from .errors import BackplaneError, Status, error_from
from .pseudo_peers import pseudo_peer

#: Statuses that may end better when retried. With all others the call would end as before, or has used its time up.
RETRIED: Final = frozenset((Status.UNAVAILABLE, Status.PEER_DOWN, Status.RESOURCE_EXHAUSTED))
#: Bound of the first wait; it doubles each time. After some 100 to 300 ms, a process that died is back and runs its hooks.
BACKOFF_NS: Final = 25_000_000
#: Bound of every wait: with longer ones, a recovered callee would stand idle.
BACKOFF_MAX_NS: Final = 1_000_000_000
#: Calls are counted for this long: a restart is over by then, an outage is not.
WINDOW_NS: Final = 10_000_000_000
#: Stands for the callee of a failed call that waits for its retry.
WAITING: Final = pseudo_peer("retry")
#: After a new routing table, calls that found no instance retry within this time, and not all in one moment.
SPREAD_NS: Final = 20_000_000
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How many retries a client may make: `ratio` of its calls, and `min_per_s` a second besides.

    With the defaults, a callee that refuses everything gets 1.2 times the calls, as in Finagle. A client that calls once a
    second may retry ten times as often. `ratio=0, min_per_s=0`: no retries.
    """

    ratio: float = 0.2
    min_per_s: float = 10.0

    def __post_init__(self) -> None:
        for name, value, most in (("ratio", self.ratio, 1.0), ("min_per_s", self.min_per_s, 1e6)):
            if not 0 <= value <= most:
                raise ValueError(f"RetryBudget({name}={value!r}): expected a number from 0 to {most:,g}")


class RetryAccount:
    """The retries that are left of a budget.

    A call without a retry costs nothing here: calls are counted anyway, and a retry passes their count. Retries earned by
    calls decay with `WINDOW_NS`; retries earned by time are capped at one window's.
    """

    def __init__(self, budget: RetryBudget, now_ns: int) -> None:
        self._budget = budget
        self._window_s = WINDOW_NS / _SECOND_NS
        #: Earned by time: full at the start, so that a program's first call may be retried, too.
        self._reserve = budget.min_per_s * self._window_s
        #: Earned by calls, `ratio` each.
        self._earned = 0.0
        self._looked_ns = now_ns
        self._calls_count = 0
        #: Retries that were granted, and refused.
        self.taken_count = self.refused_count = 0

    def take(self, now_ns: int, calls_count: int) -> bool:
        """Take one retry from the budget. False: it is spent. `calls_count`: calls so far, without retries."""
        self._bring_in(now_ns, calls_count)
        if self._earned >= 1.0:
            self._earned -= 1.0
        elif self._reserve >= 1.0:
            self._reserve -= 1.0
        else:
            self.refused_count += 1
            return False
        self.taken_count += 1
        return True

    def _bring_in(self, now_ns: int, calls_count: int) -> None:
        calls_count = max(calls_count, self._calls_count)
        passed_ns = max(0, now_ns - self._looked_ns)
        windows = passed_ns / WINDOW_NS
        # Of the calls since the last time, as many as fall into the window if they came evenly.
        fresh = (calls_count - self._calls_count) / max(1.0, windows)
        self._earned = self._earned * math.exp(-windows) + fresh * self._budget.ratio
        most = self._budget.min_per_s * self._window_s
        self._reserve = min(most, self._reserve + passed_ns / _SECOND_NS * self._budget.min_per_s)
        self._looked_ns, self._calls_count = now_ns, calls_count


@dataclass(frozen=True, slots=True)
class StopRetrying:
    """Do not retry. `because` is for the message, and empty if there is nothing to explain."""

    because: str = ""


class Retries(Generic[Token]):
    """The failed calls of one process that wait for a retry.

    Each stays in the process's call table, with `WAITING` for its peer and the time of the retry for its deadline: when it
    expires there, the owner makes the next attempt. So it ends exactly once, like any call. Owned like the table.
    """

    def __init__(self, calls: OutstandingCalls[Token], account: RetryAccount, random: Callable[[], float]) -> None:
        """`random`: returns 0 up to 1."""
        self.account = account
        #: Ids of the table that belong to no call of its own: those of waits, and of attempts after the first, which the owner
        #: counts. Subtracted so that the budget counts calls only.
        self.extra_ids_count = 0
        self._calls = calls
        #: Tests replace it.
        self.random = random
        #: Ids of the waits of calls that found no instance.
        self._unplaced: dict[int, None] = {}

    def wait(
        self, token: Token, spec: CallSpec, attempts_count: int, error: BackplaneError, now_ns: int,
        *, is_sent: bool, is_idempotent: bool,
    ) -> int | StopRetrying:  # fmt: skip
        """Keep a call whose last attempt ended in `error` until its retry is due. Returns the id of the wait, if it is retried.

        `attempts_count`: those that have ended. `is_idempotent`: whether the operation is. `is_sent`: the attempt has left this
        process. An unsent one costs nobody anything, so it waits for an instance without touching the budget, as long as its
        deadline allows.
        """
        is_repeatable = not is_sent or is_idempotent or spec.idempotency_key is not None
        if not spec.is_retried or not is_retryable(error, is_repeatable=is_repeatable):
            return StopRetrying()
        wait_ns = wait_before(attempts_count, error.retry_after if is_sent else None, self.random())
        if now_ns + wait_ns >= spec.ends_ns:
            return StopRetrying("the next would be too late")
        if is_sent and not self.account.take(now_ns, self._calls.next_id - self.extra_ids_count):
            return StopRetrying("the retry budget is spent")
        id = self._wait_until(now_ns + wait_ns, token)
        if not is_sent:
            self._unplaced[id] = None
        return id

    def waited(self, id: int) -> None:
        """A wait has ended: the call was cancelled, or its next attempt begins."""
        self._unplaced.pop(id, None)

    def hurry(self, now_ns: int, order: Callable[[Token], int]) -> list[tuple[int, Token]]:
        """A new routing table: calls that found no instance are soon due, in this order. Returns their new ids.

        Not in the order of their waits: a call that has waited several times would fall behind later ones.
        """
        due_ns = now_ns + int(self.random() * SPREAD_NS)
        waiting = [(id, self._calls.get(id)) for id in self._unplaced]
        ordered = sorted((order(call[2]), id) for id, call in waiting if call is not None and call[0] == WAITING)
        hurried: list[tuple[int, Token]] = []
        # One after the other: a signal's exception may strike, and would take the calls that are in no table.
        for _, id in ordered:
            if (token := self._calls.end(id)) is not None:
                hurried.append((self._wait_until(due_ns, token), token))
        self._unplaced = dict.fromkeys([id for id, _ in hurried])
        return hurried

    def _wait_until(self, due_ns: int, token: Token) -> int:
        self.extra_ids_count += 1
        return self._calls.open(WAITING, due_ns, token)


def is_retryable(error: BackplaneError, *, is_repeatable: bool) -> bool:
    """Whether a call that ended in `error` may be retried. `is_repeatable`: its work does no harm if it is done twice."""
    if error.is_refused and error.status is Status.UNAVAILABLE and error.retry_after is None:
        return False  # the callee says that waiting does not help: its component is not to serve that
    return error.status in RETRIED and (is_repeatable or error.is_refused)


def after_attempts(error: BackplaneError, count: int, because: str) -> BackplaneError:
    """The final error of a call: adds the number of attempts, and the reason against another."""
    if count <= 1 and not because:
        return error
    tried = f"{count} attempts" if count > 1 else "1 attempt"
    message = f"{error.message} (after {tried}{because and ': '}{because})"
    told = error_from(int(error.status), message, error.retry_after, error.trace, is_refused=error.is_refused)
    told.overloaded_at, told.idle = error.overloaded_at, error.idle
    told.attempts = count
    return told


def wait_before(attempt: int, retry_after: float | None, random: float) -> int:
    """The wait after the `attempt`-th attempt: exponential, with full jitter, on top of the callee's `retry_after`.

    Full jitter (AWS, "Exponential Backoff and Jitter"): callers that failed together must not come back together.
    """
    backoff_ns = min(BACKOFF_MAX_NS, BACKOFF_NS << min(attempt - 1, 32))
    asked_ns = 0
    if retry_after is not None and retry_after > 0 and math.isfinite(retry_after):
        asked_ns = int(min(retry_after, 1e9) * 1e9)
    return asked_ns + int(random * backoff_ns)
