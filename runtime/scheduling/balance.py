"""Balance: which object gets a call that names none (seed 002: "load balance between available objects").

The least busy one: fewest actions queued, running or waiting. The search starts one further each time and stops at the
first idle object, so it is short exactly when there is little to gain. With more than `LOOK_MAX` objects it takes the
least busy of that many in a row: choosing the better of a few is nearly as good as the best of all, at a bounded price
(Mitzenmacher, "The Power of Two Choices").
"""

from __future__ import annotations

from collections.abc import Collection

from ..objects.app_object import AppObject

#: Objects looked at. 16 take about a microsecond.
LOOK_MAX = 16


def least_busy(objects: list[AppObject], start: int, avoid: Collection[str] = ()) -> AppObject | None:
    """The least busy of `objects`, looking from index `start`; one named in `avoid` only if all looked at are."""
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
