"""A starved priority: it had work for longer than a tick, and only more urgent work ran.

That is what quotas are for (law 3): within a tick everybody gets a turn. They do not, where a quota is unlimited, or so
large that it is never spent. The proposals have the shape of the default rule, half of the one above at each step, and
become smaller. Priority 0 stays unlimited unless it is who takes all the time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..facts import COUNT_MIN, Facts, Key
from .finding import Finding

#: Of the workers' time while the starved waited, what more urgent work took.
_TAKEN: Final = 0.9
_FIRSTS: Final = (100, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2)


def starved_priority(facts: Facts) -> Finding | None:
    """Smaller quotas above, for who waits longer than a tick for nothing else than more urgent work."""
    for key, waits in facts.harmed.items():
        if waits.p50 < facts.setting.tick_ns:
            continue
        taken, culprits = _taken(facts, key)
        if taken < _TAKEN or not culprits:
            continue
        quotas = facts.setting.quotas
        return Finding(
            "quotas",
            "quotas",
            _candidates(facts, key[1], is_first_culprit=0 in culprits),
            key,
            f"{facts.name_of(key)} waited {waits.p50 / 1e6:.0f} ms in the median and {waits.p99 / 1e6:.0f} ms at the 99th"
            f" percentile, longer than a tick ({facts.setting.tick_ns / 1e6:.0f} ms); meanwhile {taken:.0%} of the"
            f" workers' time went to more urgent work (priority {', '.join(map(str, sorted(culprits)))}), whose quota"
            f" ({_shown(quotas)}) did not end its turn.",
            goal_ns=facts.setting.tick_ns / 2,
            data={"taken": taken, "by": sorted(culprits), "tick_ms": facts.setting.tick_ns / 1e6},
        )
    return None


def _taken(facts: Facts, key: Key) -> tuple[float, set[int]]:
    """(share of the workers' time that more urgent work took while these waited, by which priorities most of it)."""
    columns = facts.columns
    of_it = facts.mask(key) & (columns["wait"] > 0)
    begins, ends = columns["arrival"][of_it], columns["start"][of_it]
    if len(begins) < COUNT_MIN:
        return 0.0, set()
    waited = float((ends - begins).sum()) * facts.setting.threads
    by: dict[int, float] = {}
    for priority in range(key[1]):
        mask = columns["priority"] == priority
        if mask.any():
            by[priority] = float((_busy_until(facts, mask, ends) - _busy_until(facts, mask, begins)).sum())
    taken = sum(by.values())
    return min(1.0, taken / waited) if waited else 0.0, {priority for priority, ns in by.items() if ns > taken / 4}


def _busy_until(facts: Facts, mask: np.ndarray, at: np.ndarray) -> np.ndarray:
    """How much of these actions' runs lies before each moment; one that runs then counts as not begun."""
    order = np.argsort(facts.columns["start"][mask])
    starts = facts.columns["start"][mask][order]
    before = np.concatenate(([0], np.cumsum(facts.columns["run"][mask][order])))
    busy: np.ndarray = before[np.searchsorted(starts, at, side="left")]
    return busy


def _candidates(facts: Facts, starved: int, *, is_first_culprit: bool) -> tuple[tuple[int, ...], ...]:
    """Quotas down to the starved priority, the last of which repeats."""
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
