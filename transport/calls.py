"""Outstanding calls: every call ends in exactly one of a reply, a status or its deadline.

The table holds one token a call (whatever the owner wants back) until the first of these ends it; whatever comes later
finds nothing and is counted as late, never delivered twice (DESIGN 12.5). An answer counts only from the peer the call
went to. Deadlines sit in a heap whose dead entries are swept when they outnumber the live ones two to one: at thirty
seconds' default and 200,000 calls a second a plain heap would hold six million of them. Amortised 50 ns a call.
"""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Token = TypeVar("Token")

#: Below this many entries the heap is not worth sweeping.
_SWEEP_MIN = 1024


class OutstandingCalls(Generic[Token]):
    """Calls that have left and not ended. Not thread-safe: the owner of the link is the owner of this."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[bytes, int, Token]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._last_id = 0
        #: Answers that came for calls which had already ended.
        self.late_count = 0

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def next_id(self) -> int:
        """The context id of the call that is opened next."""
        return self._last_id + 1

    def open(self, peer: bytes, deadline_ns: int, token: Token) -> int:
        """Note a call to `peer` that must end by `deadline_ns` (monotonic); returns its context id, unique here."""
        self._last_id = id = self._last_id + 1
        self._calls[id] = (peer, deadline_ns, token)
        deadlines = self._deadlines
        heapq.heappush(deadlines, (deadline_ns, id))
        if len(deadlines) > _SWEEP_MIN and len(deadlines) > 2 * len(self._calls):
            self._deadlines = [(at_ns, live) for at_ns, live in deadlines if live in self._calls]
            heapq.heapify(self._deadlines)
        return id

    def end(self, id: int, peer: bytes | None = None) -> Token | None:
        """End call `id` and hand back its token; None (counted) when it has ended or `peer` is not its callee."""
        call = self._calls.get(id)
        if call is None or (peer is not None and call[0] != peer):
            self.late_count += 1
            return None
        del self._calls[id]
        return call[2]

    def peer_of(self, id: int) -> bytes | None:
        """The callee of an outstanding call."""
        call = self._calls.get(id)
        return None if call is None else call[0]

    def __iter__(self) -> Iterator[tuple[int, bytes, int, Token]]:
        """Those that are outstanding, oldest first: (id, peer, deadline, token)."""
        return ((id, *call) for id, call in self._calls.items())

    def get(self, id: int) -> tuple[bytes, int, Token] | None:
        """The callee, deadline and token of an outstanding call."""
        return self._calls.get(id)

    def expire(self, now_ns: int) -> list[tuple[int, bytes, Token]]:
        """End all calls whose deadline has passed: (id, peer, token) each, nearest deadline first."""
        ended: list[tuple[int, bytes, Token]] = []
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now_ns:
            _, id = heapq.heappop(deadlines)
            call = self._calls.pop(id, None)
            if call is not None:
                ended.append((id, call[0], call[2]))
        return ended

    def fail_peer(self, peer: bytes) -> list[tuple[int, Token]]:
        """End all calls that `peer` held, because it died: (id, token) each, in the order they were made."""
        ended = [(id, call[2]) for id, call in self._calls.items() if call[0] == peer]
        for id, _ in ended:
            del self._calls[id]
        return ended

    def next_deadline_ns(self) -> int | None:
        """The nearest deadline, or None. May be that of a call which has just ended: waking early is harmless."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self._calls:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None
