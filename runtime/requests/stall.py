"""Stall: whether the requests of a kernel wait for each other so that none of them can ever go on, and why.

The source's thread exhaustion (seed 001, section 5.1.3): all workers execute requests that wait for sub-requests, which no
worker is left to execute, or for room to post them. Here it is seen, not guessed from time that passes: every execution waits
in the kernel, for something that only another execution could bring about, and nothing that is ready may be begun. What waits
for somebody outside (a full rejoin pool) is no stall yet: he may come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, NamedTuple

from .element import Element
from .owners import Part

if TYPE_CHECKING:
    from .ledger import Ledger

#: Requests named in a report.
NAMED_MAX = 8


class Stall(NamedTuple):
    """Nothing goes on."""

    #: "workers": all of them execute; "lanes": what is ready is of lanes that have all that they may; "nothing": nothing is;
    #: "rejoin": what has ended fills the rejoin pool, and those whose it is wait to post more.
    cause: str
    #: For people: what waits for what, and the remedy.
    text: str


def stall_of(ledger: Ledger, workers: Collection[str] | None = None) -> Stall | None:
    """What keeps everything from going on; None: something does, or may.

    `workers`: those that there are or may come to be; None: as many as the policy says.
    """
    held_by = {name: held.elements[0] for name, held in ledger.workers.items() if held.elements}
    executing = [*held_by.values()]
    if not executing or ledger.blocked_count < len(executing):
        return None
    is_short = ledger.has_takeable and workers is not None and held_by.keys() >= set(workers)
    if ledger.has_takeable and not is_short:
        return None
    if ledger.admitted or ledger.handed:  # they have what they wait for, and are being told
        return None
    if any(not _is_hopeless(element, ledger) for element in executing):
        return None
    waiting = _waiting(executing)
    if any(element.waits_for == "room" for element in executing) and sum(ledger.rejoinable) >= ledger.policy.rejoin:
        return Stall(
            "rejoin",
            f"all executing requests wait: {waiting}; the rejoin pool is full: {sum(ledger.rejoinable)} requests have ended, "
            f"and those who would rejoin them wait to post: rejoin between posts (map_unordered), or have a larger rejoin pool "
            f"(rejoin = {ledger.policy.rejoin})",
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
            remedy = "post sub-requests in a lane below that of who waits for them"
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
            "workers as they may have: post sub-requests in a lane below that of who waits for them",
        )
    return Stall(
        "nothing",
        f"all executing requests wait: {waiting}; nothing is ready, and what they wait for is executed by none of them: does "
        "one wait for its own owner?",
    )


def _is_hopeless(element: Element, ledger: Ledger) -> bool:
    """Whether what it waits for can only come from a request, not from somebody outside."""
    if sum(ledger.rejoinable) < ledger.policy.rejoin:
        return bool(element.waits_for)
    # Somebody may rejoin what has ended; but not an execution that waits itself, and whose all of it is.
    if all(_waits(account.owner) for account in ledger.owners if account.done):
        return bool(element.waits_for)
    # Then there is room, for it, or for what it waits for to be posted and executed.
    is_for_posters = ledger.posters.count > 0 and ledger.executing.total < ledger.executing.total_max
    return element.waits_for == "rejoin" and not is_for_posters


def _waits(owner: Hashable) -> bool:
    """Whether nobody but an execution that waits rejoins for it."""
    asking = owner.whose if isinstance(owner, Part) else owner
    return isinstance(asking, Element) and bool(asking.waits_for)


def _waiting(executing: list[Element]) -> str:
    kinds = Counter(f"{each.runnable} in lane {each.lane} for {_WORDS[each.waits_for]}" for each in executing)
    named = [f"{count} x {kind}" for kind, count in kinds.most_common(NAMED_MAX)]
    return ", ".join(named)


_WORDS = {"rejoin": "its sub-requests", "room": "room in the ready pool"}
