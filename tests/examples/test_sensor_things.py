"""The things of examples/sensors: nodes that sleep, and devices that this host may lack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sensornet.host import HostBattery, HostCpu, HostDevices, HostPower
from sensornet.model import AWAKE_NS, FieldModel, FieldPlan, S, Transmission
from sensornet.nodes import TICK_S, TOPIC, SensorField, key_of
from sensornet.rates import CounterRate

from appbackplane.runtime.testing import VirtualBackplane

NOTIFICATIONS = "things.notifications"
SPEED = 8.0
DEVICES = ("cpu", "memory", "battery", "power", "disk", "network")


def field_of(**settings: Any) -> VirtualBackplane:
    """A field in the test's own thread; the test hears what it publishes."""
    return VirtualBackplane(SensorField(speed=SPEED, **settings), topics=(TOPIC, NOTIFICATIONS))


def published(backplane: VirtualBackplane, topic: str) -> list[dict[str, Any]]:
    """The messages on a topic, oldest first."""
    return [dict(body) for each, body in backplane.published if each == topic]


def test_what_the_radio_receives_is_published() -> None:
    """Once each, and nothing else: the aggregates believe it."""
    plan = FieldPlan(seed=7, nodes=50, loss_max=0.5)
    backplane = field_of(seed=7, nodes=50, loss_max=0.5)
    backplane.advance(60.0)
    everything = [each for each in FieldModel(plan).advance(round(60.0 * SPEED * S)) if isinstance(each, Transmission)]
    received = [each for each in everything if not each.is_lost]
    found = published(backplane, TOPIC)
    assert [(each["node"], each["sequence"], each["time_ns"], each["battery"]) for each in found] == [
        (key_of(each.node), each.sequence, each.time_ns, each.battery) for each in received
    ]
    assert {each["run"] for each in found} == {found[0]["run"]}
    status = backplane.call("sensor_field.status").result()
    assert status == {
        "now_s": 480.0, "sent": len(everything), "lost": len(everything) - len(received), "dead": 0
    }  # fmt: skip
    assert 0 < status["lost"] < status["sent"]


def test_a_sleeping_node_answers_with_the_age_of_its_last_report() -> None:
    """An old value without its age would be believed; and while a node is awake, it is asked."""
    plan = FieldPlan(nodes=1, loss_max=0.0)
    (node,) = FieldModel(plan).nodes
    backplane, wakes_ns, tick_ns = field_of(nodes=1, loss_max=0.0), node.wakes_ns, round(TICK_S * SPEED * S)
    ages = []
    reading = backplane.call("sensor_field.reading", key="node-0000").result()
    for now_ns in range(tick_ns, 3 * node.period_ns, tick_ns):
        backplane.advance(TICK_S)
        reading = backplane.call("sensor_field.reading", key="node-0000").result()
        if now_ns < wakes_ns:
            assert reading is None, "it has never reported"
            continue
        last_ns = wakes_ns + (now_ns - wakes_ns) // node.period_ns * node.period_ns
        is_awake = now_ns - last_ns < AWAKE_NS
        measured = node.measure(now_ns if is_awake else last_ns)
        assert reading["age_s"] == pytest.approx(0.0 if is_awake else (now_ns - last_ns) / S)
        assert reading["temperature"] == measured.temperature and reading["light"] == measured.light
        assert backplane.call("sensor_field.light", key="node-0000").result() == node.measure(last_ns).light
        ages.append(reading["age_s"])
    assert min(ages) == 0.0 < max(ages) < node.period_ns / S


def test_a_dead_battery_is_an_event_and_its_last_values_grow_old() -> None:
    """Once, from the node's own thing, which still answers."""
    backplane = field_of(nodes=3, battery_mah=0.1, loss_max=0.0)
    backplane.advance(600.0)
    events = [each for each in published(backplane, NOTIFICATIONS) if each["kind"] == "event"]
    assert sorted(each["thing"] for each in events) == [f"urn:appbackplane:sensor_field:{key_of(n)}" for n in range(3)]
    assert {each["name"] for each in events} == {"battery_dead"}
    assert backplane.call("sensor_field.status").result()["dead"] == 3
    told = [each for each in published(backplane, NOTIFICATIONS) if each["name"] == "is_dead" and each["data"]]
    assert len(told) == 3
    before = backplane.call("sensor_field.reading", key="node-0001").result()
    backplane.advance(10.0)
    after = backplane.call("sensor_field.reading", key="node-0001").result()
    assert after == before | {"age_s": before["age_s"] + 10.0 * SPEED}


def test_a_field_with_an_end_stands_still() -> None:
    """So that a whole experiment can be recorded, and evaluated."""
    backplane = field_of(nodes=5, hours=0.1)
    backplane.advance(60.0)
    status = backplane.call("sensor_field.status").result()
    assert status["now_s"] == 360.0
    backplane.advance(60.0)
    assert backplane.call("sensor_field.status").result() == status


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), 601.0])
def test_a_speed_that_the_queue_cannot_hold_is_refused(speed: float) -> None:
    """Reports would be refused with Busy, and count as lost on the air."""
    with pytest.raises(ValueError, match=r"speed = .*at most 600 for 1000 nodes"):
        SensorField(speed=speed)


