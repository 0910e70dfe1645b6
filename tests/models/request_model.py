"""The slow, obvious twin of requests/ledger/ledger.py: one list of requests, and everything worked out from it anew each time.

As the source tells it (seed 001, section 5): each interval visits every request that waits and adds to its priority, lanes are
counted, pools are searched. Its priorities are the source's, where larger is more urgent; `of_the_source` converts. Nothing is
kept but what a request is and what became of it. Where this and the ledger differ, one of them is wrong
(tests/runtime/requests/test_ledger_model.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from appbackplane.runtime.requests.ledger.element import REQUEST_PRIORITY

POSTED, READY, EXECUTING, REJOINABLE = "posted", "ready", "executing", "rejoinable"
JOINED, FAILED, DONE, GONE = "joined", "failed", "done", "gone"
#: Of its owner, it exists.
EXISTING = (POSTED, READY, EXECUTING, REJOINABLE)


@dataclass(eq=False)
class Limits:
    """What a policy says, as far as it matters here."""

    workers: int
    ready: int
    rejoin: int
    boost: int
    #: Percent for lanes 0 to 2; (): any worker takes any request.
    percents: tuple[int, ...] = ()


@dataclass(eq=False, repr=False)
class Job:
    """A request."""

    number: int
    #: Another job, or a name.
    owner: Hashable
    lane: int
    #: On the source's scale: larger is more urgent.
    priority: int
    rejoins: bool
    marked: bool
    parent: Job | None
    state: str = POSTED
    #: Its priority now: what it was posted with, and what it has gained in the pool where it is.
    urgency: int = 0
    #: Since when it is in its pool, among others.
    turn: int = 0
    #: With which worker, begun or not.
    worker: str = ""
    #: And as its how manieth.
    taken: int = 0
    is_failed: bool = False
    ready_ns: int = 0
    #: How long it has waited in the ready pool, for the figures.
    waited_ns: int = 0
    begun_count: int = 0

    def __repr__(self) -> str:
        return (
            f"<{self.number} {self.state}, of {self.owner!r}, lane {self.lane}, urgency {self.urgency} {self.worker}>"
        )


@dataclass(eq=False)
class RequestModel:
    """All of it. What calls bring about is in `admitted` and `handed`, until somebody takes it out."""

    limits: Limits
    jobs: list[Job] = field(default_factory=list)
    #: Who waits for a request of an owner to end, in the order in which they came.
    waiters: list[tuple[Hashable, Any]] = field(default_factory=list)
    #: Those of them that would rather be told a little later.
    patient: list[Any] = field(default_factory=list)
    admitted: list[Job] = field(default_factory=list)
    handed: list[tuple[Any, Job | None]] = field(default_factory=list)
    run_ns: int = 0
    _turns: Any = field(default_factory=itertools.count)
    _fronts: Any = field(default_factory=lambda: itertools.count(-1, -1))

    # -- searching ----------------------------------------------------------------------------------------------------

    def having(self, *states: str) -> list[Job]:
        return [job for job in self.jobs if job.state in states]

    def of(self, owner: Hashable) -> list[Job]:
        """All that exist of an owner: three searches in the source, and here the same."""
        return [job for job in self.having(*EXISTING) if job.owner is owner or job.owner == owner]

    def held_by(self, worker: str) -> list[Job]:
        """The one that executes first, then those that have not begun."""
        held = [job for job in self.having(EXECUTING, READY) if job.worker == worker]
        return sorted(held, key=lambda job: job.taken)

    def entries(self) -> list[int]:
        return self._by_lane(self.having(READY))

    def executing(self) -> list[int]:
        return self._by_lane(self.having(EXECUTING))

    def rejoinable(self) -> list[int]:
        return self._by_lane(self.having(REJOINABLE))

    def pool(self) -> list[Job]:
        """What any worker may take, as far as lanes allow, in that order."""
        return sorted((job for job in self.having(READY) if not job.worker), key=_rank)

    def may_have(self, counts: list[int], lane: int, total: int) -> bool:
        """One more in a lane: is its own allowance, with what the lanes above leave of theirs, enough, and for those below?"""
        if sum(counts) >= total:
            return False
        left = 0
        for each, percent in enumerate(self.limits.percents):
            left += max(1, total * percent // 100) if percent else 0
            left -= counts[each] + (each == lane)
            if each >= lane and left < 0:
                return False
        return True

    def has_room(self, lane: int) -> bool:
        """Of a full rejoin pool, only what may come from this lane or below counts with lanes: nobody waits upwards."""
        ended = self.rejoinable()
        unheard = sum(ended[lane:]) if self.limits.percents else sum(ended)
        return unheard < self.limits.rejoin and self.may_have(self.entries(), lane, self.limits.ready)

    def best(self) -> Job | None:
        for job in self.pool():
            if self.may_have(self.executing(), job.lane, self.limits.workers):
                return job
        return None

    # -- what happens -------------------------------------------------------------------------------------------------

    def post(self, job: Job, now_ns: int) -> bool:
        if not self.has_room(job.lane):
            return False
        self.jobs.append(job)
        self._make_ready(job, now_ns)
        return True

    def wait(self, job: Job, now_ns: int) -> None:
        job.urgency, job.turn, job.ready_ns = job.priority, next(self._turns), now_ns
        self.jobs.append(job)

    def withdraw(self, job: Job) -> bool:
        if job.state != POSTED:
            return False
        job.state, job.is_failed = GONE, True
        self._settle()
        return True

    def take(self, worker: str, count_max: int, now_ns: int) -> list[Job]:
        first = self.best()
        if first is None:
            return []
        taken = [job for job in self.pool() if job.lane == first.lane][:count_max]
        for job in taken:
            job.worker, job.taken = worker, next(self._turns)
        self._begin(first, now_ns)
        self._settle()
        return taken

    def end(self, worker: str, job: Job, *, is_failed: bool, run_ns: int, now_ns: int) -> bool:
        if job.worker != worker or job.state not in (READY, EXECUTING):
            return False
        self.run_ns += run_ns
        self._ends(job, is_failed, now_ns)
        self._hand(job.owner if job.state == REJOINABLE else None)
        self._settle()
        return True

    def give_back(self, worker: str, jobs: list[Job], now_ns: int) -> None:
        for job in jobs:
            if job.worker == worker and job.state in (READY, EXECUTING):
                if job.state == EXECUTING:
                    job.ready_ns = now_ns  # what it waited before it was begun, it has waited
                job.state, job.worker = READY, ""
                self._next_begins(worker, now_ns)
        self._settle()

    def lose(self, worker: str, jobs: list[Job], now_ns: int) -> None:
        for job in jobs:
            if job.worker == worker and job.state in (READY, EXECUTING):
                self._ends(job, True, now_ns)
                self._hand(job.owner if job.state == REJOINABLE else None)
        self._settle()

    def end_waiting(self, *, everybody: bool) -> list[Any]:
        """Who waits in the execution of a request, or everybody; jobs that were not posted, and waiters."""
        ended: list[Any] = [job for job in self.having(POSTED) if everybody or job.parent is not None]
        for job in ended:
            job.state, job.is_failed = GONE, True
        self._settle()
        told = [place for place in self.waiters if everybody or place[1].asking is not None]
        self.waiters = [place for place in self.waiters if place not in told]
        return ended + [waiter for _, waiter in told]

    def rejoin(self, owner: Hashable) -> tuple[str, Job | None]:
        ended = sorted((job for job in self.of(owner) if job.state == REJOINABLE), key=lambda job: job.turn)
        if ended:
            self._join(ended[0])
            self._settle()
            return "returned", ended[0]
        return ("none ready" if self.of(owner) else "none exist"), None

    def unjoin(self, job: Job) -> None:
        if job.parent is not None and job.owner is job.parent and job.parent.state != EXECUTING:
            job.state = DONE  # only its parent could have asked for it
            return
        self._waits_to_rejoin(job, at_front=True)
        self._hand(job.owner, is_let_wait=False)
        self._settle()

    def disown(self, owner: Hashable) -> None:
        self._nobody_rejoins(owner, have_failed=True)
        self._settle()

    def await_rejoin(self, owner: Hashable, waiter: Any, *, is_patient: bool = False) -> None:
        self.waiters.append((owner, waiter))
        if is_patient:
            self.patient.append(waiter)

    def lose_patience(self, waiter: Any) -> None:
        self.patient = [each for each in self.patient if each is not waiter]
        self._settle()

    def forget(self, owner: Hashable, waiter: Any) -> bool:
        if (owner, waiter) not in self.waiters:
            return False
        self.waiters.remove((owner, waiter))
        return True

    def grow_older(self) -> None:
        """The scheduler thread: each entry is inspected; one that is executing, in case that it is given back."""
        for job in self.having(POSTED, READY, EXECUTING):
            job.urgency += 1 + (self.limits.boost if job.marked and job.state != POSTED else 0)

    def change(self, limits: Limits) -> None:
        self.limits = limits
        self._settle()

    # -- steps --------------------------------------------------------------------------------------------------------

    def _make_ready(self, job: Job, now_ns: int) -> None:
        job.state, job.urgency, job.turn, job.ready_ns = READY, job.priority, next(self._turns), now_ns

    def _begin(self, job: Job, now_ns: int) -> None:
        job.state = EXECUTING
        job.waited_ns += now_ns - job.ready_ns
        job.begun_count += 1

    def _next_begins(self, worker: str, now_ns: int) -> None:
        held = self.held_by(worker)
        if held and held[0].state == READY:
            self._begin(held[0], now_ns)

    def _ends(self, job: Job, is_failed: bool, now_ns: int) -> None:
        worker = job.worker
        job.state, job.is_failed = DONE, is_failed
        self._next_begins(worker, now_ns)
        self._nobody_rejoins(job, have_failed=is_failed)
        if job.rejoins:
            self._waits_to_rejoin(job, at_front=False)

    def _nobody_rejoins(self, owner: Hashable, *, have_failed: bool) -> None:
        for own in self.of(owner):
            if own.state == REJOINABLE:
                own.state = DONE
            elif have_failed and own.state == READY and not own.worker:
                own.state, own.is_failed = GONE, True
            else:
                own.rejoins = False

    def _waits_to_rejoin(self, job: Job, *, at_front: bool) -> None:
        job.state, job.turn = REJOINABLE, next(self._fronts if at_front else self._turns)

    def _join(self, job: Job) -> None:
        job.state = FAILED if job.is_failed else JOINED

    def _settle(self) -> None:
        """Until nothing changes: who waits and has what he waits for, has it; who waits for what there is not, is told."""
        self._hand(None)
        for job in sorted(self.having(POSTED), key=_rank):
            if self.has_room(job.lane):
                self._make_ready(job, job.ready_ns)
                self.admitted.append(job)

    def _hand(self, because_of: Hashable, *, is_let_wait: bool = True) -> None:
        """`because_of`: something of this owner has ended, or come back; who is patient cares for nothing else."""
        for owner, waiter in list(self.waiters):
            ended = sorted((job for job in self.of(owner) if job.state == REJOINABLE), key=lambda job: job.turn)
            is_told = owner == because_of and not (is_let_wait and self._would_rather_wait(owner, len(ended)))
            if ended and waiter in self.patient and not is_told:
                continue
            if ended:
                self._join(ended[0])
            elif self.of(owner):
                continue
            self.waiters.remove((owner, waiter))
            self.handed.append((waiter, ended[0] if ended else None))
            if ended and owner == because_of:
                because_of = None  # one has ended, one is told

    def _would_rather_wait(self, owner: Hashable, ended_count: int) -> bool:
        is_alone = sum(each == owner for each, _ in self.waiters) == 1
        return is_alone and len(self.of(owner)) > ended_count and not self.having(POSTED)

    def _by_lane(self, jobs: list[Job]) -> list[int]:
        return [sum(job.lane == lane for job in jobs) for lane in range(4)]


def of_the_source(priority: int) -> int:
    """A priority of the source (larger is more urgent, default 0) on the kernel's scale (0 is the most urgent), or back."""
    return REQUEST_PRIORITY - priority


def _rank(job: Job) -> tuple[int, int]:
    return (-job.urgency, job.turn)
