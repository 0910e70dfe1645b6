"""Too few threads for blocking work: while work waited, all workers were busy, and mostly blocked.

More threads do not compute more, since one at a time holds the interpreter, so the rule considers the blocked part alone.
Whether the work spreads over enough objects for more threads is left to the simulation. With one thread and `preempt = false`
one action runs at a time in the whole backplane; code written for that would not survive a second thread.
"""

from __future__ import annotations

from typing import Final

from ..facts import Facts
from .finding import AdviceFinding

#: Share of all workers' time while work was queued.
_BUSY: Final = 0.75
#: Share of the actions' run time; below it there is less to gain than a second thread costs.
_BLOCKED: Final = 0.5
#: A thread costs some 60 KB and its part in the leader hand-over; a system that needs more should use `async def` operations.
_THREADS_MAX: Final = 64
_STEPS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def too_few_threads(facts: Facts) -> AdviceFinding | None:
    """Propose more threads if work waited while all workers were blocked."""
    threads = facts.setting.threads
    is_alone = threads == 1 and not facts.setting.preempt
    if is_alone or threads >= _THREADS_MAX or not facts.harmed or not facts.queued_ns:
        return None
    busy = facts.while_queued("run") / facts.queued_ns / threads
    if busy < _BUSY or facts.blocked_share < _BLOCKED:
        return None
    key, waits = next(iter(facts.harmed.items()))
    return AdviceFinding(
        "threads",
        "threads",
        tuple(each for each in _STEPS if each > threads),
        key,
        f"While work waited ({facts.queued_ns / 1e9:.1f} s of {facts.lasted_ns / 1e9:.1f} s) the {_workers(threads)} busy"
        f" {busy:.0%} of the time, {facts.blocked_share:.0%} of it blocked and not computing;"
        f" {facts.name_of(key)} waited {waits.mean / 1e6:.0f} ms on average and {waits.p99 / 1e6:.0f} ms at the 99th"
        f" percentile, and ran {facts.run_ns(key) / 1e6:.1f} ms.",
        goal_ns=facts.run_ns(key),
        data={
            "threads": threads, "busy_while_queued": busy, "blocked": facts.blocked_share,
            "queued_s": facts.queued_ns / 1e9, "lasted_s": facts.lasted_ns / 1e9,
        },
    )  # fmt: skip


def _workers(threads: int) -> str:
    return "only worker was" if threads == 1 else f"{threads} workers were"
