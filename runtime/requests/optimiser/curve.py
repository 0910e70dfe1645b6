"""Curve: throughput by worker count, as far as measured, and the unimodal curve that fits it best.

More workers help up to a point, and hurt beyond it: one top. So single noisy measurements are not compared with each other,
but fitted together: increasing up to some point, decreasing after it, with the least squared error (pool adjacent violators:
Barlow et al., "Statistical Inference under Order Restrictions", 1972). Each measurement corrects its neighbours; comparing
pairs would take four times as many. Levels are logarithms of rates, because noise multiplies. A few µs for 15 points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

#: A level counts as this far below the highest at most (a seventh): an interval in which nothing ended is bad enough.
DEPTH = 2.0
#: Precision of the fit (a tenth of a per cent), and how long it may take.
PRECISION, ROUNDS_MAX = 1e-3, 40


class Point(NamedTuple):
    """One worker count: its fitted level, and how often it was measured."""

    workers: int
    level: float
    look_count: int


class Curve:
    """The measurements since the load last changed."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}  # workers to (measurements, mean level)

    def add(self, workers: int, level: float) -> None:
        count, mean = self._seen.get(workers, (0, 0.0))
        self._seen[workers] = (count + 1, mean + (level - mean) / (count + 1))

    @property
    def look_count(self) -> int:
        """Number of measurements, at any worker count."""
        return sum(count for count, _ in self._seen.values())

    def points(self) -> list[Point]:
        """The fitted curve at the measured worker counts, in ascending order."""
        counts = sorted(self._seen)
        looks = [self._seen[workers] for workers in counts]
        floor = max(mean for _, mean in looks) - DEPTH
        levels = fitted([max(mean, floor) for _, mean in looks], [float(count) for count, _ in looks], counts)
        return [Point(w, level, count) for w, level, (count, _) in zip(counts, levels, looks, strict=True)]


def fitted(levels: Sequence[float], weights: Sequence[float], workers: Sequence[int]) -> list[float]:
    """The levels of the nearest curve with one top, whose throughput per worker nowhere rises with more workers.

    >>> from math import exp, log
    >>> [round(exp(level)) for level in fitted([log(10), log(24), log(35)], [1.0, 1.0, 1.0], [1, 2, 4])]
    [11, 22, 35]
    """
    best: list[float] = []
    least = math.inf
    for split in range(1, len(levels) + 1):
        fit = with_top(levels, weights, workers, split)
        error = sum(w * (level - value) ** 2 for w, level, value in zip(weights, levels, fit, strict=True))
        if error < least - 1e-9:  # of equals the first: the top as far left as it may be
            best, least = fit, error
    return best


def with_top(levels: Sequence[float], weights: Sequence[float], workers: Sequence[int], split: int) -> list[float]:
    """The nearest such curve that rises up to `split` and falls from there (Dykstra's alternating projections)."""
    share = [math.log(count) for count in workers]
    fit, first, second = list(levels), [0.0] * len(levels), [0.0] * len(levels)
    for _ in range(ROUNDS_MAX):
        given = [x + d for x, d in zip(fit, first, strict=True)]
        bent = rising(given[:split], weights[:split]) + falling(given[split:], weights[split:])
        first = [x - y for x, y in zip(given, bent, strict=True)]
        given = [x + d for x, d in zip(bent, second, strict=True)]
        a_worker = falling([x - s for x, s in zip(given, share, strict=True)], weights)
        turned = [x + s for x, s in zip(a_worker, share, strict=True)]
        second = [x - y for x, y in zip(given, turned, strict=True)]
        moved = max(abs(x - y) for x, y in zip(turned, fit, strict=True))
        fit = turned
        if moved < PRECISION:
            break
    return fit


def rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The rising sequence that is nearest to these values, by weighted squares (pool adjacent violators).

    >>> rising([1.0, 3.0, 2.0], [1.0, 1.0, 1.0])
    [1.0, 2.5, 2.5]
    """
    blocks: list[tuple[float, float, int]] = []  # value, weight, length
    for value, weight in zip(values, weights, strict=True):
        length = 1
        while blocks and blocks[-1][0] >= value:
            other, more, before = blocks.pop()
            value = (value * weight + other * more) / (weight + more)
            weight, length = weight + more, length + before
        blocks.append((value, weight, length))
    return [value for value, _, length in blocks for _ in range(length)]


def falling(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The falling sequence that is nearest to these values, by weighted squares."""
    return rising(values[::-1], weights[::-1])[::-1]
