"""Each architecture keeps its promises to the requests of a station: under a virtual clock, with one worker.

A flood and a queue of frames are the same there on each run. What takes threads is in test_architectures_gated.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from registry import ARCHITECTURES, COMMANDS, FRAMES, READINGS, Architecture
from stations import work

from appbackplane.runtime import AppObject, operation
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.supervisor.configuration import config

#: Kinds that are served at less than this part of the rate at which they come are served ever later.
KEEPS_UP = 0.9


@pytest.fixture(params=ARCHITECTURES, ids=lambda each: each.name)
def architecture(request: pytest.FixtureRequest) -> Architecture:
    """Each in turn."""
    found: Architecture = request.param
    return found


@pytest.fixture
def inspected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cameras whose frames were inspected, in order."""
    cameras: list[str] = []
    inspect = work.inspect

    def noted(camera: str, number: int) -> str:
        cameras.append(camera)
        return inspect(camera, number)

    monkeypatch.setattr(work, "inspect", noted)
    return cameras


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[[Architecture], VirtualBackplane]:
    """The station of an architecture, all its backplanes in one; to compute and to block lets virtual time pass."""

    def begin(architecture: Architecture) -> VirtualBackplane:
        settings = config.load(architecture.station)
        components = []
        for backplane in settings.backplane.values():
            for reference in backplane.components:
                module, _, name = reference.partition(":")
                components.append(getattr(importlib.import_module(module), name)())
        first = next(iter(settings.backplane.values()))
        virtual = VirtualBackplane(
            *components, priorities=first.priorities, quotas=first.quotas, order=first.order, shares=first.shares
        )
        monkeypatch.setattr(work, "compute", virtual.clock.work)
        monkeypatch.setattr(work, "block", virtual.clock.sleep)
        return virtual

    return begin


class Operator:
    """Sends requests of a station as its clients do, and keeps the calls."""

    def __init__(self, architecture: Architecture, backplane: VirtualBackplane) -> None:
        self.backplane = backplane
        self.frames: list[Any] = []
        self.commands: list[Any] = []
        self.reading_count = 0
        self._key_of = architecture.key_of
        self._numbers: dict[str, int] = {}

    def frame(self, camera: str) -> None:
        """A camera sends one more frame."""
        self.frames.append(
            self.backplane.call(
                "station.frame", key=self._key_of(camera), camera=camera, number=len(self.frames), timeout=None
            )
        )

    def reading(self, sensor: str) -> None:
        """A sensor sends its next reading."""
        number = self._numbers[sensor] = self._numbers.get(sensor, -1) + 1
        self.reading_count += 1
        self.backplane.cast("station.reading", key=self._key_of(sensor), sensor=sensor, number=number)

    def command(self) -> Any:
        """An operator asks; the call."""
        self.commands.append(self.backplane.call("station.command", order="report", timeout=None))
        return self.commands[-1]

    def state(self) -> dict[str, int]:
        """The answer to one more command, once all before it is done."""
        self.backplane.advance(60.0)
        found: dict[str, int] = self.command().result()
        return found


def test_how_many_of_a_hundred_frames_go_before_a_command(
    architecture: Architecture,
    start: Callable[[Architecture], VirtualBackplane],
    inspected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who may overtake whom. Without a priority, or behind them in one queue, an operator waits for all that came before."""
    told: list[int] = []
    state = work.Counts.state

    def noted(counts: work.Counts) -> work.State:
        told.append(len(inspected))
        return state(counts)

    monkeypatch.setattr(work.Counts, "state", noted)
    backplane = start(architecture)
    operator = Operator(architecture, backplane)
    for number in range(120):
        operator.frame(work.CAMERAS[number % len(work.CAMERAS)])
    while len(inspected) < 20:
        backplane.advance(0.001)
    before = len(inspected)
    operator.command()
    while not told:
        backplane.advance(0.001)
    assert told[0] - before == architecture.promise.frames_first
    assert operator.state()["frame_count"] == 120, "nothing is lost"


def test_whether_the_readings_of_a_sensor_keep_their_order(
    architecture: Architecture, start: Callable[[Architecture], VirtualBackplane]
) -> None:
    """Ordering: a temperature that is booked after a later one is a wrong temperature from then on."""
    operator, random = Operator(architecture, start(architecture)), Random(1)
    kinds = [operator.frame] * 3 + [operator.reading] * 6 + [lambda _device: operator.command()]
    for _ in range(20):
        for _ in range(40):
            kind = random.choice(kinds)
            kind(random.choice(work.CAMERAS if kind == operator.frame else work.SENSORS[:4]))
        operator.backplane.advance(0.03)
    state = operator.state()
    assert state["reading_count"] == operator.reading_count
    assert (state["late_count"] == 0) is architecture.promise.keeps_order


def test_what_is_late_in_a_flood_of_readings(
    architecture: Architecture, start: Callable[[Architecture], VirtualBackplane], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What starves: twice as many readings as can be served, for four seconds, and a frame and a command now and then."""
    monkeypatch.setattr(work, "DECODE_S", 0.001)
    backplane = start(architecture)
    operator = Operator(architecture, backplane)
    began_ns = backplane.clock.now_ns()
    for turn in range(400):
        for number in range(20):
            operator.reading(work.SENSORS[(20 * turn + number) % len(work.SENSORS)])
        if turn % 5 == 0:
            operator.frame(work.CAMERAS[(turn // 5) % len(work.CAMERAS)])
            operator.command()
        left_ns = began_ns + (turn + 1) * 10_000_000 - backplane.clock.now_ns()
        if left_ns > 0:
            backplane.advance(left_ns / 1e9)
    served = [call for call in operator.commands if is_served(call)]
    shares = {
        COMMANDS: len(served) / len(operator.commands),
        FRAMES: sum(map(is_served, operator.frames)) / len(operator.frames),
        READINGS: served[-1].result()["reading_count"] / operator.reading_count,
    }
    assert tuple(kind for kind, share in shares.items() if share < KEEPS_UP) == architecture.promise.late_in_flood
    assert min(shares.values()) > 0.3, "late, and not starved"


def is_served(call: Any) -> bool:
    """Whether it has ended, and in no error: a full station refuses."""
    return call.done() and call.exception() is None


def test_within_one_object_that_interleaves_a_flood_starves_the_rest() -> None:
    """Why the station's actor has a queue for each priority: shares hold between objects."""

    class Belt(AppObject):
        interleaves = True

        @operation(priority=work.FRAME)
        def frame(self) -> None:
            backplane.clock.work(0.001)

        @operation(priority=work.READING)
        def reading(self) -> None:
            backplane.clock.work(0.001)

    backplane = VirtualBackplane(order="shares", shares=(10, 0, 60, 0, 30))
    backplane.add(Belt())
    frame = backplane.call("bench.frame")
    for _ in range(2_000):
        backplane.call("bench.reading")
        backplane.call("bench.reading")
        backplane.advance(0.001)
    assert not frame.done()
