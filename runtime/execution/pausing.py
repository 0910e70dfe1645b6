"""Pausing: `pause` for users. Apart from coroutines.py, which is compiled: mypyc words its errors for bad arguments itself."""

from __future__ import annotations

from collections.abc import Awaitable

from appbackplane.transport.call_checks import is_number

from .coroutines import Pause


def pause(seconds: float) -> Awaitable[None]:
    """`await pause(0.1)`: let `seconds` pass without holding a worker. Raises TypeError if not a number, ValueError below 0."""
    if not is_number(seconds):
        raise TypeError(f"pause({seconds!r}): expected a number of seconds, 0 or more")
    if not seconds >= 0:
        raise ValueError(f"pause({seconds!r}): expected a number of seconds, 0 or more")
    return Pause(round(seconds * 1e9))
