"""Oversight: the ledger and its mutex, and what the kernel itself does with them: limits, ageing, figures, the look for stalls.

The lower half of the desk (desk.py), which adds what becomes of single requests. Whoever changes something here holds the
mutex for a few steps; those that may go on by it are told under the mutex, and go on when it has been released.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument

from .element import Element
from .executor import Executor
from .figures import Figures, figures_of
from .lanes import shares
from .ledger import Ledger
from .owners import Part
from .policy import KernelPolicy
from .remote_records import RemoteRecords
from .runnable import RunnableSpec
from .stall import Stall, stall_of
from .urgency import NEVER
from .waiting import Waiter

#: When a poster may come again that would not wait: a few requests later.
RETRY_AFTER_S = 0.01

Seen = TypeVar("Seen")

log = logging.getLogger("appbackplane.runtime")


class Oversight:
    """The ledger behind its mutex. Any thread."""

    def __init__(
        self, name: str, policy: KernelPolicy, specs: Mapping[str, RunnableSpec], now_ns: Callable[[], int]
    ) -> None:
        self.name = name
        self.policy = policy
        self.specs = specs
        self.now_ns = now_ns
        #: Which start of the kernel this is: its requests are counted from 1 each time, and workers may outlive it.
        self.started_ns = now_ns()
        self.executor: Executor | None = None
        #: Of requests that are executed on other machines; None: there are none such, or nothing is recorded.
        self.records: RemoteRecords | None = None
        #: Has a worker give back what it has not begun, where several travel together; None: none do.
        self.recall: Callable[[str], None] | None = None
        #: Has a worker come sooner, which is queued behind other work; None: they are not. And from which priority on a
        #: request is more urgent than what one of them is queued for: a bound, so that who posts has one number to look at.
        self.hurry: Callable[[int], None] | None = None
        self.hurry_from = NEVER
        #: Whether new requests from outside are refused, and whether ready ones are held.
        self.is_closed = self.is_held = False
        self._mutex = threading.Lock()
        self._ledger = Ledger(policy)
        #: Workers that asked and were given nothing.
        self._idle: deque[str] = deque()
        #: Workers that are to ask, or execute.
        self._active: set[str] = set()
        self._ids = 0
        #: Owners that are to be disowned; noted without the mutex, which whoever notes it may hold (mapping.py).
        self.given_up: deque[Hashable] = deque()
        #: Requests withdrawn because an operation returned without rejoining them, since they were last logged; its name.
        self._left_count, self._left_by = 0, ""
        #: Why nobody waits here any more; "": it goes on.
        self._end = ""
        self._stall: Stall | None = None

    # -- the kernel's duties ------------------------------------------------------------------------------------------

    def change(self, policy: KernelPolicy, instead_of: KernelPolicy) -> bool:
        """Another policy from now on; workers are for `Operating` to match. False: somebody else has changed it meanwhile.

        Raises `InvalidArgument` where it would leave requests without a worker for ever.
        """
        with self._mutex:
            if self.policy is not instead_of:
                return False
            limits = shares(policy.lanes, policy.workers) if policy.mode == "lanes" else ()
            waiting = self._ledger.waiting_by_lane()
            for lane, limit in enumerate(limits):
                if waiting[lane] and not limit:
                    raise InvalidArgument(
                        f"{self.name}: lanes = {policy.lanes} leave lane {lane} no worker, and {waiting[lane]} requests of it "
                        "wait for one: give it a share"
                    )
            self.policy = policy
            self._ledger.change(policy)
            self._stall = None  # what is to be done about it may be another thing now
        self._tell()
        self.wake()
        return True

    def inspect(self, look: Callable[[Ledger, int], Seen]) -> Seen:
        """Have something look at the ledger, all of one moment. It is quick, and keeps nothing that changes."""
        with self._mutex:
            return look(self._ledger, self.now_ns())

    def hold(self, *, is_held: bool) -> None:
        """What is ready stays so for now; or goes on."""
        with self._mutex:
            self.is_held = is_held
        self.wake()

    def close(self, *, is_closed: bool) -> None:
        """Whether requests from outside are refused."""
        with self._mutex:
            self.is_closed = is_closed

    def grow_older(self) -> None:
        """An interval has passed."""
        with self._mutex:
            self._ledger.grow_older()

    def urgency(self) -> int:
        """Of the most urgent ready request that may be executed; 0 if there is none."""
        with self._mutex:
            best = self._ledger.best()
            return 0 if best is None else self._ledger.ready.urgency(best)

    def hurry_at(self, urgency: int, *, is_anew: bool = False) -> None:
        """Something is queued that is late for a request so urgent, or more."""
        with self._mutex:
            self.hurry_from = urgency if is_anew else min(self.hurry_from, urgency)

    def find(self, id: int, worker: str) -> Element | None:
        """A request that this worker executes, by its number."""
        with self._mutex:
            return self._ledger.find(id, worker)

    def figures(self) -> Figures:
        """All counts, of one moment."""
        self.look_for_given_up()
        with self._mutex:
            return figures_of(self._ledger, self.now_ns())

    def interval_figures(self) -> Figures:
        """The same, at the end of an interval: peaks begin anew."""
        with self._mutex:
            figures = figures_of(self._ledger, self.now_ns())
            self._ledger.entries.take_peaks()
            self._ledger.executing.take_peaks()
        return figures

    def take_unheard(self) -> tuple[int, str]:
        """How many have failed of which no owner will hear, since the last time, and the last of them."""
        with self._mutex:
            count, self._ledger.unheard_count = self._ledger.unheard_count, 0
            return count, self._ledger.unheard

    def operation_ended(self, part: Part, *, has_failed: bool) -> None:
        """Withdraw what an operation has left. One that `has_failed` could not rejoin it, and is not warned of."""
        with self._mutex:
            count = self._ledger.disown(part, self.now_ns())
            if count and not has_failed:
                self._left_count += count
                self._left_by = repr(part)
            told = self._settle()
        self._go_on(told)

    def take_left(self) -> tuple[int, str]:
        """How many requests operations that returned have left since the last time, and the last of these operations."""
        with self._mutex:
            count, self._left_count = self._left_count, 0
            return count, self._left_by

    def look_for_stall(self, workers: Collection[str] | None = None) -> Stall | None:
        """What keeps everything from going on, if that is new; None: nothing, or it is known. `workers` as in `stall_of`."""
        self.look_for_given_up()
        with self._mutex:
            # What is held goes on when its operator says so, and so do those who wait for it.
            stall = None if self.is_held else stall_of(self._ledger, workers)
            is_new = stall is not None and (self._stall is None or self._stall.cause != stall.cause)
            self._stall = stall
        return stall if is_new else None

    @property
    def stall(self) -> Stall | None:
        """As at the last look."""
        return self._stall

    def end(self, why: str) -> None:
        """Everybody who waits is told this instead, and so is who would wait."""
        self._end = why
        self.end_waiting(why, everybody=True)

    def end_waiting(self, why: str, *, everybody: bool) -> None:
        """Whoever waits in the execution of a request, or everybody who waits, is told this instead."""
        with self._mutex:
            self._stall = None  # what comes next is another one
            told = self._settle()
            waiters = self._ledger.end_waiting(everybody=everybody)
            for waiter in waiters:
                waiter.tell(None, FailedPrecondition(why))
            told += waiters
            told += self._settle()  # who waited for what now was never posted
        self._go_on(told)

    def look_for_given_up(self) -> None:
        """Disown what has been noted."""
        if self.given_up:
            with self._mutex:
                while self.given_up:
                    self._ledger.disown(self.given_up.popleft(), self.now_ns())
                told = self._settle()
            self._go_on(told)

    def wake(self) -> None:
        """Something has changed: an idle worker is told if there is something for it; it tells the next."""
        wake = ""
        with self._mutex:
            if self._idle and not self.is_held and self._ledger.has_takeable:
                wake = self._rouse()
        if wake:
            self._kick(wake)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _rests(self, worker: str) -> None:
        self._active.discard(worker)
        if worker not in self._idle:
            self._idle.append(worker)

    def _rouse(self) -> str:
        worker = self._idle.popleft()
        self._active.add(worker)
        return worker

    def _kick(self, worker: str) -> None:
        assert self.executor is not None
        self.executor.kick(worker)

    def _tell(self) -> None:
        """Those that may go on, go on."""
        ledger = self._ledger
        if ledger.admitted or ledger.handed:
            with self._mutex:
                told = self._settle()
            self._go_on(told)

    def _settle(self) -> list[Waiter]:
        """Give those that may go on what they waited for: with the mutex. Who they are."""
        ledger = self._ledger
        told: list[Waiter] = []
        for element in ledger.admitted:
            if element.parent is not None:
                ledger.blocks(element.parent, "")
            waiter, element.waiter = element.waiter, None
            if waiter is not None:
                waiter.tell(element)
                told.append(waiter)
        for waiter, element_or_none in ledger.handed:
            if waiter.asking is not None:
                ledger.blocks(waiter.asking, "")
            waiter.tell(element_or_none)
            told.append(waiter)
        if ledger.admitted and self._idle and not self.is_held and ledger.has_takeable:
            told.append(
                _Roused(self, self._rouse())
            )  # whoever let them in may find them told already, by somebody else
        ledger.admitted.clear()
        ledger.handed.clear()
        return told

    def _go_on(self, told: list[Waiter]) -> None:
        """Without the mutex: they may take the lead."""
        for waiter in told:
            waiter.go_on()


class _Roused(Waiter):
    """An idle worker, for whom there is something among what has been let in."""

    __slots__ = ("_desk", "_worker")

    def __init__(self, desk: Oversight, worker: str) -> None:
        super().__init__()
        self._desk, self._worker = desk, worker

    def go_on(self) -> None:
        self._desk._kick(self._worker)
