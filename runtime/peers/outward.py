"""Outward: calls that processes of this system make to other nodes, until each has ended once.

A call comes from a local process under that caller's id and leaves under an id of this node; the answer goes back under the
first. Where the route names no node, membership chooses one (PeerNode.best). The remaining time travels, since two hosts
share no clock. When a peer is down, all its calls end in PEER_DOWN. An overdue call is only forgotten here: its caller
watches the deadline and ends it. Ids begin at a random one, so an answer for a predecessor of this node matches no call.
Pure: the owner of the sockets hands received envelopes in, and gets envelopes to send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from appbackplane.transport.addressing import OF_NODE
from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS
from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.directory import BULK_FROM
from appbackplane.transport.envelope import (
    ARGUMENT_CREDIT,
    ARGUMENT_ITEMS,
    BOOST,
    CALL,
    CANCEL,
    CAST,
    CREDIT,
    Envelope,
    answered_as,
    argument_credit,
    argument_items,
    boost,
    cancel,
    credit,
    due_ns,
    forwarded,
    items,
    status,
)
from appbackplane.transport.errors import BackplaneError, Busy, PeerDown, Unavailable, UnknownRoute
from appbackplane.transport.resolver import not_registered

#: Seconds after which a caller that found a peer's line full may retry.
RETRY_AFTER_S: Final = 0.05


def is_bulk_at(priority: int | None, *, may_wait: bool = False) -> bool:
    """Whether an envelope travels on the bulk line: by its priority, or without one by its operation. By nothing else: the
    envelopes of one caller at one priority keep their order.
    """
    return may_wait if priority is None else priority >= BULK_FROM


class ForwardedCall(NamedTuple):
    """A local process's call: the process, its id of the call, the route, and the line that the call took."""

    peer: bytes
    id: int
    route: str
    is_bulk: bool


class Chooser(Protocol):
    """Chooses the node that a call is sent to: the part of `PeerNode` (transport/peers/node.py) that outward calls use."""

    def best(self, route: str, caller: str, key: str | None = None) -> tuple[str, ...]: ...
    def loads(self, route: str, caller: str) -> tuple[float, ...]: ...
    def may_wait(self, name: str, route: str) -> bool: ...


