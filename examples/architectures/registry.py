"""Registry: every architecture of the example, with its TOMLs, its module and its promise.

One entry adds an architecture: its TOML `station/NAME.toml` and its module `station/stations/NAME.py` bear its name. The tests
hold each to its `Promise`, `show.py --curves` measures it, and the table of docs/concepts/architectures.md is compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise of an architecture to the requests of a station. Each field is a column of the docs' table, and a test."""

    #: Whether the readings of one sensor are booked in the order in which they were sent.
    keeps_order: bool
    #: A hundred frames of eight cameras wait: so many of them are inspected before a command that comes now.
    frames_first: int
    #: So many frames are inspected at the same time.
    at_once: int
    #: Whether a command is served while so many frames are being inspected.
    passes_running: bool
    #: Whether two requests may use the station's counts at the same time, so that these need a lock.
    needs_lock: bool
    #: Readings come twice as fast as they can be served: the kinds of requests that are then served ever later. Where readings
    #: alone are, the flood harms nobody but itself.
    late_in_flood: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Architecture:
    """One way to run an application."""

    name: str
    #: As the docs call it, and beside its curve, where there is less room.
    title: str
    label: str
    promise: Promise
    #: Whether a request goes to the object of its camera or sensor, by its key.
    is_keyed: bool = False
    #: Whether `applications.py` shows it, too, by NAME.toml beside this file.
    has_applications: bool = False

    @property
    def station(self) -> Path:
        """The TOML of the station."""
        return HERE / "station" / f"{self.name}.toml"

    @property
    def module(self) -> Path:
        """The program of the station."""
        return HERE / "station" / "stations" / f"{self.name}.py"

    @property
    def applications(self) -> Path:
        """The TOML of the applications, if it has them."""
        return HERE / f"{self.name}.toml"

    def key_of(self, device: str) -> str | None:
        """The key with which a request of this camera or sensor is sent; None: without."""
        return device if self.is_keyed else None


FRAMES, READINGS, COMMANDS = "frames", "readings", "commands"
ALL = (COMMANDS, FRAMES, READINGS)

ARCHITECTURES = (
    Architecture(
        "event",
        "Event loop",
        "event loop",
        Promise(
            keeps_order=True,
            frames_first=100,
            at_once=1,
            passes_running=False,
            needs_lock=False,
            late_in_flood=ALL,
        ),
        has_applications=True,
    ),
    Architecture(
        "threads",
        "Threads",
        "threads",
        Promise(
            keeps_order=False,
            frames_first=100,
            at_once=4,
            passes_running=False,
            needs_lock=True,
            late_in_flood=ALL,
        ),
    ),
    Architecture(
        "one_to_one",
        "Actor, 1-1",
        "actor, 1-1",
        Promise(
            keeps_order=True,
            frames_first=100,
            at_once=1,
            passes_running=False,
            needs_lock=False,
            late_in_flood=ALL,
        ),
        has_applications=True,
    ),
    Architecture(
        "one_to_many",
        "Actor with a pool, 1-N",
        "pool, 1-N",
        Promise(
            keeps_order=False,
            frames_first=25,
            at_once=4,
            passes_running=False,
            needs_lock=True,
            late_in_flood=ALL,
        ),
        has_applications=True,
    ),
    Architecture(
        "multiple_actors",
        "Multiple actors",
        "multiple actors",
        Promise(
            keeps_order=True,
            frames_first=0,
            at_once=1,
            passes_running=True,
            needs_lock=True,
            late_in_flood=(READINGS,),
        ),
    ),
    Architecture(
        "state_machines",
        "Parallel state machines",
        "state machines",
        Promise(
            keeps_order=True,
            frames_first=0,
            at_once=2,
            passes_running=False,
            needs_lock=True,
            late_in_flood=(READINGS,),
        ),
        is_keyed=True,
        has_applications=True,
    ),
    Architecture(
        "actor_and_machine",
        "Actor and parallel state machine",
        "actor + machine",
        Promise(
            keeps_order=True,
            frames_first=0,
            at_once=1,
            passes_running=False,
            needs_lock=False,
            late_in_flood=(READINGS,),
        ),
    ),
    Architecture(
        "dataflow",
        "Dataflow",
        "dataflow",
        Promise(
            keeps_order=True,
            frames_first=0,
            at_once=2,
            passes_running=False,
            needs_lock=False,
            late_in_flood=(FRAMES, READINGS),
        ),
    ),
    Architecture(
        "erlang",
        "Erlang",
        "Erlang",
        Promise(
            keeps_order=True,
            frames_first=0,
            at_once=2,
            passes_running=False,
            needs_lock=False,
            late_in_flood=(FRAMES, READINGS),
        ),
    ),
    Architecture(
        "seda",
        "SEDA",
        "SEDA",
        Promise(
            keeps_order=True,
            frames_first=0,
            at_once=1,
            passes_running=True,
            needs_lock=False,
            late_in_flood=(READINGS,),
        ),
    ),
    Architecture(
        "many_to_many",
        "M-N",
        "M-N",
        Promise(
            keeps_order=True,
            frames_first=0,
            at_once=4,
            passes_running=True,
            needs_lock=True,
            late_in_flood=(READINGS,),
        ),
        is_keyed=True,
        has_applications=True,
    ),
)
