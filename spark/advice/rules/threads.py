"""Too few threads for blocking work: while work waited all workers were busy, and most of the time with waiting themselves.

More threads do not compute more, since one at a time has the interpreter. So the rule looks at the blocked part alone; that
the work is spread over objects, which more threads could serve, is for the simulation to see. With one thread and
`preempt = false` one action runs at a time in the whole backplane: what is written for that would not survive a second.
"""

from __future__ import annotations

from typing import Final

from ..facts import Facts
from .finding import Finding

#: Of all workers' time while something waited.
_BUSY: Final = 0.75
#: Of the time of actions: below, there is less to gain than a second thread costs.
_BLOCKED: Final = 0.5
#: A thread costs some 60 KB and a turn at the lead; a system that needs more than this needs `async def` operations.
_THREADS_MAX: Final = 64
_STEPS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def too_few_threads(facts: Facts) -> Finding | None:
    """More threads, for who waits while the others are blocked."""
    threads = facts.setting.threads
    is_alone = threads == 1 and not facts.setting.preempt
    if is_alone or threads >= _THREADS_MAX or not facts.harmed or not facts.queued_ns:
        return None
    busy = facts.while_queued("run") / facts.queued_ns / threads
    if busy < _BUSY or facts.blocked_share < _BLOCKED:
        return None
    key, waits = next(iter(facts.harmed.items()))
    return Finding(
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
