"""Locks: who may use which data, in which order, and why nobody waits in a circle."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

AREA = "locks"
RULES = "runtime/dispatcher"
TESTS = "tests/runtime/dispatcher"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        AREA,
        f"{RULES}/locking.py",
        (f"{TESTS}/test_locking.py",),
        ("who waits keeps locks of higher rank", "return held.lock.rank >= new.lock.rank", "return False"),
        (
            "readers look while somebody writes",
            "        if is_shared:\n            if lock.writer is not None or len",
            "        if is_shared:\n            if len",
        ),
        (
            "more share a lock than it has room for",
            " or len(lock.readers) >= lock.readers_max:",
            ":",
        ),
        (
            "somebody writes while others look",
            "            if lock.writer is not None or lock.readers:\n",
            "            if lock.writer is not None:\n",
        ),
        (
            "readers pass writers that are as urgent",
            "lock.waiting[0][0] <= holder.priority or",
            "lock.waiting[0][0] < holder.priority or",
        ),
        (
            "who has gone is let in",
            "lock.waiting = [each for each in lock.waiting if each[2] is not holder]",
            "lock.waiting = [*lock.waiting]",
        ),
        (
            "a lock that is released is handed on to nobody",
            "        if lock.waiting:\n            _hand_on",
            "        if False:\n            _hand_on",
        ),
        (
            "what is wanted both ways is only looked at",
            "claim.is_shared and found[-1].is_shared",
            "claim.is_shared or found[-1].is_shared",
        ),
        (
            "locks are taken in the order of the parameters",
            "    for claim in sorted(claims, key=_by_rank):",
            "    for claim in claims:",
        ),
        (
            "who looks from now on keeps others from looking",
            "            claim.lock.writer = None  # a downgrade",
            "            pass  # a downgrade",
        ),
        (
            "who is boosted waits where he was",
            "(holder.priority, each[1], holder) if each[2] is holder else each for each",
            "each for each",
        ),
        (
            "who still lacks a lock goes on",
            "(effects.ready if take(holder, holder.wanted[1:]) else effects.moved).append(holder)",
            "take(holder, holder.wanted[1:])\n        effects.ready.append(holder)",
        ),
        (
            "urgent ones pass the oldest for ever",
            "lock.passed_count = lock.passed_count + 1 if _passes(entry, lock) else 0",
            "lock.passed_count = 0",
        ),
        (
            "a reader is let in behind a writer that has not ended",
            "        if not claim.is_shared and lock.readers:\n            return\n",
            "",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/delivery.py",
        (f"{TESTS}/test_waiting_for_locks.py",),
        (
            "who holds a lock does not inherit from who waits for it",
            '[] if self.waits_on is None else cast("list[Action]", self.waits_on.holders)',
            "[]",
        ),
        (
            "who waits for somebody else now does not hurry that one",
            "            self.dispatcher._platform.hurry(each)",
            "            pass",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/eavesdroppers.py",
        (f"{TESTS}/test_eavesdroppers.py",),
        ("the queue of an eavesdropper has no bound", "if len(self._queue) >= QUEUE_MAX:", "if False:"),
        ("a block is let go of before it was heard", "            MAPPINGS.map(block)", "            pass"),
        ("what is lost to an eavesdropper is not counted", "            self.lost_count += 1\n", ""),
        ("what waits to be heard is forgotten at the end", "            thread.join(limit_s)", "            pass"),
    ),
    *mutations(
        AREA,
        f"{RULES}/delivery.py",
        (f"{TESTS}/test_waiting_for_locks.py",),
        (
            "a message that was taken back is handled",
            "            if self.taken_back is not None and not self.index:",
            "            if False:",
        ),
        (
            "any number of messages wait in accessors",
            "            if served.has_accessor and not self.kept:",
            "            if False:",
        ),
        (
            "the lock of a source goes back in the middle of its message",
            "            if served.has_accessor and not self.kept:",
            "            if served.has_accessor:",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/delivery.py",
        (f"{TESTS}/test_accessor.py",),
        (
            "an accessor that was kept works on",
            "        if not self.is_calling or self.thread != threading.get_ident():\n            raise finished(who)",
            "        if False:\n            raise finished(who)",
        ),
        ("what an accessor let go stays locked", "        del self.reached[at]\n", ""),
    ),
    *mutations(
        AREA,
        f"{RULES}/delivery.py",
        (f"{TESTS}/sources/test_observed.py",),
        ("changes that found no room are lost", "            given_back(datum, before)\n", ""),
    ),
    *mutations(
        AREA,
        f"{RULES}/checks/lock_search.py",
        (f"{TESTS}/test_lock_search.py",),
        ("a handler may make locks", "    if any(value is each for each in _MAKERS):", "    if False:"),
        ("inner functions are not read", "        for inner in code.co_consts:", "        for inner in ():"),
        ("what a handler calls is not read", "if not isinstance(bound, _CLOSED[:2]) and (said", "if False and (said"),
        (
            "a default may be a lock",
            '            if said := self._said_of(value):\n                return f"has a default',
            '            if said := None:\n                return f"has a default',
        ),
        (
            "lists are not looked into",
            "        for each in _elements(value):\n            if said := self._judge(each):",
            "        for each in ():\n            if said := self._judge(each):",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/protectors.py",
        (f"{TESTS}/test_protectors.py",),
        ("one datum is under two locks", "        if other != key and (known", "        if False and (known"),
        (
            "there is one key more than may be",
            "if len(self.__by_key) >= self.__keys_max:",
            "if len(self.__by_key) > self.__keys_max:",
        ),
        ("a key that equals nothing fills the memory", "        if key != key:\n", "        if False:\n"),
    ),
    *mutations(
        AREA,
        f"{RULES}/protectors.py",
        (f"{TESTS}/sources/test_protected.py",),
        (
            "a source is let go between two handlers of its message",
            "serial + SOURCES_FIRST if isinstance(datum, ActiveObject) else serial",
            "serial",
        ),
    ),
)
