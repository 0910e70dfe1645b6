"""Each architecture keeps its promises about what happens at the same time: as real processes, held at gates (gated.py).

The TOML is the one of the example, but for the module, which is the station's with gates in it. So what passes what is an order
that the test makes, and no matter of time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from registry import ARCHITECTURES, HERE, Architecture
from show import appbackplane
from stations import work

from appbackplane.transport import connect
from tests.waiting import LIMIT_S, wait_until

GATES = ("inspection", "reading", "booking")


class Gates:
    """The test's end of the gates of one station."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}
        for gate in GATES:
            os.mkfifo(folder / gate)
        (folder / "log").touch()

    def open(self, gate: str) -> None:
        """Let all through, from now on."""
        if gate not in self._open:
            self._open[gate] = os.open(self._folder / gate, os.O_RDWR)

    def close(self, gate: str) -> None:
        """Hold who comes next."""
        os.close(self._open.pop(gate))

    def log(self) -> list[str]:
        """What has happened, in order."""
        return (self._folder / "log").read_text().splitlines()

    def count(self, word: str) -> int:
        """How often it has happened."""
        return sum(line.split()[0] == word for line in self.log())

    def wait_for(self, word: str, count: int) -> None:
        """Until it has happened so often."""
        wait_until(lambda: self.count(word) >= count, said=self.log)

    def release(self) -> None:
        """Close this end of all."""
        for gate in list(self._open):
            self.close(gate)


@pytest.fixture(params=ARCHITECTURES, ids=lambda each: each.name, scope="module")
def architecture(request: pytest.FixtureRequest) -> Architecture:
    """Each in turn."""
    found: Architecture = request.param
    return found


@pytest.fixture(scope="module")
def station(architecture: Architecture) -> Iterator[tuple[Any, Gates]]:
    """A client of the station, which is up, and its gates: all open, but that of the first reading."""
    with tempfile.TemporaryDirectory(prefix="ab-") as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.setenv("XDG_RUNTIME_DIR", name)
        patch.setenv("XDG_STATE_HOME", f"{name}/state")
        for word, value in (("FOLDER", name), ("STATION", str(HERE / "station")), ("NAME", architecture.name)):
            patch.setenv(f"GATED_{word}", value)
        shutil.copy(Path(__file__).with_name("gated.py"), folder)
        toml = folder / "gated.toml"
        toml.write_text(architecture.station.read_text().replace(f"stations.{architecture.name}:", "gated:"))
        gates = Gates(folder)
        gates.open("inspection")
        gates.open("booking")
        appbackplane("up", str(toml), "--detach")
        try:
            with connect(toml) as client:
                yield client, gates
        finally:
            for gate in GATES:
                gates.open(gate)
            appbackplane("down", "-s", str(toml))
            gates.release()


def test_one_reading_passes_another_where_the_order_is_not_kept(
    architecture: Architecture, station: tuple[Any, Gates]
) -> None:
    """Ordering. The first reading of a sensor is held while it is decoded, and the second comes."""
    client, gates = station
    key = architecture.key_of(work.SENSORS[0])
    first = client.submit("station.reading", key=key, sensor=work.SENSORS[0], number=0)
    gates.wait_for("decodes", 1)
    second = client.submit("station.reading", key=key, sensor=work.SENSORS[0], number=1)
    if not architecture.promise.keeps_order:
        second.result(LIMIT_S)
    gates.open("reading")
    first.result(LIMIT_S), second.result(LIMIT_S)
    wait_until(lambda: client.call("station.command", order="report")["reading_count"] == 2)
    late = client.call("station.command", order="report")["late_count"]
    assert late == (0 if architecture.promise.keeps_order else 1)


def test_how_many_frames_are_inspected_at_once_and_whether_a_command_passes_them(
    architecture: Architecture, station: tuple[Any, Gates]
) -> None:
    """Parallelism, and overtaking of work that runs. As many frames as possible are held in their inspection."""
    client, gates = station
    promise, begun, ended = architecture.promise, gates.count("inspects"), gates.count("inspected")
    gates.close("inspection")
    frames = [
        client.submit("station.frame", key=architecture.key_of(camera), camera=camera, number=0)
        for camera in work.CAMERAS
    ]
    gates.wait_for("inspects", begun + promise.at_once)
    command = client.submit("station.command", order="stop")
    if promise.passes_running:
        command.result(LIMIT_S)
    assert gates.count("inspects") - begun == promise.at_once
    gates.open("inspection")
    command.result(LIMIT_S)
    for frame in frames:
        frame.result(LIMIT_S)
    before = gates.log()[: last(gates.log(), "tells")]
    passed = sum(line.startswith("inspected") for line in before) == ended
    assert passed is promise.passes_running


def test_where_a_lock_is_needed(architecture: Architecture, station: tuple[Any, Gates]) -> None:
    """Without one, an operator reads the counts amid a change of them, or cannot: then there is nothing to lock."""
    client, gates = station
    promise, booking = architecture.promise, gates.count("books")
    gates.close("booking")
    frame = client.submit("station.frame", key=architecture.key_of(work.CAMERAS[0]), camera=work.CAMERAS[0], number=1)
    gates.wait_for("books", booking + 1)
    command = client.submit("station.command", order="report")
    if promise.needs_lock:
        command.result(LIMIT_S)
    gates.open("booking")
    command.result(LIMIT_S)
    frame.result(LIMIT_S)
    found = gates.log()
    assert (last(found, "tells") < last(found, "booked")) is promise.needs_lock
    assert ("Lock(" in architecture.module.read_text()) is promise.needs_lock


def last(log: list[str], word: str) -> int:
    """The number of the last line of this."""
    return max(number for number, line in enumerate(log) if line.split()[0] == word)
