"""Urgency: which priority of the backplane a request has; the one place that turns the one scale into the other.

Requests have any whole number, larger is more urgent (seed 001, section 5.1.2); a backplane has priorities 0..N-1, and 0 is
highest. What is posted with priority 0 or less runs at the policy's `base`, by default the lowest; each `step` above it is
one priority higher, up to 1. Priority 0 is not for requests: something must always be able to come before bulk work, however
old it grows.
"""

from __future__ import annotations

from .policy import KernelPolicy

#: The most urgent a request can get.
HIGHEST = 1
#: No request is so urgent, but for one of PRIORITY_MAX, for which somebody looks in vain: one more is not a machine word.
NEVER = (1 << 62) - 1


def backplane_priority(urgency: int, policy: KernelPolicy, priorities: int) -> int:
    """Of a request with this priority, grown with its age, in a backplane with so many.

    >>> [backplane_priority(urgency, KernelPolicy(), 8) for urgency in (-5, 0, 9, 10, 35, 1000)]
    [7, 7, 7, 6, 4, 1]
    """
    lowest = priorities - 1
    base = lowest if policy.base is None else min(policy.base, lowest)
    if urgency <= 0:
        return base
    return max(min(HIGHEST, base), base - urgency // policy.step)


def urgency_above(priority: int, policy: KernelPolicy, priorities: int) -> int:
    """From which urgency on a request has a higher one than this priority of the backplane.

    >>> [urgency_above(priority, KernelPolicy(), 8) for priority in (7, 6, 2)]
    [10, 20, 60]
    """
    base = backplane_priority(0, policy, priorities)
    if priority <= min(HIGHEST, base):
        return NEVER
    return max(1, policy.step * (base - priority + 1))
