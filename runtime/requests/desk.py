"""Desk: the ledger behind its mutex; it notifies posters, rejoiners and idle workers of changes.

Each event of a request is handled here, in the thread that causes it. The source's dispatcher thread, polling, and semaphore
per thread (seed 001, section 3.2) are not needed. The mutex is held for a few steps. A thread that holds it never takes the
backplane's lead: waiters are resumed after its release.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument

from .element import Done, Element, Failure, Packed, State
from .oversight import Oversight
from .owners import Rejoin
from .waiting import AnswerWaiter
from .wire import RequestAnswer

#: Retry-after hint, seconds, for a poster that does not wait: a few requests later.
RETRY_AFTER_S = 0.01
#: Longest run time accepted from a worker: 104 days, so that no sum of them is too large to travel.
RUN_NS_MAX = 1 << 53

Seen = TypeVar("Seen")

log = logging.getLogger("appbackplane.runtime")


class Desk(Oversight):
    """State shared by the kernel, its executor and all contexts. Callable from any thread."""

    # -- posting ------------------------------------------------------------------------------------------------------

    def post(self, element: Element, waiter: AnswerWaiter | None) -> bool:  # hot: scripts/bench requests
        """True: the request is ready. False: `waiter` is notified when it is. Without a waiter `Busy` is raised instead."""
        ledger = self._ledger
        now_ns = self.now_ns()
        if self.given_up:
            self.look_for_given_up()
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
            self.look_for_given_up()
        with self._mutex:
            if not self._enters(element, now_ns):
                return False
            wake, late = self._moved_by(element)
        self._move(wake, late, element)
        return True

    def withdraw(self, element: Element) -> bool:
        """The poster stops waiting. False: its request was admitted meanwhile."""
        with self._mutex:
            is_withdrawn = self._ledger.withdraw(element)
            if is_withdrawn and element.parent is not None:
                self._ledger.blocks(element.parent, "")
            told = self._settle()
        self._go_on(told)
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
                self._rests(worker)
            elif self._idle and self._ledger.has_takeable:
                wake = self._rouse()
        self._tell()
        if wake:
            self._kick(wake)
        return taken

    def turn(
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
                self._rests(worker)
            elif self._idle and ledger.has_takeable:
                wake = self._rouse()
        if ledger.admitted or ledger.handed:
            self._tell()
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
        self._tell()
        self.wake()

    def answered(self, worker: str, answers: Sequence[RequestAnswer]) -> None:
        """`ended` for the answers of a worker process (`Seat.execute`). Requests no longer with that worker are ignored."""
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
        self._tell()
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
        self._tell()
        self.wake()

    def begins(self, worker: str) -> bool:
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
        self._tell()
        self.wake()

    def end_one(self, worker: str, ended: Element | None, result: Any, failure: Failure | None, run_ns: int) -> None:
        """Report the request that has ended, if any; the worker asks for another before long."""
        if ended is not None:
            with self._mutex:
                self._ledger.end(worker, ended, result, failure, run_ns, self.now_ns())
            self._tell()

    def rests(self, worker: str) -> None:
        """Mark a worker idle that could not ask, as if it had been given nothing."""
        with self._mutex:
            self._rests(worker)

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
            self._tell()
        return found, element

    def lose_patience(self, owner: Hashable, waiter: AnswerWaiter) -> None:
        """The waiter stops waiting for several requests: the next one that ends is enough."""
        with self._mutex:
            self._ledger.lose_patience(owner, waiter)
            if not waiter.is_told and waiter.asking is not None:
                self._ledger.blocks(waiter.asking, "rejoin")
            told = self._settle()
        self._go_on(told)

    def forget(self, owner: Hashable, waiter: AnswerWaiter) -> bool:
        """The waiter stops waiting. False: it was notified meanwhile, and holds the answer."""
        with self._mutex:
            is_forgotten = self._ledger.forget(owner, waiter)
            if is_forgotten and waiter.asking is not None:
                self._ledger.blocks(waiter.asking, "")
            told = self._settle()
        self._go_on(told)
        return is_forgotten

    def disown(self, owner: Hashable) -> None:
        """Drop the requests of this owner: nobody will rejoin them."""
        self.given_up.append(owner)
        self.look_for_given_up()

    def unjoin(self, element: Element) -> None:
        """Take back a request whose receiver has been cancelled: another waiter may have it."""
        with self._mutex:
            self._ledger.unjoin(element)
        self._tell()

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
            return self._rouse(), ""
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
