"""Offered load: the requests of cameras, sensors and operators, at a rate that does not depend on how they are answered.

All arrivals are drawn before the first is sent: Poisson processes, from a seed. A response time counts from when its request
was due. A driver that waited for answers would offer a slow station less, and not know of the requests that it held back.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from registry import COMMANDS, FRAMES, READINGS
from stations import work

from appbackplane.transport import AsyncClient, Busy, DeadlineExceeded

#: Frames a second that one core can inspect: load 1.
CAPACITY_PER_S = 1 / work.INSPECT_S
READINGS_PER_FRAME = 4
#: Whatever the load: operators are few. Enough that a step has a 99th percentile.
COMMANDS_PER_S = 50
#: A command that was not served within this time counts as so late, and is given up. Frames wait for as long as a step lasts.
COMMAND_S = 2.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request. `at_s`: when it is due, from the first one on. `device`: the camera, the sensor, or the order."""

    at_s: float
    kind: str
    device: str
    number: int


@dataclass(slots=True)
class Answers:
    """Those of one step that count. Of the commands: how long each took from when it was due, in seconds."""

    frames_served: int = 0
    frames_refused: int = 0
    commands_s: list[float] = field(default_factory=list)
    commands_failed: int = 0
    readings_refused: int = 0
    #: How late the driver itself sent a request, at the worst.
    driver_lag_s: float = 0.0

    def command_p99_ms(self) -> float:
        """Those that were not served count as `COMMAND_S`."""
        taken = sorted([*self.commands_s, *[COMMAND_S] * self.commands_failed])
        return taken[math.ceil(0.99 * len(taken)) - 1] * 1e3 if taken else math.nan


def arrivals(load: float, seconds: float, seed: int) -> list[Arrival]:
    """All requests of a step, in the order in which they are due. `load`: frames, in parts of what one core can inspect."""
    random = Random(seed)
    frames_per_s = load * CAPACITY_PER_S
    streams = (
        (FRAMES, frames_per_s, work.CAMERAS),
        (READINGS, READINGS_PER_FRAME * frames_per_s, work.SENSORS),
        (COMMANDS, COMMANDS_PER_S, ("report",)),
    )
    drawn: list[Arrival] = []
    for kind, per_s, devices in streams:
        numbers = dict.fromkeys(devices, -1)
        at_s = random.expovariate(per_s)
        while at_s < seconds:
            device = random.choice(devices)
            numbers[device] += 1
            drawn.append(Arrival(at_s, kind, device, numbers[device]))
            at_s += random.expovariate(per_s)
    return sorted(drawn, key=lambda each: each.at_s)


async def offer(
    client: AsyncClient, due: Sequence[Arrival], key_of: Callable[[str], str | None], settle_s: float, measured_s: float
) -> Answers:
    """Send each request when it is due, for `settle_s` and then `measured_s`. Count the frames that end in the latter, and the
    commands that are due in it. At its end the frames that still wait are given up.
    """
    step = _Step(client, key_of, settle_s, settle_s + measured_s)
    for arrival in due:
        ahead_s = arrival.at_s - step.now_s()
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
        else:
            step.answers.driver_lag_s = max(step.answers.driver_lag_s, -ahead_s)
        await step.send(arrival)
    await asyncio.sleep(step.end_s - step.now_s())
    await step.end()
    return step.answers


async def settled(client: AsyncClient) -> None:
    """Until nothing that was offered is left to do: the station has answered a command twice, and booked nothing between."""
    before = None
    while (state := await client.call("station.command", order="report", timeout=60.0)) != before:
        before = state
        await asyncio.sleep(0.1)


class _Step:
    """One step: the calls that are outstanding, and the answers so far."""

    def __init__(self, client: AsyncClient, key_of: Callable[[str], str | None], settle_s: float, end_s: float) -> None:
        self.answers = Answers()
        self.end_s = end_s
        self._settle_s, self._client, self._key_of = settle_s, client, key_of
        self._frames, self._commands = set[asyncio.Task[None]](), set[asyncio.Task[None]]()
        self._began_s = time.perf_counter()

    def now_s(self) -> float:
        """Seconds since the step began."""
        return time.perf_counter() - self._began_s

    async def send(self, arrival: Arrival) -> None:
        """Send it, and do not wait for an answer."""
        if arrival.kind == FRAMES:
            self._begin(self._inspect(arrival), self._frames)
        elif arrival.kind == COMMANDS:
            self._begin(self._command(arrival), self._commands)
        else:
            try:
                await self._client.cast(
                    "station.reading", key=self._key_of(arrival.device), sensor=arrival.device, number=arrival.number
                )
            except Busy:
                self.answers.readings_refused += 1

    async def end(self) -> None:
        """Give up the frames, and wait for the commands."""
        for task in self._frames:
            task.cancel()
        await asyncio.gather(*self._frames, *self._commands, return_exceptions=True)

    def _begin(self, call: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(call)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _inspect(self, arrival: Arrival) -> None:
        try:
            await self._client.call(
                "station.frame", key=self._key_of(arrival.device), camera=arrival.device, number=arrival.number,
                timeout=None, retry=False,
            )  # fmt: skip
        except Busy:
            self.answers.frames_refused += self._counts(self.now_s())
        else:
            self.answers.frames_served += self._counts(self.now_s())

    async def _command(self, arrival: Arrival) -> None:
        try:
            await self._client.call("station.command", order=arrival.device, timeout=COMMAND_S, retry=False)
        except (Busy, DeadlineExceeded):
            self.answers.commands_failed += self._counts(arrival.at_s)
        else:
            if self._counts(arrival.at_s):
                self.answers.commands_s.append(self.now_s() - arrival.at_s)

    def _counts(self, at_s: float) -> bool:
        return self._settle_s <= at_s <= self.end_s
