"""The simulation and its slow twin say the same of every small load.

One that computes at a time, any number that are blocked; quotas, the account's limit, deadlines, replies that are awaited.
Set APPBACKPLANE_MODEL_EXAMPLES to a number to search that many loads from a new seed.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.runtime.scheduling.quotas import quotas_from
from appbackplane.spark.replay import NEVER, Costs, Load, ReplaySetting, simulate
from tests.models.replay_model import ReplayModel, Task
from tests.models.scheduler_model import SchedulerModel
from tests.profiles import examples

#: Longer than what passes for the noise of two clocks.
UNIT_NS = 100_000
PRIORITIES = 3

tasks_of_blocked = st.lists(
    st.builds(
        Task,
        at=st.integers(0, 12),
        owner=st.integers(0, 4),
        priority=st.integers(0, PRIORITIES - 1),
        run=st.sampled_from([2, 4, 6]),
        computes=st.just(False),
        awaited=st.sampled_from([0, 0, 3, 5]),
        deadline=st.none() | st.integers(1, 30),
    ),
    min_size=1,
    max_size=14,
)
tasks_that_compute = st.lists(
    st.builds(
        Task,
        at=st.integers(0, 12),
        owner=st.integers(0, 4),
        priority=st.integers(0, PRIORITIES - 1),
        run=st.sampled_from([2, 4, 6]),
        computes=st.just(True),
        awaited=st.sampled_from([0, 0, 0, 4]),
    ),
    min_size=1,
    max_size=14,
)

quotas = st.lists(st.integers(0, 3), min_size=1, max_size=PRIORITIES)


def assert_same(tasks: list[Task], setting: ReplaySetting) -> None:
    """Each waited as long, and ended at the same moment."""
    period = setting.tick_ns // UNIT_NS
    model = SchedulerModel(quotas_from(setting.quotas, PRIORITIES), period, setting.cpu_limit, setting.cpu_exempt, 0)
    first = min(task.at for task in tasks)
    for task in tasks:
        task.at -= first  # the simulation counts from the first arrival
    ReplayModel(tasks, model, setting.threads).run()
    origin = 10**15
    load = Load(
        arrival=[origin + task.at * UNIT_NS for task in tasks],
        operation=[0] * len(tasks),
        object=[task.owner for task in tasks],
        priority=[task.priority for task in tasks],
        run=[task.run * UNIT_NS for task in tasks],
        cpu=[task.run * UNIT_NS if task.computes else 0 for task in tasks],
        awaited=[task.awaited * UNIT_NS for task in tasks],
        deadline=[NEVER if task.deadline is None else origin + task.deadline * UNIT_NS for task in tasks],
        wait=[0] * len(tasks),
    )
    replayed = simulate(load, setting, Costs(tick_after_ns=setting.tick_ns))
    told = [
        (wait / UNIT_NS if wait >= 0 else -1, end / UNIT_NS)
        for wait, end in zip(replayed.wait, replayed.end, strict=True)
    ]
    assert told == [(task.waited, task.ended) for task in tasks]


@settings(max_examples=examples(50), deadline=None)
@given(tasks_of_blocked, st.integers(1, 3), quotas)
def test_blocked_work_on_several_workers(tasks: list[Task], threads: int, quotas: list[int]) -> None:
    """Order within objects, priorities, quotas, deadlines and replies: a twin that has none of the shortcuts."""
    setting = ReplaySetting(
        threads=threads, priorities=PRIORITIES, quotas=tuple(quotas), preempt=False, tick_ns=10 * UNIT_NS
    )
    assert_same(tasks, setting)


@settings(max_examples=examples(50), deadline=None)
@given(tasks_that_compute, quotas, st.sampled_from([None, 20, 50, 90]), st.integers(0, 2))
def test_work_that_computes_under_a_limit(tasks: list[Task], quotas: list[int], limit: int | None, exempt: int) -> None:
    """The account stops all but what is exempt until the tick that has paid its debt."""
    setting = ReplaySetting(
        priorities=PRIORITIES, quotas=tuple(quotas), preempt=False, tick_ns=10 * UNIT_NS,
        cpu_limit=limit, cpu_exempt=exempt, is_limited_by_kernel=False,
    )  # fmt: skip
    assert_same(tasks, setting)
