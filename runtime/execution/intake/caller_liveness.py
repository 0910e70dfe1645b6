"""Caller liveness: tracks the peers that call here, and cancels the queued calls of dead ones (DESIGN 12.5).

A socket does not report the death of its peer; a send to it fails (EHOSTUNREACH). So a reply detects a dead caller. Until then
each peer with a call here gets an empty batch once a second as a probe. The supervisor reports a backplane's death at once.
Calls are then cancelled as their caller would have done; casts stay, since no caller waits for them. Cancelling goes in
slices, because each call is searched for in a queue: a thousand in one go could take 100 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from appbackplane.transport import codec
from appbackplane.transport.directory import Directory

from ...objects.action import AcceptedCalls
from ..outgoing.routing import Routing
from ..outgoing.sender import Sender
from ..workers.clock import Clock
from .call_changes import CallChanges
from .grants import Grants
from .remote_routes import RemoteRoutes
from .sources import Sources

#: Interval of the probes to each peer that waits for a reply. A second of work for a dead caller is bearable, and a frame a
#: second costs little: 4 us here, and 20 at the peer.
PROBE_NS = 1_000_000_000
#: Peers probed in one step: 64 us.
PROBED_MAX = 16
#: Peers remembered without expiry, 100 bytes each. Beyond this, peers not heard of for `PROBE_NS` are forgotten.
HEARD_MAX = 4_096
#: Calls withdrawn in one step, and its time limit: 6 us each at the head of a queue, 100 in the middle of a long one.
WITHDRAWN_MAX, WITHDRAW_MAX_NS = 256, 500_000
_NOTHING = codec.batch([])


class CallerLiveness:
    """Which peers have called, and which of them are dead. Used under the lead."""

    def __init__(
        self, *, clock: Clock, accepted: AcceptedCalls, changes: CallChanges, routing: Routing, remote: RemoteRoutes,
        sender: Sender, sources: Sources, grants: Grants | None,
        is_reachable: Callable[[bytes, bytes], bool],
    ) -> None:  # fmt: skip
        """`is_reachable`: sends a frame to a peer past the outbox; False: the peer is dead."""
        self._clock = clock
        self._accepted = accepted
        self._changes = changes
        self._routing = routing
        self._remote = remote
        self._sender = sender
        self._sources = sources
        self._grants = grants
        self._is_reachable = is_reachable
        #: When `look` is due.
        self.due_ns = 0
        #: Calls that were withdrawn because their callers had died.
        self.abandoned_count = 0
        #: When a frame last came from each peer.
        self.heard_ns: dict[bytes, int] = {}
        #: Peers that have announced to call here no more, since this backplane is drained.
        self.farewells: set[bytes] = set()
        self._to_ask: list[bytes] = []
        self._asked_ns = 0
        #: Ids of the calls still to be withdrawn of each dead peer, the oldest last.
        self._abandoned: dict[bytes, list[int]] = {}

    def next_wake_ns(self) -> int | None:
        """When `look` is due even if no frame comes; None while no caller waits for a reply."""
        return self.due_ns if self._to_ask or self._abandoned or self._accepted else None

    def look(self, now_ns: int) -> None:
        """Probe some of the waiting callers, and withdraw some of the calls of dead ones."""
        if not self._to_ask and now_ns - self._asked_ns >= PROBE_NS:
            self._asked_ns = now_ns
            self._to_ask = [*{peer for peer, _ in self._accepted if peer}]
            if len(self.heard_ns) > HEARD_MAX:
                self.heard_ns = {peer: at_ns for peer, at_ns in self.heard_ns.items() if now_ns - at_ns < PROBE_NS}
                self._sources.keep(self.heard_ns)
                if self._grants is not None:
                    self._grants.keep(self.heard_ns)
                self.farewells.intersection_update(self.heard_ns)
        asked, self._to_ask = self._to_ask[:PROBED_MAX], self._to_ask[PROBED_MAX:]
        for peer in asked:
            if not self._is_reachable(peer, _NOTHING):
                self.gone(peer)
        self._withdraw(now_ns)
        self.due_ns = now_ns if self._to_ask or self._abandoned else self._asked_ns + PROBE_NS

    def ask(self, peers: Iterable[bytes]) -> None:
        """Probe these peers soon; each that is dead is handled by `gone`."""
        self._to_ask += peers
        self.due_ns = 0

    def unaware(self, since_ns: int) -> list[bytes]:
        """Peers that have sent since `since_ns` and no farewell: they may not know that this backplane is drained."""
        answering = self._routing.backplane_of
        recent = [peer for peer, at_ns in self.heard_ns.items() if at_ns >= since_ns and peer not in self.farewells]
        return [peer for peer in recent if answering(peer) is None]  # without peers that only reply to our own calls

    def gone(self, peer: bytes) -> None:
        """A peer is dead: schedule the withdrawal of its calls."""
        self.heard_ns.pop(peer, None)
        self.farewells.discard(peer)
        self._sources.forget(peer)
        if self._grants is not None:
            self._grants.forget(peer)
        if self._remote.lose is not None:
            self._remote.lose(peer)
        if peer in self._abandoned:
            return
        calls = [id for one, id in self._accepted if one == peer]
        if calls:
            self._abandoned[peer] = calls[::-1]
            self.due_ns = 0

    def update(self, old: Directory, new: Directory) -> None:
        """A new directory: treat the peers of generations that have ended as dead."""
        for name, place in old.backplanes.items():
            now = new.backplanes.get(name)
            if place.is_up and (now is None or not now.is_up or now.generation != place.generation):
                # A connection's name adds a random word without a dash (transport/link.py).
                connections = f"{name}-{place.generation}".encode()
                heard = {*self.heard_ns, *(peer for peer, _ in self._accepted)}
                for peer in [one for one in heard if one.rpartition(b"-")[0] == connections]:
                    self.gone(peer)

    def _withdraw(self, now_ns: int) -> None:
        for _ in range(WITHDRAWN_MAX):
            if not self._abandoned or self._clock.now_ns() - now_ns >= WITHDRAW_MAX_NS:
                return
            peer, calls = next(iter(self._abandoned.items()))
            id = calls.pop()
            if self._accepted.get((peer, id)) is not None:
                self.abandoned_count += 1
                self._changes.cancel(peer, id, now_ns)
            if not calls:
                del self._abandoned[peer]
                self._sender.outbox.forget(peer)  # the statuses of these calls
