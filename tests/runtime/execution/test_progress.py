"""Progress: what the supervisor judges a backplane by. What is called ready here and is not would kill somebody who is well."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import cast

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.runtime.execution.actions.method_action import MethodAction
from appbackplane.runtime.execution.loop.progress import Progress
from appbackplane.runtime.execution.workers.poll_leader import PollLeader
from appbackplane.runtime.objects.action import DONE, WAITING
from appbackplane.runtime.objects.operation_spec import specs_of
from appbackplane.runtime.observation.statistics import Statistics
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler

SECOND_NS = 1_000_000_000


class Mill(Component):
    """One operation of each kind."""

    @operation()
    def grind(self) -> None:
        """Short."""

    @operation(is_long=True)
    def build(self) -> None:
        """Long, by design."""


class Scene:
    """A scheduler, workers that do as they are told, and a look at them."""

    def __init__(self, workers: int = 1, **policy: int) -> None:
        self.scheduler = Scheduler(Policy(tick_ns=SECOND_NS, **policy), 0)
        self.workers = [SimpleNamespace(action=None, started_ns=0, is_relief=False) for _ in range(workers)]
        self.relief = SimpleNamespace(action=None, started_ns=0, is_relief=True)
        self.poll_leader = SimpleNamespace(workers=self.workers, team=(*self.workers, self.relief), poller=None)
        self.statistics = Statistics()
        self.has_input = False
        self.now_ns = 0
        self.progress = Progress(
            lead=threading.RLock(), statistics=self.statistics, scheduler=self.scheduler, now_ns=0,
            poll_leader=cast(PollLeader, self.poll_leader), has_input=lambda: self.has_input,
        )  # fmt: skip

    def post(self, object: AppObject, name: str = "grind") -> MethodAction:
        spec = specs_of(Mill)[name]
        action = MethodAction(object, name, 4, spec.function, ())
        action.spec = spec
        self.scheduler.post(action, self.now_ns)
        return action

    def begin(self, worker: int = 0) -> MethodAction:
        action = self.scheduler.next(self.now_ns)
        assert isinstance(action, MethodAction)
        self.workers[worker].action, self.workers[worker].started_ns = action, self.now_ns + 1
        return action

    def end(self, worker: int = 0, *, waits: bool = False, cpu_ns: int = 0) -> None:
        action = self.workers[worker].action
        self.scheduler.finished(action, WAITING if waits else DONE, self.now_ns)
        self.scheduler.budget.charge(cpu_ns)
        self.statistics.actions_count += not waits
        self.workers[worker].action, self.workers[worker].started_ns = None, 0

    def look(self, seconds: float = 1.0) -> tuple[int, int]:
        """What is ready, and for how many seconds nothing has begun or ended."""
        self.now_ns += round(seconds * SECOND_NS)
        ready_count, since_ns = self.progress.look(self.now_ns)
        return ready_count, (self.now_ns - since_ns) // SECOND_NS


def test_an_action_alone_keeps_nobody_waiting() -> None:
    """It may run for a day."""
    scene = Scene()
    scene.post(Mill())
    scene.begin()
    assert [scene.look() for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]


def test_what_waits_behind_all_workers_is_ready() -> None:
    """Other objects, and what has queued for the very object that runs."""
    scene, mill = Scene(), Mill()
    for object in (mill, mill, mill, Mill()):
        scene.post(object)
    scene.begin()
    assert [scene.look() for _ in range(3)] == [(3, 0), (3, 1), (3, 2)]
    scene.end()
    scene.begin()
    assert scene.look() == (1, 0), "something has ended, and something begun; of the one that is ready two have queued"


def test_with_a_free_worker_only_other_objects_are_ready() -> None:
    """What waits for an object waits for that alone."""
    scene, mill = Scene(workers=2), Mill()
    scene.post(mill)
    scene.post(mill)
    scene.begin()
    assert scene.look()[0] == 0
    scene.post(Mill())
    assert scene.look()[0] == 1, "and somebody ought to take it"


def test_who_awaits_a_reply_is_not_ready() -> None:
    """Nor is what has queued behind it: a dead peer is not our hang."""
    scene, mill = Scene(), Mill()
    scene.post(mill)
    scene.post(mill)
    scene.begin()
    scene.end(waits=True)
    assert [scene.look()[0] for _ in range(3)] == [0, 0, 0]
    assert scene.scheduler.queued_count == 1


def test_nothing_is_ready_while_the_cpu_budget_is_spent() -> None:
    """Law 5. It waits for the tick, and has been told to."""
    scene = Scene(cpu_limit=1)
    scene.post(Mill())
    scene.post(Mill())
    scene.begin()
    scene.end(cpu_ns=SECOND_NS)
    assert [scene.look()[0] for _ in range(3)] == [0, 0, 0]


def test_a_step_of_a_coroutine_is_progress() -> None:
    """It gives way each time, so the scheduler does what it is for."""
    scene = Scene()
    scene.post(Mill())
    scene.post(Mill())
    scene.begin()
    for _ in range(5):
        scene.workers[0].started_ns += 1
        assert scene.look() == (1, 0)


def test_what_was_declared_to_take_long_is_progress_as_long_as_it_runs() -> None:
    """On a regular worker; whoever waits behind it was told so."""
    scene, mill = Scene(), Mill()
    scene.post(mill, "build")
    scene.post(mill)
    scene.begin()
    assert [scene.look() for _ in range(3)] == [(1, 0)] * 3
    scene.end()
    scene.begin()
    assert [scene.look()[1] for _ in range(3)] == [0, 1, 2]


def test_what_has_come_and_nobody_takes_in_is_ready() -> None:
    """`preempt = false`: all workers run, and none looks at the link."""
    scene = Scene()
    scene.post(Mill())
    scene.begin()
    scene.has_input = True
    assert scene.look()[0] == 1
    scene.poll_leader.poller = scene.relief
    assert scene.look()[0] == 0, "somebody does"
    scene.poll_leader.poller = None
    scene.end()
    assert scene.look()[0] == 0, "somebody is about to"
