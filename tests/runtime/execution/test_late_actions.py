"""Late actions: what waits longer than `max_latency` before it begins is counted, and reported with the cause."""

from __future__ import annotations

import pytest

from appbackplane.runtime import AppObject, Batch, Component, operation, pause
from appbackplane.runtime.process_config import LiveSettings
from appbackplane.runtime.testing import VirtualBackplane


class Saw(AppObject):
    """Takes the time that it is told."""

    @operation()
    def cut(self, ms: float) -> None:
        mill = self._component
        assert isinstance(mill, Mill)
        mill.backplane.clock.work(ms / 1000)

    @operation()
    async def rest(self) -> None:
        for _ in range(10):
            await pause(0.010)

    @operation(batch=Batch(max=10, wait_ms=20))
    def plane(self, ms: list[float]) -> None: ...


class Mill(Component):
    """Some saws."""

    backplane: VirtualBackplane

    def setup(self) -> None:
        for key in "abc":
            self.add(Saw(), key=key)


class Log:
    """What was reported, without the operation and the object."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def lines(self) -> list[str]:
        return [record.message for record in self._caplog.records if record.message.startswith("late action: ")]

    @property
    def causes(self) -> list[str]:
        return [line.partition("max_latency (5 ms): ")[2].partition(":")[0] for line in self.lines]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def mill(max_latency: float | None = 0.005, **options: object) -> VirtualBackplane:
    component = Mill()
    component.backplane = VirtualBackplane(component, name="mill", max_latency=max_latency, **options)  # type: ignore[arg-type]
    component.backplane.run_until_idle()
    return component.backplane


def late(backplane: VirtualBackplane, name: str = "mill.cut") -> int:
    statistics = backplane.backplane.statistics()
    count = statistics["operations"][name]["late"]
    assert statistics["late_actions"] == sum(each["late"] for each in statistics["operations"].values())
    return int(count)


def cut(backplane: VirtualBackplane, key: str, ms: float, priority: int | None = None) -> None:
    backplane.call("mill.cut", key=key, ms=ms, priority=priority)


def test_what_waits_longer_is_counted_and_reported_with_the_action_that_took_the_time(log: Log) -> None:
    """An operator who only sees that calls are slow does not know which operation to change."""
    backplane = mill()
    cut(backplane, "a", 20)
    cut(backplane, "b", 1)
    backplane.run_until_idle()
    assert late(backplane) == 1
    assert log.lines == [
        "late action: mill.cut on mill/mill.b waited 20.0 ms, longer than max_latency (5 ms): workers: "
        "its worker was busy with mill.cut on mill/mill.a (priority 4), which ran for 20.0 ms"
    ]


def test_what_waits_no_longer_is_in_order(log: Log) -> None:
    """Exactly the time allowed is allowed."""
    backplane = mill()
    cut(backplane, "a", 5)
    cut(backplane, "b", 1)
    backplane.run_until_idle()
    assert late(backplane) == 0 and not log.lines


def test_work_that_may_wait_is_counted_and_no_alarm(log: Log) -> None:
    """Bulk beside urgent work waits all the time: a report each second would hide those that matter."""
    backplane = mill()
    for priority in (4, 5):
        cut(backplane, "a", 20, 5)
        cut(backplane, "a", 1, priority)
        backplane.run_until_idle()
    assert late(backplane) == 2
    assert len(log.lines) == 1 and "(priority 5), which ran for" in log.lines[0]


def test_without_a_contract_nothing_is_late(log: Log) -> None:
    """Bulk work waits for as long as it takes."""
    backplane = mill(max_latency=None)
    cut(backplane, "a", 2000)
    cut(backplane, "b", 1)
    backplane.run_until_idle()
    assert late(backplane) == 0 and not log.lines


def test_one_report_a_second_tells_how_many_were_left_out(log: Log) -> None:
    """A backplane in trouble must not drown in its own reports (DESIGN 12.10)."""
    backplane = mill()
    for _ in range(12):
        cut(backplane, "a", 200)
    backplane.run_until_idle()
    assert late(backplane) == 11
    assert [line.rpartition(" (")[2] for line in log.lines[1:]] == ["4 more since the last report)"] * 2


@pytest.mark.parametrize(
    ("calls", "cause"),
    [
        ((("a", 6, 4), ("a", 1, 4)), "behind"),
        ((("a", 3, 4), ("b", 3, 4), ("c", 1, 4)), "workers"),
        ((("a", 2, 1), ("b", 2, 1), ("a", 2, 1), ("c", 1, 4)), "more_urgent"),
        ((("a", 4, 4), ("b", 2, 4), ("c", 1, 4)), "queue"),
    ],
)
def test_the_cause_is_what_ran_before(calls: tuple[tuple[str, float, int], ...], cause: str, log: Log) -> None:
    """In the words of `why`, where the same cause is seen while it lasts."""
    backplane = mill(quotas=(0, 0, 0, 0, 0, 0, 0, 0))
    for key, ms, priority in calls:
        cut(backplane, key, ms, priority)
    backplane.run_until_idle()
    assert log.causes == [cause]


def test_a_spent_quota_is_a_cause(log: Log) -> None:
    """Less urgent work went first, although the late one was there."""
    backplane = mill(quotas=(0, 2, 0))
    for key, ms, priority in (("a", 1, 1), ("b", 1, 1), ("c", 1, 1), ("a", 2, 2), ("b", 2, 2)):
        cut(backplane, key, ms, priority)
    backplane.run_until_idle()
    assert log.causes == ["quota"]


def test_a_spent_budget_is_a_cause(log: Log) -> None:
    """Nothing ran before it: the tick let it begin."""
    backplane = mill(cpu_limit=1)
    cut(backplane, "a", 15)
    backplane.run_until_idle()
    cut(backplane, "b", 1)
    backplane.advance(3.0)
    assert log.causes == ["cpu_budget"]


def test_a_tick_that_renews_nothing_is_no_cause(log: Log) -> None:
    """It passes while the late action waits, and no budget was spent."""
    backplane = mill()
    cut(backplane, "a", 1500)
    cut(backplane, "b", 1)
    backplane.run_until_idle()
    assert log.causes == ["workers"]


def test_a_budget_that_was_renewed_before_is_no_cause(log: Log) -> None:
    """It was spent at another time."""
    backplane = mill(cpu_limit=1)
    cut(backplane, "a", 15)
    backplane.advance(4.0)
    cut(backplane, "a", 8)
    cut(backplane, "b", 1)
    backplane.run_until_idle()
    assert log.causes == ["workers"]


def test_a_thread_that_gets_no_cpu_is_no_fault_of_the_backplane(log: Log) -> None:
    """Nothing of it was in the way."""
    backplane = mill()
    cut(backplane, "a", 1)
    backplane.backplane.engine.drain(backplane.clock.now_ns())
    backplane.clock.sleep(0.050)
    backplane.run_until_idle()
    assert log.causes == ["next"]


def test_time_in_an_undrained_socket_counts(log: Log) -> None:
    """`preempt = false`: it waited 0.4 s behind a running action, and was read when that had ended."""
    backplane = mill()
    engine = backplane.backplane.engine
    cut(backplane, "a", 1)
    engine.see_unread(backplane.clock.now_ns())  # as the sentinel does while all workers run
    backplane.clock.sleep(0.4)
    backplane.run_until_idle()
    assert late(backplane) == 1
    assert "waited 400.0 ms" in log.lines[0]


def test_what_goes_on_is_not_late_again(log: Log) -> None:
    """Ten pauses of 10 ms are no wait before it began, and neither is the time in queues after each."""
    backplane = mill()
    backplane.call("mill.rest", key="a")
    for _ in range(10):
        backplane.advance(0.008)
        cut(backplane, "b", 20)
    backplane.advance(1.0)
    assert late(backplane, "mill.rest") == 0


def test_each_request_of_a_batch_counts(log: Log) -> None:
    """Gathering is waiting, for whoever waits."""
    backplane = mill()
    for _ in range(3):
        backplane.call("mill.plane", key="a", ms=1.0)
    backplane.advance(0.019)
    backplane.call("mill.plane", key="a", ms=1.0)
    backplane.advance(1.0)
    assert late(backplane, "mill.plane") == 3


def test_the_contract_can_change_while_it_runs(log: Log) -> None:
    """`appbackplane reload`: it is in force at once, and so is its end."""
    backplane = mill(max_latency=None)
    backplane.backplane.configure(LiveSettings(max_latency_ns=5_000_000))
    for limit_ns, count in ((5_000_000, 1), (None, 1), (30_000_000, 1), (10_000_000, 2)):
        backplane.backplane.configure(LiveSettings(max_latency_ns=limit_ns))
        cut(backplane, "a", 20)
        cut(backplane, "b", 1)
        backplane.run_until_idle()
        assert late(backplane) == count
