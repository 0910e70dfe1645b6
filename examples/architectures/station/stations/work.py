"""Work: the costs of the three kinds of requests of an inspection station, and its data. The same everywhere.

A camera's *frame* is inspected, which computes for 4 ms, and its picture is archived, which waits for 8 ms. A sensor's
*reading* is tiny, comes in floods, and must be booked in the order in which the sensor sent it. An operator's *command* is
rare and urgent. The functions are called by this module's name (`work.inspect`), so that a test may put others in their place.
"""

from __future__ import annotations

import time
from typing import TypedDict

#: Seconds: to inspect a frame (CPU), to archive it (waiting), to decode a reading (CPU).
INSPECT_S, ARCHIVE_S, DECODE_S = 0.004, 0.008, 0.000_02
CAMERAS = tuple(f"camera-{number}" for number in range(8))
SENSORS = tuple(f"sensor-{number}" for number in range(16))
#: Priorities, where an architecture has any; where it has none, all requests are of priority `ALIKE`.
COMMAND, READING, FRAME = 0, 2, 4
ALIKE = 0


class State(TypedDict):
    """The answer to a command. `late_count`: readings that were booked after a later one of their sensor."""

    frame_count: int
    reading_count: int
    late_count: int


class Counts:
    """The data of a station. They have no lock of their own: the architecture says whether it needs one."""

    def __init__(self) -> None:
        self.frame_count = self.reading_count = self.late_count = 0
        self._last: dict[str, int] = {}

    def book_frame(self) -> None:
        """One more frame was inspected."""
        self.frame_count += 1

    def book_reading(self, sensor: str, number: int) -> None:
        """One more reading; a sensor numbers its own from 0."""
        self.reading_count += 1
        self.late_count += number < self._last.get(sensor, number)
        self._last[sensor] = number

    def state(self) -> State:
        """For an operator."""
        return State(frame_count=self.frame_count, reading_count=self.reading_count, late_count=self.late_count)


def inspect(camera: str, number: int) -> str:
    """Look at a frame: the verdict."""
    compute(INSPECT_S)
    return "bad" if number % 100 == 99 else "good"


def archive() -> None:
    """Put a picture into the archive, blocking the thread; `await pause(work.ARCHIVE_S)` is the same without."""
    block(ARCHIVE_S)


def decode(sensor: str, number: int) -> None:
    """Read the message of a sensor."""
    compute(DECODE_S)


def compute(seconds: float) -> None:
    """Use so much CPU time."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def block(seconds: float) -> None:
    """Block the thread for so long."""
    time.sleep(seconds)
