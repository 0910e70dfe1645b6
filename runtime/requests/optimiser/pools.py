"""Pools: how many places the ready pool and the rejoin pool need so that they cost no throughput.

The ready pool bridges the time that a poster takes to fill a place again (Little's law: rate x time), and a few requests a
worker; it grows beyond that when workers were idle while posters waited. All admitted requests may end before their owner
rejoins any. So the rejoin pool holds the ready pool and the workers; it grows beyond that where it helps (taking.py). Neither
shrinks: a larger pool costs memory alone, and a smaller one may stop a hierarchy whose requests post and join each other.
"""

from __future__ import annotations

from .policy import OptimiserPolicy
from .sample import KernelSample, Setting
from .taking import is_behind

#: How long posters may take to fill a free place again: ten turns of a busy interpreter (the switch interval is 5 ms).
REFILL_NS = 50_000_000
#: Requests that wait behind each worker: with fewer, lanes and priorities have nothing to choose from.
READY_PER_WORKER = 4
#: Growth is by half at least, so that a rate that creeps up does not make a move each interval.
GROWTH = 1.5


def grown(
    sample: KernelSample, setting: Setting, policy: OptimiserPolicy, *, tries_rejoin: bool = False
) -> tuple[Setting, str] | None:
    """The setting with larger pools, and why; None when they are large enough or may not grow.

    `tries_rejoin`: the rejoin pool is full, and more room in it may help.
    """
    ready, rejoin, why = setting.ready, setting.rejoin, ""
    needed = max(READY_PER_WORKER * setting.workers, sample.ended_count * REFILL_NS // sample.interval_ns)
    if is_dry(sample, setting):
        idle = sample.workers - sample.executing_count
        ready, why = (
            2 * ready,
            f"{idle} workers were idle while {sample.posting_count} posters waited for room in a ready pool of {ready}",
        )
    elif needed > ready:
        ready = max(needed, int(GROWTH * ready))
        why = f"{setting.workers} workers at {per_s(sample)}/s need {needed} entries in the ready pool"
    if tries_rejoin:
        rejoin, more = 2 * rejoin, f"{sample.rejoinable_count} of {rejoin} entries of the rejoin pool were in use"
        why = f"{why}; {more}" if why else more
    elif rejoin < ready + setting.workers:
        rejoin = max(ready + setting.workers, int(GROWTH * rejoin))
        why = why or f"the rejoin pool has an entry for each of {ready} ready requests and {setting.workers} workers"
    larger = Setting(
        setting.workers,
        max(setting.ready, min(ready, policy.ready_max)),
        max(setting.rejoin, min(rejoin, policy.rejoin_max)),
    )
    return (larger, why) if larger != setting else None


def is_dry(sample: KernelSample, setting: Setting) -> bool:
    """Whether workers were idle because the ready pool was too small: not for want of work, or of room for results."""
    is_idle = sample.posting_count > 0 and not sample.ready_count and sample.executing_count < sample.workers
    return is_idle and not is_behind(sample, setting)


def per_s(sample: KernelSample) -> int:
    """Requests that ended a second."""
    return round(sample.ended_count * 1e9 / sample.interval_ns)
