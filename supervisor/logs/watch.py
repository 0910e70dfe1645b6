"""Log watch: when to read a backplane's ring, and how much of it. Pure; the ring is given.

A busy ring is polled every 20 ms, so that a backplane that logs a hundred thousand lines a second wakes nobody for each of
them. An empty one is asked to wake us, polled once more (for lines written meanwhile), and left alone. So a silent backplane
costs nothing, and a line is in the file 20 ms after it was logged. Lost lines are reported once a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

#: Poll interval of a ring that has lines: a person who follows sees no delay, and 50 polls a second cost 0.3 % of a core.
LOOK_NS = 20_000_000
#: Bytes read from one ring in one iteration: a quarter of a millisecond's work, so that a flood does not block the loop.
TURN_BYTES_MAX = 65_536
#: Between two reports of lines lost while a flood lasts.
REPORT_NS = 1_000_000_000


class LogRingPort(Protocol):
    """Methods of a log ring that are used here (runtime/execution/logs/log_ring.py)."""

    @property
    def lost_count(self) -> int: ...
    def read(self, bytes_max: int) -> list[bytes]: ...
    def is_empty(self) -> bool: ...
    def sleep(self) -> None: ...
    def wake(self) -> None: ...


class LogWatch:
    """Polls one ring, from the spawn of its backplane to its last words."""

    def __init__(self, ring: LogRingPort, now_ns: int) -> None:
        self._ring = ring
        self._is_asleep = False
        #: When to poll next; None: when the ring wakes us.
        self.look_at_ns: int | None = now_ns
        self._reported_lost = 0
        self._reported_ns = now_ns - REPORT_NS

    def wake(self, now_ns: int) -> None:
        """The ring has signalled new lines."""
        self._ring.wake()
        self._is_asleep = False
        self.look_at_ns = now_ns

    def look(self, now_ns: int) -> list[bytes]:
        """Read new lines; there may be more."""
        lines = self._ring.read(TURN_BYTES_MAX)
        if lines:
            self._is_asleep = False
            self.look_at_ns = now_ns + (LOOK_NS if self._ring.is_empty() else 0)
        elif not self._ring.is_empty() or self.unreported:  # a line that is not whole yet; a report that is not due
            self.look_at_ns = now_ns + LOOK_NS
        elif self._is_asleep:
            self.look_at_ns = None
        else:
            self._ring.sleep()
            self._is_asleep = True
            self.look_at_ns = now_ns + LOOK_NS
        return lines

    def newly_lost(self, now_ns: int) -> int:
        """Lines lost since the last report, if one is due."""
        return self.unreported if now_ns - self._reported_ns >= REPORT_NS else 0

    def reported(self, lost: int, now_ns: int) -> None:
        """Note that so many lost lines have been reported."""
        self._reported_lost += lost
        self._reported_ns = now_ns

    @property
    def unreported(self) -> int:
        """Lost lines that have not been reported."""
        return self._ring.lost_count - self._reported_lost

    def rest(self) -> Iterator[list[bytes]]:
        """The backplane is dead: all remaining lines, in as many parts as they would have been read in."""
        while lines := self._ring.read(TURN_BYTES_MAX):
            yield lines
