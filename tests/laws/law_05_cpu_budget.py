"""Law 5. When the backplane has used its share of CPU in this period, it runs nothing until the tick.

Urgent exemptions are configuration, off by default. Without it `cpu_limit` is a wish, and the neighbours pay.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, operation
from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler
from appbackplane.runtime.testing import VirtualBackplane, VirtualClock


class Cruncher(AppObject):
    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    @operation()
    def crunch(self, seconds: float) -> None:
        self._clock.work(seconds)

    @operation()
    def block(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    @operation(priority=0)
    def urgent(self) -> None: ...


def limited(percent: int) -> tuple[VirtualBackplane, Cruncher]:
    backplane = VirtualBackplane(cpu_limit=percent)
    return backplane, backplane.add(Cruncher(backplane.clock))


def test_nothing_runs_until_the_tick_once_the_share_is_used() -> None:
    """Law 5. 10 % of a second is two actions of 50 ms, and then the rest of the second belongs to others."""
    backplane, cruncher = limited(10)
    for _ in range(5):
        backplane.post(cruncher, "crunch", seconds=0.05)
    assert backplane.run_until_idle() == ["crunch"] * 2
    backplane.post(cruncher, "urgent")
    assert backplane.advance(0.89) == []
    assert backplane.advance(0.2) == ["crunch"] * 2
    assert backplane.advance(1) == ["crunch", "urgent"]


def test_the_share_holds_in_the_long_run() -> None:
    """Law 5. Actions longer than the share leave a debt; without it a limit of 10 % would be 30 %."""
    backplane, cruncher = limited(10)
    for _ in range(100):
        backplane.post(cruncher, "crunch", seconds=0.3)
    ran = backplane.advance(30)
    assert len(ran) in (10, 11)


def test_where_the_kernel_holds_the_limit_nobody_pays_twice() -> None:
    """Law 5. The kernel has slowed the action down to its share: to wait out its debt as well would halve the share."""
    backplane, cruncher = limited(10)
    backplane.post(cruncher, "crunch", seconds=0.5)
    backplane.post(cruncher, "urgent")
    assert backplane.run_until_idle() == ["crunch"], "it owes four periods"
    backplane.backplane.engine.scheduler.budget.leave_to_kernel(True)
    assert backplane.run_until_idle() == ["urgent"]
    backplane.post(cruncher, "crunch", seconds=0.5)
    backplane.post(cruncher, "urgent")
    assert backplane.run_until_idle() == ["crunch", "urgent"]


def test_only_cpu_counts() -> None:
    """Law 5. Waiting for a disk takes nothing from the neighbours."""
    backplane, cruncher = limited(10)
    for _ in range(3):
        backplane.post(cruncher, "block", seconds=0.2)
    assert backplane.run_until_idle() == ["block"] * 3


def test_somebody_looks_again_at_the_tick() -> None:
    """Law 5. A worker that sleeps past the tick because nothing comes would turn a limit into a hang."""
    backplane, cruncher = limited(10)
    backplane.post(cruncher, "crunch", seconds=0.1)
    backplane.post(cruncher, "crunch", seconds=0.1)
    backplane.run_until_idle()
    engine = backplane.backplane.engine
    assert engine.scheduler.next_wake_ns() == engine.scheduler.ticks.next_ns


def test_exemptions_are_off_unless_configured() -> None:
    """Law 5. An exemption that nobody asked for is a limit that does not hold; one that was asked for must work."""
    for exempt, expected in ((0, [None, None]), (1, ["urgent", None])):
        scheduler = Scheduler(Policy(cpu_limit=10, cpu_exempt=exempt), 0)
        scheduler.budget.charge(1_000_000_000)
        for name, priority in (("bulk", 1), ("urgent", 0)):
            scheduler.post(Action(AppObject(), name, priority), 0)
        found = []
        for _ in range(2):
            action = scheduler.next(0)
            found.append(action.name if action is not None else None)
            if action is not None:
                scheduler.finished(action, Outcome.DONE, 0)
        assert found == expected
