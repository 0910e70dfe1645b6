"""Model of a field of sensor nodes: virtual time in, transmissions and deaths out. Pure; one seed gives one history.

A node wakes once a period, measures, sends one message, and sleeps again: its duty cycle. The radio loses a message with a
probability of the node's own. Each cycle takes its charge from the battery, and a battery that cannot feed the next cycle is
dead. Time is in ns since the field began, and day breaks at 0. A cycle costs some 5 µs.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from random import Random

S = 1_000_000_000
DAY_NS = 86_400 * S
#: How often a node wakes. Rooms change within minutes, and a node that wakes twice as often lives half as long.
PERIODS_NS = (30 * S, 60 * S, 120 * S)
#: To measure, to find the network and to send. With a period of 60 s, the duty cycle is 3.3 %.
AWAKE_NS = 2 * S
#: Current, after the data sheet of the Tmote Sky: 21.8 mA while it receives, 19.5 mA while it sends; asleep 5 to 21 µA.
AWAKE_MA, ASLEEP_MA = 20.0, 0.01
#: The building: rooms are numbered through all zones, and nodes are dealt out to the rooms in turn.
ZONES, ROOMS_PER_ZONE = 10, 10
#: A node costs 6 kB of memory as a thing: 60 MB.
NODES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """A field to simulate. battery_mah: capacity of a new battery, mAh; nodes begin with 0 to 100 % of it.

    loss_max: nodes lose between no message and this share of them. Raises ValueError.
    """

    seed: int = 1
    nodes: int = 1_000
    battery_mah: float = 2_500.0
    loss_max: float = 0.2

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= NODES_MAX:
            raise ValueError(f"nodes = {self.nodes}: expected 1 to {NODES_MAX}")
        if not 0.0 < self.battery_mah < math.inf:
            raise ValueError(f"battery_mah = {self.battery_mah}: expected a capacity above 0, such as 2500.0")
        if not 0.0 <= self.loss_max <= 1.0:
            raise ValueError(f"loss_max = {self.loss_max}: expected a share from 0.0 to 1.0")


@dataclass(frozen=True, slots=True)
class Climate:
    """What a node measures. temperature: °C; humidity: percent; light: lux."""

    temperature: float
    humidity: float
    light: float


@dataclass(frozen=True, slots=True)
class Transmission:
    """One message of a node. sequence: 1 for its first one. battery: percent. is_lost: nobody has received it."""

    node: int
    sequence: int
    time_ns: int
    climate: Climate
    battery: float
    is_lost: bool


@dataclass(frozen=True, slots=True)
class NodeDeath:
    """A battery that could not feed the node any more."""

    node: int
    time_ns: int


class NodeModel:
    """One node. `charge_mas`: what is left in the battery, mA·s; `cycle_mas`: what one cycle takes."""

    def __init__(self, plan: FieldPlan, number: int) -> None:
        random = Random(f"{plan.seed}/{number}")  # its own, so that no node depends on how many others there are
        self.number = number
        self.room = number % (ZONES * ROOMS_PER_ZONE)
        self.zone = self.room // ROOMS_PER_ZONE
        self.period_ns = random.choice(PERIODS_NS)
        self.loss = random.uniform(0.0, plan.loss_max)
        self.capacity_mas = plan.battery_mah * 3_600
        self.charge_mas = self.capacity_mas * random.uniform(0.0, 1.0)
        self.cycle_mas = (AWAKE_MA * AWAKE_NS + ASLEEP_MA * (self.period_ns - AWAKE_NS)) / S
        #: When it wakes next; of a dead node, when it would have.
        self.wakes_ns = random.randrange(self.period_ns)
        self.is_dead = False
        self._error = random.gauss(0.0, 0.2)  # of its thermometer, °C
        self._sequence = 0
        self._random = random

    @property
    def battery(self) -> float:
        """Percent of a new one."""
        return 100.0 * self.charge_mas / self.capacity_mas

    def wake(self) -> Transmission | NodeDeath:
        """Run the next cycle, and begin to wait for the one after it. A dead node has none."""
        assert not self.is_dead
        now_ns = self.wakes_ns
        if self.charge_mas < self.cycle_mas:
            self.is_dead = True
            return NodeDeath(self.number, now_ns)
        self.charge_mas -= self.cycle_mas
        self.wakes_ns += self.period_ns
        self._sequence += 1
        is_lost = self._random.random() < self.loss
        return Transmission(self.number, self._sequence, now_ns, self.measure(now_ns), self.battery, is_lost)

    def is_awake(self, now_ns: int) -> bool:
        """Whether it can be asked now: within `AWAKE_NS` after it woke."""
        has_woken = self._sequence > 0 and not self.is_dead
        return has_woken and 0 <= now_ns - (self.wakes_ns - self.period_ns) < AWAKE_NS

    def measure(self, now_ns: int) -> Climate:
        """The climate of its room, as its sensors see it."""
        sun = math.sin(2.0 * math.pi * now_ns / DAY_NS)
        temperature = 21.0 + 0.8 * (self.zone % 3) + 1.5 * sun + 0.5 * math.sin(self.room) + self._error
        return Climate(
            temperature=round(temperature, 2),
            humidity=round(45.0 - 2.0 * (temperature - 21.0) + math.cos(self.room), 2),
            light=round(max(0.0, 600.0 * sun) + 20.0 * (self.room % 5), 1),
        )


class FieldModel:
    """All nodes, and the virtual time."""

    def __init__(self, plan: FieldPlan) -> None:
        self.now_ns = 0
        self.nodes = [NodeModel(plan, number) for number in range(plan.nodes)]
        self._wakes = [(node.wakes_ns, node.number) for node in self.nodes]
        heapq.heapify(self._wakes)

    def advance(self, to_ns: int) -> list[Transmission | NodeDeath]:
        """Let time pass until `to_ns`, that moment included. What happened meanwhile, in the order of time."""
        found: list[Transmission | NodeDeath] = []
        while self._wakes and self._wakes[0][0] <= to_ns:
            node = self.nodes[self._wakes[0][1]]
            found.append(node.wake())
            if node.is_dead:
                heapq.heappop(self._wakes)
            else:
                heapq.heapreplace(self._wakes, (node.wakes_ns, node.number))
        self.now_ns = max(self.now_ns, to_ns)
        return found
