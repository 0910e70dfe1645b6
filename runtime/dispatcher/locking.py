"""Locking: who may use which data now. Ordered acquisition, so that nobody ever waits in a circle.

Dijkstra's partial order (seed 003, sections 3.1 and 4.2): every lock has a rank, and whoever waits for one holds only locks
of lower rank. So the holder of the highest lock that anybody waits for waits for nobody, and a circle cannot close. To add a
lock to what is held, all of higher rank are released and taken again (figure 6). Readers share a lock; a free lock has nobody
waiting for it, because whoever releases it hands it to the most urgent who waits (the oldest of these).

Pure: the caller holds the dispatcher's mutex. `change` and `release` say who may go on now; the caller tells them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple, Protocol

#: (given order or serial, serial, number among the data of one protector): all different, compared lexically.
Rank = tuple[int, int, int]


class Claim(NamedTuple):
    """A lock, and how it is wanted."""

    lock: Lock
    is_shared: bool


class Holder(Protocol):
    """Who holds and waits: a delivery. `held` is in ascending rank."""

    priority: int
    held: list[Claim]
    #: What it has asked for and does not have yet, and the lock of these it waits for.
    wanted: Sequence[Claim]
    waits_on: Lock | None


class Lock:
    """The right to use one datum."""

    __slots__ = ("name", "rank", "readers", "serial", "waiting", "writer")

    def __init__(self, rank: Rank, name: str) -> None:
        self.rank = rank
        self.name = name
        self.writer: Holder | None = None
        self.readers: list[Holder] = []
        #: Heap of (priority, when it came, who). Who was boosted is in it twice, and the later entry is void. While there is no
        #: writer, the first entry is good: `_hand_on` has seen to it.
        self.waiting: list[tuple[int, int, Holder]] = []
        self.serial = 0

    @property
    def holders(self) -> list[Holder]:
        """Who stands in the way of those that wait."""
        return [self.writer] if self.writer is not None else [*self.readers]

    def __repr__(self) -> str:
        return f"<Lock {self.name} {self.rank}>"


def change(holder: Holder, claims: Sequence[Claim]) -> tuple[bool, list[Holder]]:
    """Have `holder` hold exactly `claims` (ascending, each lock once).

    True: it does; False: it waits, and will be among those that another's `change` or `release` returns. With it, those
    that may go on because of what it let go.
    """
    if not holder.held:
        holder.wanted = claims
        return _take(holder), []
    kept = _kept(holder.held, claims)
    ready = _give_back(holder, kept)
    holder.wanted = claims[kept:]
    return _take(holder), ready


def holds(holder: Holder, claims: Sequence[Claim]) -> bool:
    """Whether it has exactly these already; asked by itself while it waits for nothing, and then without the mutex."""
    held = holder.held
    return len(held) == len(claims) and _kept(held, claims) == len(held)


def release(holder: Holder) -> list[Holder]:
    """Let go of everything, also of what it waits for; who may go on now."""
    if holder.waits_on is not None:
        lock, holder.waits_on = holder.waits_on, None
        lock.waiting = [each for each in lock.waiting if each[2] is not holder]
        heapq.heapify(lock.waiting)
        holder.wanted = ()
        ready = _hand_on(lock)  # the readers behind a writer that has gone
        return ready + _give_back(holder, 0)
    return _give_back(holder, 0)


def boosted(holder: Holder) -> None:
    """Its priority has changed while it waits."""
    lock = holder.waits_on
    if lock is not None:
        heapq.heappush(lock.waiting, (holder.priority, lock.serial, holder))
        lock.serial += 1


def merged(claims: Sequence[Claim], further: Claim) -> list[Claim]:
    """These and one more, in ascending rank; of two claims to one lock the exclusive one."""
    return ordered([*claims, further])


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


def _kept(held: list[Claim], claims: Sequence[Claim]) -> int:
    """How many of `held` may be kept: as far as both begin alike. What comes after is above the first that is new."""
    kept = 0
    for mine, wanted in zip(held, claims, strict=False):
        if mine.lock is not wanted.lock or mine.is_shared != wanted.is_shared:
            break
        kept += 1
    return kept


def _take(holder: Holder) -> bool:
    """Take what is wanted, one lock after the other, as far as it goes."""
    taken = 0
    for lock, is_shared in holder.wanted:
        if is_shared:
            if lock.writer is not None or (lock.waiting and lock.waiting[0][0] <= holder.priority):
                break
            lock.readers.append(holder)
        else:
            if lock.writer is not None or lock.readers:
                break
            lock.writer = holder
        holder.held.append(holder.wanted[taken])
        taken += 1
    else:
        holder.wanted = ()
        return True
    holder.wanted = holder.wanted[taken:]
    holder.waits_on = lock
    heapq.heappush(lock.waiting, (holder.priority, lock.serial, holder))
    lock.serial += 1
    return False


def _give_back(holder: Holder, kept: int) -> list[Holder]:
    """Release what is held above the first `kept`; who may go on now."""
    ready: list[Holder] = []
    held = holder.held
    while len(held) > kept:
        lock, is_shared = held.pop()
        if is_shared:
            lock.readers.remove(holder)
        else:
            lock.writer = None
        if lock.waiting:
            ready += _hand_on(lock)
    return ready


def _hand_on(lock: Lock) -> list[Holder]:
    """Give a lock to those that wait for it, as far as they go together; who of them has all that it wants."""
    ready: list[Holder] = []
    while lock.waiting and lock.writer is None:
        holder = lock.waiting[0][2]
        if holder.waits_on is not lock:
            heapq.heappop(lock.waiting)  # it was boosted, and has had its turn
            continue
        is_shared = holder.wanted[0].is_shared
        if not is_shared and lock.readers:
            break
        heapq.heappop(lock.waiting)
        if is_shared:
            lock.readers.append(holder)
        else:
            lock.writer = holder
        holder.waits_on = None
        holder.held.append(holder.wanted[0])
        holder.wanted = holder.wanted[1:]
        if _take(holder):
            ready.append(holder)
    return ready