def test_each_device_of_this_host_tells_its_values_or_why_not() -> None:
    """Whatever machine this is: null without a reason would look like a mistake of ours."""
    backplane = VirtualBackplane(HostDevices(), topics=(NOTIFICATIONS,))
    backplane.advance(2.0)
    for key in DEVICES:
        model = backplane.call("host.describe", key=key).result()
        assert model["id"] == f"urn:appbackplane:host:{key}"
        assert all(each["observable"] for each in model["properties"].values())
        values = {name: backplane.call(f"host.{name}", key=key).result() for name in model["properties"]}
        unknown = values.pop("unknown")
        assert {name for name, value in values.items() if value is None} == set(unknown)
        assert all(unknown.values())
        assert all(value >= 0 for value in values.values() if value is not None)
    told = {each["thing"] for each in published(backplane, NOTIFICATIONS)}
    assert told == {f"urn:appbackplane:host:{key}" for key in DEVICES}


def test_thermometer_and_battery_are_told_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most machines that run tests have neither, and the code would go unseen."""
    chips = {
        "coretemp": [SimpleNamespace(current=each) for each in (55.0, 61.0)],
        "nvme": [SimpleNamespace(current=90.0)],
    }
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: chips, raising=False)
    monkeypatch.setattr(psutil, "cpu_freq", lambda: SimpleNamespace(current=2_400.0))
    battery = SimpleNamespace(percent=73.0, power_plugged=None)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    cpu, laptop = HostCpu(), HostBattery()
    assert (cpu.temperature(), cpu.frequency(), cpu.unknown()) == (61.0, 2_400.0, {"use": "a rate needs two looks"})
    cpu.sample()
    assert cpu.use() is not None and cpu.unknown() == {}
    assert (laptop.level(), laptop.is_plugged()) == (73.0, None)
    assert laptop.unknown() == {"is_plugged": "the battery does not tell it"}


@pytest.fixture
def powercap(tmp_path: Path) -> Callable[..., None]:
    """Writes the energy counters of a machine with two processors, of which the first has a part."""

    def write(first: int, second: int) -> None:
        for zone, name, count in (
            ("intel-rapl:0", "package-0", first), ("intel-rapl:0:0", "core", first // 2),
            ("intel-rapl:1", "package-1", second), ("intel-rapl:2", "psys", first + second),
        ):  # fmt: skip
            folder = tmp_path / zone
            folder.mkdir(exist_ok=True)
            (folder / "name").write_text(f"{name}\n")
            (folder / "energy_uj").write_text(f"{count}\n")
            (folder / "max_energy_range_uj").write_text("99999999\n")

    return write


def test_power_is_that_of_whole_processors(tmp_path: Path, powercap: Callable[..., None]) -> None:
    """Also when a counter begins anew, as it does every few minutes; parts and the whole system would count twice."""
    powercap(10_000_000, 95_000_000)
    power = HostPower(tmp_path)
    assert power.power() is None and power.unknown() == {"power": "a rate needs two looks"}
    begin_ns = 1 << 60
    power.look(begin_ns)
    powercap(40_000_000, 5_000_000)  # 30 J, and 10 J over the end of the counter
    power.look(begin_ns + 2 * S)
    assert power.power() == pytest.approx(20.0) and power.unknown() == {}


def test_a_counter_that_cannot_be_read_is_named(tmp_path: Path, powercap: Callable[..., None]) -> None:
    """On most systems it is root's; and it is tried again."""
    powercap(1_000, 1_000)
    counter = tmp_path / "intel-rapl:0" / "energy_uj"
    counter.unlink()
    power = HostPower(tmp_path)
    assert power.power() is None and str(counter) in power.unknown()["power"]
    powercap(1_000, 1_000)
    power.look(1 << 60)
    assert power.unknown() == {"power": "a rate needs two looks"}
    assert "no energy counter" in HostPower(tmp_path / "intel-rapl:0").unknown()["power"]


@given(st.integers(0, 999), st.lists(st.tuples(st.integers(0, 999), st.integers(1, 5)), min_size=1))
def test_rates_add_up_to_what_was_counted(first: int, grown: list[tuple[int, int]]) -> None:
    """Whenever the counter wraps."""
    rate, count, now_ns, total = CounterRate(wraps_at=999), first, 0, 0.0
    assert rate.take(count, now_ns) is None
    for growth, seconds in grown:
        count, now_ns = (count + growth) % 1_000, now_ns + seconds * S
        found = rate.take(count, now_ns)
        assert found is not None
        total += found * seconds
    assert total == pytest.approx(sum(growth for growth, _ in grown))


def test_a_counter_that_falls_or_is_missing_has_no_rate() -> None:
    """Its device was replaced: a rate below zero, or one over a gap, would be nonsense."""
    rate = CounterRate()
    found = [rate.take(count, second * S) for second, count in enumerate((5, 4, 6, None, 9, 10))]
    assert found == [None, None, 2.0, None, None, 1.0]
