"""Holding: an action that holds locks, waits for those that it lacks, and tells others what it has let go of.

What becomes of locks is decided in locking.py, under the dispatcher's mutex; here it is done, without it. A busy lock costs no
thread: the action is put aside (execution/parking.py), and whoever releases the lock hands it over. Meanwhile those that hold
it inherit its priority (law 10).

Only a handler that reaches for more (accessor.py) waits in its thread, because its stack cannot be put aside. Meanwhile the
backplane has a spare thread in its place (execution/parking.py), so that whoever it waits for finds a thread to go on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ..objects.action import Action, ParkableAction
from ..objects.app_object import AppObject
from . import locking
from .locking import NOBODY, Claim, Lock, Others

if TYPE_CHECKING:
    from .dispatcher import Dispatcher


class Holding(ParkableAction):
    """A holder of locks (`locking.Holder`)."""

    __slots__ = ("dispatcher", "gate", "held", "left", "waited_from_ns", "waits_on", "wanted")

    def __init__(
        self, lane: AppObject, name: str, priority: int, deadline_ns: int | None, dispatcher: Dispatcher
    ) -> None:
        Action.__init__(self, lane, name, priority, deadline_ns)  # `super` thrice over costs 0.3 us, interpreted
        self.is_resumed = False
        self.taken_back = None
        self.dispatcher = dispatcher
        self.held: list[Claim] = []
        self.wanted: Sequence[Claim] = ()
        self.waits_on: Lock | None = None
        #: Since when it waits, or has waited until it runs again; 0: it does not.
        self.waited_from_ns = 0
        #: Where its thread waits for a lock, if it does.
        self.gate: threading.Lock | None = None
        #: What became of others at its end; they go on once it has ended.
        self.left = NOBODY

    def take(self, claims: Sequence[Claim], gate: threading.Lock | None = None) -> bool:
        """Hold exactly these. False: not yet; the action is parked then, or its thread waits at the `gate`, which is closed."""
        dispatcher = self.dispatcher
        is_free, others = False, NOBODY
        with dispatcher._mutex:
            if self.held:
                is_free, others = locking.change(self, claims)
            elif locking.take(self, claims):  # hot: scripts/bench dispatcher_overhead
                return True
            if not is_free:
                self.waited_from_ns = dispatcher._now_ns()
                self.gate = gate
        if others is not NOBODY:
            self.tell(others)
        return is_free

    def wait_for(self, claims: Sequence[Claim]) -> None:
        """Hold exactly these; waits in its thread, if it has to."""
        gate = threading.Lock()
        gate.acquire()
        if self.take(claims, gate):
            return
        host = self.dispatcher._host
        host.begins_to_block(self)
        gate.acquire()
        host.blocks_no_more(self)
        self.gate = None
        self.book_wait()

    def tell(self, others: Others) -> None:
        """What has become of those that waited. Without the mutex."""
        for each in cast("list[Holding]", others.ready):
            if not each.try_open():
                self.dispatcher._host.resume(each)
        for each in cast("list[Holding]", others.moved):
            self.dispatcher._host.hurry(each)

    def try_open(self) -> bool:
        """If it waited in a thread, that one may go on now; False: it did not."""
        if self.gate is None:
            return False
        self.gate.release()
        return True

    def book_wait(self) -> None:
        """It waits no more."""
        self.waited_from_ns = 0

    def release(self) -> None:
        """Let go of everything, at its end. Who gets it goes on once this one has ended, unless a thread waits for it."""
        with self.dispatcher._mutex:
            others = locking.release(self)
        if others is not NOBODY:
            ready = [each for each in others.ready if not cast("Holding", each).try_open()]
            self.left = Others(ready, others.moved)

    def tell_left(self) -> None:
        """By who holds the lead, and runs what is resumed here himself: a thread that is woken for it costs 40 us."""
        if self.held:  # what runs it has stopped it in the middle
            self.release()
        left, self.left = self.left, NOBODY
        if left is not NOBODY:
            self.tell(left)

    # -- as what may be parked ----------------------------------------------------------------------------------------

    def waits_for(self) -> Sequence[Action]:
        """Who holds what it waits for."""
        with self.dispatcher._mutex:
            return [] if self.waits_on is None else cast("list[Action]", self.waits_on.holders)

    def urgency_behind(self) -> int | None:
        """The most urgent of those that wait for a lock which it holds."""
        with self.dispatcher._mutex:
            return min((claim.lock.waiting[0][0] for claim in self.held if claim.lock.waiting), default=None)

    def waits_because(self) -> str:
        """The lock."""
        with self.dispatcher._mutex:
            return "" if self.waits_on is None else f"the lock of {self.waits_on.name}"

    def boosted(self) -> None:
        """It waits at a better place now."""
        with self.dispatcher._mutex:
            others = locking.boosted(self)
        if others is not NOBODY:
            self.tell(others)
