"""Gated: the components of a station whose inspections, first reading and bookings wait at gates that a test opens.

A backplane of a test imports it in the place of `stations.NAME`; it finds the name and a folder in its environment. In the
folder, each gate is a named pipe: who opens it to read waits until the test has it open to write. `log` there says in which
order all processes passed. The stations' locks are replaced by ones that lock nothing, so that a test sees where one is needed.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

FOLDER, STATION, NAME = (os.environ[f"GATED_{word}"] for word in ("FOLDER", "STATION", "NAME"))
sys.path.insert(1, STATION)
work = importlib.import_module("stations.work")


class NoLock:
    """In the place of a lock."""

    def __enter__(self) -> None:
        """Enter, whoever is inside."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave."""


def log(*words: object) -> None:
    """One line, whole: several processes append to the file."""
    with Path(FOLDER, "log").open("ab", buffering=0) as file:
        file.write((" ".join(map(str, words)) + "\n").encode())


def wait_at(gate: str) -> None:
    """Until the test opens it."""
    os.close(os.open(Path(FOLDER, gate), os.O_RDONLY))


def inspect(camera: str, number: int) -> str:
    log("inspects", camera)
    wait_at("inspection")
    log("inspected", camera)
    return "good"


def decode(sensor: str, number: int) -> None:
    if number == 0:
        log("decodes")
        wait_at("reading")


book_frame, state = work.Counts.book_frame, work.Counts.state


def gated_book_frame(counts: Any) -> None:
    log("books")
    wait_at("booking")
    book_frame(counts)
    log("booked")


def logged_state(counts: Any) -> Any:
    log("tells")
    return state(counts)


work.inspect, work.decode = inspect, decode
work.Counts.book_frame, work.Counts.state = gated_book_frame, logged_state
module = importlib.import_module(f"stations.{NAME}")
if hasattr(module, "threading"):
    module.threading = SimpleNamespace(Lock=NoLock)
if hasattr(module, "ComponentLock"):
    module.ComponentLock = lambda component, name: NoLock()
globals().update({name: found for name, found in vars(module).items() if isinstance(found, type)})
