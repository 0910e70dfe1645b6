"""Balance: chooses the object for a call without a key (seed 002: "load balance between available objects").

It is the least busy object: fewest actions queued, running or waiting. Each search starts one object further and stops at
the first idle one, so it is short when there is little to gain. Of more than `LOOK_MAX` objects only that many in a row are
compared: the best of a few is nearly as good as the best of all, at a bounded cost (Mitzenmacher, "The Power of Two Choices").
"""

from __future__ import annotations

from collections.abc import Collection

from ..objects.app_object import AppObject

#: Objects compared per search. 16 take about a microsecond.
LOOK_MAX = 16


def least_busy(objects: list[AppObject], start: int, avoid: Collection[str] = ()) -> AppObject | None:
    """The least busy of the `LOOK_MAX` objects from index `start`; one named in `avoid` only if all compared ones are."""
    count = len(objects)
    best: AppObject | None = None
    best_load = 1 << 62
    for offset in range(min(count, LOOK_MAX)):
        object = objects[(start + offset) % count]
        load = object._load
        if avoid and object._name in avoid:
            load += 1 << 61
        if load < best_load:
            best, best_load = object, load
            if load == 0:
                break
    return best
