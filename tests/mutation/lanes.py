"""Lanes, and queues of deliveries: messages that share something stay in their order; requests of every level find a place."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

AREA = "lanes"
REQUESTS = "tests/runtime/requests"
DISPATCHER = "tests/runtime/dispatcher"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        AREA,
        "runtime/requests/ledger/lanes.py",
        (f"{REQUESTS}/test_lanes.py",),
        (
            "a small share is nothing, and holds its requests for ever",
            "max(1, total * percent // 100) if percent else 0",
            "total * percent // 100",
        ),
        (
            "a lane may not use what those above it leave",
            "sums.append((sums[-1] if sums else 0) + own)",
            "sums.append(own)",
        ),
        (
            "a lane takes the places of those below it",
            "            if each >= lane and together >= limits[each]:",
            "            if each == lane and together > limits[each]:",
        ),
        ("there are more than there may be", "        if self.total >= self.total_max:", "        if False:"),
        ("who has gone keeps his place", "        self.counts[lane] -= 1\n", ""),
    ),
    *mutations(
        AREA,
        "runtime/requests/ledger/lanes.py",
        (f"{REQUESTS}/test_ledger_model.py",),
        ("the sum of all lanes only grows", "        self.total -= 1\n", ""),
    ),
    *mutations(
        AREA,
        "runtime/requests/ledger/ready_pool.py",
        (f"{REQUESTS}/test_ready_pool.py",),
        (
            "what is boosted does not age faster",
            "return element.key - self.age * (1 + self.boost if element.is_boosted else 1)",
            "return element.key - self.age",
        ),
        (
            "what comes now is as old as all",
            "element.key = element.priority + self.age * (1 + self.boost if element.is_boosted else 1)",
            "element.key = element.priority",
        ),
        (
            "of equal ones the last goes first",
            "return (self.aged_priority(element), element.sequence)",
            "return (self.aged_priority(element), -element.sequence)",
        ),
        (
            "a new boost changes what was gained",
            "                element.key += self.age * (boost - self.boost)\n            marked[:]",
            "                pass\n            marked[:]",
        ),
    ),
    *mutations(
        AREA,
        "runtime/requests/ledger/ready_pool.py",
        (f"{REQUESTS}/test_ledger.py", f"{REQUESTS}/test_ledger_model.py"),
        ("what was taken out still counts", "        self.count -= len(removed)\n", ""),
    ),
    *mutations(
        AREA,
        "runtime/requests/ledger/posters.py",
        (f"{REQUESTS}/test_ledger.py", f"{REQUESTS}/test_ledger_model.py"),
        (
            "who is as urgent passes who waits",
            "waiting[0][0] <= self.age + element.priority",
            "waiting[0][0] < self.age + element.priority",
        ),
        ("who waits is let in without room in his lane", " and has_room(lane):", ":"),
        (
            "those that wait are passed for ever",
            "(self.age + element.priority, self._turn, element))",
            "(element.priority, self._turn, element))",
        ),
    ),
    *mutations(
        AREA,
        "runtime/requests/ledger/ledger.py",
        (f"{REQUESTS}/test_ledger.py",),
        (
            "what has ended in lanes above holds up who posts",
            "        return sum(counts[lane:])",
            "        return sum(counts)",
        ),
    ),
    *mutations(
        AREA,
        "runtime/requests/ledger/ledger.py",
        (f"{REQUESTS}/test_ledger_model.py",),
        (
            "a worker executes beyond the limit of its lane",
            "[lane for lane in _ALL_LANES if executing.has_room(lane)]",
            "_ALL_LANES",
        ),
        (
            "a worker takes requests of several lanes",
            "following = self.ready.head(lane)",
            "following = self.ready.best(_ALL_LANES)",
        ),
    ),
    *mutations(
        AREA,
        "runtime/dispatcher/delivery_queues.py",
        (f"{DISPATCHER}/test_delivery_queues.py",),
        ("messages of one key run side by side", "queue = self.shared.get(ordering_key)", "queue = None"),
        ("a queue is given away while messages share it", "            if not queue.load:\n", "            if True:\n"),
        ("a queue is never free again", "                del self.shared[queue.ordering_key]\n", ""),
        (
            "every message pays for a queue of its own",
            "            self._idle.append(queue)\n            return",
            "            return",
        ),
    ),
)
