"""Figures: durations of real processes. They are measured in every run, and judged only by `scripts/long`.

A figure says as much of the machine as of the code, so no test of `scripts/test` fails by one: it states the order of events,
a count, or the status that a call ended in. `scripts/long` runs on a machine that does nothing else, and there the figures that
the documentation promises must hold. Nothing outside of this file compares a measured duration with anything.
"""

from __future__ import annotations

import os
import time

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


def judge(what: str, found: float, at_most: float, unit: str = "s") -> None:
    """Print a figure; under `scripts/long`, raise AssertionError if it is above its bound."""
    said = f"{what}: {found:.3g} {unit}, promised {at_most:g} {unit}"
    print(said)
    assert not IS_LONG or found <= at_most, said
