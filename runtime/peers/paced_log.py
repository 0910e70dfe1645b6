"""Paced log: what others may bring about is said so often a minute and no more, with their words that came with it then.

A peer that comes and goes, or talks nonsense, could fill a disk. Unlike observation/rate_limit.py it counts nothing that was
left out: what is told here is told again by `appbackplane peers`, as it is now. Names and addresses are their words, too:
what is not to be printed is escaped, and who has made up more subjects than `SUBJECTS_MAX` in a minute is not told of any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

#: The time in which it counts.
PERIOD_NS: Final = 60_000_000_000
#: Subjects in that time: more than there are nodes, dead and alive. 3 MB of log a minute at the worst.
SUBJECTS_MAX: Final = 256
#: Characters of what is said, and of somebody else's words: those between nodes are no longer (transport/peers/messages.py).
LENGTH_MAX: Final = 1_024
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
        if what not in self._said and len(self._said) >= SUBJECTS_MAX:
            self._said = {one: said for one, said in self._said.items() if now_ns - said[0] < PERIOD_NS}
            if len(self._said) >= SUBJECTS_MAX:
                return
        self._said[what] = since_ns, count + 1
        self._log.log(level, "%s%s", _printable(what), f": {because[:LENGTH_MAX]!r}" if because else "")


def _printable(what: str) -> str:
    """On one line, and without what a terminal takes for orders."""
    shown = what[:LENGTH_MAX]
    return shown if shown.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in shown)
