"""Search: the worker count to measure next. A list of questions about the results so far; the first open one is asked.

Doubling and halving find the region in as many measurements as the range has bits. Then the widest gap beside the top is split
until any top left in it would not matter. The curve is fitted to all measurements together (curve.py), so that one lucky one
does not lead the way. No direction is given up, and no top believed, on one measurement alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .curve import Point

#: Neighbours of the top that are this near (a ratio) are near enough: a curve that rises in proportion loses 11 % at most
#: midway, and seldom 5 %. A few noisy measurements cannot tell finer steps apart.
NEAR = 1.25
#: A single measurement worse by less than this (20 %) may be noise: it is repeated before its direction is given up.
DOUBT = math.log(1.25)

#: Measurements of each of the best before one of them is chosen.
SURE = 3


class WorkerCountTrial(NamedTuple):
    """A worker count to measure, and why."""

    workers: int
    why: str


def chosen(points: Sequence[Point], tolerance: float) -> Point:
    """The fewest workers that are as good as the best, within the tolerance."""
    top = max(point.level for point in points)
    return next(point for point in points if point.level >= top - tolerance)


def next_look(points: Sequence[Point], least: int, most: int, tolerance: float) -> WorkerCountTrial | None:
    """The next measurement; None: the top is known well enough. `points`: a fitted curve, not empty."""
    return (
        more(points, most, tolerance) or fewer(points, least, tolerance) or between(points, tolerance) or again(points)
    )


def more(points: Sequence[Point], most: int, tolerance: float) -> WorkerCountTrial | None:
    """Twice the highest count measured, as long as the throughput still rises there."""
    last, top = points[-1], max(point.level for point in points)
    if last.workers >= most:
        return None
    if len(points) == 1:
        return WorkerCountTrial(min(most, 2 * last.workers), "do more workers raise the throughput?")
    rise = last.level - points[-2].level
    if rise > tolerance and last.level >= top - tolerance:
        return WorkerCountTrial(
            min(most, 2 * last.workers), f"the last increase raised the throughput ({percent(rise)})"
        )
    if last.look_count == 1 and last.level >= top - DOUBT:
        return WorkerCountTrial(last.workers, "a second measurement: the last increase gained nothing")
    return None


def fewer(points: Sequence[Point], least: int, tolerance: float) -> WorkerCountTrial | None:
    """Half the lowest count measured, as long as nothing is lost by it."""
    first, top = points[0], max(point.level for point in points)
    if first.workers <= least:
        return None
    if first.level >= top - tolerance:
        return WorkerCountTrial(max(least, first.workers // 2), "is the throughput as high with fewer workers?")
    if first.look_count == 1 and first.level >= top - DOUBT:
        return WorkerCountTrial(first.workers, "a second measurement: the last decrease cost a little")
    if first.level >= top - DOUBT / 2:
        return WorkerCountTrial(max(least, first.workers // 2), "the last decrease cost too little to be sure")
    return None


def between(points: Sequence[Point], tolerance: float) -> WorkerCountTrial | None:
    """The middle of the widest gap beside the top, if more than the tolerance could hide in it."""
    top = max(point.level for point in points)
    widest, found = NEAR, None
    for index in range(len(points) - 1):
        low, high = points[index], points[index + 1]
        is_beside = max(low.level, high.level) >= top - tolerance
        ratio = high.workers / low.workers
        middle = round(math.sqrt(low.workers * high.workers))
        if not is_beside or ratio <= widest or not low.workers < middle < high.workers:
            continue
        # A worker does at most as much as it does among fewer of them: that bounds the throughput that could hide in the gap.
        if low.level + math.log(ratio) <= top + tolerance or is_flat(points, index, top - tolerance):
            continue
        widest, found = (
            ratio,
            WorkerCountTrial(middle, f"the best number may be between {low.workers} and {high.workers}"),
        )
    return found


def is_flat(points: Sequence[Point], index: int, level: float) -> bool:
    """Whether the points around this gap are all on the top: three in a row hide nothing between them."""
    near = points[max(0, index - 1) : index + 3]
    runs = [all(p.level >= level for p in three) for three in (near[:3], near[-3:]) if len(three) == 3]
    return any(runs)


def again(points: Sequence[Point]) -> WorkerCountTrial | None:
    """The top, or a point as good but for noise, until each was measured `SURE` times: the best of many is a lucky one."""
    top = max(point.level for point in points)
    near = [point for point in points if point.level >= top - DOUBT / 2 and point.look_count < SURE]
    if not near:
        return None
    least = min(near, key=lambda point: (point.look_count, -point.level))
    return WorkerCountTrial(least.workers, "one of the best so far: measured again, because that may have been chance")


def percent(step: float) -> str:
    """A step of the level in per cent: `+12 %`."""
    return f"{100 * math.expm1(step):+.0f} %"
