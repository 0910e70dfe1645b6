"""Steps: how much work a call does, counted where its duration would say as much of the machine.

A step is a line of Python, or a call of a function in C. The same call takes the same steps on every machine, so a test can
compare two of them, or state a bound. What is compiled takes none: the interpreted run decides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps_of(act: Callable[[], object]) -> int:
    """Count the steps of a call, in this thread."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "c_call"

    traced, profiled = sys.gettrace(), sys.getprofile()
    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(traced)
        sys.setprofile(profiled)
    return count
