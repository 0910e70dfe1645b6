"""Paced log: what others may bring about is said so often a minute and no more, with their words that came with it then.

A peer that comes and goes, or talks nonsense, could fill a disk. Unlike observation/rate_limit.py it counts nothing that was
left out: what is told here is told again by `appbackplane peers`, as it is now. Bounded by `SUBJECTS_MAX`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

#: The time in which it counts.
PERIOD_NS: Final = 60_000_000_000
#: How much of what was said is remembered.
SUBJECTS_MAX: Final = 256
#: A peer that comes and goes is told of so often in that time.
FLAPS_MAX: Final = 5


class PacedLog:
    """Of one endpoint, whose thread it belongs to."""

    def __init__(self, log: logging.Logger, now_ns: Callable[[], int]) -> None:
        self._log, self._now_ns = log, now_ns
        #: What was said: since when, and how often.
        self._said: dict[str, tuple[int, int]] = {}

    def warn(self, what: str, because: str = "") -> None:
        """Once a minute; `because` is somebody else's words."""
        self.say(logging.WARNING, what, because)

    def say(self, level: int, what: str, because: str = "", count_max: int = 1) -> None:
        """So often a minute."""
        now_ns = self._now_ns()
        since_ns, count = self._said.get(what, (now_ns, 0))
        if now_ns - since_ns >= PERIOD_NS:
            since_ns, count = now_ns, 0
        if count >= count_max:
            return
        if len(self._said) >= SUBJECTS_MAX:
            self._said.clear()
        self._said[what] = since_ns, count + 1
        self._log.log(level, "%s%s", what, f": {because!r}" if because else "")
