"""A starved priority: it had work for longer than a tick, and only more urgent work ran.

Quotas exist to prevent this (law 3): within a tick every priority gets its share. They fail where a quota is unlimited, or so
large that it is never spent. The proposals have the shape of the default rule, halved at each priority, and become smaller.
Priority 0 stays unlimited unless it takes a large share of the time itself.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..facts import COUNT_MIN, Facts, Key
from .finding import AdviceFinding

#: Share of the workers' time that more urgent work must have taken while the starved priority waited.
_TAKEN: Final = 0.9
_FIRSTS: Final = (100, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)


def starved_priority(facts: Facts) -> AdviceFinding | None:
    """Propose smaller quotas for urgent priorities if others wait longer than a tick only because of urgent work."""
    tick_ns = facts.setting.tick_ns
    for key, waits in facts.harmed.items():
        nothing_ns, taken, culprits = _starved(facts, key)
        if nothing_ns < tick_ns or taken < _TAKEN or not culprits:
            continue
        return AdviceFinding(
            "quotas",
            "quotas",
            _candidates(facts, key[1], is_first_culprit=0 in culprits),
            key,
            f"When {facts.name_of(key)} had work, for {nothing_ns / 1e6:.0f} ms in the median nothing of its priority or"
            f" below ran, longer than a tick ({tick_ns / 1e6:.0f} ms); {taken:.0%} of the workers' time went to priority"
            f" {', '.join(map(str, sorted(culprits)))} meanwhile, whose turn the quotas ({_shown(facts.setting.quotas)}) did"
            f" not end. It waited {waits.mean / 1e6:.0f} ms on average and {waits.p99 / 1e6:.0f} ms at the 99th percentile.",
            goal_ns=tick_ns,
            data={"nothing_ran_ms": nothing_ns / 1e6, "taken": taken, "by": sorted(culprits), "tick_ms": tick_ns / 1e6},
        )
    return None


def _starved(facts: Facts, key: Key) -> tuple[float, float, set[int]]:
    """(median ns in which nothing of this priority or below ran although some was queued; share of the workers' time that more
    urgent work took meanwhile; priorities that took more than a quarter of that).
    """
    columns = facts.columns
    begins = columns["arrival"][facts.mask(key) & (columns["wait"] > 0)]
    starts = np.sort(columns["start"][(columns["priority"] >= key[1]) & (columns["wait"] >= 0)])
    index = np.searchsorted(starts, begins, side="right")
    begins, index = begins[index < len(starts)], index[index < len(starts)]
    if len(begins) < COUNT_MIN:
        return 0.0, 0.0, set()
    ends = starts[index]
    nothing = float((ends - begins).sum()) * facts.setting.threads
    by: dict[int, float] = {}
    for priority in range(key[1]):
        mask = columns["priority"] == priority
        if mask.any():
            by[priority] = float((_busy_until(facts, mask, ends) - _busy_until(facts, mask, begins)).sum())
    taken = sum(by.values())
    culprits = {priority for priority, ns in by.items() if ns > taken / 4}
    return float(np.median(ends - begins)), min(1.0, taken / nothing) if nothing else 0.0, culprits


def _busy_until(facts: Facts, mask: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Run time of these actions before each moment of `at`. An action that begins exactly then counts as not begun."""
    order = np.argsort(facts.columns["start"][mask])
    starts = facts.columns["start"][mask][order]
    before = np.concatenate(([0], np.cumsum(facts.columns["run"][mask][order])))
    busy: np.ndarray = before[np.searchsorted(starts, at, side="left")]
    return busy


def _candidates(facts: Facts, starved: int, *, is_first_culprit: bool) -> tuple[tuple[int, ...], ...]:
    """Quotas from priority 0 down to the starved one; the last entry holds for all priorities below."""
    first = [] if is_first_culprit else [0]
    found = []
    for each in _FIRSTS:
        limited = [max(1, each >> step) for step in range(starved + 1 - len(first))]
        quotas = (*first, *limited)
        while len(quotas) > 1 and quotas[-1] == quotas[-2]:
            quotas = quotas[:-1]
        if quotas != facts.setting.quotas:
            found.append(quotas)
    return tuple(dict.fromkeys(found))


def _shown(quotas: tuple[int, ...]) -> str:
    return ", ".join("unlimited" if not quota else str(quota) for quota in quotas) or "the default"
