"""Movement: components on their way up, down and to another backplane or node, and data on its way to another shard."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

AREA = "movement"
RULES = "supervisor/direction"
TESTS = "tests/supervisor/direction"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        AREA,
        f"{RULES}/lifecycle.py",
        (f"{TESTS}/test_lifecycle.py",),
        (
            "what is on its way down can be relied on",
            "min(HEIGHT[self.state], HEIGHT[self.moving_to])",
            "max(HEIGHT[self.state], HEIGHT[self.moving_to])",
        ),
        (
            "what is on its way up holds nothing yet",
            "max(HEIGHT[self.state], HEIGHT[self.moving_to])",
            "min(HEIGHT[self.state], HEIGHT[self.moving_to])",
        ),
        (
            "the order ends at one that is gone",
            "lambda other: () if standings[other].is_reachable else dependants[other]",
            "lambda other: ()",
        ),
        (
            "a component rises on what is about to leave",
            "min(standings[place].reached, HEIGHT[targets[place]]) < height",
            "standings[place].reached < height",
        ),
        ("who stays up holds up who is below it", "        and HEIGHT[targets[other]] <= height\n", ""),
        (
            "everybody waits for one that has ended as it was meant to",
            "        if self.has_ended:\n",
            "        if False:\n",
        ),
        (
            "a component skips a state",
            "return target if target in MOVES[state] else ModuleState.INITIALIZING",
            "return target",
        ),
        (
            "only what depends on it directly moves with it",
            "set(reached(names, lambda name: users.get(name, ())))",
            "{*names, *(user for name in names for user in users.get(name, ()))}",
        ),
        ("a hook that is not to be tried now is tried", "        and to is not standing.refuses\n", ""),
    ),
    *mutations(
        AREA,
        f"{RULES}/movement.py",
        (f"{TESTS}/test_orders.py",),
        (
            "what was ordered of one outlives what is ordered of all",
            "        self.role = role\n        self.wanted.clear()",
            "        self.role = role",
        ),
        ("an order that is refused holds all the same", "            self.wanted = before\n", ""),
        (
            "a hook that fails does not end the order",
            "                if failed := [told(*each) for each in self.failures() if each[0].node(each[1]) in concerned]:",
            "                if failed := []:",
        ),
        (
            "one that was given up is ordered up",
            "if to is not ModuleState.DOWN and all(child.process.phase in GONE for child in homes.values()):",
            "if False:",
        ),
        (
            "an order is done while its component moves",
            "if is_above or moving or any(home.departure.is_leaving for home in homes.values()):",
            "if is_above:",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/movement.py",
        (f"{TESTS}/test_draining.py",),
        (
            "a component goes down before its backplane is drained",
            "if child.drain.is_pending:",
            "if False:",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/movement.py",
        (f"{TESTS}/test_turnover.py",),
        (
            "who waits for a component that is gone waits on",
            "        if not _nodes((component,), standings):",
            "        if False:",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/child/components.py",
        (f"{TESTS}/test_orders.py",),
        (
            "a hook that failed on its way down is run again and again",
            "        if failure.to is ModuleState.DOWN:\n            self.states[component] = failure.to\n",
            "",
        ),
        (
            "a hook that failed is never tried again",
            "if failure.retry_ns is not None and failure.retry_ns <= now_ns:",
            "if False:",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/child/components.py",
        (f"{TESTS}/test_director.py",),
        (
            "a component is where it was before its hook",
            "        self.states[component] = to = self._end_hook(component)\n",
            "        to = self._end_hook(component)\n",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/orders.py",
        (f"{TESTS}/test_orders.py",),
        (
            "an order for all overtakes one for a component",
            "self.components is None or other.components is None or not set",
            "self.components is not None and other.components is not None and not set",
        ),
        (
            "orders for one target are carried out at the same time",
            " and not any(older.is_in_the_way_of(order) for older in self._orders[:number])",
            "",
        ),
        ("orders have no bound", "if len(self._orders) >= ORDERS_MAX:", "if False:"),
        ("who waits for an order waits beyond its limit", "if order.ends_ns <= now_ns]", "if False]"),
    ),
    *mutations(
        AREA,
        f"{RULES}/turnover.py",
        (f"{TESTS}/test_turnover.py",),
        (
            "a component that moves to another backplane is in two",
            "    child.departure.begin(going)\n",
            "    child.departure.begin(frozenset())\n",
        ),
        (
            "a component that moves to a new backplane is in two",
            "        child.departure.spawn_after(going)\n        child.process.enter(Phase.WAITING, now_ns, now_ns)\n",
            "        child.process.enter(Phase.WAITING, now_ns, now_ns)\n",
        ),
        (
            "a generation comes twice in a run directory",
            "        past.generations[child.name] = child.process.generation\n",
            "",
        ),
        (
            "what was given up gets no other try",
            "    child.forget_restarts()\n",
            "",
        ),
        (
            "a new policy holds after the next restart only",
            "        children[name].configure(settings[name])\n",
            "        pass\n",
        ),
        (
            "one that is just starting stays as it was",
            "        return [Kill(child.name, child.process.generation)]\n",
            "        return []\n",
        ),
        (
            "one that was removed comes back",
            "        child.departure.remove()\n",
            "        pass\n",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/director.py",
        (f"{TESTS}/test_standing_by.py",),
        (
            "the primary does not know its epoch",
            "self.movement.limit(PRIMARY, event.epoch)",
            "self.movement.limit(PRIMARY)",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/standing_by.py",
        (f"{TESTS}/test_standing_by.py",),
        (
            "a secondary brings up what only the primary has",
            "return ModuleState.DOWN if child.settings.is_primary_only else ceiling",
            "return ceiling",
        ),
        ("who does not step down in time stays primary", "gone_by_ns <= now_ns and", "False and"),
        (
            "what failed on its way to be primary counts as nothing",
            "child.components.has_begun or bool(child.components.failures)",
            "child.components.has_begun",
        ),
        ("a secondary offers what only the primary serves", "    if ceiling is not _SECONDARY:\n", "    if True:\n"),
        (
            "the carrier of calls between nodes steps down",
            "    if child.settings.is_carrier or not child.process.is_living:",
            "    if not child.process.is_living:",
        ),
    ),
    *mutations(
        AREA,
        "supervisor/cluster/lease.py",
        ("tests/supervisor/cluster/test_lease_model.py",),
        ("the lease is taken while it is another's", "return self._seen_ns + record.ttl_ns", "return self._seen_ns"),
        (
            "the lease counts from the answer and not from the question",
            "self._good_ns = self._asked_ns\n",
            "self._good_ns = now_ns\n",
        ),
        (
            "the lease is given back before all is clear",
            "        if self.phase is ClusterRole.LEAVING and is_clear:\n            self._is_given_back",
            "        if self.phase is ClusterRole.LEAVING:\n            self._is_given_back",
        ),
        ("two times as primary bear one epoch", "self.record.epoch + 1", "self.record.epoch"),
    ),
    *mutations(
        AREA,
        "runtime/dispatcher/shards.py",
        ("tests/runtime/dispatcher/test_shards.py",),
        (
            "a message circles between shards",
            "if request is not None and any(link[1] == name for link in request.chain):",
            "if False:",
        ),
        (
            "messages of one key overtake each other on their way to another shard",
            "self._dispatcher._queues.take((spec.type, key, FORWARD))",
            "self._dispatcher._queues.take(None)",
        ),
        ("a call may name another key than its message", "request.key is not None and request.key != key:", "False:"),
        (
            "data that has moved to another shard is kept",
            "            count = protector._keep(lambda key: home(tuple(places), str(key)) == here)",
            "            count = 0",
        ),
        (
            "an accessor reaches what is at home elsewhere",
            "        if place != self._here:\n            raise FailedPrecondition(",
            "        if False:\n            raise FailedPrecondition(",
        ),
    ),
)
