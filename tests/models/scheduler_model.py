"""The slow, obvious twin of runtime/scheduling/scheduler.py: plain lists, linear scans, every law read off the page.

Nothing is kept that can be worked out: whether an object may run, at which priority, and who is next are asked anew each
time. The only memory beside the queues is `place`, since when an object has stood in which ready queue. An order of
execution in which this and the scheduler differ is a bug in one of them (tests/runtime/scheduling/test_scheduler_model.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Job:
    """An action: a number, and the object that it belongs to."""

    number: int
    owner: Owner
    priority: int
    #: It may run while its object awaits a reply: it is that reply, it stepped aside, or it is a reentrant call.
    continues: bool = False
    #: None: it has none.
    deadline_ns: int | None = None
    #: When it was last queued.
    posted_ns: int = 0


@dataclass(eq=False)
class Owner:
    """An object. Its actions are in `queue`, with a worker (`running`), await a reply (`suspended`) or another state."""

    queue: list[Job] = field(default_factory=list)
    running: Job | None = None
    suspended: list[Job] = field(default_factory=list)
    #: Kept back for another state of the object, in no queue.
    aside: list[Job] = field(default_factory=list)
    #: (priority, turn): in which ready queue it stands, and since when.
    place: tuple[int, int] | None = None
    #: It serves others while one awaits a reply, the most urgent first.
    interleaves: bool = False

    @property
    def load(self) -> int:
        return len(self.queue) + len(self.suspended) + len(self.aside) + (self.running is not None)

    @property
    def may_run(self) -> bool:
        """Law 1: one at a time. Law 6: while it awaits a reply, only what continues."""
        if self.running is not None or not self.queue:
            return False
        return not self.suspended or self.queue[0].continues or self.interleaves

    @property
    def is_waiting(self) -> bool:
        """Law 6: it is in the wait queue."""
        return bool(self.suspended) and self.running is None and not self.may_run

    @property
    def priority(self) -> int:
        """Law 2: the highest among its outstanding actions."""
        return min(job.priority for job in self.queue)

    def first_ordinary(self) -> int:
        """Where in the queue those that continue end."""
        return next((at for at, job in enumerate(self.queue) if not job.continues), len(self.queue))

    def sort(self) -> None:
        """Stable: of one priority those that go on come first, and each in the order in which they were queued."""
        if self.interleaves:
            self.queue.sort(key=lambda job: (job.priority, not job.continues))


@dataclass(frozen=True)
class Nearest:
    """`order = "deadline"`: how many actions of an object are looked at, and how long those without a deadline have."""

    ahead: int
    patience_ns: int


class SchedulerModel:
    """The laws, one after the other. `quotas` are full ones (no 0 for unlimited); `limit` is percent of a core or None.

    `nearest`: within a priority the nearer deadline goes first; None: first come, first served.
    """

    def __init__(
        self,
        quotas: Sequence[int],
        period_ns: int,
        limit: int | None,
        exempt: int,
        now_ns: int,
        nearest: Nearest | None = None,
    ) -> None:
        self.nearest = nearest
        self.owners: list[Owner] = []
        self.full, self.left = list(quotas), list(quotas)
        self.period_ns, self.tick_ns = period_ns, now_ns + period_ns
        self.limit, self.exempt, self.used_ns = limit, exempt, 0
        self.tick_count = self.virtual_tick_count = 0
        self._turn = itertools.count()

    # What comes in

    def post(self, job: Job) -> None:
        """Law 1: last. A reentrant call of an object that waits: before all ordinary ones, behind what also continues."""
        queue = job.owner.queue
        job.continues = job.continues and bool(job.owner.suspended) and not job.owner.interleaves
        queue.insert(job.owner.first_ordinary() if job.continues else len(queue), job)
        job.owner.sort()
        self._place(job.owner)

    def resume(self, job: Job) -> None:
        """Law 6: the reply goes to the front."""
        job.owner.suspended.remove(job)
        job.continues = True
        self._first(job)
        self._place(job.owner)

    def requeue(self, owner: Owner) -> None:
        """What was set aside: before all ordinary ones, in its order; what continues stays ahead of it."""
        jobs, owner.aside = owner.aside, []
        for job in jobs:
            job.continues = job.continues and bool(owner.suspended)
        at = len(owner.queue) if owner.interleaves else owner.first_ordinary()
        owner.queue[at:at] = [job for job in jobs if job.continues] + [job for job in jobs if not job.continues]
        owner.sort()
        self._place(owner)

    def withdraw(self, job: Job) -> bool:
        """Taken back, if it is still queued."""
        if job not in job.owner.queue:
            return False
        job.owner.queue.remove(job)
        self._place(job.owner)
        return True

    # What goes out

    def next(self, now_ns: int, below: int | None = None) -> Job | None:
        """Laws 3, 4 and 5."""
        if now_ns >= self.tick_ns:
            while now_ns >= self.tick_ns:
                self.tick_ns += self.period_ns
                self.used_ns = 0 if self.limit is None else max(0, self.used_ns - self.budget_ns)
            self.tick_count += 1
            self.left = list(self.full)
        end = len(self.full) if below is None else below
        if self.is_spent:
            end = min(end, self.exempt)
        wanted = [owner for owner in self.owners if owner.place is not None]
        in_reach = [owner for owner in wanted if owner.priority < end]
        if in_reach and not self.is_spent and not any(self.left[owner.priority] for owner in wanted):
            self.left = list(self.full)
            self.virtual_tick_count += 1
        in_reach = [owner for owner in in_reach if self.left[owner.priority] > 0]
        if not in_reach:
            return None
        owner = min(in_reach, key=self.rank)
        self.left[owner.priority] -= 1
        owner.running = owner.queue.pop(0)
        self._place(owner)
        return owner.running

    def done(self, job: Job) -> None:
        """It has run to its end."""
        job.owner.running = None
        self._place(job.owner)

    def awaits(self, job: Job) -> None:
        """It has stopped for a reply."""
        job.owner.suspended.append(job)
        self.done(job)

    def set_aside(self, job: Job) -> None:
        """Its object keeps it for another state."""
        job.owner.aside.append(job)
        self.done(job)

    def steps_aside(self, job: Job) -> None:
        """It goes on before anything else of its object."""
        job.continues = True
        self._first(job)
        self.done(job)

    # Facts

    @property
    def budget_ns(self) -> int:
        return self.period_ns * (self.limit or 0) // 100

    @property
    def is_spent(self) -> bool:
        return self.limit is not None and self.used_ns >= self.budget_ns

    @property
    def queued_count(self) -> int:
        return sum(len(owner.queue) for owner in self.owners)

    @property
    def waiting_count(self) -> int:
        return sum(owner.is_waiting for owner in self.owners)

    def highest(self) -> int | None:
        """The highest priority that has work ready."""
        return min((owner.place[0] for owner in self.owners if owner.place is not None), default=None)

    def depths(self) -> list[int]:
        """Objects in each ready queue."""
        places = [owner.place[0] for owner in self.owners if owner.place is not None]
        return [places.count(priority) for priority in range(len(self.full))]

    def standing(self, priority: int) -> list[Owner]:
        """Those who stand in one ready queue, first to last."""
        there = [owner for owner in self.owners if owner.place is not None and owner.place[0] == priority]
        return sorted(there, key=self.rank)

    def rank(self, owner: Owner) -> tuple[int, int, int]:
        """Who has the lowest goes first."""
        assert owner.place is not None
        priority, turn = owner.place
        if self.nearest is None:
            return priority, 0, turn
        patience_ns = self.nearest.patience_ns
        dues = [(job.priority, _due_ns(job, patience_ns)) for job in owner.queue[: self.nearest.ahead]]
        of_its_priority = [due for job_priority, due in dues if job_priority == priority]
        return priority, min(of_its_priority, default=dues[0][1]), turn

    def _first(self, job: Job) -> None:
        """Before all others; where requests are interleaved, last of those that go on at its priority."""
        job.owner.queue.insert(len(job.owner.queue) if job.owner.interleaves else 0, job)
        job.owner.sort()

    def _place(self, owner: Owner) -> None:
        """Into the ready queue of its priority, last, unless it stands there already; out of it if it may not run."""
        if not owner.may_run:
            owner.place = None
        elif owner.place is None or owner.place[0] != owner.priority:
            owner.place = (owner.priority, next(self._turn))


def _due_ns(job: Job, patience_ns: int) -> int:
    return job.posted_ns + patience_ns if job.deadline_ns is None else job.deadline_ns
