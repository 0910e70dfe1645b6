"""Attempts: the calls of one session that have failed and are to be made again, and when each is due.

What was said is said again in the same bytes (codec.renumbered), under another id and by the same deadline; what else
there is to know of a call is read from them, so that one that does not fail pays for nothing. `retrying.py` decides; this
keeps the account and the queue, and says at the end how often it was tried. Bounded as calls are: what waits here counts
as outstanding (exchange.py).
"""

import heapq
from collections.abc import Callable
from typing import Any

from .call_spec import CallSpec
from .codec import batch, decode
from .errors import BackplaneError
from .events import Ended, Events
from .exchange import Call, Exchange
from .purposes import Own
from .resolver import Resolver
from .retrying import SPREAD_NS, GiveUp, RetryAccount, after_attempts, decide


def half() -> float:
    """No chance at all, for who wants to know beforehand how long it waits."""
    return 0.5


class Attempt(Own):
    """One call that has failed at least once and has not ended; it is also what its later attempts are known by."""

    __slots__ = (
        "because", "count", "due_ns", "ends_ns", "first_id", "id", "idempotency_key", "is_sent", "key", "packed",
        "route", "token",
    )  # fmt: skip

    def __init__(self, token: object, packed: bytes, id: int) -> None:
        (envelope,) = decode(batch([packed]))
        assert envelope.route is not None and envelope.deadline is not None
        self.token = token
        self.packed = packed
        self.route: str = envelope.route
        self.key = envelope.key
        self.idempotency_key = envelope.idempotency_key
        #: The deadline, which all attempts share: a call bears the time at which it ends (exchange.py).
        self.ends_ns = -envelope.deadline
        #: The id that its caller knows, and that of the attempt which is outstanding; 0: it waits for the next.
        self.first_id = id
        self.id = 0
        self.count = 1
        self.due_ns = 0
        #: Whether the last attempt has left this process.
        self.is_sent = True
        #: Why it is not tried again.
        self.because = ""


class Attempts:
    """What one client tries again. `exchange` is its session's."""

    def __init__(self, exchange: Exchange, account: RetryAccount, random: Callable[[], float]) -> None:
        """`random`: from 0 up to 1."""
        self.account = account
        self._exchange = exchange
        self._random = random
        self._waiting: list[tuple[int, int, Attempt]] = []
        self._of: dict[int, Attempt] = {}
        #: Ids that stand for no call of its own, beside those of retries.
        self._ids_extra_count = 0

    def begin(self, error: BackplaneError, token: object, now_ns: int, spec: CallSpec) -> int:
        """A call that could not be sent waits until it can; returns its id. Raises `error` where waiting is no use."""
        id = self._exchange.calls.take_id()
        self._ids_extra_count += 1
        packed = self._exchange.pack_call(id, spec)
        attempt = Attempt(token, packed, id)
        attempt.is_sent = False
        if not self._wait(attempt, error, now_ns, is_repeatable=True):
            raise after_attempts(error, attempt.count, attempt.because)
        return id

    def failed(
        self, id: int, call: Call, error: BackplaneError, now_ns: int, resolver: Resolver | None
    ) -> BackplaneError | None:
        """A call has ended in `error`. None: it is not over. `resolver`: None while there is no system."""
        token, packed = call[0], call[3]
        if packed is None or resolver is None:
            return error
        attempt = token if isinstance(token, Attempt) else Attempt(token, packed, id)
        attempt.is_sent = True
        is_repeatable = attempt.idempotency_key is not None or resolver.is_idempotent(attempt.route)
        if self._wait(attempt, error, now_ns, is_repeatable=is_repeatable):
            return None
        return (
            error if attempt is token else after_attempts(error, attempt.count, attempt.because)
        )  # of an attempt it will be said at its end

    def make_due(self, now_ns: int, peer_for: Callable[[str, str | None], bytes], events: Events) -> None:
        """Make those again that are due. Called at each turn: where none waits, it costs a look at an empty list."""
        while self._waiting and self._waiting[0][0] <= now_ns:
            attempt = heapq.heappop(self._waiting)[2]
            if self._of.get(attempt.first_id) is not attempt:
                continue  # taken back
            self._exchange.waits_no_more(len(attempt.packed))
            attempt.count += 1
            try:
                peer = peer_for(attempt.route, attempt.idempotency_key if attempt.key is None else attempt.key)
                attempt.id = self._exchange.open_again(peer, attempt, attempt.ends_ns, attempt.route, attempt.packed)
            except BackplaneError as error:
                attempt.is_sent = False
                if not self._wait(attempt, error, now_ns, is_repeatable=True):
                    self.end(attempt)
                    events.append(Ended(attempt.token, None, after_attempts(error, attempt.count, attempt.because)))

    def hurry(self, now_ns: int) -> None:
        """A new directory: what found no place looks again soon, in the order in which it was asked for."""
        due_ns = now_ns + int(self._random() * SPREAD_NS)
        for _, _, attempt in self._waiting:
            if not attempt.is_sent:
                attempt.due_ns = due_ns
        self._waiting = [(attempt.due_ns, id, attempt) for _, id, attempt in self._waiting]
        heapq.heapify(self._waiting)

    def take(self, id: int) -> object | None:
        """The token of a call that waits to be made again: it is taken back. None: it does not wait."""
        attempt = self._of.get(id)
        if attempt is None or attempt.id:
            return None
        self.end(attempt)
        self._exchange.waits_no_more(len(attempt.packed))
        return attempt.token

    def current(self, id: int) -> int:
        """The id of the attempt that is outstanding of a call whose caller knows it by `id`."""
        attempt = self._of.get(id)
        return id if attempt is None else attempt.id

    def end(self, attempt: Attempt) -> None:
        """It has ended."""
        self._of.pop(attempt.first_id, None)

    def finish(self, attempt: Attempt, result: Any, error: BackplaneError | None, events: Events) -> None:
        """It has ended for good."""
        self.end(attempt)
        final = None if error is None else after_attempts(error, attempt.count, attempt.because)
        events.append(Ended(attempt.token, result, final))

    def end_all(self, error: BackplaneError, events: Events) -> None:
        """None will be made again."""
        for attempt in list(self._of.values()):
            if not attempt.id:
                self.end(attempt)
                self._exchange.waits_no_more(len(attempt.packed))
                events.append(Ended(attempt.token, None, after_attempts(error, attempt.count, attempt.because)))
        self._waiting.clear()

    def next_ns(self) -> int | None:
        """When the next is due; None: none waits."""
        return self._waiting[0][0] if self._waiting else None

    def _wait(self, attempt: Attempt, error: BackplaneError, now_ns: int, *, is_repeatable: bool) -> bool:
        """False: it has ended."""
        attempt.id = 0
        verdict = decide(
            error,
            is_repeatable=is_repeatable,
            is_sent=attempt.is_sent,
            attempt=attempt.count,
            remaining_ns=attempt.ends_ns - now_ns,
            account=self.account,
            now_ns=now_ns,
            calls_count=self._exchange.calls.next_id - self.account.taken_count - self._ids_extra_count,
            random=self._random(),
        )
        if isinstance(verdict, GiveUp):
            attempt.because = verdict.because
            return False
        attempt.due_ns = now_ns + verdict.wait_ns
        self._of[attempt.first_id] = attempt
        heapq.heappush(self._waiting, (attempt.due_ns, attempt.first_id, attempt))
        self._exchange.waits(len(attempt.packed))
        return True
