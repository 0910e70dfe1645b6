"""Slow actions: those that ran longer than `slow_action`, reported with the stack taken while they ran (law 11).

A stack taken afterwards shows the worker loop; this one shows the culprit. Warnings are limited to one an operation and
interval, with a count of those left out, so that a system in trouble is not drowned by its own reports (DESIGN 12.10).
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple

from .rate_limit import RateLimit

#: Frames shown, innermost last; the worker's own outermost frames are cut.
FRAMES_MAX = 12
#: The files that call the user's code: frames up to them are ours.
_OUTERMOST = ("execution/method_action.py", "dispatcher/delivery.py")


class SlowAction(NamedTuple):
    """One report."""

    name: str
    object: str
    run_ns: int
    is_running: bool
    stack: str
    left_out: int

    def sentence(self) -> str:
        """For the log."""
        done = "has been running for" if self.is_running else "ran"
        more = f" ({self.left_out} more since the last report)" if self.left_out else ""
        where = f"\n{self.stack}" if self.stack else ""
        return f"slow action: {self.name} on {self.object} {done} {self.run_ns / 1e6:.1f} ms{more}{where}"


class SlowActions:
    """Decides what is reported."""

    def __init__(self, threshold_ns: int) -> None:
        self.threshold_ns = threshold_ns
        #: Those that have ended.
        self.count = 0
        self._limit = RateLimit()

    def report(
        self, name: str, object: str, run_ns: int, now_ns: int, frame: FrameType | None, *, is_running: bool
    ) -> SlowAction | None:
        """What to log of one, or None while its operation has been reported lately."""
        left_out = self._limit.admit(name, now_ns)
        if left_out is None:
            return None
        return SlowAction(name, object, run_ns, is_running, stack_of(frame), left_out)


def stack_of(frame: FrameType | None) -> str:
    """The stack as text, from where the user's code begins."""
    return "" if frame is None else as_text(frames_of(frame))


def frames_of(frame: FrameType) -> list[traceback.FrameSummary]:
    """The same, as data: quick, since the source is only read for the text."""
    frames = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)[::-1]
    ours = [n for n, entry in enumerate(frames) if entry.filename.endswith(_OUTERMOST)]
    return frames[ours[-1] + 1 if ours else 0 :][-FRAMES_MAX:]


def as_text(frames: Sequence[traceback.FrameSummary]) -> str:
    """As Python prints it."""
    return "".join(traceback.format_list(frames)).rstrip()
