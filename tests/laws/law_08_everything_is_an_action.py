"""Law 8. Everything is an action: calls, replies, topics, timers, state changes. Timers run in the scheduler.

Without it there are two kinds of work, one with priorities, order and accounts, and one that breaks all three.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, Component, every, operation, subscribe
from appbackplane.runtime.testing import VirtualBackplane


class Sensor(AppObject):
    def __init__(self) -> None:
        self.backplane: VirtualBackplane | None = None

    @operation(priority=2)
    def read(self) -> int:
        return 7

    @operation()
    async def ask(self) -> int:
        value: int = await self.call("other.value")
        return value

    @operation(priority=2)
    def remind(self) -> None:
        self.after(1.0, self.reminded)

    def reminded(self) -> None: ...

    @subscribe("weather.changed", priority=3)
    def on_weather(self) -> None: ...

    @every(0.25, priority=5)
    def sample(self) -> None: ...

    @operation(priority=2)
    def overrun(self) -> None:
        assert self.backplane is not None
        self.backplane.clock.sleep(1.1)


class Station(Component):
    def setup(self) -> None:
        self.sensor = self.add(Sensor(), key="one")

    async def on_primary(self) -> None: ...
    def on_down(self) -> None: ...


def station() -> tuple[VirtualBackplane, Station]:
    component = Station()
    backplane = VirtualBackplane(component, role=None, outside=("other.value",))
    return backplane, component


def test_every_kind_of_work_is_run_by_the_scheduler_and_has_an_account() -> None:
    """Law 8. What is not an action has no priority, no order, no figures, and no place in "why is this waiting?"."""
    backplane, _ = station()
    assert backplane.move("initializing") == ["on_initializing"]
    assert backplane.move("primary") == ["on_primary"]
    backplane.call("station.read")
    backplane.call("station.ask")
    backplane.publish("weather.changed")
    assert backplane.run_until_idle() == ["read", "ask"]
    backplane.outside_calls()[0].reply(7)
    assert backplane.run_until_idle() == ["ask", "on_weather"], "the reply and the topic are actions of the same object"
    assert backplane.advance(0.25) == ["sample"]
    assert backplane.move("down") == ["on_down"]
    counts = {name.removeprefix("station."): figures["count"] for name, figures in
              backplane.backplane.statistics()["operations"].items()}  # fmt: skip
    assert counts == {
        "on_initializing": 1, "on_primary": 1, "read": 1, "ask": 1, "on_weather": 1, "sample": 1, "on_down": 1,
    }  # fmt: skip


def test_a_timer_that_falls_due_waits_for_its_turn() -> None:
    """Law 8. Run by a thread of its own, it would meet its object in the middle of something."""
    backplane, component = station()
    backplane.move("initializing")
    backplane.move("primary")
    backplane.clock.sleep(0.25)
    backplane.post(component.sensor, "read")
    assert backplane.run_until_idle() == ["read", "sample"], "in the order of its object"


def test_a_timer_has_a_priority_like_anything_else() -> None:
    """Law 8. Housekeeping that is due must not overtake what is urgent."""
    first, second = Station(), type("Second", (Station,), {})()
    backplane = VirtualBackplane(first, second)
    _ = backplane.backplane
    backplane.clock.sleep(0.25)
    backplane.cast("second.read")
    assert backplane.run_until_idle()[0] == "read"


def test_one_shot_timers_are_actions_too() -> None:
    """Law 8. `after` runs in its object's order and at the priority of the action that asked for it."""
    backplane, component = station()
    backplane.move("initializing")
    backplane.move("secondary")
    backplane.post(component.sensor, "remind")
    backplane.run_until_idle()
    assert "reminded" not in backplane.advance(0.99)
    assert "reminded" in backplane.advance(0.02)
    assert "reminded" not in backplane.advance(5)


def test_an_overrun_skips_and_does_not_pile_up() -> None:
    """Law 8. Four samples are due while one action runs; a queue that filled with them would never be caught up with."""
    backplane, component = station()
    backplane.move("initializing")
    backplane.move("primary")
    component.sensor.backplane = backplane
    backplane.post(component.sensor, "overrun")
    assert backplane.run_until_idle() == ["overrun", "sample"]
    backplane.post(component.sensor, "ask")
    assert backplane.advance(2) == ["ask"], "the sensor awaits a reply for eight intervals"
    backplane.outside_calls()[0].reply(7)
    assert backplane.run_until_idle() == ["ask", "sample"]
