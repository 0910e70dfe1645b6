"""Timeline: spread amounts over slots of time. Slots have one length and are numbered from 1970.

Intervals within one slot are added at once; longer ones are cut at the slots' borders, one addition for each slot. Memory: 100
MB, or as much as the slots of the longest interval need.
"""

from __future__ import annotations

from typing import Final

import numpy as np

#: Parts of cut intervals in memory at a time.
_PARTS_MAX: Final = 1 << 20


def spread(begin: np.ndarray, end: np.ndarray, amount: np.ndarray, step_ns: int) -> tuple[np.ndarray, np.ndarray]:
    """(slots, amounts): each `amount` spread evenly from its `begin` to its `end` (ns), added up by slot."""
    first, last = begin // step_ns, np.maximum(begin, end - 1) // step_ns
    is_one = first == last
    slots, amounts = first[is_one], amount[is_one].astype(np.float64)
    if not is_one.all():
        begin, end, first, last, amount = (part[~is_one] for part in (begin, end, first, last, amount))
        block = np.cumsum(last - first + 1) // _PARTS_MAX
        for some in np.split(np.arange(len(block)), np.flatnonzero(np.diff(block)) + 1):
            slot, part = _cut(begin[some], end[some], amount[some], first[some], last[some], step_ns)
            slots, amounts = add_up(np.concatenate([slots, slot]), np.concatenate([amounts, part]))
    return add_up(slots, amounts)


def clipped(
    begin: np.ndarray, end: np.ndarray, amount: np.ndarray, within: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clip intervals to the window [from, until), and reduce their amounts in proportion."""
    chosen = (begin < within[1]) & (np.maximum(begin + 1, end) > within[0])
    begin, end, amount = begin[chosen], end[chosen], amount[chosen]
    low, high = np.maximum(begin, within[0]), np.minimum(end, within[1])
    return low, high, amount * np.where(end > begin, (high - low) / np.maximum(1, end - begin), 1.0)


def _cut(
    begin: np.ndarray, end: np.ndarray, amount: np.ndarray, first: np.ndarray, last: np.ndarray, step_ns: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cut each interval at the borders of its slots `first` to `last`: (slot, amount) of each part."""
    pieces = last - first + 1
    whose = np.repeat(np.arange(len(pieces)), pieces)
    slot = first[whose] + np.arange(len(whose)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    inside = np.minimum(end[whose], (slot + 1) * step_ns) - np.maximum(begin[whose], slot * step_ns)
    part: np.ndarray = amount[whose] * (inside / (end - begin)[whose])
    return slot, part


def add_up(slots: np.ndarray, amounts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add up amounts by slot: (distinct slots, sums)."""
    if not len(slots):
        return slots, amounts
    first = int(slots.min())
    if int(slots.max()) - first <= 4 * len(slots) + 1024:
        sums = np.bincount(slots - first, weights=amounts)
        found = np.flatnonzero(np.bincount(slots - first))
        return found + first, sums[found]
    numbers, places = np.unique(slots, return_inverse=True)
    return numbers, np.bincount(places, weights=amounts)
