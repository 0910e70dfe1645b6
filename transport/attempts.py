"""Attempts: failed calls of one session that wait for a retry, and the time at which each is due.

A retry sends the same bytes (codec.renumbered) under another id and with the same deadline. All else about the call is read
from those bytes, so a call that does not fail pays nothing. `retrying.py` decides; this module keeps the account and the
queue, and reports the number of attempts in the final error. Bounded like calls: waiting calls count as outstanding
(exchange.py).
"""

import heapq
from collections.abc import Callable
from typing import Any

from .call_spec import CallSpec
from .codec import batch, decode
from .errors import BackplaneError, InvalidArgument, MalformedFrame
from .events import Ended, Events
from .exchange import Call, Exchange
from .purposes import Own
from .resolver import Resolver
from .retrying import SPREAD_NS, RetryAccount, StopRetrying, after_attempts, decide


def half() -> float:
    """No randomness: for callers that must know the wait beforehand."""
    return 0.5


class Attempt(Own):
    """One call that has failed at least once and has not ended. It is also the token of its later attempts."""

    __slots__ = (
        "because", "count", "due_ns", "ends_ns", "first_id", "id", "idempotency_key", "is_sent", "key", "packed",
        "route", "token",
    )  # fmt: skip

    def __init__(self, token: object, packed: bytes, id: int) -> None:
        try:
            (envelope,) = decode(batch([packed]))
        except MalformedFrame as error:  # values that can be packed and not unpacked (salvage.py)
            raise InvalidArgument(f"the call cannot be read: {error.message}") from error
        assert envelope.route is not None and envelope.deadline is not None
        self.token = token
        self.packed = packed
        self.route: str = envelope.route
        self.key = envelope.key
        self.idempotency_key = envelope.idempotency_key
        #: The deadline, shared by all attempts: a call carries the time at which it ends (exchange.py).
        self.ends_ns = -envelope.deadline
        #: The id that the caller knows; and that of the outstanding attempt, 0: the call waits for the next one.
        self.first_id = id
        self.id = 0
        self.count = 1
        self.due_ns = 0
        #: Whether the last attempt has left this process.
        self.is_sent = True
        #: Why the call is not retried any more.
        self.because = ""


class Attempts:
    """The retries of one client. `exchange` is its session's."""

    def __init__(self, exchange: Exchange, account: RetryAccount, random: Callable[[], float]) -> None:
        """`random`: returns a number from 0 up to 1."""
        self.account = account
        self._exchange = exchange
        self._random = random
        self._waiting: list[tuple[int, int, Attempt]] = []
        self._of: dict[int, Attempt] = {}
        #: Ids reserved for unsent calls; subtracted, like those of retries, so that the budget counts calls only.
        self._ids_extra_count = 0

    def begin(self, error: BackplaneError, token: object, now_ns: int, spec: CallSpec) -> int:
        """Keep a call that could not be sent until it can be; returns its id. Raises `error` if waiting is of no use."""
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
        """A call has ended in `error`. Returns its final error; None: it is retried. `resolver`: None without a system."""
        token, packed = call[0], call[3]
        if packed is None or resolver is None:
            return error
        try:
            attempt = token if isinstance(token, Attempt) else Attempt(token, packed, id)
        except InvalidArgument:
            return error  # no callee could read it either
        attempt.is_sent = True
        is_repeatable = attempt.idempotency_key is not None or resolver.is_idempotent(attempt.route)
        if self._wait(attempt, error, now_ns, is_repeatable=is_repeatable):
            return None
        return (
            error if attempt is token else after_attempts(error, attempt.count, attempt.because)
        )  # `finish` adds the number of attempts

    def make_due(self, now_ns: int, peer_for: Callable[[str, str | None], bytes], events: Events) -> None:
        """Send the retries that are due. Called in each turn; if none waits, it only checks an empty list."""
        while self._waiting and self._waiting[0][0] <= now_ns:
            attempt = heapq.heappop(self._waiting)[2]
            if self._of.get(attempt.first_id) is not attempt:
                continue  # cancelled
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
        """A new routing table: calls that found no instance are soon due again, in their original order."""
        due_ns = now_ns + int(self._random() * SPREAD_NS)
        for _, _, attempt in self._waiting:
            if not attempt.is_sent:
                attempt.due_ns = due_ns
        self._waiting = [(attempt.due_ns, id, attempt) for _, id, attempt in self._waiting]
        heapq.heapify(self._waiting)

    def take(self, id: int) -> object | None:
        """Cancel a call that waits for a retry; returns its token. None: the call does not wait."""
        attempt = self._of.get(id)
        if attempt is None or attempt.id:
            return None
        self.end(attempt)
        self._exchange.waits_no_more(len(attempt.packed))
        return attempt.token

    def current(self, id: int) -> int:
        """The id of the outstanding attempt of the call that its caller knows as `id`."""
        attempt = self._of.get(id)
        return id if attempt is None else attempt.id

    def end(self, attempt: Attempt) -> None:
        """Forget a call that has ended or was cancelled."""
        self._of.pop(attempt.first_id, None)

    def finish(self, attempt: Attempt, result: Any, error: BackplaneError | None, events: Events) -> None:
        """Report the end of a retried call; its error names the number of attempts."""
        self.end(attempt)
        final = None if error is None else after_attempts(error, attempt.count, attempt.because)
        events.append(Ended(attempt.token, result, final))

    def end_all(self, error: BackplaneError, events: Events) -> None:
        """End all calls that wait for a retry in `error`."""
        for attempt in list(self._of.values()):
            if not attempt.id:
                self.end(attempt)
                self._exchange.waits_no_more(len(attempt.packed))
                events.append(Ended(attempt.token, None, after_attempts(error, attempt.count, attempt.because)))
        self._waiting.clear()

    def next_ns(self) -> int | None:
        """When the next retry is due, ns; None: none waits."""
        return self._waiting[0][0] if self._waiting else None

    def _wait(self, attempt: Attempt, error: BackplaneError, now_ns: int, *, is_repeatable: bool) -> bool:
        """Queue the next attempt. False: there is none, and `attempt.because` tells why."""
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
        if isinstance(verdict, StopRetrying):
            attempt.because = verdict.because
            return False
        attempt.due_ns = now_ns + verdict.wait_ns
        self._of[attempt.first_id] = attempt
        heapq.heappush(self._waiting, (attempt.due_ns, attempt.first_id, attempt))
        self._exchange.waits(len(attempt.packed))
        return True
