"""Modules: components move through the states as the table says, each move an action, timers and routes following."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import (
    Component,
    DeclarationError,
    FailedPrecondition,
    NotFound,
    every,
    operation,
    pause,
    subscribe,
)
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.testing import VirtualBackplane


class Lamp(Component):
    """Notes what happens to it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.ticks = 0

    def on_initializing(self) -> None:
        self.seen.append(f"initializing in {self.state.value}")

    async def on_primary(self) -> None:
        await pause(0.5)
        self.seen.append(f"primary in {self.state.value}")

    def on_down(self) -> None:
        self.seen.append(f"down in {self.state.value}")

    @every(1.0)
    def tick(self) -> None:
        self.ticks += 1

    @operation(states=("initializing",))
    def warm(self) -> str:
        return "warm"

    @operation(states=("primary",))
    def shine(self) -> str:
        return "light"

    @subscribe("dusk")
    def on_dusk(self, when: str) -> None:
        self.seen.append(f"dusk at {when}")


def test_a_component_serves_once_its_hook_has_finished() -> None:
    """Law 12. Before `on_primary` is done it is not ready, whoever asks; timers start with it."""
    lamp = Lamp()
    backplane = VirtualBackplane(lamp, role=None)
    backplane.move("initializing")
    assert backplane.call("lamp.warm").result() == "warm"
    backplane.move("primary")
    assert (
        "not served while virtual/lamp is initializing (served in: primary)"
        in backplane.call("lamp.shine").error().message
    )
    backplane.advance(0.5)
    assert lamp.state is ModuleState.PRIMARY
    assert backplane.call("lamp.shine").result() == "light"
    backplane.advance(2.5)
    assert lamp.ticks == 2
    backplane.move("down")
    backplane.advance(5.0)
    assert lamp.ticks == 2
    assert lamp.seen == ["initializing in initializing", "primary in initializing", "down in down"]


def test_a_move_that_is_overtaken_changes_nothing() -> None:
    """It was told to go down while it was still on its way up. The hook that ended late put it in service again, down as it
    was, with its timers running."""
    lamp = Lamp()
    backplane = VirtualBackplane(lamp, role=None)
    backplane.move("initializing")
    ends: list[BaseException | None] = []
    for state in (ModuleState.PRIMARY, ModuleState.DOWN):
        backplane.backplane.engine.lifecycle.move("lamp", state, ends.append)
        backplane.run_until_idle()
    backplane.advance(5.0)
    assert isinstance(ends[0], FailedPrecondition) and ends[1] is None
    assert (lamp.state, lamp.ticks) == (ModuleState.DOWN, 0)


def test_a_move_that_is_not_in_the_table_is_refused() -> None:
    """Seed 002, "How Modules are Supported": what is not on paper does not happen."""
    backplane = VirtualBackplane(Lamp(), role=None)
    with pytest.raises(
        FailedPrecondition, match=r"cannot move from start to primary \(from there: down, initializing\)"
    ):
        backplane.move("primary")
    with pytest.raises(NotFound, match="no component 'lam'"):
        backplane.backplane.engine.lifecycle.move("lam", ModuleState.DOWN, lambda error: None)


def test_a_hook_that_fails_is_reported_and_the_state_stays() -> None:
    """The supervisor must not take a component for ready whose hook has failed."""

    class Fragile(Component):
        def on_primary(self) -> None:
            raise OSError("no bulb")

    fragile = Fragile()
    backplane = VirtualBackplane(fragile, role=None)
    backplane.move("initializing")
    with pytest.raises(OSError, match="no bulb"):
        backplane.move("primary")
    assert fragile.state is ModuleState.INITIALIZING


def test_topics_reach_serving_components_only(caplog: pytest.LogCaptureFixture) -> None:
    """A message for a component that does not serve is refused, counted and said, never silently gone."""
    lamp = Lamp()
    backplane = VirtualBackplane(lamp, role=None)
    backplane.publish("dusk", when="six")
    backplane.run_until_idle()
    assert lamp.seen == []
    assert "did not reach virtual/lamp" in caplog.text
    backplane.move("initializing")
    backplane.move("primary")
    backplane.advance(1.0)
    backplane.publish("dusk", when="seven")
    backplane.run_until_idle()
    assert lamp.seen[-1] == "dusk at seven"


def test_secondary_may_take_over() -> None:
    """Stand-by and back, as the table allows."""

    class Spare(Component):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_secondary(self) -> None:
            self.seen.append("secondary")

        def on_primary(self) -> None:
            self.seen.append("primary")

        @operation(states=("primary",))
        def act(self) -> str:
            return "acted"

    spare = Spare()
    backplane = VirtualBackplane(spare, role="secondary")
    assert "served in: primary" in backplane.call("spare.act").error().message
    backplane.move("primary")
    assert backplane.call("spare.act").result() == "acted"
    backplane.move("secondary")
    assert spare.seen == ["secondary", "primary", "secondary"]


def _figures(backplane: VirtualBackplane) -> Any:
    return backplane.backplane.statistics()


def test_a_timer_that_overruns_skips() -> None:
    """Law 8. A timer is work like any other; one that takes longer than its interval must not fill its queue."""

    class Slow(Component):
        def __init__(self) -> None:
            self.runs = 0

        @every(0.1)
        def run(self) -> None:
            self.runs += 1
            backplane.clock.work(0.25)

    slow = Slow()
    backplane = VirtualBackplane(slow)
    backplane.advance(1.0)
    assert 3 <= slow.runs <= 5
    assert _figures(backplane)["queues"]["actions"] == 0


# Topics that are heard in some states


class Siren(Component):
    """Hears of fires in three ways."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @subscribe("fires", states=("primary",))
    def on_duty(self, where: str) -> None:
        self.heard.append(f"on duty {where}")

    @subscribe("fires", states=("initializing", "secondary"))
    def off_duty(self, where: str) -> None:
        self.heard.append(f"off duty {where}")

    @subscribe("fires")
    def always(self, where: str) -> None:
        self.heard.append(f"always {where}")


def refused(backplane: VirtualBackplane) -> dict[str, int]:
    operations = backplane.backplane.statistics()["operations"]
    return {name.partition(".")[2]: each["refused"] for name, each in operations.items() if each["refused"]}


def test_a_message_in_a_state_that_is_not_named_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Each subscription has its own states. Who names them has asked for it: only other losses are logged."""
    siren = Siren()
    backplane = VirtualBackplane(siren, role=None)
    backplane.publish("fires", where="A")
    backplane.run_until_idle()
    assert siren.heard == []
    assert refused(backplane) == {"on_duty": 1, "off_duty": 1, "always": 1}
    assert [record.message for record in caplog.records] == [
        "a message of topic 'fires' did not reach virtual/siren: virtual/siren is start"
    ]
    for state, where in (("initializing", "B"), ("primary", "C"), ("secondary", "D")):
        backplane.move(state)
        backplane.publish("fires", where=where)
        backplane.run_until_idle()
    assert siren.heard == ["off duty B", "always C", "on duty C", "always D", "off duty D"]
    assert refused(backplane) == {"on_duty": 3, "off_duty": 2, "always": 2}


def test_a_state_that_does_not_exist_is_refused_at_once() -> None:
    """A message would never come."""
    with pytest.raises(DeclarationError, match=r"open: states: \['open'\] are not among"):

        class Wrong(Component):
            @subscribe("fires", states=("open",))
            def open(self) -> None: ...
