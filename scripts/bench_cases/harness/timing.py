"""Timing: durations of calls, and what to say of many."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any

URGENT_EVERY_S = 0.02


def round_trips_us(call: Callable[[], Any], count: int) -> list[float]:
    """How long each of `count` calls took, one after the other."""
    taken = []
    for _ in range(count):
        start = time.perf_counter_ns()
        call()
        taken.append((time.perf_counter_ns() - start) / 1e3)
    return taken


def periodic_us(call: Callable[[], Any], seconds: float, every_s: float = URGENT_EVERY_S) -> list[float]:
    """How long calls took that were begun `every_s`. One that overruns its period delays the next; none is left out."""
    taken, begin = [], time.perf_counter()
    for number in range(round(seconds / every_s)):
        pause = begin + number * every_s - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        taken += round_trips_us(call, 1)
    return taken


def pipelined_per_s(submit: Callable[[], Any], count: int, window: int) -> float:
    """Calls a second with a window of them outstanding; `submit` begins one and returns what has a `result()`."""
    began = time.perf_counter()
    outstanding: deque[Any] = deque(submit() for _ in range(window))
    for _ in range(count - window):
        outstanding.popleft().result()
        outstanding.append(submit())
    while outstanding:
        outstanding.popleft().result()
    return count / (time.perf_counter() - began)


def percentile(taken: list[float], share: float) -> float:
    """The smallest figure that `share` of them do not exceed."""
    return sorted(taken)[max(0, math.ceil(share * len(taken)) - 1)]


def summary(taken: list[float]) -> dict[str, float]:
    return {"p50_us": statistics.median(taken), "p99_us": percentile(taken, 0.99)}
