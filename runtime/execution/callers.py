"""Callers: who calls here; and withdraws what is queued for one who has died and waits for nothing more (DESIGN 12.5).

A socket says nothing when its far end dies; whoever sends there learns it (EHOSTUNREACH). So an answer tells, and where none
is due, an empty batch does, which says nothing: who has a call here is sent one a second. A backplane's death the supervisor
tells at once. Calls are then taken back as their caller would have done it; casts stay, since nobody has ever waited for them.
In slices, because each call is looked for in a queue: a thousand at one go could take 100 ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from appbackplane.transport import codec
from appbackplane.transport.batching import Sent

if TYPE_CHECKING:
    from appbackplane.transport.directory import Directory

    from .engine import Engine

#: Who waits for an answer is asked this often whether it is there. A second of work for nobody is bearable, and a frame a
#: second nothing: 4 us here, and 20 there.
PROBE_NS = 1_000_000_000
#: Asked at one look: 64 us.
PROBED_MAX = 16
#: Who has called is remembered for so long (by PROBE_NS), and all are while they are fewer than this: 100 bytes each.
HEARD_MAX = 4_096
#: Withdrawn at one look, and for how long: 6 us each at the head of a queue, 100 in the middle of a long one.
WITHDRAWN_MAX, WITHDRAW_MAX_NS = 256, 500_000
_NOTHING = codec.batch([])


class Callers:
    """Part of the engine: whoever holds the lead owns it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: When `look` is due.
        self.due_ns = 0
        #: Calls that were withdrawn because their callers had died.
        self.abandoned_count = 0
        #: Who has said something here, and when he did last.
        self.heard_ns: dict[bytes, int] = {}
        #: Where only workers read the link (`preempt = false`): when something was first seen there while all of them run;
        #: 0: all has been taken in since. What comes meanwhile has waited since then at the most.
        self.unread_since_ns = 0
        #: Who has said that he will call here no more, since this backplane is drained.
        self.farewells: set[bytes] = set()
        self._to_ask: list[bytes] = []
        self._asked_ns = 0
        #: What is to be taken back of each who has died, the oldest last.
        self._abandoned: dict[bytes, list[int]] = {}

    def next_wake_ns(self) -> int | None:
        """When a look is due though nothing comes; None while nobody waits for an answer."""
        return self.due_ns if self._to_ask or self._abandoned or self._engine.intake.accepted else None

    def see_unread(self, now_ns: int) -> None:
        """Note since when somebody's call waits at the link. Takes the lead: for the sentinel."""
        engine = self._engine
        with engine.lead:
            if not self.unread_since_ns and engine.watch.poller is None and engine.link.has_input():
                self.unread_since_ns = now_ns

    def look(self, now_ns: int) -> None:
        """Ask some of those who wait whether they are there, and take back some of what nobody waits for."""
        if not self._to_ask and now_ns - self._asked_ns >= PROBE_NS:
            self._asked_ns = now_ns
            self._to_ask = list({peer for peer, _ in self._engine.intake.accepted if peer})
            if len(self.heard_ns) > HEARD_MAX:
                self.heard_ns = {peer: at_ns for peer, at_ns in self.heard_ns.items() if now_ns - at_ns < PROBE_NS}
        asked, self._to_ask = self._to_ask[:PROBED_MAX], self._to_ask[PROBED_MAX:]
        for peer in asked:
            if self._engine.link.send(peer, _NOTHING) is Sent.UNREACHABLE:
                self._engine.publishing.forget(peer)
                self.gone(peer)
        self._withdraw(now_ns)
        self.due_ns = now_ns if self._to_ask or self._abandoned else self._asked_ns + PROBE_NS

    def ask(self, peers: Iterable[bytes]) -> None:
        """Find out whether they are there."""
        self._to_ask += peers
        self.due_ns = 0

    def unaware(self, since_ns: int) -> list[bytes]:
        """Who has called since then, and may not know yet that this backplane takes nothing new."""
        answering = self._engine.outgoing.backplane_of
        recent = [peer for peer, at_ns in self.heard_ns.items() if at_ns >= since_ns and peer not in self.farewells]
        return [peer for peer in recent if answering(peer) is None]  # whom we call is another peer when he calls us

    def gone(self, peer: bytes) -> None:
        """Nobody can be reached there."""
        self.heard_ns.pop(peer, None)
        if self._engine.intake.foreign_gone is not None:
            self._engine.intake.foreign_gone(peer)
        if peer in self._abandoned:
            return
        calls = [id for one, id in self._engine.intake.accepted if one == peer]
        if calls:
            self._abandoned[peer] = calls[::-1]
            self.due_ns = 0

    def update(self, old: Directory, new: Directory) -> None:
        """A new version of the map: generations that have ended call nobody any more."""
        for name, place in old.backplanes.items():
            now = new.backplanes.get(name)
            if place.is_up and (now is None or not now.is_up or now.generation != place.generation):
                connections = (
                    f"{name}-{place.generation}".encode()
                )  # and a word of each, which has no dash (transport/link.py)
                heard = {*self.heard_ns, *(peer for peer, _ in self._engine.intake.accepted)}
                for peer in [one for one in heard if one.rpartition(b"-")[0] == connections]:
                    self.gone(peer)

    def _withdraw(self, now_ns: int) -> None:
        intake, clock = self._engine.intake, self._engine.clock
        for _ in range(WITHDRAWN_MAX):
            if not self._abandoned or clock.now_ns() - now_ns >= WITHDRAW_MAX_NS:
                return
            peer, calls = next(iter(self._abandoned.items()))
            id = calls.pop()
            if (peer, id) in intake.accepted:
                self.abandoned_count += 1
                intake.cancel(peer, id, now_ns)
            if not calls:
                del self._abandoned[peer]
                self._engine.outbox.forget(peer)  # the statuses of these calls
