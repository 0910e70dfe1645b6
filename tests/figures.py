"""Figures: durations of real processes. They are measured in every run, and judged only by `scripts/long`.

A figure says as much of the machine as of the code, so no test of `scripts/test` fails by one: it states the order of events,
a count, or the status that a call ended in. `scripts/long` runs on a machine that does nothing else, and there the figures that
the documentation promises must hold. Nothing outside of this file compares a measured duration with anything.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Self

import pytest

#: Whether `scripts/long` runs this.
IS_LONG = bool(os.environ.get("APPBACKPLANE_LONG"))
#: Marks a test that takes too long for every run, or that only measures.
LONG = pytest.mark.skipif(not IS_LONG, reason="takes long: scripts/long runs it")


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def taken_s(self) -> float:
        """Seconds until now."""
        return time.monotonic() - self._began_s


class ControlTimer:
    """A timer beside what is measured, in the same process: by what it is late, the machine or the interpreter stood still, and
    whatever else was due in that time is late by as much.
    """

    EVERY_S = 0.05

    def __enter__(self) -> Self:
        """Begin."""
        #: By how much it was late before the tick that runs, and how long that has taken.
        self._is_over, self._state = threading.Event(), (0.0, Stopwatch())
        self._thread = threading.Thread(target=self._run, name="control timer", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End."""
        self._is_over.set()
        self._thread.join()

    @property
    def late_s(self) -> float:
        """By how much it has been late until now, all in all, with what it is late just now."""
        passed_s, tick = self._state
        return passed_s + max(0.0, tick.taken_s - self.EVERY_S)

    def _run(self) -> None:
        while not self._is_over.wait(self.EVERY_S):
            self._state = self.late_s, Stopwatch()


def judge(what: str, found: float, at_most: float, unit: str = "s") -> None:
    """Print a figure; under `scripts/long`, raise AssertionError if it is above its bound."""
    said = f"{what}: {found:.3g} {unit}, promised {at_most:g} {unit}"
    print(said)
    assert not IS_LONG or found <= at_most, said
