"""The scheduler and its slow twin are driven side by side through everything that may happen to it.

Laws 1 to 6 in all their combinations, in both orders of the ready queues: what no single example would think of. Set
APPBACKPLANE_MODEL_EXAMPLES to a number to search that many programs from a new seed; the default is few, the same each time,
and quick.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.objects.interleaved import LEVELS
from appbackplane.runtime.scheduling import deadline_order, ready_queues
from appbackplane.runtime.scheduling.quotas import quotas_from
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler
from appbackplane.transport.errors import FailedPrecondition
from tests.models.scheduler_model import Job, Nearest, Owner, SchedulerModel
from tests.profiles import examples

PERIOD_NS = 1000
#: With four workers, three objects and few quotas, everything collides; more only makes collisions rarer.
WORKERS_MAX = 4


class Work(Action):
    """An action that the test runs itself."""

    __slots__ = ("number",)

    def __init__(self, object: AppObject, number: int, priority: int) -> None:
        super().__init__(object, f"work-{number}", priority)
        self.number = number


class SchedulerMachine(RuleBasedStateMachine):
    """Whatever is done to the scheduler is done to the model; whatever comes out must be the same."""

    kind: type[Scheduler] = Scheduler

    @initialize(
        quotas=st.lists(st.integers(0, 3), min_size=1, max_size=4),
        limit=st.none() | st.sampled_from([10, 50, 100]),
        exempt=st.integers(0, 2),
        objects=st.integers(1, 3),
        now_ns=st.integers(0, 5),
        dead_max=st.sampled_from([0, 2, 64]),
        nearest=st.builds(Nearest, ahead=st.integers(1, 3), patience_ns=st.sampled_from([1, 500])),
    )
    def start(
        self,
        quotas: list[int],
        limit: int | None,
        exempt: int,
        objects: int,
        now_ns: int,
        dead_max: int,
        nearest: Nearest,
    ) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(ready_queues, "DEAD_MAX", dead_max)  # so that small systems sweep too
        self.now_ns = now_ns
        self.priorities = len(quotas)
        policy = Policy(
            priorities=len(quotas),
            quotas=quotas,
            tick_ns=PERIOD_NS,
            cpu_limit=limit,
            cpu_exempt=min(exempt, len(quotas)),
        )
        self.patch.setattr(deadline_order, "LOOK_AHEAD_MAX", nearest.ahead)
        self.patch.setattr(deadline_order, "PATIENCE_NS", nearest.patience_ns)
        self.real = self.kind(policy, now_ns)
        full = quotas_from(quotas, len(quotas))
        in_order = nearest if self.kind is deadline_order.DeadlineScheduler else None
        self.model = SchedulerModel(full, PERIOD_NS, limit, min(exempt, len(quotas)), now_ns, in_order)
        self.numbers = itertools.count()
        self.objects: list[tuple[AppObject, Owner]] = []
        self.posted: dict[int, tuple[Work, Job]] = {}
        self.running: list[int] = []
        self.ended: list[int] = []
        for _ in range(objects):
            self.add_object()

    @rule(interleaves=st.booleans())
    def add_object(self, interleaves: bool = False) -> None:
        if len(self.objects) < 4:
            object, owner = AppObject(), Owner(interleaves=interleaves)
            if interleaves:
                object._tails = [None] * (LEVELS * self.priorities)
            self.model.owners.append(owner)
            self.objects.append((object, owner))

    @rule(
        data=st.data(),
        urgency=st.integers(0, 3),
        reentrant=st.booleans(),
        left_ns=st.none() | st.sampled_from([0, 10, 100, 2000]),
    )
    def post(self, data: st.DataObject, urgency: int, reentrant: bool, left_ns: int | None) -> None:
        if not self.objects:
            return
        object, owner = data.draw(st.sampled_from(self.objects))
        number, priority = next(self.numbers), urgency % self.priorities
        deadline_ns = None if left_ns is None else self.now_ns + left_ns
        work = Work(object, number, priority)
        work.deadline_ns = deadline_ns
        work.continues = reentrant
        job = Job(number, owner, priority, reentrant, deadline_ns, self.now_ns)
        self.posted[number] = work, job
        self.real.post(work, self.now_ns)
        self.model.post(job)

    @precondition(lambda self: len(self.running) < WORKERS_MAX)
    @rule(below=st.none() | st.integers(0, 4))
    def next(self, below: int | None) -> None:
        self.take(None if below is None else min(below, self.priorities))

    def take(self, below: int | None) -> int | None:
        """Have both choose."""
        job = self.model.next(self.now_ns, below)
        work = self.real.next(self.now_ns, below)
        assert (work.number if isinstance(work, Work) else None) == (job.number if job else None)
        if job is not None:
            self.running.append(job.number)
            assert job.number not in self.ended, "run twice"
        return job.number if job else None

    @precondition(lambda self: self.running)
    @rule(data=st.data(), outcome=st.sampled_from([*Outcome, "aside"]), cpu_ns=st.integers(0, PERIOD_NS))
    def finish(self, data: st.DataObject, outcome: Outcome | str, cpu_ns: int) -> None:
        number = data.draw(st.sampled_from(self.running))
        self.running.remove(number)
        work, job = self.posted[number]
        self.real.budget.charge(cpu_ns)
        self.model.used_ns += cpu_ns
        if outcome is Outcome.YIELDED or outcome == "aside":
            job.posted_ns = self.now_ns
        if isinstance(outcome, Outcome):
            self.real.finished(work, outcome, self.now_ns)
        else:
            self.real.set_aside(work, self.now_ns)
        if outcome is Outcome.WAITING:
            self.model.awaits(job)
        elif outcome is Outcome.YIELDED:
            self.model.steps_aside(job)
        elif outcome is Outcome.DONE:
            self.ended.append(number)
            self.model.done(job)
        else:
            self.model.set_aside(job)

    @precondition(lambda self: any(owner.suspended for _, owner in self.objects))
    @rule(data=st.data())
    def reply(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from([job for _, owner in self.objects for job in owner.suspended]))
        job.posted_ns = self.now_ns
        self.real.resume(self.posted[job.number][0], self.now_ns)
        self.model.resume(job)

    @precondition(lambda self: any(owner.aside for _, owner in self.objects))
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        self.put_back(data.draw(st.sampled_from([owner for _, owner in self.objects if owner.aside])))

    def put_back(self, owner: Owner) -> None:
        self.real.requeue([self.posted[job.number][0] for job in owner.aside])
        self.model.requeue(owner)

    @precondition(lambda self: self.posted)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        queued = [job.number for _, owner in self.objects for job in owner.queue]
        number = data.draw(st.sampled_from(queued or self.running or sorted(self.posted)))
        work, job = self.posted[number]
        was_queued = self.model.withdraw(job)
        assert self.real.withdraw(work) == was_queued
        if was_queued:
            self.ended.append(number)

    @rule(passed_ns=st.sampled_from([1, PERIOD_NS // 2, PERIOD_NS, 3 * PERIOD_NS, 70 * PERIOD_NS]))
    def time_passes(self, passed_ns: int) -> None:
        self.now_ns += passed_ns

    @rule(quota=st.integers(1, 3))
    def change_quotas(self, quota: int) -> None:
        self.real.quotas.change([quota] * self.priorities)
        self.model.full = self.model.left = [quota] * self.priorities
        self.model.left = list(self.model.full)

    @rule(limit=st.none() | st.sampled_from([10, 50, 100]))
    def change_limit(self, limit: int | None) -> None:
        self.real.budget.change(limit)
        self.model.limit = limit

    @precondition(lambda self: self.objects)
    @rule(data=st.data())
    def remove_object(self, data: st.DataObject) -> None:
        """Law 6: not while it has work, awaits a reply, or keeps what it has set aside."""
        object, owner = data.draw(st.sampled_from(self.objects))
        if owner.load:
            with pytest.raises(FailedPrecondition):
                self.real.check_removable(object)
        else:
            self.real.check_removable(object)
            self.objects.remove((object, owner))
            self.model.owners.remove(owner)

    @invariant()
    def same_facts(self) -> None:
        if not hasattr(self, "real"):
            return
        assert self.real.queued_count == self.model.queued_count
        assert self.real.waiting_count == self.model.waiting_count
        assert self.real.ready.highest() == self.model.highest()
        assert self.real.ready.depths() == self.model.depths()
        owners = {id(object): owner for object, owner in self.objects}
        for priority in range(self.priorities):
            standing = [owners[id(object)] for object in self.real.ready.standing(priority)]
            assert standing == self.model.standing(priority)
            for ahead_count, owner in enumerate(standing):
                object = next(object for object, its in self.objects if its is owner)
                assert self.real.ready.ahead_of(object, 1_000) == (ahead_count, True)
        assert self.real.ready.count == sum(owner.place is not None for owner in self.model.owners)
        assert (self.real.tick_count, self.real.virtual_tick_count) == (
            self.model.tick_count,
            self.model.virtual_tick_count,
        )
        assert self.real.quotas.left == self.model.left
        assert [object._load for object, _ in self.objects] == [owner.load for _, owner in self.objects]
        if self.real.ready.count and self.model.is_spent:
            assert self.real.next_wake_ns() == self.model.tick_ns

    @invariant()
    def one_at_a_time(self) -> None:
        """Law 1: an object has one running action at most."""
        if hasattr(self, "real"):
            owners = [id(self.posted[number][1].owner) for number in self.running]
            assert len(owners) == len(set(owners))

    def teardown(self) -> None:
        """Everything that was posted is run to its end, exactly once, and in the same order by both."""
        if not hasattr(self, "real"):
            return
        try:
            self.run_to_the_end()
        finally:
            self.patch.undo()

    def run_to_the_end(self) -> None:
        for number in list(self.running):
            self.end(number)
        for _, owner in self.objects:
            if owner.aside:
                self.put_back(owner)
        for job in [job for _, owner in self.objects for job in owner.suspended]:
            job.posted_ns = self.now_ns
            self.real.resume(self.posted[job.number][0], self.now_ns)
            self.model.resume(job)
        while self.model.queued_count:
            number = self.take(None)
            if number is None:
                assert self.model.is_spent, "work is left, the budget is not spent, and nothing is chosen"
                self.now_ns += PERIOD_NS
            else:
                self.end(number)
        self.same_facts()
        assert sorted(self.ended) == sorted(self.posted), "lost, or run twice"
        for object, _ in self.objects:
            self.real.check_removable(object)

    def end(self, number: int) -> None:
        """A running action is done."""
        self.running.remove(number)
        self.ended.append(number)
        work, job = self.posted[number]
        self.real.finished(work, Outcome.DONE, self.now_ns)
        self.model.done(job)


class DeadlineSchedulerMachine(SchedulerMachine):
    """The same, where the nearer deadline goes first."""

    kind = deadline_order.DeadlineScheduler


SETTINGS = settings(
    max_examples=examples(60),
    stateful_step_count=60,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = SETTINGS
TestDeadlineScheduler = DeadlineSchedulerMachine.TestCase
TestDeadlineScheduler.settings = SETTINGS
