"""The slow twin of the locks: a list of who has what, and one of who waits, and every question answered by looking at all.

It takes after the rules as they are told (runtime/dispatcher/locking.py, docs/concepts/dispatcher.md), not after the code:
nothing is kept sorted, nothing is counted on, and a lock is handed on by asking for each of those that wait whether he may.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appbackplane.runtime.dispatcher.locking import MANY, LockHolder

#: (number of the lock, whether it is shared); the number is its rank.
Want = tuple[int, bool]


@dataclass(eq=False)
class Twin:
    """Who holds and waits."""

    name: int
    priority: int
    has: dict[int, bool] = field(default_factory=dict)
    #: What it does not have yet, ascending; it waits for the first.
    wants: list[Want] = field(default_factory=list)


@dataclass
class LockTwin:
    """One lock: who waits, in the order in which they came, and how many were let in before the first of them."""

    queue: list[Twin] = field(default_factory=list)
    passed: int = 0
    #: How many may share it.
    readers_max: int = MANY


class LockingModel:
    """All locks and all holders."""

    def __init__(self, locks: int, passed_max: int) -> None:
        self.locks = [LockTwin() for _ in range(locks)]
        self.passed_max = passed_max
        self.everybody: list[Twin] = []
        #: Those that have what they waited for since this was last emptied.
        self.ready: list[Twin] = []

    def change(self, who: Twin, wants: list[Want]) -> bool:
        """Whether it has them all at once."""
        weak = [n for n, shared in wants if n not in who.has or (who.has[n] and not shared)]
        first_new = min(weak, default=len(self.locks))
        wished = dict(wants)
        for number in sorted(who.has, reverse=True):
            if number not in wished or number >= first_new:
                del who.has[number]
                self.let_in(number)
            elif who.has[number] != wished[number]:
                who.has[number] = True
                self.let_in(number)
        who.wants = [(n, shared) for n, shared in sorted(wants) if n not in who.has]
        return self.go_on(who)

    def release(self, who: Twin) -> None:
        """Of everything, and it waits no more."""
        if who.wants:
            number = who.wants[0][0]
            self.locks[number].queue.remove(who)
            who.wants = []
            self.let_in(number)
        for number in sorted(who.has, reverse=True):
            del who.has[number]
            self.let_in(number)

    def set_priority(self, who: Twin, priority: int) -> None:
        """It is more urgent now, or less."""
        who.priority = priority
        if who.wants:
            self.let_in(who.wants[0][0])

    def go_on(self, who: Twin) -> bool:
        """Take what there is to take, in order; or stand in the queue of the first that there is not."""
        while who.wants:
            number, shared = who.wants[0]
            lock = self.locks[number]
            is_compatible = self.is_compatible(number, shared)
            is_first = all(who.priority < other.priority for other in lock.queue) and lock.passed < self.passed_max
            if not is_compatible or (lock.queue and not is_first):
                lock.queue.append(who)
                return False
            lock.passed += bool(lock.queue)
            who.has[number] = shared
            who.wants.pop(0)
        return True

    def let_in(self, number: int) -> None:
        """Whoever may have this lock now."""
        lock = self.locks[number]
        while lock.queue and not self.writers(number):
            next_one = lock.queue[0]
            if lock.passed < self.passed_max:
                next_one = min(lock.queue, key=lambda each: each.priority)  # the first of these
            shared = next_one.wants[0][1]
            if not self.is_compatible(number, shared):
                return
            lock.passed = 0 if next_one is lock.queue[0] else lock.passed + 1
            lock.queue.remove(next_one)
            next_one.has[number] = shared
            next_one.wants.pop(0)
            if self.go_on(next_one):
                self.ready.append(next_one)

    def is_compatible(self, number: int, shared: bool) -> bool:
        """With those that have the lock."""
        readers = len(self.readers(number))
        return not self.writers(number) and (readers < self.locks[number].readers_max if shared else not readers)

    def writers(self, number: int) -> list[Twin]:
        """Who has it for himself."""
        return [each for each in self.everybody if each.has.get(number) is False]

    def readers(self, number: int) -> list[Twin]:
        """Who shares it."""
        return [each for each in self.everybody if each.has.get(number) is True]


def is_in_a_circle(who: LockHolder) -> bool:
    """Whether somebody waits, over others, for himself: then nobody in between will ever go on."""
    seen: set[int] = set()
    in_the_way = [who]
    while in_the_way:
        each = in_the_way.pop()
        holders = [] if each.waits_on is None else each.waits_on.holders
        if any(holder is who for holder in holders):
            return True
        in_the_way += [holder for holder in holders if id(holder) not in seen]
        seen |= {id(holder) for holder in holders}
    return False
