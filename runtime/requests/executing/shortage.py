"""Shortage: a kernel has fewer worker processes than its policy asks for, and will never get more.

The message says which lines to add to the TOML. The supervisor starts processes (processes.py), so a kernel whose workers'
backplane is missing, or whose `pool` is misspelt, would wait in silence. The routing table lists the backplanes that serve
the pool, whether up or not. So a shortage is found by counting, without a time-out: a backplane that is down, or not up
yet, is not a shortage.
"""

from __future__ import annotations

from ..policy import KernelPolicy

#: The worker component, as it is named in `components`.
COMPONENT = "appbackplane.runtime.requests:RequestWorker"


def shortage_of(policy: KernelPolicy, kernel: str, there: int) -> str:
    """One sentence; "": no shortage. `kernel`: "module:Class"; `there`: number of backplanes that serve its pool, up or not."""
    if policy.kernel != "local" or policy.kind != "processes" or there >= policy.workers:
        return ""
    if not there and policy.pool != KernelPolicy().pool:
        return (
            f"there are no workers: no backplane has a component {policy.pool!r}, which the policy names "
            f'(pool = "{policy.pool}"): name the one whose replicas are the workers; where RequestWorker is not subclassed '
            f'that is "{KernelPolicy().pool}", and needs no `pool`'
        )
    if not there:
        return (
            f"there are no workers: no backplane has a component {policy.pool!r}: "
            f'add one with components = ["{COMPONENT}"], replicas = {policy.workers}, and kernel = "{kernel}" in its settings'
        )
    return (
        f"{there} of {policy.workers} workers: {policy.pool!r} has no more replicas: have more (replicas = {policy.workers}), "
        f"or fewer workers (workers = {there})"
    )
