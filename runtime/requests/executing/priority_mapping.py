"""Priority mapping: converts the priority of a request into a priority of the backplane; no other module does.

Both scales begin at 0, the most urgent. A backplane has priorities 0..N-1; the scale of requests is finer and has no end. A
request of the default priority, or of a larger number, runs at the policy's `base`, by default the lowest. Each `step` below
the default is one backplane priority higher, up to 1. Ageing may take a request below 0; it still runs at 1 at best, because
other work must always be able to run before bulk work, however old that grows.
"""

from __future__ import annotations

from typing import Final

from ..ledger.element import PRIORITY_MAX, REQUEST_PRIORITY
from ..policy import KernelPolicy

#: Highest backplane priority of a request.
HIGHEST: Final = 1
#: A priority of requests that none ever has.
NEVER: Final = -PRIORITY_MAX


def backplane_priority(priority: int, policy: KernelPolicy, priorities: int) -> int:
    """Backplane priority, of 0..`priorities` - 1, for a request of this priority, as it is after ageing.

    >>> [backplane_priority(priority, KernelPolicy(), 8) for priority in (105, 100, 91, 90, 65, 0, -900)]
    [7, 7, 7, 6, 4, 1, 1]
    """
    lowest = priorities - 1
    base = lowest if policy.base is None else min(policy.base, lowest)
    if priority >= REQUEST_PRIORITY:
        return base
    return max(min(HIGHEST, base), base - (REQUEST_PRIORITY - priority) // policy.step)


def least_urgent_above(backplane: int, policy: KernelPolicy, priorities: int) -> int:
    """The least urgent (largest) request priority that maps to a more urgent backplane priority than `backplane`.

    `NEVER` if none does.

    >>> [least_urgent_above(backplane, KernelPolicy(), 8) for backplane in (7, 6, 2)]
    [90, 80, 40]
    """
    base = backplane_priority(REQUEST_PRIORITY, policy, priorities)
    if backplane <= min(HIGHEST, base):
        return NEVER
    return REQUEST_PRIORITY - max(1, policy.step * (base - backplane + 1))
