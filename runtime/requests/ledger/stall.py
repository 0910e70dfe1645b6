"""Stall: whether the requests of a kernel wait for each other so that none of them can make progress, and why.

The source's thread exhaustion (seed 001, section 5.1.3): all workers execute requests that wait for sub-requests, or for room
to post them, and no worker is left to execute those. It is read from the state, not guessed from time that passes: every
execution waits in the kernel, for an event that only another execution could bring about, and no ready request may begin. A
wait for a caller outside (a full rejoin pool) is no stall yet: that caller may come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, NamedTuple

from .element import Element
from .owners import ScopedOwner

if TYPE_CHECKING:
    from .ledger import Ledger

#: Kinds of requests named in a report, at most.
NAMED_MAX = 8


class Stall(NamedTuple):
    """Why no request of a kernel can make progress."""

    #: "workers": all of them execute; "lanes": the ready requests are of lanes at their limits; "nothing": no request is
    #: ready; "rejoin": ended requests fill the rejoin pool, and their owners wait to post more.
    cause: str
    #: For people: the waits, and the remedy.
    text: str


def stall_of(ledger: Ledger, workers: Collection[str] | None = None) -> Stall | None:
    """Why no request can make progress; None: one can, or may.

    `workers`: those that exist or may still come; None: as many as the policy says.
    """
    held_by = {name: held.elements[0] for name, held in ledger.workers.items() if held.elements}
    executing = [*held_by.values()]
    if not executing or ledger.blocked_count < len(executing):
        return None
    is_short = ledger.has_takeable and workers is not None and held_by.keys() >= set(workers)
    if ledger.has_takeable and not is_short:
        return None
    if ledger.admitted or ledger.handed:  # some have their answers, and are being resumed
        return None
    if any(not _is_hopeless(element, ledger) for element in executing):
        return None
    waiting = _waiting(executing)
    if any(element.waits_for == "room" for element in executing) and sum(ledger.rejoinable) >= ledger.policy.rejoin:
        return Stall(
            "rejoin",
            f"all executing requests wait: {waiting}; the rejoin pool is full: {sum(ledger.rejoinable)} requests have ended, "
            "and the requests that would rejoin them wait to post: rejoin between posts (map_unordered), or have a larger "
            f"rejoin pool (rejoin = {ledger.policy.rejoin})",
        )
    ready = sum(ledger.entries.counts)
    if is_short or ledger.executing.total >= ledger.executing.total_max:
        if is_short:
            remedy = f"there are fewer workers than the {ledger.policy.workers} of the policy: have as many replicas"
        elif ledger.policy.mode == "plain":
            remedy = (
                'constrain the upper lanes (mode = "lanes"), or have more workers than requests that wait at a time'
            )
        else:
            remedy = "post sub-requests in a lane below that of the requests that wait for them"
        return Stall(
            "workers",
            f"thread exhaustion: all {len(executing)} workers execute requests that wait: {waiting}; {ready} requests are "
            f"ready, and no worker is left to execute them: {remedy}",
        )
    if ready:
        lanes = [lane for lane, count in enumerate(ledger.entries.counts) if count]
        return Stall(
            "lanes",
            f"all executing requests wait: {waiting}; the {ready} that are ready are of lanes {lanes}, which have as many "
            "workers as they may have: post sub-requests in a lane below that of the requests that wait for them",
        )
    return Stall(
        "nothing",
        f"all executing requests wait: {waiting}; nothing is ready, and none of them executes a request that another waits "
        "for: is a request waiting for its own owner?",
    )


def _is_hopeless(element: Element, ledger: Ledger) -> bool:
    """Whether only another request can end its wait, and no caller outside."""
    if sum(ledger.rejoinable) < ledger.policy.rejoin:
        return bool(element.waits_for)
    # Ended requests may still be rejoined, unless all of them belong to executions that wait themselves.
    if all(_waits(account.owner) for account in ledger.owners if account.done):
        return bool(element.waits_for)
    # A rejoin then makes room: for this request, or for posting and executing those that it waits for.
    is_for_posters = ledger.posters.count > 0 and ledger.executing.total < ledger.executing.total_max
    return element.waits_for == "rejoin" and not is_for_posters


def _waits(owner: Hashable) -> bool:
    """Whether only an execution that waits could rejoin the requests of this owner."""
    asking = owner.whose if isinstance(owner, ScopedOwner) else owner
    return isinstance(asking, Element) and bool(asking.waits_for)


def _waiting(executing: list[Element]) -> str:
    kinds = Counter(f"{each.runnable} in lane {each.lane} for {_WORDS[each.waits_for]}" for each in executing)
    named = [f"{count} x {kind}" for kind, count in kinds.most_common(NAMED_MAX)]
    return ", ".join(named)


_WORDS = {"rejoin": "its sub-requests", "room": "room in the ready pool"}
