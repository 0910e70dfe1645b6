"""Shortage: a kernel has fewer worker processes than its policy asks for, however long it waits; and what to write in the TOML.

Processes are the supervisor's (processes.py): a kernel that nobody was given to, because the backplane is missing or `pool` is
misspelt, waits in silence. Which backplanes serve the pool is in the directory, up or not, so this is certain and no guess from
time that passes: one that is down, or not up yet, is no shortage.
"""

from __future__ import annotations

from .policy import KernelPolicy

#: As it is named in `components`.
COMPONENT = "appbackplane.runtime.requests:RequestWorker"


def shortage_of(policy: KernelPolicy, kernel: str, there: int) -> str:
    """One sentence; "": there are enough. `kernel`: "module:Class"; `there`: backplanes that serve its pool, up or not."""
    if policy.kernel != "local" or policy.kind != "processes" or there >= policy.workers:
        return ""
    if not there and policy.pool != KernelPolicy().pool:
        return (
            f"nobody is there to execute requests: no backplane has a component {policy.pool!r}, which the policy names "
            f'(pool = "{policy.pool}"): name the one whose replicas are the workers; where RequestWorker is not subclassed '
            f'that is "{KernelPolicy().pool}", and needs no `pool`'
        )
    if not there:
        return (
            f"nobody is there to execute requests: no backplane has a component {policy.pool!r}: "
            f'add one with components = ["{COMPONENT}"], replicas = {policy.workers}, and kernel = "{kernel}" in its settings'
        )
    return (
        f"{there} of {policy.workers} workers: {policy.pool!r} has no more replicas: have more (replicas = {policy.workers}), "
        f"or fewer workers (workers = {there})"
    )
