"""Synchronized ledger: the ledger behind its mutex; it notifies posters, rejoiners and idle workers of changes.

Each event of a request is handled here, in the thread that causes it. The source's dispatcher thread, polling, and semaphore
per thread (seed 001, section 3.2) are not needed. The mutex is held for a few steps. A thread that holds it never takes the
backplane's lead: waiters that may go on get their answers under the mutex, and are resumed after its release.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument

from ..contexts.waiting import AnswerWaiter
from ..executing.executor import Executor
from ..executing.priority_mapping import NEVER
from ..executing.remote_records import RemoteRecords
from ..executing.wire import RequestAnswer
from ..policy import KernelPolicy
from ..runnable import RunnableSpec
from .element import REQUEST_PRIORITY, Done, Element, Failure, Packed, State
from .figures import Figures, figures_of
from .lanes import shares
from .ledger import Ledger
from .owners import Rejoin, ScopedOwner
from .stall import Stall, stall_of

#: Retry-after hint, seconds, for a poster that does not wait: a few requests later.
RETRY_AFTER_S = 0.01
#: Longest run time accepted from a worker: 104 days, so that no sum of them is too large to travel.
RUN_NS_MAX = 1 << 53

Seen = TypeVar("Seen")

log = logging.getLogger("appbackplane.runtime")


class SynchronizedLedger:
    """State shared by the kernel, its executor and all contexts. Callable from any thread."""

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
        #: Owners to disown. Appended without the mutex, which the appending thread may hold (context.py).
        self.given_up: deque[Hashable] = deque()
        #: Requests left by operations that returned, and so withdrawn, since the last log line; the latest such operation.
        self._left_count, self._left_by = 0, ""
        #: Why all waits have ended and no new one may begin; "": the kernel runs.
        self._end = ""
        #: The stall that the last check found; None: there was none.
        self.stall: Stall | None = None

    # -- posting ------------------------------------------------------------------------------------------------------

    def post(self, element: Element, waiter: AnswerWaiter | None) -> bool:  # hot: scripts/bench requests
        """True: the request is ready. False: `waiter` is notified when it is. Without a waiter `Busy` is raised instead."""
        ledger = self._ledger
        now_ns = self.now_ns()
        if self.given_up:
            self.disown_given_up()
        with self._mutex:
            if self._enters(element, now_ns):
                wake, late = self._moved_by(element)
            elif waiter is None:
                ledger.refused_total += 1
                raise Busy(f"{self.name}: {ledger.why_full(element.lane)}", retry_after=RETRY_AFTER_S)
            else:
                self._ids += 1
                element.id = self._ids
                element.waiter = waiter
                ledger.wait(element, now_ns)
                if element.parent is not None:
                    ledger.blocks(element.parent, "room")
                return False
        self._move(wake, late, element)
        return True

    def try_post(self, element: Element) -> bool:  # hot: scripts/bench requests
        """`post` without waiting; False: there is no room. Not counted as a refusal."""
        now_ns = self.now_ns()
        if self.given_up:
            self.disown_given_up()
        with self._mutex:
            if not self._enters(element, now_ns):
                return False
            wake, late = self._moved_by(element)
        self._move(wake, late, element)
        return True

    def withdraw(self, element: Element) -> bool:
        with self._mutex:
            is_withdrawn = self._ledger.withdraw(element)
            if is_withdrawn and element.parent is not None:
                self._ledger.blocks(element.parent, "")
            to_resume = self._answer_waiters()
        self._resume(to_resume)
        return is_withdrawn

    # -- for executors ------------------------------------------------------------------------------------------------

    def take(self, worker: str, count_max: int) -> list[Element]:
        """Implements `executor.Port.take`, without bounds on run time or bytes."""
        return self.take_batch(worker, count_max, None, 0, 0)

    def take_batch(
        self, worker: str, count_max: int, costs: Mapping[str, int] | None, budget_ns: int, bytes_max: int
    ) -> list[Element]:
        """`take` within a budget of run time and bytes: at least one request, at most the worker's fair share.

        `costs`: expected run time of each runnable, ns.
        """
        wake = ""
        now_ns = self.now_ns()
        with self._mutex:
            fair = -(-self._ledger.ready.count // (len(self._active) + len(self._idle) or 1))
            count_max = min(count_max, max(1, fair))
            taken = [] if self.is_held else self._ledger.take(worker, count_max, now_ns, costs, budget_ns, bytes_max)
            if not taken:
                self._mark_idle(worker)
            elif self._idle and self._ledger.has_takeable:
                wake = self._take_idle()
        self._resume_answered()
        if wake:
            self._kick(wake)
        return taken

    def end_and_take(
        self, worker: str, ended: Element | None, result: Any, failure: Failure | None, run_ns: int
    ) -> Element | None:  # hot: scripts/bench requests
        """Report the request that has ended, if any, and take the next one. None: there is none; the worker is woken later."""
        wake = ""
        ledger = self._ledger
        now_ns = self.now_ns()
        with self._mutex:
            if ended is not None:
                ledger.end(worker, ended, result, failure, run_ns, now_ns)
            taken = [] if self.is_held else ledger.take(worker, 1, now_ns)
            if not taken:
                self._mark_idle(worker)
            elif self._idle and ledger.has_takeable:
                wake = self._take_idle()
        if ledger.admitted or ledger.handed:
            self._resume_answered()
        if wake:
            self._kick(wake)
        return taken[0] if taken else None

    def ended(self, worker: str, done: Sequence[Done]) -> None:
        """Implements `executor.Port.ended`, and records the requests."""
        now_ns = self.now_ns()
        with self._mutex:
            for each in done:
                self._ledger.end(worker, each.element, each.result, each.failure, each.run_ns, now_ns)
        if self.records is not None:
            self.records.ended(worker, done, self.policy)
        self._resume_answered()
        self.wake()

    def answered(self, worker: str, answers: Sequence[RequestAnswer]) -> None:
        """`ended` for the answers of a worker process. Requests no longer with that worker are ignored."""
        now_ns = self.now_ns()
        ledger = self._ledger
        with self._mutex:
            for each in answers:
                element = ledger.find(each.id, worker)
                if element is not None:
                    failure = None if each.error is None else Failure(each.error, each.trace, each.error_type)
                    result = None if each.result is None else Packed(each.result)
                    run_ns = min(
                        max(0, each.run_ns), RUN_NS_MAX
                    )  # a wrong value from a worker must not spoil the totals
                    ledger.end(worker, element, result, failure, run_ns, now_ns)
        self._resume_answered()
        self.wake()

    def has_threads(self, count: int) -> None:
        """Implements `executor.Port.has_threads`, for the records."""
        if self.records is not None:
            self.records.has_threads(count)

    def give_back(self, worker: str, elements: Sequence[Element]) -> None:
        """Implements `executor.Port.give_back`, then wakes a worker."""
        with self._mutex:
            self._ledger.give_back(worker, elements, self.now_ns())
        self.wake()

    def give_back_by_id(self, worker: str, ids: Sequence[int]) -> None:
        """`give_back` for a worker process, which names requests by id. Unknown ids are ignored."""
        with self._mutex:
            found = [each for each in (self._ledger.find(id, worker) for id in ids) if each is not None]
            self._ledger.give_back(worker, found, self.now_ns())
        self.wake()

    def lost(self, worker: str, elements: Sequence[Element], why: str) -> None:
        """Implements `executor.Port.lost`, and logs the loss."""
        with self._mutex:
            self._ledger.lose(worker, elements, why, self.now_ns())
        what = f"{len(elements)} requests" if len(elements) != 1 else f"{elements[0].runnable} {elements[0].id}"
        log.warning("%s: worker %s is lost with %s: %s", self.name, worker, what, why)
        self._resume_answered()
        self.wake()

    def register(self, worker: str) -> bool:
        """Register a worker, which then asks for work by itself. False: it is registered already."""
        with self._mutex:
            if worker in self._active or worker in self._idle:
                return False
            self._active.add(worker)
        return True

    def dismiss(self, worker: str) -> None:
        """Implements `executor.Port.dismiss`. An active worker goes when it would ask again (`leave`)."""
        with self._mutex:
            if worker in self._idle:
                self._idle.remove(worker)
                self._ledger.dismiss(worker)

    def leave(self, worker: str, ended: Element | None, result: Any, failure: Failure | None, run_ns: int) -> None:
        """Report the worker's last request, if any, and unregister the worker."""
        with self._mutex:
            if ended is not None:
                self._ledger.end(worker, ended, result, failure, run_ns, self.now_ns())
            self._ledger.dismiss(worker)
            self._active.discard(worker)
        self._resume_answered()
        self.wake()

    def end_one(self, worker: str, ended: Element | None, result: Any, failure: Failure | None, run_ns: int) -> None:
        """Report the request that has ended, if any; the worker asks for another before long."""
        if ended is not None:
            with self._mutex:
                self._ledger.end(worker, ended, result, failure, run_ns, self.now_ns())
            self._resume_answered()

    def mark_idle(self, worker: str) -> None:
        """Mark a worker idle that could not ask, as if it had been given nothing."""
        with self._mutex:
            self._mark_idle(worker)

    # -- rejoining ----------------------------------------------------------------------------------------------------

    def rejoin(
        self, owner: Hashable, waiter: AnswerWaiter | None, asking: Element | None, *, is_patient: bool = False
    ) -> tuple[Rejoin, Element | None]:  # hot: scripts/bench requests
        """A request of this owner that has ended, or why there is none. `asking`: the request whose execution asks.

        On NONE_READY `waiter` is notified later; a patient one (`is_patient`) not of the very first request that ends.
        """
        ledger = self._ledger
        with self._mutex:
            found, element = ledger.rejoin(owner)
            if found is Rejoin.NONE_READY and waiter is not None:
                if self._end:
                    raise FailedPrecondition(self._end)
                ledger.await_rejoin(owner, waiter, is_patient=is_patient)
                waiter.asking = asking
                if asking is not None and not is_patient:
                    ledger.blocks(asking, "rejoin")
        if ledger.admitted or ledger.handed:
            self._resume_answered()
        return found, element

    def lose_patience(self, owner: Hashable, waiter: AnswerWaiter) -> None:
        """The waiter stops waiting for several requests: the next one that ends is enough."""
        with self._mutex:
            self._ledger.lose_patience(owner, waiter)
            if not waiter.is_told and waiter.asking is not None:
                self._ledger.blocks(waiter.asking, "rejoin")
            to_resume = self._answer_waiters()
        self._resume(to_resume)

    def forget(self, owner: Hashable, waiter: AnswerWaiter) -> bool:
        """The waiter stops waiting. False: it was notified meanwhile, and holds the answer."""
        with self._mutex:
            is_forgotten = self._ledger.forget(owner, waiter)
            if is_forgotten and waiter.asking is not None:
                self._ledger.blocks(waiter.asking, "")
            to_resume = self._answer_waiters()
        self._resume(to_resume)
        return is_forgotten

    def disown(self, owner: Hashable) -> None:
        """Drop the requests of this owner: nobody will rejoin them."""
        self.given_up.append(owner)
        self.disown_given_up()

    def unjoin(self, element: Element) -> None:
        """Take back a request whose receiver has been cancelled: another waiter may have it."""
        with self._mutex:
            self._ledger.unjoin(element)
        self._resume_answered()

    # -- the kernel's duties ------------------------------------------------------------------------------------------

    def change(self, policy: KernelPolicy, instead_of: KernelPolicy) -> bool:
        """Apply another policy; `OperatingMode` matches the workers later. False: the policy is no longer `instead_of`.

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
            self.stall = None  # the remedy may be another one now
        self._resume_answered()
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
        with self._mutex:
            return self._ledger.find(id, worker)

    def figures(self) -> Figures:
        self.disown_given_up()
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
            to_resume = self._answer_waiters()
        self._resume(to_resume)

    def take_left(self) -> tuple[int, str]:
        """The number of requests left by operations that returned, since the last call, and the latest of these operations."""
        with self._mutex:
            count, self._left_count = self._left_count, 0
            return count, self._left_by

    def look_for_stall(self, workers: Collection[str] | None = None) -> Stall | None:
        """Why no request can make progress; None: one can, or the reason is known already. `workers` as in `stall_of`."""
        self.disown_given_up()
        with self._mutex:
            # Held requests go on when the operator resumes the kernel, and so do requests that wait for them.
            stall = None if self.is_held else stall_of(self._ledger, workers)
            is_new = stall is not None and (self.stall is None or self.stall.cause != stall.cause)
            self.stall = stall
        return stall if is_new else None

    def end(self, why: str) -> None:
        """End all present waits with this error, and all later ones."""
        self._end = why
        self.end_waiting(why, everybody=True)

    def end_waiting(self, why: str, *, everybody: bool) -> None:
        """End the waits of executing requests, or all waits (`everybody`), with this error."""
        with self._mutex:
            self.stall = None  # a stall from here on is a new one
            to_resume = self._answer_waiters()
            waiters = self._ledger.end_waiting(everybody=everybody)
            for waiter in waiters:
                waiter.tell(None, FailedPrecondition(why))
            to_resume += waiters
            to_resume += self._answer_waiters()  # waiters for requests that will now never be posted
        self._resume(to_resume)

    def disown_given_up(self) -> None:
        if self.given_up:
            with self._mutex:
                while self.given_up:
                    self._ledger.disown(self.given_up.popleft(), self.now_ns())
                to_resume = self._answer_waiters()
            self._resume(to_resume)

    def wake(self) -> None:
        """Wake an idle worker if there is a request for it; that worker then wakes the next one."""
        wake = ""
        with self._mutex:
            if self._idle and not self.is_held and self._ledger.has_takeable:
                wake = self._take_idle()
        if wake:
            self._kick(wake)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _enters(self, element: Element, now_ns: int) -> bool:  # hot: scripts/bench requests
        """Whether the request has been admitted; if so, it has its id."""
        self._check_taken(element)
        if not self._ledger.post(element, now_ns):
            return False
        self._ids += 1
        element.id = self._ids
        return True

    def _moved_by(self, element: Element) -> tuple[str, str]:  # hot: scripts/bench requests
        """Returns (idle worker to wake, busy worker to recall from); at most one is non-empty."""
        if self.is_held:
            return "", ""
        if self._idle and self._ledger.executing.has_room(element.lane):
            return self._take_idle(), ""
        return "", "" if self.recall is None else self._ledger.overtaken(element)

    def _move(self, wake: str, late: str, element: Element) -> None:  # hot: scripts/bench requests
        if wake:
            self._kick(wake)
        elif late and self.recall is not None:
            self.recall(late)
        elif element.priority <= self.hurry_from and self.hurry is not None:
            self.hurry(element.priority)

    def _check_taken(self, element: Element) -> None:
        """Raises `FailedPrecondition` if its poster may not post now, `InvalidArgument` if no worker may take its lane."""
        parent = element.parent
        if self.is_closed and (parent is None or self._end):
            raise FailedPrecondition(self._end or f"{self.name} accepts no requests: it is quiesced or shutting down")
        if parent is not None and parent.state is not State.EXECUTING:
            raise FailedPrecondition(f"{parent!r} has ended: it can post no more requests")
        lane, limits = element.lane, self._ledger.executing.limits
        if lane < len(limits) and not limits[lane]:
            raise InvalidArgument(
                f"lane={lane}: lanes = {self.policy.lanes} leave it no worker, so it would never be executed: give it a share"
            )

    def _mark_idle(self, worker: str) -> None:
        self._active.discard(worker)
        if worker not in self._idle:
            self._idle.append(worker)

    def _take_idle(self) -> str:
        worker = self._idle.popleft()
        self._active.add(worker)
        return worker

    def _kick(self, worker: str) -> None:
        assert self.executor is not None
        self.executor.kick(worker)

    def _resume_answered(self) -> None:
        """Answer and resume the waiters that may go on."""
        ledger = self._ledger
        if ledger.admitted or ledger.handed:
            with self._mutex:
                to_resume = self._answer_waiters()
            self._resume(to_resume)

    def _answer_waiters(self) -> list[AnswerWaiter]:
        """Set the answers of the waiters that may go on, and return these. Call with the mutex."""
        ledger = self._ledger
        to_resume: list[AnswerWaiter] = []
        for element in ledger.admitted:
            if element.parent is not None:
                ledger.blocks(element.parent, "")
            waiter, element.waiter = element.waiter, None
            if waiter is not None:
                waiter.tell(element)
                to_resume.append(waiter)
        for waiter, element_or_none in ledger.handed:
            if waiter.asking is not None:
                ledger.blocks(waiter.asking, "")
            waiter.tell(element_or_none)
            to_resume.append(waiter)
        if ledger.admitted and self._idle and not self.is_held and ledger.has_takeable:
            # The thread that admitted the posters may find them notified already, by another thread.
            to_resume.append(_WorkerWaker(self, self._take_idle()))
        ledger.admitted.clear()
        ledger.handed.clear()
        return to_resume

    def _resume(self, to_resume: list[AnswerWaiter]) -> None:
        """Resume these waiters. Call without the mutex: they may take the lead."""
        for waiter in to_resume:
            waiter.go_on()


class _WorkerWaker(AnswerWaiter):
    """Wakes an idle worker, for which a request has just been admitted."""

    __slots__ = ("_ledger", "_worker")

    def __init__(self, ledger: SynchronizedLedger, worker: str) -> None:
        super().__init__()
        self._ledger, self._worker = ledger, worker

    def go_on(self) -> None:
        self._ledger._kick(self._worker)
