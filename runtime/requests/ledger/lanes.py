"""Lanes: how many requests of each level may be executing, and ready, so that those below always find a place.

Constrained multi-lane scheduling (seed 001, section 5.1.3). With equal workers and deep hierarchies, all workers may come to
execute requests that wait for sub-requests, and no worker is left for those. So lanes 0 to 2 have a share each, in percent of
the workers and of the entries of the ready pool. A lane may use its own share and the unused shares of the lanes above it (of
smaller number); lane 3 is never constrained. In sums: the first k lanes together never have more than their shares together.
"""

from __future__ import annotations

from collections.abc import Sequence

from .element import LANES


def shares(percents: Sequence[int], total: int) -> tuple[int, ...]:
    """The most that lanes 0..k may have together, for each constrained lane k, of `total` workers or entries.

    >>> shares((0, 20, 20), 100), shares((0, 20, 20), 10)
    ((0, 20, 40), (0, 2, 4))

    A lane with a share has one at least, however few there are: a share of nothing would hold its requests for ever.

    >>> shares((0, 20, 20), 4)
    (0, 1, 2)
    """
    sums: list[int] = []
    for percent in percents:
        own = max(1, total * percent // 100) if percent else 0
        sums.append((sums[-1] if sums else 0) + own)
    return tuple(sums)


class Lanes:
    """Counts of each lane against their limits, in one place: executing, or in the ready pool. Holds no requests."""

    __slots__ = ("counts", "limits", "peaks", "total", "total_max")

    def __init__(self, total_max: int, limits: Sequence[int] = ()) -> None:
        """`limits` as from `shares`; none: no lane is constrained."""
        self.counts = [0] * LANES
        #: The highest count of each lane since the last `take_peaks`.
        self.peaks = [0] * LANES
        self.total = 0
        self.total_max = total_max
        self.limits: tuple[int, ...] = tuple(limits)

    def has_room(self, lane: int) -> bool:  # hot: scripts/bench requests
        """Whether one more request of this lane is allowed."""
        if self.total >= self.total_max:
            return False
        limits = self.limits
        if lane >= len(limits):
            return True
        counts = self.counts
        together = 0
        for each in range(len(limits)):
            together += counts[each]
            if each >= lane and together >= limits[each]:
                return False
        return True

    def add(self, lane: int) -> None:
        """Count one more request of this lane."""
        count = self.counts[lane] = self.counts[lane] + 1
        if count > self.peaks[lane]:
            self.peaks[lane] = count
        self.total += 1

    def remove(self, lane: int) -> None:
        """Count one request less of this lane."""
        assert self.counts[lane] > 0, "more have gone than had come"
        self.counts[lane] -= 1
        self.total -= 1

    def take_peaks(self) -> None:
        """Begin the peaks anew, at the present counts."""
        self.peaks = self.counts.copy()
