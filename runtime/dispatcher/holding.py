"""Holding: an action that holds locks, waits for those that it lacks, and notifies others of its releases.

locking.py decides, under the dispatcher's mutex; this file acts on its decisions, without the mutex. A busy lock costs no
thread: the action is parked (execution/parking.py), and the action that releases the lock hands it over. Meanwhile the
holders of the lock inherit the waiter's priority (law 10).

Only a handler that uses an accessor (accessor.py) blocks its thread, because its stack cannot be parked. Meanwhile the
backplane has a spare thread in its place (execution/parking.py), so that the holders it waits for find a thread to run in.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ..objects.action import Action, ParkableAction
from ..objects.app_object import AppObject
from . import locking
from .locking import NOBODY, Lock, LockClaim, Others

if TYPE_CHECKING:
    from .dispatcher import Dispatcher


class Holding(ParkableAction):
    """An action as a holder of locks (`locking.Holder`)."""

    __slots__ = ("dispatcher", "gate", "held", "left", "waited_from_ns", "waits_on", "wanted")

    def __init__(
        self, queue: AppObject, name: str, priority: int, deadline_ns: int | None, dispatcher: Dispatcher
    ) -> None:
        Action.__init__(self, queue, name, priority, deadline_ns)  # three levels of `super` cost 0.3 us, interpreted
        self.is_resumed = False
        self.taken_back = None
        self.dispatcher = dispatcher
        self.held: list[LockClaim] = []
        self.wanted: Sequence[LockClaim] = ()
        self.waits_on: Lock | None = None
        #: When its wait for locks began, until the wait is booked; 0: it does not wait.
        self.waited_from_ns = 0
        #: Closed lock at which its thread blocks; None: it does not block.
        self.gate: threading.Lock | None = None
        #: Effects of its last release on others, which continue once it has ended.
        self.left = NOBODY

    def take(self, claims: Sequence[LockClaim], gate: threading.Lock | None = None) -> bool:
        """Hold exactly `claims`. False: not yet; then the action is to be parked, or its thread waits at the closed `gate`."""
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

    def wait_for(self, claims: Sequence[LockClaim]) -> None:
        """Hold exactly `claims`; blocks its thread if it has to."""
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
        """Resume holders that have their locks, and pass priority on for those that still wait. Without the mutex."""
        for each in cast("list[Holding]", others.ready):
            if not each.try_open():
                self.dispatcher._host.resume(each)
        for each in cast("list[Holding]", others.moved):
            self.dispatcher._host.hurry(each)

    def try_open(self) -> bool:
        """Unblock the thread in which it waits. False: it does not wait in a thread."""
        if self.gate is None:
            return False
        self.gate.release()
        return True

    def book_wait(self) -> None:
        """Its wait has ended; `Delivery` adds it to a handler's statistics."""
        self.waited_from_ns = 0

    def release(self) -> None:
        """Release all locks, at its end. New holders continue once it has ended; those that block a thread, at once."""
        with self.dispatcher._mutex:
            others = locking.release(self)
        if others is not NOBODY:
            ready = [each for each in others.ready if not cast("Holding", each).try_open()]
            self.left = Others(ready, others.moved)

    def tell_left(self) -> None:
        """Notify the others of `release`. With the lead: this thread then runs them itself; waking another costs 40 us."""
        if self.held:  # its worker stopped it in the middle
            self.release()
        left, self.left = self.left, NOBODY
        if left is not NOBODY:
            self.tell(left)

    # -- as a parkable action -----------------------------------------------------------------------------------------

    def waits_for(self) -> Sequence[Action]:
        """The holders of the lock that it waits for."""
        with self.dispatcher._mutex:
            return [] if self.waits_on is None else cast("list[Action]", self.waits_on.holders)

    def urgency_behind(self) -> int | None:
        """The most urgent priority waiting for one of its locks; None: nobody waits."""
        with self.dispatcher._mutex:
            return min((claim.lock.waiting[0][0] for claim in self.held if claim.lock.waiting), default=None)

    def waits_because(self) -> str:
        """For reports: the lock that it waits for."""
        with self.dispatcher._mutex:
            return "" if self.waits_on is None else f"the lock of {self.waits_on.name}"

    def boosted(self) -> None:
        """Its priority has changed: move it in the wait queue of its lock."""
        with self.dispatcher._mutex:
            others = locking.boosted(self)
        if others is not NOBODY:
            self.tell(others)
