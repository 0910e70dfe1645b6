"""Callers: notices that whoever waits for answers, or messages, has died, and withdraws what is queued for it (DESIGN 12.5).

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
        self._to_ask: list[bytes] = []
        self._asked_ns = 0
        #: What is to be taken back of each who has died, the oldest last.
        self._abandoned: dict[bytes, list[int]] = {}

    def next_wake_ns(self) -> int | None:
        """When a look is due though nothing comes; None while nobody waits for an answer."""
        return self.due_ns if self._to_ask or self._abandoned or self._engine.intake.accepted else None

    def look(self, now_ns: int) -> None:
        """Ask some of those who wait whether they are there, and take back some of what nobody waits for."""
        if not self._to_ask and now_ns - self._asked_ns >= PROBE_NS:
            self._asked_ns = now_ns
            self._to_ask = list({peer for peer, _ in self._engine.intake.accepted if peer})
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

    def gone(self, peer: bytes) -> None:
        """Nobody can be reached there."""
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
                self.gone(f"{name}-{place.generation}".encode())

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
