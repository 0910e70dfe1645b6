"""Nodes: the simulated field as things, behind the gateway that receives their messages.

A node sleeps nearly always, so its thing answers from the last report that was received, with its age. While the node is
awake, its thing asks it. Received reports are published on the topic `field.reports`, which the TOML records.
"""

from __future__ import annotations

import math
import time
from typing import Final, TypedDict

from appbackplane.runtime import Component, every, operation
from appbackplane.runtime.things import Thing, event, prop

from .model import AWAKE_NS, PERIODS_NS, Climate, FieldModel, FieldPlan, NodeDeath, S, Transmission

TOPIC: Final = "field.reports"
#: How often virtual time passes: ages are exact to this, times `speed`.
TICK_S: Final = 0.25
#: Reports of one tick at most: half of what the component may have outstanding (`max_requests`), so that none gets `Busy`.
REPORTS_MAX: Final = 5_000


class NodeReading(TypedDict):
    """What is known of a node's surroundings. age_s: since it was measured, in virtual seconds; 0: the node is awake."""

    temperature: float
    humidity: float
    light: float
    age_s: float


class SensorNode(Thing):
    """A battery-powered node that measures its room. Values are those of its last report; none has arrived: null."""

    types = ("sosa:Platform",)
    battery_dead = event(float, description="Its battery is empty. Data: how long it has lived, in virtual seconds.")

    def __init__(self, field: FieldModel, number: int, run: int) -> None:
        self._field, self._model, self._run = field, field.nodes[number], run
        self._last: Transmission | None = None
        self._zone, self._room = f"zone-{self._model.zone}", f"room-{self._model.room}"
        self.place = f"{self._zone}, {self._room}"

    @prop(observable=True, unit="celsius")
    def temperature(self) -> float | None:
        return None if self._last is None else self._last.climate.temperature

    @prop(observable=True, unit="percent")
    def humidity(self) -> float | None:
        return None if self._last is None else self._last.climate.humidity

    @prop(observable=True, unit="lux")
    def light(self) -> float | None:
        return None if self._last is None else self._last.climate.light

    @prop(observable=True, unit="percent")
    def battery(self) -> float | None:
        return None if self._last is None else self._last.battery

    @prop(observable=True)
    def is_dead(self) -> bool:
        return self._model.is_dead

    @prop(unit="percent")
    def duty_cycle(self) -> float:
        """The share of its time in which it is awake."""
        return 100.0 * AWAKE_NS / self._model.period_ns

    @prop
    def reading(self) -> NodeReading | None:
        """Of now if the node is awake, else its last report, with its age."""
        now_ns = self._field.now_ns
        if self._model.is_awake(now_ns):
            return _reading(self._model.measure(now_ns), 0)
        return None if self._last is None else _reading(self._last.climate, now_ns - self._last.time_ns)

    @operation()
    def receive(self, report: Transmission) -> None:
        """Keep a report, and publish it."""
        self._last = report
        climate = report.climate
        self.publish(
            TOPIC, run=self._run, node=self.key, zone=self._zone, room=self._room, sequence=report.sequence,
            time_ns=report.time_ns, temperature=climate.temperature, humidity=climate.humidity, light=climate.light,
            battery=report.battery,
        )  # fmt: skip

    @operation()
    def die(self, time_ns: int) -> None:
        """Announce that the battery is dead."""
        self.battery_dead.emit(time_ns / S)


class FieldStatus(TypedDict):
    """A field so far. now_s: virtual seconds since it began; sent, lost: messages of all nodes; dead: nodes."""

    now_s: float
    sent: int
    lost: int
    dead: int


class SensorField(Component):
    """Runs the model, and hands each received message to its node.

    nodes, seed, battery_mah, loss_max: of `FieldPlan`. speed: virtual seconds per second. hours: virtual time after which the
    field stands still; None: never. A restarted field begins anew, as another `run`.
    """

    def __init__(
        self, nodes: int = 1_000, seed: int = 1, battery_mah: float = 2_500.0, loss_max: float = 0.2,
        speed: float = 20.0, hours: float | None = None,
    ) -> None:  # fmt: skip
        self._field = FieldModel(FieldPlan(seed, nodes, battery_mah, loss_max))
        speed_max = REPORTS_MAX / nodes * min(PERIODS_NS) / S / TICK_S
        if not 0.0 < speed <= speed_max:
            raise ValueError(f"speed = {speed}: expected more than 0, and at most {speed_max:g} for {nodes} nodes")
        self._tick_ns = round(TICK_S * speed * S)
        self._end_ns = math.inf if hours is None else round(hours * 3_600 * S)
        self._run = time.time_ns() // 1_000_000
        self._sent = self._lost = self._dead = 0

    def setup(self) -> None:
        for node in self._field.nodes:
            self.add(SensorNode(self._field, node.number, self._run), key=key_of(node.number))

    @every(TICK_S)
    def pass_time(self) -> None:
        """Let virtual time pass, and hand out what the radio has received."""
        for each in self._field.advance(int(min(self._field.now_ns + self._tick_ns, self._end_ns))):
            if isinstance(each, NodeDeath):
                self._dead += 1
                self.cast("sensor_field.die", key=key_of(each.node), time_ns=each.time_ns)
                continue
            self._sent += 1
            if each.is_lost:
                self._lost += 1
            else:
                self.cast("sensor_field.receive", key=key_of(each.node), report=each)

    @operation(priority=1)
    def status(self) -> FieldStatus:
        return FieldStatus(now_s=self._field.now_ns / S, sent=self._sent, lost=self._lost, dead=self._dead)


def key_of(number: int) -> str:
    """The key of a node."""
    return f"node-{number:04}"


def _reading(climate: Climate, age_ns: int) -> NodeReading:
    return NodeReading(
        temperature=climate.temperature, humidity=climate.humidity, light=climate.light, age_s=age_ns / S
    )
