"""The slow, obvious twin of spark/replay/simulation.py: a unit of time after the other, the slow twin of the scheduler in it.

What happens in one moment happens in this order: whoever has computed is done; then who was blocked, or has what it awaited, in
the order in which they began to; then all who arrive. After each, whoever is free chooses. Relief workers, lanes, and several
that compute at a time are left out: those have tests of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from .scheduler_model import Job, Owner, SchedulerModel


@dataclass
class Task:
    """An action of the load. Times are units."""

    at: int
    owner: int
    priority: int
    run: int
    #: All of it computed, or all of it blocked.
    computes: bool
    awaited: int = 0
    deadline: int | None = None
    #: What became of it: all its time in queues; -1: too late.
    waited: int = 0
    ended: int = 0
    step: int = 0


@dataclass(order=True)
class Doing:
    """Something that ends some time."""

    until: int
    rank: int
    number: int
    job: Job = field(compare=False)
    is_await: bool = field(compare=False, default=False)


class ReplayModel:
    """`run` says what becomes of the tasks."""

    def __init__(self, tasks: Sequence[Task], scheduler: SchedulerModel, threads: int) -> None:
        self.tasks, self.scheduler, self.free = tasks, scheduler, threads
        self.doing: list[Doing] = []
        self.numbers = itertools.count()
        self.owners = {task.owner: Owner() for task in tasks}
        scheduler.owners = list(self.owners.values())

    def run(self) -> None:
        """To the end."""
        coming = sorted(range(len(self.tasks)), key=lambda n: self.tasks[n].at)
        now = 0
        while coming or self.doing or self.scheduler.queued_count:
            while ending := [each for each in self.doing if each.until == now]:
                first = min(ending)
                self.doing.remove(first)
                self._ends(first, now)
                self._choose(now)
            came = [number for number in coming if self.tasks[number].at == now]
            for number in came:
                coming.remove(number)
                task = self.tasks[number]
                self.scheduler.post(Job(number, self.owners[task.owner], task.priority, posted_ns=now))
            is_tick = self.scheduler.is_spent and now == self.scheduler.tick_ns
            if came or is_tick:
                self._choose(now)
            now += 1

    def _choose(self, now: int) -> None:
        while self.free and any(owner.place is not None for owner in self.scheduler.owners):
            job = self.scheduler.next(now)
            if job is None:
                return
            task = self.tasks[job.number]
            if task.deadline is not None and now >= task.deadline and task.step == 0:
                task.waited = -1
                self.scheduler.done(job)
                continue
            task.waited += now - job.posted_ns
            self.free -= 1
            part = task.run // 2 if task.awaited else task.run
            rank = 0 if task.computes else 1
            self.doing.append(Doing(now + part, rank, next(self.numbers), job))

    def _ends(self, doing: Doing, now: int) -> None:
        job, task = doing.job, self.tasks[doing.job.number]
        if doing.is_await:
            job.posted_ns = now
            self.scheduler.resume(job)
            return
        self.free += 1
        if task.computes:
            self.scheduler.used_ns += task.run // 2 if task.awaited else task.run
        if task.awaited and task.step == 0:
            task.step = 1
            self.scheduler.awaits(job)
            self.doing.append(Doing(now + task.awaited, 1, next(self.numbers), job, is_await=True))
        else:
            task.ended = now
            self.scheduler.done(job)
