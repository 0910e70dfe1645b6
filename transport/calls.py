"""Outstanding calls: every call ends in exactly one of a reply, a status or its deadline.

The table holds one token per call, any value that the owner wants back, until the call ends. A later answer finds no entry:
it is counted as late and never delivered (DESIGN 12.5). An answer counts only from the call's callee. Deadlines in increasing
order, as those of calls with one timeout, are kept in a list, the others in a heap. Entries of ended calls are swept when
they outnumber the rest two to one: with 30 s, the default, and 200,000 calls a second they would be six million.
"""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from .pulling import Pulling

Token = TypeVar("Token")

#: Below this many entries, sweeping is not worth its cost.
_SWEEP_MIN = 1024


class OutstandingCalls(Generic[Token]):
    """Calls that have left and not ended. Not thread-safe: it belongs to the owner of the link."""

    def __init__(self, last_id: int = 0) -> None:
        """`last_id`: the first call gets the id after it."""
        self._calls: dict[int, tuple[bytes, int, Token]] = {}
        #: Ids in the order of their deadlines, those before `_first` ended; and (deadline, id) of the calls out of order.
        self._in_order: list[int] = []
        self._first = 0
        self._latest_ns = 0
        self._out_of_order: list[tuple[int, int]] = []
        #: Lower bound of all deadlines; the nearest may be later.
        self._nearest_ns = 0
        self._last_id = last_id
        #: Is told of each end; None: no replica grants credit.
        self.pulling: Pulling | None = None
        #: Answers that came for calls which had already ended.
        self.late_count = 0

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def next_id(self) -> int:
        """The context id that the next opened call will get."""
        return self._last_id + 1

    def open(self, peer: bytes, deadline_ns: int, token: Token) -> int:
        """Note a call to `peer` that must end by `deadline_ns` (monotonic). Returns its context id, unique in this table."""
        self._last_id = id = self._last_id + 1
        self._calls[id] = (peer, deadline_ns, token)
        count = len(self._calls)
        if count == 1 or deadline_ns < self._nearest_ns:
            self._nearest_ns = deadline_ns
        if deadline_ns >= self._latest_ns:
            self._latest_ns = deadline_ns
            self._in_order.append(id)
        else:
            heapq.heappush(self._out_of_order, (deadline_ns, id))
        if self.noted_count > _SWEEP_MIN and self.noted_count > 2 * count:
            self._sweep()
        return id

    def take_id(self) -> int:
        """Reserve a unique id, for a call that is opened later."""
        self._last_id += 1
        return self._last_id

    def end(self, id: int, peer: bytes | None = None) -> Token | None:
        """End call `id` and hand back its token; None (counted) when it has ended or `peer` is not its callee."""
        call = self._calls.get(id)
        if call is None or (peer is not None and call[0] != peer):
            self.late_count += 1
            return None
        del self._calls[id]
        if self.pulling is not None:
            self.pulling.ended(call[0], id)
        return call[2]

    def peer_of(self, id: int) -> bytes | None:
        """The callee of an outstanding call; None: the call has ended."""
        call = self._calls.get(id)
        return None if call is None else call[0]

    def __iter__(self) -> Iterator[tuple[int, bytes, int, Token]]:
        """The outstanding calls, oldest first: (id, peer, deadline, token)."""
        return ((id, *call) for id, call in self._calls.items())

    def get(self, id: int) -> tuple[bytes, int, Token] | None:
        """The callee, deadline and token of an outstanding call; None: the call has ended."""
        return self._calls.get(id)

    def replace(self, id: int, token: Token) -> None:
        """Give an outstanding call another token."""
        peer, deadline_ns, _ = self._calls[id]
        self._calls[id] = (peer, deadline_ns, token)

    def assign(self, id: int, peer: bytes) -> None:
        """An outstanding call leaves for another callee."""
        _, deadline_ns, token = self._calls[id]
        self._calls[id] = (peer, deadline_ns, token)

    def expire(self, now_ns: int) -> list[tuple[int, bytes, Token]]:
        """End all calls whose deadline has passed: (id, peer, token) each, nearest deadline first."""
        ended: list[tuple[int, bytes, Token]] = []
        if now_ns < self._nearest_ns:
            return ended
        calls = self._calls
        while calls:
            id = self._nearest()
            call = calls[id]
            if call[1] > now_ns:
                self._nearest_ns = call[1]
                break
            del calls[id]
            if self.pulling is not None:
                self.pulling.ended(call[0], id)
            ended.append((id, call[0], call[2]))
        return ended

    def fail_peer(self, peer: bytes) -> list[tuple[int, Token]]:
        """End all calls that `peer` held, because it died: (id, token) each, in the order they were made."""
        ended = [(id, call[2]) for id, call in self._calls.items() if call[0] == peer]
        for id, _ in ended:
            del self._calls[id]
            if self.pulling is not None:
                self.pulling.ended(peer, id)
        return ended

    def next_deadline_ns(self) -> int | None:  # hot: scripts/bench call_pipelined
        """The nearest deadline, or None. Until `expire` it may belong to an ended call: waking early is harmless."""
        return self._nearest_ns if self._calls else None

    @property
    def noted_count(self) -> int:
        """Deadlines kept, those of ended calls included."""
        return len(self._in_order) + len(self._out_of_order)

    def _nearest(self) -> int:
        """The outstanding call with the nearest deadline. The table must not be empty."""
        calls, in_order, out_of_order = self._calls, self._in_order, self._out_of_order
        while self._first < len(in_order) and in_order[self._first] not in calls:
            self._first += 1
        while out_of_order and out_of_order[0][1] not in calls:
            heapq.heappop(out_of_order)
        if self._first == len(in_order):
            return out_of_order[0][1]
        id = in_order[self._first]
        return out_of_order[0][1] if out_of_order and out_of_order[0] < (calls[id][1], id) else id

    def _sweep(self) -> None:
        calls = self._calls
        self._in_order = [id for id in self._in_order if id in calls]
        self._first = 0
        self._latest_ns = calls[self._in_order[-1]][1] if self._in_order else 0
        self._out_of_order = [(at_ns, id) for at_ns, id in self._out_of_order if id in calls]
        heapq.heapify(self._out_of_order)