class Outward:
    """Calls of this system outstanding on other nodes."""

    def __init__(
        self,
        node: Chooser,
        first_id: int,
        say: Callable[[str, Envelope, bool], bool],
        answer: Callable[[bytes, Envelope], None],
        stands: Callable[[str], bool] | None = None,
    ) -> None:
        """`say`: sends to a node, by name, as bulk or not; False: its line is full, or gone. `answer`: sends to a process of
        this system. `first_id`: the id before the first. `stands`: whether a node has a line; None: always.
        """
        self._node = node
        #: Backplanes of this system that have never registered: a route that no node offers may be theirs.
        self.missing: tuple[str, ...] = ()
        self._say = say
        self._stands = stands
        self._answer = answer
        self._calls: OutstandingCalls[ForwardedCall] = OutstandingCalls(first_id)
        self._ids: dict[tuple[bytes, int], int] = {}
        self._counts: Counter[bytes] = Counter()
        #: Casts that found no node, or a full line; no caller waits to be told.
        self.lost_casts_count = 0
        #: Calls that were cancelled because their callers had died.
        self.abandoned_count = 0

    def __len__(self) -> int:
        return len(self._calls)

    def count_on(self, name: str) -> int:
        """Calls outstanding on a node."""
        return self._counts[name.encode()]

    def take(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """Handle an envelope of a local process: a call or cast, a cancellation, a boost, credit of a stream, or items."""
        kind = envelope.kind
        if kind == CALL or kind == CAST:
            try:
                self._begin(peer, envelope, now_ns)
            except BackplaneError as error:
                if kind == CALL:
                    self._answer(peer, status(envelope.id, error, is_refused=True))
                else:
                    self.lost_casts_count += 1
        elif kind == CANCEL or kind == BOOST or kind == CREDIT:
            self._follow(peer, envelope)
        elif kind == ARGUMENT_ITEMS:
            self._pass_items(peer, envelope)

    def answered(self, name: str, envelope: Envelope) -> None:
        """Hand a node's answer to the caller; ignored if the call has ended."""
        asked = self._end(envelope.id, name.encode())
        if asked is not None:
            self._answer(asked.peer, answered_as(envelope, asked.id))

    def came(self, name: str, envelope: Envelope) -> None:
        """Hand items of a stream to their reader, or credit for a streamed argument to its sender. If the call has ended, its
        callee has not heard of that: tell it again.
        """
        call = self._calls.get(envelope.id)
        if call is None or call[0] != name.encode():
            self._say(name, cancel(envelope.id), False)
            return
        asked = call[2]
        if envelope.kind == ARGUMENT_CREDIT:
            self._answer(asked.peer, argument_credit(asked.id, envelope.body))
        else:
            self._answer(asked.peer, items(asked.id, envelope.body, envelope.number, is_blocked=envelope.is_blocked))

    def down(self, name: str, because: str) -> None:
        """A node is gone: the calls that it held end in PEER_DOWN, because their outcome is unknown."""
        self._fail(name.encode(), f"node {name!r} is down ({because})")

    def leave(self) -> None:
        """This node leaves: all calls that other nodes hold end in PEER_DOWN, because no answers will be received."""
        for node in [*self._counts]:
            self._fail(node, f"this node has left node {node.decode()!r}")

    def callers(self) -> set[bytes]:
        """The local peers with outstanding calls."""
        return {peer for peer, _ in self._ids}

    def gone(self, peer: bytes) -> None:
        """A local process is gone: cancel its calls, as it would have done."""
        for id in [id for one, id in self._ids if one == peer]:
            self.abandoned_count += 1
            self._follow(peer, cancel(id))

    def expire(self, now_ns: int) -> None:
        """Forget overdue calls, which have ended at their callers."""
        for _, node, asked in self._calls.expire(now_ns):
            self._counts[node] -= 1
            self._ids.pop((asked.peer, asked.id), None)

    def next_ns(self) -> int | None:
        """When `expire` is due, ns; None: no call is outstanding."""
        return self._calls.next_deadline_ns()

    def _begin(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        route = envelope.route or ""
        key = envelope.idempotency_key if envelope.key is None else envelope.key
        caller = peer.hex()
        try:
            order = self._node.best(route, caller, key)
        except UnknownRoute:
            if self.missing and OF_NODE not in route:
                raise not_registered(route, self.missing) from None
            raise
        if len(order) == 1:
            return self._begin_at(order[0], peer, envelope, now_ns)
        # (Casts are not counted, and keep their order.) If the first node has no room for a call, the others are tried: the
        # caller has no node in mind.
        first = order[0] if envelope.kind == CAST else self._least(order, self._node.loads(route, caller))
        problem: BackplaneError | None = None
        for name in (first, *(each for each in order if each != first)):
            try:
                return self._begin_at(name, peer, envelope, now_ns)
            except (Busy, Unavailable) as error:
                problem = problem or error
        assert problem is not None
        raise problem

    def _least(self, order: tuple[str, ...], loads: tuple[float, ...]) -> str:
        """The node with the fewest of this node's calls, weighted by the load that each node announces.

        An announcement is old, and only the announcer's word: it may scale our measurement, not replace it. So a node that
        announces 0 and holds calls back is passed over like any other.
        """
        weights = [(self._counts[name.encode()] + 1) * (1.0 + load) for name, load in zip(order, loads, strict=False)]
        return order[weights.index(min(weights))] if weights else order[0]

    def _begin_at(self, name: str, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        route = envelope.route or ""
        there = route.partition(OF_NODE)[2] or route
        is_call, priority = envelope.kind == CALL, envelope.priority
        is_bulk = is_bulk_at(priority, may_wait=priority is None and self._node.may_wait(name, there))
        over_ns = due_ns(TIMEOUT_DEFAULT_NS if envelope.deadline is None else envelope.deadline, now_ns)
        id = (
            self._calls.open(name.encode(), over_ns, ForwardedCall(peer, envelope.id, route, is_bulk)) if is_call else 0
        )
        said = forwarded(envelope, id, there, max(0, over_ns - now_ns) if is_call else None)
        is_said = False
        try:
            is_said = self._say(name, said, is_bulk)
        finally:
            if is_call and not is_said:
                self._calls.end(id)
        if not is_said:
            if self._stands is not None and not self._stands(name):
                raise Unavailable(
                    f"{route}: the line to node {name!r} broke, and is dialled again", retry_after=RETRY_AFTER_S
                )
            raise Busy(f"{route}: the connection to node {name!r} accepts no messages now", retry_after=RETRY_AFTER_S)
        if is_call:
            self._ids[peer, envelope.id] = id
            self._counts[name.encode()] += 1

    def _follow(self, peer: bytes, envelope: Envelope) -> None:
        """Forward a cancellation, a boost or credit to the node of the call, on the line that the call took."""
        id = self._ids.get((peer, envelope.id))
        call = None if id is None else self._calls.get(id)
        if id is None or call is None:
            return
        node, _, asked = call
        if envelope.kind == CREDIT:
            said = credit(id, envelope.body)
        else:
            said = cancel(id) if envelope.kind == CANCEL else boost(id, envelope.priority)
        self._say(node.decode(), said, asked.is_bulk)
        if envelope.kind == CANCEL:
            self._end(id)

    def _pass_items(self, peer: bytes, envelope: Envelope) -> None:
        """Forward items of a streamed argument. If the line has no room, the call ends: a list with a hole is of no use."""
        id = self._ids.get((peer, envelope.id))
        call = None if id is None else self._calls.get(id)
        if id is None or call is None:
            return
        node, _, asked = call
        said = argument_items(
            id, envelope.body, envelope.number, is_blocked=envelope.is_blocked, is_last=envelope.is_last
        )
        if not self._say(node.decode(), said, asked.is_bulk):
            self._say(node.decode(), cancel(id), asked.is_bulk)
            self._end(id)
            error = Busy(f"{asked.route}: the connection to node {node.decode()!r} accepts no more items now")
            self._answer(peer, status(asked.id, error))

    def _fail(self, node: bytes, because: str) -> None:
        if not self._counts.pop(node, 0):  # without it, each repetition of the news would scan all calls
            return
        for _, asked in self._calls.fail_peer(node):
            self._ids.pop((asked.peer, asked.id), None)
            error = PeerDown(f"{asked.route}: {because}; whether the work ran is not known")
            self._answer(asked.peer, status(asked.id, error))

    def _end(self, id: int, peer: bytes | None = None) -> ForwardedCall | None:
        call = self._calls.get(id)
        asked = self._calls.end(id, peer)
        if call is not None and asked is not None:
            self._counts[call[0]] -= 1
            self._ids.pop((asked.peer, asked.id), None)
        return asked
