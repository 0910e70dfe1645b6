"""Urgency: converts the priority of a request into a priority of the backplane; no other module does.

The priority of a request is any whole number, larger is more urgent (seed 001, section 5.1.2). A backplane has priorities
0..N-1, and 0 is highest. A request of priority 0 or less runs at the policy's `base`, by default the lowest; each `step` above
is one priority higher, up to 1. Priority 0 is not for requests: other work must always be able to run before bulk work,
however old that grows.
"""

from __future__ import annotations

from .policy import KernelPolicy

#: Highest backplane priority of a request.
HIGHEST = 1
#: An urgency that no request reaches, except at PRIORITY_MAX, which then costs a check in vain. One more is no machine word.
NEVER = (1 << 62) - 1


def backplane_priority(urgency: int, policy: KernelPolicy, priorities: int) -> int:
    """Backplane priority, of 0..`priorities` - 1, for a request of this urgency (its priority, grown with its age).

    >>> [backplane_priority(urgency, KernelPolicy(), 8) for urgency in (-5, 0, 9, 10, 35, 1000)]
    [7, 7, 7, 6, 4, 1]
    """
    lowest = priorities - 1
    base = lowest if policy.base is None else min(policy.base, lowest)
    if urgency <= 0:
        return base
    return max(min(HIGHEST, base), base - urgency // policy.step)


def urgency_above(priority: int, policy: KernelPolicy, priorities: int) -> int:
    """The least urgency at which a request has a higher backplane priority than this one; `NEVER`: none does.

    >>> [urgency_above(priority, KernelPolicy(), 8) for priority in (7, 6, 2)]
    [10, 20, 60]
    """
    base = backplane_priority(0, policy, priorities)
    if priority <= min(HIGHEST, base):
        return NEVER
    return max(1, policy.step * (base - priority + 1))
