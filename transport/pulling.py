"""Pulling: the caller's side of `balance = "pull"`, a queue that the replicas of a backplane share.

Assigned when it is made, a call may wait behind a long one while another replica is idle. Here it waits at its caller until a
replica has room: each grants credit as it has capacity (execution/intake/grants.py), as receivers do in AMQP 1.0. The most
urgent call goes first, then the oldest. A call that is more urgent than all that its caller has at some replica goes there
without credit: the replica's own scheduler runs it first, so urgent work never waits here behind bulk work.

Calls without a key only; a key has its place. Pure, the same in clients and backplanes. The call table tells of each end.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final

from .call_spec import CallSpec
from .pseudo_peers import pseudo_peer
from .resolver import Resolver

#: In a call table: the callee of a call that waits for room at a replica.
UNSENT: Final = pseudo_peer("unsent")
#: Entries of a queue below which sweeping out those of ended calls is not worth its cost.
_SWEEP_MIN: Final = 1_024
#: The backplanes that share calls, whether they are up or not.
Group = tuple[str, ...]


class _Replica:
    """The calls of this caller at one generation of a replica, and how many it may have sent in all."""

    __slots__ = ("may_send", "outstanding", "sent")

    def __init__(self) -> None:
        #: Before the replica says more, one: a lone call takes no round trip more than elsewhere.
        self.may_send = 1
        self.sent = 0
        #: Priority of each outstanding call, by its id.
        self.outstanding: dict[int, int] = {}

    def has_only_less_urgent(self, priority: int) -> bool:
        """Whether each outstanding call is less urgent. Looks at all of them, when there is no room for more."""
        return not self.outstanding or priority < min(self.outstanding.values())


class _Waiting:
    """A call that waits for room. `unsent`: what its owner sends then."""

    __slots__ = ("group", "priority", "route", "unsent")

    def __init__(self, group: Group, priority: int, route: str, unsent: Any) -> None:
        self.group, self.priority, self.route, self.unsent = group, priority, route, unsent


class Pulling:
    """The calls of one process to replicas that grant credit. Owned like the call table."""

    def __init__(self, connect: Callable[[str], bytes]) -> None:
        """`connect`: returns the peer of a backplane that is up, connected if necessary."""
        self._connect = connect
        self._resolver: Resolver
        self._replicas: dict[bytes, _Replica] = {}
        #: The replicas of each group that take calls.
        self._peers: dict[Group, list[bytes]] = {}
        self._waiting: dict[int, _Waiting] = {}
        #: (priority, id) of the waiting calls of each group. An entry that is not as in `_waiting` is out of date.
        self._queues: dict[Group, list[tuple[int, int]]] = {}
        self._turn = 0

    def adopt(self, resolver: Resolver) -> None:
        """Use a new routing table."""
        self._resolver = resolver
        self._peers.clear()

    def lost(self, peer: bytes) -> None:
        """A peer has ended."""
        if self._replicas.pop(peer, None) is not None:
            self._peers.clear()

    def credit(self, peer: bytes, may_send: int) -> None:
        """A replica says how many calls it may have been sent in all; fewer than before, if some were left unused."""
        replica = self._replicas.get(peer)
        if replica is not None:
            replica.may_send = may_send

    # -- calls --------------------------------------------------------------------------------------------------------

    def find(self, spec: CallSpec, priority: int | None) -> bytes | None:  # hot: scripts/bench uneven
        """The peer to send a call to now; UNSENT: it has to wait. None: replicas do not share its route.

        Raises `Unavailable` if none takes calls.
        """
        if spec.key is not None or spec.idempotency_key is not None or spec.awaits is not None:
            return None
        group = self._resolver.shared(spec.route)
        if not group:
            return None
        return self._room(self._peers_of(group, spec.route), self.priority_of(spec.route, priority)) or UNSENT

    def priority_of(self, route: str, priority: int | None) -> int:
        """The priority of a call whose caller names this one, or none."""
        return self._resolver.directory.priorities.get(route, 0) if priority is None else priority

    def opened(self, peer: bytes, id: int, spec: CallSpec, priority: int | None, unsent: Any) -> None:  # hot: uneven
        """A call has an id now: it leaves for `peer`, or waits (UNSENT) until `ready` returns `unsent`."""
        if peer == UNSENT:
            group = self._resolver.shared(spec.route)
            waiting = _Waiting(group, self.priority_of(spec.route, priority), spec.route, unsent)
            self._queue(id, waiting)
        elif (replica := self._replicas.get(peer)) is not None and spec.is_shared():
            replica.sent += 1
            replica.outstanding[id] = self.priority_of(spec.route, priority)

    def boost(self, id: int, priority: int) -> None:
        """Change the priority of a waiting call."""
        waiting = self._waiting.get(id)
        if waiting is not None:
            waiting.priority = priority
            self._queue(id, waiting)

    def ended(self, peer: bytes, id: int) -> None:  # hot: scripts/bench uneven
        """A call has ended, in whichever way; `peer` held it."""
        replica = self._replicas.get(peer)
        if replica is not None:
            replica.outstanding.pop(id, None)
        elif peer == UNSENT:
            self._waiting.pop(id, None)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def groups(self) -> list[Group]:
        """The groups that calls wait for."""
        return [group for group in list(self._queues) if self._first(group)]

    def waiting(self, group: Group) -> list[int]:
        """The ids of the calls that wait for a group, oldest first."""
        return sorted(id for id, waiting in self._waiting.items() if waiting.group == group)

    def ready(self, group: Group) -> Iterator[tuple[int, bytes, Any]]:
        """Take out the calls of a group for which there is room now: (id, peer, unsent) each. The owner sends them.

        Raises `Unavailable` if no replica takes calls.
        """
        while id := self._first(group):
            waiting = self._waiting[id]
            peer = self._room(self._peers_of(group, waiting.route), waiting.priority)
            if peer is None:
                return
            del self._waiting[id]
            replica = self._replicas[peer]
            replica.sent += 1
            replica.outstanding[id] = waiting.priority
            yield id, peer, waiting.unsent

    # -- steps --------------------------------------------------------------------------------------------------------

    def _room(self, peers: list[bytes], priority: int) -> bytes | None:  # hot: scripts/bench uneven
        """The replica with room that has the fewest of our calls; else one that has only less urgent ones of ours."""
        self._turn = turn = self._turn + 1
        found: bytes | None = None
        fewest, has_room, size = 0, False, len(peers)
        for number in range(size):
            peer = peers[(turn + number) % size]
            replica = self._replicas[peer]
            count = len(replica.outstanding)
            if replica.sent < replica.may_send:
                if not has_room or count < fewest:
                    found, fewest, has_room = peer, count, True
            elif has_room or (found is not None and count >= fewest):
                continue
            elif replica.has_only_less_urgent(priority):
                found, fewest = peer, count
        return found

    def _peers_of(self, group: Group, route: str) -> list[bytes]:
        peers = self._peers.get(group)
        if peers is None:
            peers = [self._connect(name) for name in self._resolver.taking(group, route)]
            for peer in peers:
                self._replicas.setdefault(peer, _Replica())
            self._peers[group] = peers
        return peers

    def _queue(self, id: int, waiting: _Waiting) -> None:
        self._waiting[id] = waiting
        queue = self._queues.setdefault(waiting.group, [])
        heapq.heappush(queue, (waiting.priority, id))
        if len(queue) > _SWEEP_MIN + 2 * len(self._waiting):  # most are of calls that were cancelled, or boosted
            queue[:] = [entry for entry in queue if self._is_waiting(entry, waiting.group)]
            heapq.heapify(queue)

    def _is_waiting(self, entry: tuple[int, int], group: Group) -> bool:
        waiting = self._waiting.get(entry[1])
        return waiting is not None and waiting.priority == entry[0] and waiting.group == group

    def _first(self, group: Group) -> int:
        """The id of the first waiting call of a group; 0: none waits."""
        queue = self._queues.get(group)
        while queue:
            if self._is_waiting(queue[0], group):
                return queue[0][1]
            heapq.heappop(queue)
        self._queues.pop(group, None)
        return 0
