"""Waiting: for conditions that nobody announces, with a limit that exists only to end a hang.

Every test that polls does it through here, so that no other file compares anything with a clock. A condition is looked at
every `EVERY_S`, at first; a process that has a pidfd, a pipe or a log line is waited for by that, with `Limit.left_s` at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: More than ten times what the slowest of these waits takes on a quiet machine (2 to 5 s: a system of three nodes comes up).
#: With 60 s, systems did not come up on two cores that thirty programs kept busy.
LIMIT_S = 120.0
#: Between the first looks: short beside a process start. A look may be a call, or a program: who has waited for long looks
#: up to ten times less often, or what waits would take the CPU from what it waits for.
EVERY_S = 0.01
SELDOM, GROWTH = 10.0, 1.2


class Limit:
    """The time that a hang may take, from when this is made."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s, self._end_s = limit_s, time.monotonic() + limit_s
        self._factor = 1.0

    @property
    def left_s(self) -> float:
        """Seconds, 0.0 at least."""
        return max(0.0, self._end_s - time.monotonic())

    def check(self, said: object = "", *, pause_s: float = 0.0) -> None:
        """Raises AssertionError with what was `said` once the limit has passed; else pauses, each time for longer."""
        if self.left_s == 0.0:
            raise AssertionError(f"not within {self._limit_s:g} s: {said}")
        if pause_s:
            threading.Event().wait(pause_s * self._factor)
            self._factor = min(SELDOM, self._factor * GROWTH)


def wait_until(
    is_so: Callable[[], T], said: Callable[[], object] | object = "", limit_s: float = LIMIT_S, every_s: float = EVERY_S
) -> T:
    """Look until the answer is true, and return it. `said` explains a failure; a function is asked for it then."""
    limit = Limit(limit_s)
    while not (found := is_so()):
        if limit.left_s == 0.0:
            limit.check(said() if callable(said) else said)
        limit.check(pause_s=every_s)
    return found
