"""Pausing: `pause` for users. Apart from coroutines.py, which is compiled: that would refuse an argument in mypyc's words."""

from __future__ import annotations

from collections.abc import Awaitable

from appbackplane.transport.request import is_number

from .coroutines import Pause


def pause(seconds: float) -> Awaitable[None]:
    """`await pause(0.1)`: let `seconds` pass without holding a worker. Raises TypeError or ValueError for what is no time."""
    if not is_number(seconds):
        raise TypeError(f"pause({seconds!r}): expected a number of seconds, 0 or more")
    if not seconds >= 0:
        raise ValueError(f"pause({seconds!r}): expected a number of seconds, 0 or more")
    return Pause(round(seconds * 1e9))
