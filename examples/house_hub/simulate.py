"""Simulate devices: rooms with a thermometer and a heater each. A client of the hub, as a gateway to real devices would be.

    python simulate.py [--rooms 3] [--for 30] [--speed 300]

Says what it measures, heats where the hub's orders tell it to, and prints both once a second. Ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from house.messages import Measured

from appbackplane.runtime.dispatcher import cast_message
from appbackplane.transport import Client, connect

SYSTEM = Path(__file__).with_name("house_hub.toml")
NAMES = ("kitchen", "attic", "cellar", "bathroom", "hall")
OUTSIDE_CELSIUS = 5.0
#: How much warmer than outside a room becomes that is heated all the time.
HEATER_CELSIUS = 30.0
#: How long it takes to become two thirds of that: walls of brick.
INERTIA_S = 7200.0
#: Between two measurements.
INTERVAL_S = 0.25


@dataclass
class Room:
    """One room. Its devices are as simple as they come: they know nothing of what is wanted."""

    name: str
    celsius: float
    is_heated: bool = False

    def pass_time(self, seconds: float) -> None:
        """Newton's law of cooling."""
        goal = OUTSIDE_CELSIUS + HEATER_CELSIUS * self.is_heated
        self.celsius = goal + (self.celsius - goal) * math.exp(-seconds / INERTIA_S)

    def __str__(self) -> str:
        return f"{self.name} {self.celsius:.1f} °C{' heated' if self.is_heated else ''}"


def simulate(
    client: Client, rooms: Sequence[Room], *, speed: float, is_over: Callable[[], bool], say: Callable[[str], object]
) -> None:
    """Have the rooms live, `speed` times as fast as real ones, until it is over."""
    now = said = time.monotonic()
    with client.subscribe("house.orders") as orders:
        while not is_over():
            for room in rooms:
                cast_message(client, "hub", Measured(room.name, "room", room.celsius))
            with suppress(TimeoutError):
                heating = orders.get(timeout=INTERVAL_S).body["heating"]
                for room in rooms:
                    room.is_heated = heating.get(room.name, False)
            last, now = now, time.monotonic()
            for room in rooms:
                room.pass_time((now - last) * speed)
            if now - said >= 1.0:
                said = now
                say(" | ".join(map(str, rooms)))


def main() -> None:
    """Until it is told to end."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--rooms", type=int, default=3, choices=range(1, len(NAMES) + 1), help="(default: %(default)s)")
    asked.add_argument(
        "--for", type=float, default=math.inf, dest="seconds", help="how many seconds (default: for ever)"
    )
    asked.add_argument("--speed", type=float, default=300.0, help="of time in the house (default: %(default)g)")
    given = asked.parse_args()
    rooms = [Room(name, 18.0 + number) for number, name in enumerate(NAMES[: given.rooms])]
    end = time.monotonic() + given.seconds
    with suppress(KeyboardInterrupt), connect(SYSTEM) as client:
        simulate(client, rooms, speed=given.speed, is_over=lambda: time.monotonic() >= end, say=print)


if __name__ == "__main__":
    main()
