"""Retrying: whether a call that has failed is made again, and when.

Only what may have a better end: UNAVAILABLE, PEER_DOWN and RESOURCE_EXHAUSTED, of work that may be done twice (its
operation is idempotent, or the call bears an idempotency key) or that has certainly not begun (`is_refused`). Never past
the deadline, and never beyond the budget: in an outage everybody's retries would be the load that keeps it going. The
budget is Finagle's, without its clock: a share of the calls of the last seconds, and a few a second for those who call
seldom. Pure: time and randomness are parameters.
"""

import math
from dataclasses import dataclass
from typing import Final

from .errors import BackplaneError, error_from
from .status import Status

#: What may have a better end when it is tried again. All else would end as it did, or has used its time up.
RETRIED: Final = frozenset((Status.UNAVAILABLE, Status.PEER_DOWN, Status.RESOURCE_EXHAUSTED))
#: The first wait is at most this, and doubles: a process that has died is back in some 100 to 300 ms, its hooks run then.
BACKOFF_NS: Final = 25_000_000
#: No wait is longer, or who comes back would stand idle.
BACKOFF_MAX_NS: Final = 1_000_000_000
#: Calls are counted for so long: a restart is over by then, an outage is not.
WINDOW_NS: Final = 10_000_000_000
#: When a new directory comes, what waits for a place looks within so long, not all in one moment.
SPREAD_NS: Final = 20_000_000
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How many retries a client may make: `ratio` of its calls, and `min_per_s` a second besides.

    With the defaults, a callee that refuses everything gets 1.2 times the calls, as in Finagle; and a client that calls
    once a second may try ten times as often. `ratio=0, min_per_s=0`: none at all.
    """

    ratio: float = 0.2
    min_per_s: float = 10.0

    def __post_init__(self) -> None:
        for name, value, most in (("ratio", self.ratio, 1.0), ("min_per_s", self.min_per_s, 1e6)):
            if not 0 <= value <= most:
                raise ValueError(f"RetryBudget({name}={value!r}): expected a number from 0 to {most:,g}")


class RetryAccount:
    """What is left of a budget.

    A call costs it nothing: calls are numbered anyway, so it looks at how many there were when a retry is asked for. What
    they have brought in decays with `WINDOW_NS`; what time brings in is capped at that of one window.
    """

    def __init__(self, budget: RetryBudget, now_ns: int) -> None:
        self._budget = budget
        self._window_s = WINDOW_NS / _SECOND_NS
        #: Brought in by time: full at the start, so that the first call of a program may be tried again, too.
        self._reserve = budget.min_per_s * self._window_s
        #: Brought in by calls.
        self._earned = 0.0
        self._looked_ns = now_ns
        self._calls_count = 0
        #: Retries that were granted, and refused.
        self.taken_count = self.refused_count = 0

    def take(self, now_ns: int, calls_count: int) -> bool:
        """Whether one more retry may be made; `calls_count`: calls so far, without retries."""
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
        # Of the calls since the last look, as many as fall into the window if they came evenly.
        fresh = (calls_count - self._calls_count) / max(1.0, windows)
        self._earned = self._earned * math.exp(-windows) + fresh * self._budget.ratio
        most = self._budget.min_per_s * self._window_s
        self._reserve = min(most, self._reserve + passed_ns / _SECOND_NS * self._budget.min_per_s)
        self._looked_ns, self._calls_count = now_ns, calls_count


@dataclass(frozen=True, slots=True)
class Again:
    """Try again, so many ns from now."""

    wait_ns: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It has ended; `because` is for the message, and empty where there is nothing to explain."""

    because: str = ""


def is_retryable(error: BackplaneError, *, is_repeatable: bool) -> bool:
    """Whether what ended so may be tried again. `is_repeatable`: it does no harm if it is done twice."""
    if error.is_refused and error.status is Status.UNAVAILABLE and error.retry_after is None:
        return False  # who refused it says that waiting does not help: its component is not to serve that
    return error.status in RETRIED and (is_repeatable or error.is_refused)


def decide(
    error: BackplaneError,
    *,
    is_repeatable: bool,
    is_sent: bool,
    attempt: int,
    remaining_ns: int,
    account: RetryAccount,
    now_ns: int,
    calls_count: int,
    random: float,
) -> Again | GiveUp:
    """What follows from the end of the `attempt`-th attempt, counted from 1. `random`: 0 up to 1.

    `is_sent`: it has left this process. What has not costs nobody anything, so it waits for a place to come up without
    touching the budget, as long as its deadline allows.
    """
    if not is_retryable(error, is_repeatable=is_repeatable):
        return GiveUp()
    wait_ns = wait_before(attempt, error.retry_after if is_sent else None, random)
    if wait_ns >= remaining_ns:
        return GiveUp("the next would be too late")
    if is_sent and not account.take(now_ns, calls_count):
        return GiveUp("the retry budget is spent")
    return Again(wait_ns)


def after_attempts(error: BackplaneError, count: int, because: str) -> BackplaneError:
    """The error in which a call ended after all: it says how often it was tried, and why not again."""
    if count == 1 and not because:
        return error
    tried = f"{count} attempts" if count > 1 else "1 attempt"
    message = f"{error.message} (after {tried}{because and ': '}{because})"
    told = error_from(int(error.status), message, error.retry_after, error.trace, is_refused=error.is_refused)
    told.attempts = count
    return told


def wait_before(attempt: int, retry_after: float | None, random: float) -> int:
    """The wait after the `attempt`-th attempt: exponential, with full jitter, on top of what the callee asked for.

    Full jitter (AWS, "Exponential Backoff and Jitter"): callers that failed together must not come back together.
    """
    backoff_ns = min(BACKOFF_MAX_NS, BACKOFF_NS << min(attempt - 1, 32))
    asked_ns = 0
    if retry_after is not None and retry_after > 0 and math.isfinite(retry_after):
        asked_ns = int(min(retry_after, 1e9) * 1e9)
    return asked_ns + int(random * backoff_ns)
