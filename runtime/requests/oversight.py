"""Oversight: the ledger and its mutex, and the kernel's own use of them: limits, ageing, figures, the check for stalls.

The lower half of the desk (desk.py), which adds the steps of single requests. Each change holds the mutex for a few steps.
Waiters that may go on get their answers under the mutex, and are resumed after its release.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument

from .element import REQUEST_PRIORITY, Element
from .executor import Executor
from .figures import Figures, figures_of
from .lanes import shares
from .ledger import Ledger
from .owners import ScopedOwner
from .policy import KernelPolicy
from .priority_mapping import NEVER
from .remote_records import RemoteRecords
from .runnable import RunnableSpec
from .stall import Stall, stall_of
from .waiting import AnswerWaiter

#: Retry-after hint, seconds, for a poster that does not wait: a few requests later.
RETRY_AFTER_S = 0.01

Seen = TypeVar("Seen")

log = logging.getLogger("appbackplane.runtime")


class Oversight:
    """The ledger behind its mutex. Callable from any thread."""

    def __init__(
        self, name: str, policy: KernelPolicy, specs: Mapping[str, RunnableSpec], now_ns: Callable[[], int]
    ) -> None:
        self.name = name
        self.policy = policy
        self.specs = specs
        self.now_ns = now_ns
        #: Identifies this start of the kernel: requests are counted from 1 at each start, and worker processes may outlive it.
        self.started_ns = now_ns()
        self.executor: Executor | None = None
        #: Records requests that are executed on other machines; None: there are none, or recording is off.
        self.records: RemoteRecords | None = None
        #: Makes a worker give back the requests that it has not begun; None: requests do not travel together.
        self.recall: Callable[[str], None] | None = None
        #: Raises the priority of a worker that is queued behind other work; None: workers are not queued. A request of priority
        #: `hurry_from` or less is more urgent than one of them was queued for: one number for posters to compare with.
        self.hurry: Callable[[int], None] | None = None
        self.hurry_from = NEVER
        #: Whether new requests from outside are refused, and whether ready ones are held.
        self.is_closed = self.is_held = False
        self._mutex = threading.Lock()
        self._ledger = Ledger(policy)
        #: Idle workers: they asked and were given nothing.
        self._idle: deque[str] = deque()
        #: Workers that are about to ask, or execute.
        self._active: set[str] = set()
        self._ids = 0
        #: Owners to disown. Appended without the mutex, which the appending thread may hold (mapping.py).
        self.given_up: deque[Hashable] = deque()
        #: Requests left by operations that returned, and so withdrawn, since the last log line; the latest such operation.
        self._left_count, self._left_by = 0, ""
        #: Why all waits have ended and no new one may begin; "": the kernel runs.
        self._end = ""
        self._stall: Stall | None = None

    # -- the kernel's duties ------------------------------------------------------------------------------------------

    def change(self, policy: KernelPolicy, instead_of: KernelPolicy) -> bool:
        """Apply another policy; `Operating` matches the workers later. False: the policy is no longer `instead_of`.

        Raises `InvalidArgument` if it would leave requests without a worker for ever.
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
            self._stall = None  # the remedy may be another one now
        self._tell()
        self.wake()
        return True

    def inspect(self, look: Callable[[Ledger, int], Seen]) -> Seen:
        """Call `look` with the ledger and the time, under the mutex. It must be quick, and keep nothing that changes."""
        with self._mutex:
            return look(self._ledger, self.now_ns())

    def hold(self, *, is_held: bool) -> None:
        """Hold ready requests back, or let them begin."""
        with self._mutex:
            self.is_held = is_held
        self.wake()

    def close(self, *, is_closed: bool) -> None:
        """Whether requests from outside are refused."""
        with self._mutex:
            self.is_closed = is_closed

    def grow_older(self) -> None:
        """With ageing on, an interval has passed: waiting requests become more urgent."""
        with self._mutex:
            self._ledger.grow_older()

    def best_priority(self) -> int:
        """Priority, after ageing, of the most urgent ready request that may be executed; the default one if there is none."""
        with self._mutex:
            best = self._ledger.best()
            return REQUEST_PRIORITY if best is None else self._ledger.ready.aged_priority(best)

    def hurry_at(self, priority: int, *, is_anew: bool = False) -> None:
        """A worker is queued too low for requests of this priority, or more urgent ones. `is_anew`: forget earlier bounds."""
        with self._mutex:
            self.hurry_from = priority if is_anew else max(self.hurry_from, priority)

    def find(self, id: int, worker: str) -> Element | None:
        """The request with this id, if this worker has taken it; else None."""
        with self._mutex:
            return self._ledger.find(id, worker)

    def figures(self) -> Figures:
        """All counts, of one moment."""
        self.look_for_given_up()
        with self._mutex:
            return figures_of(self._ledger, self.now_ns())

    def interval_figures(self) -> Figures:
        """`figures` at the end of an interval: the peaks begin anew."""
        with self._mutex:
            figures = figures_of(self._ledger, self.now_ns())
            self._ledger.entries.take_peaks()
            self._ledger.executing.take_peaks()
        return figures

    def take_unheard(self) -> tuple[int, str]:
        """The number of failures that no owner will see, since the last call, and the text of the latest."""
        with self._mutex:
            count, self._ledger.unheard_count = self._ledger.unheard_count, 0
            return count, self._ledger.unheard

    def operation_ended(self, part: ScopedOwner, *, has_failed: bool) -> None:
        """Withdraw the requests that an operation has left. If it failed it could not rejoin them, and no warning is logged."""
        with self._mutex:
            count = self._ledger.disown(part, self.now_ns())
            if count and not has_failed:
                self._left_count += count
                self._left_by = repr(part)
            told = self._settle()
        self._go_on(told)

    def take_left(self) -> tuple[int, str]:
        """The number of requests left by operations that returned, since the last call, and the latest of these operations."""
        with self._mutex:
            count, self._left_count = self._left_count, 0
            return count, self._left_by

    def look_for_stall(self, workers: Collection[str] | None = None) -> Stall | None:
        """Why no request can go on, if that is new; None: one can, or the reason is known. `workers` as in `stall_of`."""
        self.look_for_given_up()
        with self._mutex:
            # Held requests go on when the operator resumes the kernel, and so do requests that wait for them.
            stall = None if self.is_held else stall_of(self._ledger, workers)
            is_new = stall is not None and (self._stall is None or self._stall.cause != stall.cause)
            self._stall = stall
        return stall if is_new else None

    @property
    def stall(self) -> Stall | None:
        """The stall that the last check found; None: there was none."""
        return self._stall

    def end(self, why: str) -> None:
        """End all present waits with this error, and all later ones."""
        self._end = why
        self.end_waiting(why, everybody=True)

    def end_waiting(self, why: str, *, everybody: bool) -> None:
        """End the waits of executing requests, or all waits (`everybody`), with this error."""
        with self._mutex:
            self._stall = None  # a stall from here on is a new one
            told = self._settle()
            waiters = self._ledger.end_waiting(everybody=everybody)
            for waiter in waiters:
                waiter.tell(None, FailedPrecondition(why))
            told += waiters
            told += self._settle()  # waiters for requests that will now never be posted
        self._go_on(told)

    def look_for_given_up(self) -> None:
        """Disown the owners in `given_up`."""
        if self.given_up:
            with self._mutex:
                while self.given_up:
                    self._ledger.disown(self.given_up.popleft(), self.now_ns())
                told = self._settle()
            self._go_on(told)

    def wake(self) -> None:
        """Wake an idle worker if there is a request for it; that worker then wakes the next one."""
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
        """Resume the waiters that may go on."""
        ledger = self._ledger
        if ledger.admitted or ledger.handed:
            with self._mutex:
                told = self._settle()
            self._go_on(told)

    def _settle(self) -> list[AnswerWaiter]:
        """Set the answers of the waiters that may go on, and return these. Call with the mutex."""
        ledger = self._ledger
        told: list[AnswerWaiter] = []
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
            )  # the thread that admitted the posters may find them notified already, by another thread
        ledger.admitted.clear()
        ledger.handed.clear()
        return told

    def _go_on(self, told: list[AnswerWaiter]) -> None:
        """Resume these waiters. Call without the mutex: they may take the lead."""
        for waiter in told:
            waiter.go_on()


class _Roused(AnswerWaiter):
    """Wakes an idle worker, for which a request has just been admitted."""

    __slots__ = ("_desk", "_worker")

    def __init__(self, desk: Oversight, worker: str) -> None:
        super().__init__()
        self._desk, self._worker = desk, worker

    def go_on(self) -> None:
        self._desk._kick(self._worker)
