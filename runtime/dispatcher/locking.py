"""Locking: who may use which data now. Ordered acquisition, so that nobody ever waits in a circle.

Dijkstra's partial order (seed 003, sections 3.1 and 4.2): every lock has a rank, and whoever waits for one holds only locks
of lower rank. So the holder of the highest lock that anybody waits for waits for nobody, and a circle cannot close. To add a
lock to what is held, all of higher rank are released and taken again (figure 6); to let one go, none. Readers share a lock; a
free lock has nobody waiting for it, because whoever releases it hands it on: to the most urgent, of these to the oldest, and
after `PASSED_MAX` of these to the oldest of all.

Pure: the caller holds the dispatcher's mutex, and is told what has become of others; he tells them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from .observed import Observed

#: (given order or serial, serial, number among the data of one protector): all different, compared lexically.
Rank = tuple[int, int, int]

#: How often others are let in before who has waited longest. The scheduler's quotas do not reach who waits for a lock: two
#: workers with urgent handlers of one datum would keep all others from it for ever. More, and those wait longer where there is
#: much to do; fewer, and an urgent one waits more often for one that is not: one in 65 times, for one handler.
PASSED_MAX = 64


class Holder(Protocol):
    """Who holds and waits: a delivery. `held` is in ascending rank."""

    priority: int
    held: list[Claim]
    #: What it has asked for and does not have yet, and the lock of these it waits for.
    wanted: Sequence[Claim]
    waits_on: Lock | None


#: Before all others: whoever waits for it holds nothing.
FIRST: Final[Rank] = (-(1 << 80), 0, 0)
#: No bound: any number of readers.
MANY: Final = 1 << 60


class Lock:
    """The right to use one datum; or one of `readers_max` places."""

    __slots__ = (
        "arrived_count",
        "lowest",
        "name",
        "observed",
        "passed_count",
        "rank",
        "readers",
        "readers_max",
        "waiting",
        "writer",
        "written_count",
    )

    def __init__(self, rank: Rank, name: str, readers_max: int = MANY) -> None:
        self.rank = rank
        self.name = name
        self.readers_max = readers_max
        #: The datum, if it tells what has changed in it (observed.py).
        self.observed: Observed | None = None
        self.writer: Holder | None = None
        self.readers: list[Holder] = []
        #: Heap of (priority, the how-manieth it is, who): one entry each.
        self.waiting: list[tuple[int, int, Holder]] = []
        self.arrived_count = 0
        #: The lowest priority of any who waits, or has waited since nobody did.
        self.lowest = 0
        #: Who was let in before the oldest of all, since that was let in.
        self.passed_count = 0
        #: How often somebody was given it to write.
        self.written_count = 0

    @property
    def holders(self) -> list[Holder]:
        """Who stands in the way of those that wait."""
        return [self.writer] if self.writer is not None else [*self.readers]

    def __repr__(self) -> str:
        return f"<Lock {self.name} {self.rank}>"


class Claim(NamedTuple):
    """A lock, and how it is wanted."""

    lock: Lock
    is_shared: bool


class Others(NamedTuple):
    """What a change means for others."""

    #: They have all that they waited for.
    ready: list[Holder]
    #: They wait for somebody else now, who is to inherit their priority.
    moved: list[Holder]


#: Nothing has changed for anybody: the usual case, which makes no lists.
NOBODY: Final = Others([], [])


def change(holder: Holder, claims: Sequence[Claim]) -> tuple[bool, Others]:
    """Have `holder` hold exactly `claims` (ascending, each lock once).

    True: it does; False: it waits, and will be among those that are `ready` after another's change. It never waits for what
    it holds already, at least as strongly.
    """
    held = holder.held
    if not held:
        return take(holder, claims), NOBODY
    if held == [*claims]:
        return True, NOBODY
    others = Others([], [])
    wanted = {claim.lock: claim for claim in claims}
    having = {claim.lock: claim.is_shared for claim in held}
    new = next((c for c in claims if c.lock not in having or (having[c.lock] and not c.is_shared)), None)
    kept: list[Claim] = []
    for claim in reversed(held):
        wish = wanted.get(claim.lock)
        if wish is None or (new is not None and _must_be_released(claim, new)):  # of what is new: what is too weak
            _free(holder, claim)
        else:
            kept.append(wanted.pop(claim.lock))
            if claim.is_shared or not wish.is_shared:
                continue
            claim.lock.writer = None  # others may look at it as well, from now on
            claim.lock.readers.append(holder)
        _hand_on(claim.lock, others)
    holder.held = kept[::-1]
    return take(holder, [claim for claim in claims if claim.lock in wanted]), others


def take(holder: Holder, wanted: Sequence[Claim]) -> bool:  # hot: scripts/bench dispatcher_overhead
    """Take further ones, which are above all that it holds, one after the other, as far as it goes; False: it waits."""
    held = holder.held
    held_before = len(held)
    for claim in wanted:
        lock, is_shared = claim
        if is_shared:
            if lock.writer is not None or len(lock.readers) >= lock.readers_max:
                break
            if lock.waiting:
                if lock.waiting[0][0] <= holder.priority or lock.passed_count >= PASSED_MAX:
                    break
                lock.passed_count += 1
            lock.readers.append(holder)
        else:
            if lock.writer is not None or lock.readers:
                break
            lock.writer = holder
            lock.written_count += 1
        held.append(claim)
    else:
        holder.wanted = ()
        return True
    holder.wanted = wanted[len(held) - held_before :]
    holder.waits_on = lock
    lock.arrived_count += 1
    if not lock.waiting or holder.priority > lock.lowest:
        lock.lowest = holder.priority
    heapq.heappush(lock.waiting, (holder.priority, lock.arrived_count, holder))
    return False


def release(holder: Holder) -> Others:  # hot: scripts/bench dispatcher_overhead
    """Let go of everything, also of what it waits for."""
    lock, held = holder.waits_on, holder.held
    others = None
    if lock is not None:
        holder.waits_on, holder.wanted = None, ()
        lock.waiting = [each for each in lock.waiting if each[2] is not holder]
        heapq.heapify(lock.waiting)
        _hand_on(lock, others := Others([], []))  # the readers behind a writer that has gone
    while held:
        lock, is_shared = held.pop()
        if is_shared:  # `_free`, without the call
            lock.readers.remove(holder)
        else:
            lock.writer = None
        if lock.waiting:
            _hand_on(lock, others := others or Others([], []))
    return others or NOBODY


def boosted(holder: Holder) -> Others:
    """Its priority has changed while it waits, perhaps: it goes to where it belongs now."""
    lock = holder.waits_on
    if lock is None:
        return NOBODY
    lock.waiting = [(holder.priority, each[1], holder) if each[2] is holder else each for each in lock.waiting]
    lock.lowest = max(lock.lowest, holder.priority)
    heapq.heapify(lock.waiting)
    others = Others([], [])
    _hand_on(lock, others)  # a reader that is now before all writers joins those that read
    return others


def ordered(claims: Sequence[Claim]) -> list[Claim]:
    """In ascending rank, each lock once, exclusive where it is wanted both ways."""
    found: list[Claim] = []
    for claim in sorted(claims, key=_by_rank):
        if found and found[-1].lock is claim.lock:
            found[-1] = Claim(claim.lock, claim.is_shared and found[-1].is_shared)
        else:
            found.append(claim)
    return found


def _by_rank(claim: Claim) -> Rank:
    return claim.lock.rank


def _must_be_released(held: Claim, new: Claim) -> bool:
    """Whether who is about to wait for `new`, perhaps, may not hold this one meanwhile."""
    return held.lock.rank >= new.lock.rank


def _free(holder: Holder, claim: Claim) -> None:
    """It holds this one no more; whoever is next has not been let in yet."""
    if claim.is_shared:
        claim.lock.readers.remove(holder)
    else:
        claim.lock.writer = None


def _hand_on(lock: Lock, others: Others) -> None:
    """Let in those that wait, as far as they go together."""
    waiting = lock.waiting
    while waiting and lock.writer is None and len(lock.readers) < lock.readers_max:
        is_oldest_next = lock.passed_count >= PASSED_MAX
        entry = min(waiting, key=_by_age) if is_oldest_next else waiting[0]
        holder = entry[2]
        claim = holder.wanted[0]
        if not claim.is_shared and lock.readers:
            return
        if is_oldest_next:
            waiting.remove(entry)
            heapq.heapify(waiting)
            lock.passed_count = 0
            if waiting and waiting[0][0] < holder.priority:
                others.moved.append(waiting[0][2])
        else:
            heapq.heappop(waiting)
            lock.passed_count = lock.passed_count + 1 if _passes(entry, lock) else 0
        if claim.is_shared:
            lock.readers.append(holder)
        else:
            lock.writer = holder
            lock.written_count += 1
        holder.waits_on = None
        holder.held.append(claim)
        (others.ready if take(holder, holder.wanted[1:]) else others.moved).append(holder)


def _passes(entry: tuple[int, int, Holder], lock: Lock) -> bool:
    """Whether who is let in passes an older one: equals are let in by age, so only where priorities differ."""
    return entry[0] < lock.lowest and any(each[1] < entry[1] for each in lock.waiting)


def _by_age(entry: tuple[int, int, Holder]) -> int:
    return entry[1]
