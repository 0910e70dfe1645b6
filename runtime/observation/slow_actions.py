"""Slow actions: reports of actions that ran longer than `slow_action`, with a stack taken while they ran (law 11).

A stack taken afterwards would only show the worker loop. A failing system must not be flooded by its own reports, so there is
one per operation and interval, with a count of those left out (DESIGN 12.10).
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from types import FrameType

from .rate_limit import RateLimit

#: Frames shown, innermost last; the worker's own outermost frames are cut.
FRAMES_MAX = 12
#: The files that call the user's code; the frames up to theirs belong to the runtime.
_OUTERMOST = ("execution/actions/method_action.py", "dispatcher/delivery.py")


class SlowActions:
    """Decides which slow actions are reported."""

    def __init__(self, threshold_ns: int) -> None:
        self.threshold_ns = threshold_ns
        #: Slow actions that have ended.
        self.count = 0
        self._limit = RateLimit()

    def report(
        self, name: str, object: str, run_ns: int, now_ns: int, frame: FrameType | None, *, is_running: bool
    ) -> str | None:
        """The report to log, with the stack on lines of its own; None if the operation was reported within the interval."""
        left_out = self._limit.admit(name, now_ns)
        if left_out is None:
            return None
        done = "has been running for" if is_running else "ran"
        more = f" ({left_out} more since the last report)" if left_out else ""
        where = "" if frame is None else f"\n{as_text(frames_of(frame))}"
        return f"slow action: {name} on {object} {done} {run_ns / 1e6:.1f} ms{more}{where}"


def frames_of(frame: FrameType) -> list[traceback.FrameSummary]:
    """The stack from the first frame of the user's code: quick, because source lines are read only when it becomes text."""
    frames = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)[::-1]
    ours = [n for n, entry in enumerate(frames) if entry.filename.endswith(_OUTERMOST)]
    return frames[ours[-1] + 1 if ours else 0 :][-FRAMES_MAX:]


def as_text(frames: Sequence[traceback.FrameSummary]) -> str:
    """The frames in the form in which Python prints a traceback."""
    return "".join(traceback.format_list(frames)).rstrip()
