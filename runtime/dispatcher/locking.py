"""Locking: which delivery may use which data now. Locks are acquired in one order, so that no circular wait can arise.

Dijkstra's partial order (seed 003, sections 3.1 and 4.2): every lock has a rank, and a holder that waits for one holds only
locks of lower rank. So the holder of the highest lock that has waiters is not waiting itself, and a circle cannot close. To
add a lock, the holder releases all of higher rank and takes them again (figure 6); to release one, none. Readers share a lock.
A free lock has no waiters, because its last holder hands it on: to the most urgent waiter, among equals to the oldest, and
after `PASSED_MAX` overtakings to the oldest of all.

Pure: the caller holds the dispatcher's mutex; it gets back the effects on other holders, and notifies them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from .observed import Observed

#: (given order or serial, serial, number among the data of one protector): unique, compared as tuples.
Rank = tuple[int, int, int]

#: How often more urgent waiters overtake the oldest one. The scheduler's quotas do not reach waiters for a lock: two workers
#: with urgent handlers of one datum would keep all others from it for ever. Higher: low-priority waiters wait longer under
#: load. Lower: an urgent waiter is more often behind a low-priority one (now 1 in 65 times, for one handler).
PASSED_MAX = 64


class LockHolder(Protocol):
    """A delivery as holder of locks and as waiter. `held` is in ascending rank."""

    priority: int
    held: list[LockClaim]
    #: Claims that it lacks, in ascending rank, and the first of their locks: the one it waits for.
    wanted: Sequence[LockClaim]
    waits_on: Lock | None


#: Ranks before all others: a holder that waits for this lock holds no other.
FIRST: Final[Rank] = (-(1 << 80), 0, 0)
#: No bound on readers.
MANY: Final = 1 << 60


class Lock:
    """Read-write lock of one datum; or a semaphore of `readers_max` places."""

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
        #: The datum, if it reports its changes (observed.py).
        self.observed: Observed | None = None
        self.writer: LockHolder | None = None
        self.readers: list[LockHolder] = []
        #: Heap of (priority, arrival number, waiter): one entry per waiter.
        self.waiting: list[tuple[int, int, LockHolder]] = []
        self.arrived_count = 0
        #: The least urgent priority (highest number) of all waiters since the queue was last empty.
        self.lowest = 0
        #: Overtakings in a row: reset when a waiter is let in that overtakes none.
        self.passed_count = 0
        #: Number of exclusive acquisitions.
        self.written_count = 0

    @property
    def holders(self) -> list[LockHolder]:
        """The holders that block its waiters: the writer, or all readers."""
        return [self.writer] if self.writer is not None else [*self.readers]

    def __repr__(self) -> str:
        return f"<Lock {self.name} {self.rank}>"


class LockClaim(NamedTuple):
    """A lock, and whether it is wanted shared or exclusive."""

    lock: Lock
    is_shared: bool


class LockEffects(NamedTuple):
    """Effects of a change on other holders."""

    #: Holders that now have all the locks they waited for.
    ready: list[LockHolder]
    #: Holders that now wait for another holder, which is to inherit their priority.
    moved: list[LockHolder]


#: No other holder is affected: the usual case, which allocates no lists.
NO_EFFECTS: Final = LockEffects([], [])


def change(holder: LockHolder, claims: Sequence[LockClaim]) -> tuple[bool, LockEffects]:
    """Make `holder` hold exactly `claims` (ascending rank, each lock once).

    True: it holds them. False: it waits, and will be in `ready` of a later change by another holder. It never waits for a
    lock that it already holds in the same or a stronger mode.
    """
    held = holder.held
    if not held:
        return take(holder, claims), NO_EFFECTS
    if held == [*claims]:
        return True, NO_EFFECTS
    effects = LockEffects([], [])
    wanted = {claim.lock: claim for claim in claims}
    having = {claim.lock: claim.is_shared for claim in held}
    new = next((c for c in claims if c.lock not in having or (having[c.lock] and not c.is_shared)), None)
    kept: list[LockClaim] = []
    for claim in reversed(held):
        wish = wanted.get(claim.lock)
        if wish is None or (new is not None and _must_be_released(claim, new)):  # also the shared claim of an upgrade
            _free(holder, claim)
        else:
            kept.append(wanted.pop(claim.lock))
            if claim.is_shared or not wish.is_shared:
                continue
            claim.lock.writer = None  # a downgrade: others may read it, too
            claim.lock.readers.append(holder)
        _hand_on(claim.lock, effects)
    holder.held = kept[::-1]
    return take(holder, [claim for claim in claims if claim.lock in wanted]), effects


def take(holder: LockHolder, wanted: Sequence[LockClaim]) -> bool:  # hot: scripts/bench dispatcher_overhead
    """Acquire further claims, all of higher rank than the held ones, in order. False: it waits for the first busy lock."""
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


def release(holder: LockHolder) -> LockEffects:  # hot: scripts/bench dispatcher_overhead
    """Release all locks, and stop waiting for others."""
    lock, held = holder.waits_on, holder.held
    effects = None
    if lock is not None:
        holder.waits_on, holder.wanted = None, ()
        lock.waiting = [each for each in lock.waiting if each[2] is not holder]
        heapq.heapify(lock.waiting)
        _hand_on(lock, effects := LockEffects([], []))  # readers that were queued behind this writer
    while held:
        lock, is_shared = held.pop()
        if is_shared:  # `_free`, inlined
            lock.readers.remove(holder)
        else:
            lock.writer = None
        if lock.waiting:
            _hand_on(lock, effects := effects or LockEffects([], []))
    return effects or NO_EFFECTS


def boosted(holder: LockHolder) -> LockEffects:
    """Requeue a holder whose priority may have changed while it waits."""
    lock = holder.waits_on
    if lock is None:
        return NO_EFFECTS
    lock.waiting = [(holder.priority, each[1], holder) if each[2] is holder else each for each in lock.waiting]
    lock.lowest = max(lock.lowest, holder.priority)
    heapq.heapify(lock.waiting)
    effects = LockEffects([], [])
    _hand_on(lock, effects)  # a reader now ahead of all writers joins the current readers
    return effects


def ordered(claims: Sequence[LockClaim]) -> list[LockClaim]:
    """The claims in ascending rank, each lock once; exclusive if it is wanted in both modes."""
    found: list[LockClaim] = []
    for claim in sorted(claims, key=_by_rank):
        if found and found[-1].lock is claim.lock:
            found[-1] = LockClaim(claim.lock, claim.is_shared and found[-1].is_shared)
        else:
            found.append(claim)
    return found


def _by_rank(claim: LockClaim) -> Rank:
    return claim.lock.rank


def _must_be_released(held: LockClaim, new: LockClaim) -> bool:
    """Whether `held` must be released before its holder may wait for `new`."""
    return held.lock.rank >= new.lock.rank


def _free(holder: LockHolder, claim: LockClaim) -> None:
    """Release one claim, without letting in the next waiter."""
    if claim.is_shared:
        claim.lock.readers.remove(holder)
    else:
        claim.lock.writer = None


def _hand_on(lock: Lock, effects: LockEffects) -> None:
    """Let in the next waiters, as many as are compatible."""
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
                effects.moved.append(waiting[0][2])
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
        (effects.ready if take(holder, holder.wanted[1:]) else effects.moved).append(holder)


def _passes(entry: tuple[int, int, LockHolder], lock: Lock) -> bool:
    """Whether this waiter overtakes an older one. Equals enter by age, so the least urgent never overtake."""
    return entry[0] < lock.lowest and any(each[1] < entry[1] for each in lock.waiting)


def _by_age(entry: tuple[int, int, LockHolder]) -> int:
    return entry[1]
