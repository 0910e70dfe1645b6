"""CallerThrottle: callers refuse for an overloaded service, which serves as much as ever, and ask again when it has room."""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from appbackplane.runtime import AppObject
from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.scheduling.adaptive_limit import AdaptiveLimit
from appbackplane.transport.caller_throttle import (
    CALLEES_MAX,
    INTERVAL_MAX_NS,
    INTERVAL_MIN_NS,
    MARGIN,
    MARGIN_MAX,
    PRIORITIES_MAX,
    PROBE_NS,
    CallerThrottle,
)
from appbackplane.transport.errors import Busy, Status

MS = 1_000_000
S = 1_000 * MS
RUN_NS, AIM_NS = MS, 20 * MS
CAPACITY_PER_S = S // RUN_NS
#: Priority to its part of the calls.
MOSTLY_BULK = {0: 0.05, 4: 0.95}
#: Priorities 0 and 2 alone take nine tenths of what can be served, at three times the capacity.
NEARLY_FULL = {0: 0.1, 2: 0.2, 5: 0.7}
PEER, ROUTE = b"peer", "desk.serve"
FAR_NS = 1_000 * S


class Work(Action):
    __slots__ = ("caller",)


class World:
    """A service with the adaptive limit, and callers that throttle themselves. Times are virtual, and one seed decides all."""

    def __init__(
        self, callers: int, *, round_trip_ns: int = MS, answer_after_ns: int = 0, stalls_ns: int = 0, seed: int = 1
    ) -> None:
        """`answer_after_ns`: from the end of the work to the answer, as where a call awaits others meanwhile. `stalls_ns`: how
        long the service runs, on average, until it stands still for as long, as where others use its core.
        """
        self.random = Random(seed)
        #: From when to when the service runs.
        self.spells = [(0, FAR_NS)] if not stalls_ns else _spells(self.random, stalls_ns)
        self.callers = [CallerThrottle(self.random.random) for _ in range(callers)]
        self.one_way_ns, self.answer_after_ns = round_trip_ns // 2, answer_after_ns
        self.limit = AdaptiveLimit(AIM_NS, 8, 0)
        self.queues: list[deque[Work]] = [deque() for _ in range(8)]
        self.running: Work | None = None
        self.object = AppObject()
        self.now_ns = 0
        #: (time, tie, function, arguments) of what is to happen.
        self.events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.tie = itertools.count()
        #: Of this phase, by priority.
        self.asked: Counter[int] = Counter()
        self.served: Counter[int] = Counter()
        self.refused_there: Counter[int] = Counter()
        self.refused_here: Counter[int] = Counter()
        #: When a caller last refused a call.
        self.refused_here_ns = 0

    def offer(self, load: float, seconds: float, mix: Mapping[int, float]) -> None:
        """A Poisson stream of `load` times the capacity, over all callers."""
        for counts in (self.asked, self.served, self.refused_there, self.refused_here):
            counts.clear()
        end_ns = self.now_ns + round(seconds * S)

        def call() -> None:
            next_ns = self.now_ns + round(self.random.expovariate(load * CAPACITY_PER_S) * S)
            if next_ns < end_ns:
                self.at(next_ns, call)
            self.call(self.random.choice(self.callers), self.random.choices([*mix], [*mix.values()])[0])

        self.at(self.now_ns, call)
        while self.events and self.events[0][0] < end_ns:
            self.now_ns, _, function, arguments = heapq.heappop(self.events)
            function(*arguments)
        self.now_ns = end_ns

    def at(self, at_ns: int, function: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self.events, (at_ns, next(self.tie), function, arguments))

    def call(self, caller: CallerThrottle, priority: int) -> None:
        self.asked[priority] += 1
        if caller.is_used and caller.refusal(PEER, ROUTE, priority, self.now_ns) is not None:
            self.refused_here[priority] += 1
            self.refused_here_ns = self.now_ns
        else:
            self.at(self.now_ns + self.one_way_ns, self.arrive, caller, priority)

    def arrive(self, caller: CallerThrottle, priority: int) -> None:
        if (goes_on_ns := self.until(1) - 1) > self.now_ns:
            return self.at(goes_on_ns, self.arrive, caller, priority)
        while (late := self.limit.next_late(self.now_ns)) is not None:
            self.queues[late.priority].remove(late)  # type: ignore[arg-type]
            self.refuse_late(late)  # type: ignore[arg-type]
        if not self.limit.admits(priority, self.now_ns):
            return self.tell_refused(caller, priority)
        work = Work(self.object, "work", priority)
        work.posted_ns, work.caller = self.now_ns, caller
        self.limit.admitted(work, self.now_ns)
        self.queues[priority].append(work)
        self.begin()

    def begin(self) -> None:
        for queue in self.queues:
            while queue and self.running is None:
                work = queue.popleft()
                if self.limit.is_late(work, self.now_ns):
                    self.refuse_late(work)
                else:
                    self.limit.begins(work)
                    work.started_ns, self.running = self.now_ns, work
                    self.at(self.until(RUN_NS), self.end)

    def until(self, run_ns: int) -> int:
        """When work that begins now has run for so long."""
        number, now_ns = max(0, bisect_right(self.spells, (self.now_ns, FAR_NS)) - 1), self.now_ns
        while True:
            begins_ns, ends_ns = self.spells[number]
            now_ns = max(now_ns, begins_ns)
            if now_ns + run_ns <= ends_ns:
                return now_ns + run_ns
            run_ns -= max(0, ends_ns - now_ns)
            number += 1

    def refuse_late(self, work: Work) -> None:
        self.limit.refused_late()
        self.limit.ended(work, self.now_ns)
        self.tell_refused(work.caller, work.priority)

    def end(self) -> None:
        work, self.running = self.running, None
        assert work is not None
        self.limit.ended(work, self.now_ns)
        self.served[work.priority] += 1
        answered_ns = self.now_ns + self.answer_after_ns + self.one_way_ns
        self.at(answered_ns, work.caller.answered, PEER, ROUTE, work.priority)
        self.begin()

    def tell_refused(self, caller: CallerThrottle, priority: int) -> None:
        self.refused_there[priority] += 1
        self.at(self.now_ns + self.one_way_ns, self.hear_refusal, caller, priority)

    def hear_refusal(self, caller: CallerThrottle, priority: int) -> None:
        caller.refused(PEER, ROUTE, priority, priority, AIM_NS / 1e9, self.now_ns, self.limit.idle_thousandths)

    def utilisation(self, seconds: float) -> float:
        """The part of what could have been served in the last so many seconds."""
        began_ns = self.now_ns - round(seconds * S)
        ran_ns = sum(max(0, min(ends_ns, self.now_ns) - max(at_ns, began_ns)) for at_ns, ends_ns in self.spells)
        return self.served.total() * RUN_NS / ran_ns


def _spells(random: Random, mean_ns: int) -> list[tuple[int, int]]:
    """Half of the time, in pieces, for a minute."""
    spells, at_ns = [], 0
    while at_ns < 60 * S:
        ends_ns = at_ns + round(random.expovariate(1 / mean_ns))
        spells.append((at_ns, ends_ns))
        at_ns = ends_ns + round(random.expovariate(1 / mean_ns))
    return spells


@pytest.mark.parametrize(
    ("world", "mix", "refused_max", "utilisation_min"),
    [
        (World(1), MOSTLY_BULK, 0.3, 0.99),
        (World(10), MOSTLY_BULK, 0.35, 0.99),
        (World(100), MOSTLY_BULK, 0.7, 0.99),
        (World(1), NEARLY_FULL, 0.6, 0.98),
        (World(10), NEARLY_FULL, 0.6, 0.98),
        (World(1, round_trip_ns=100 * MS), MOSTLY_BULK, 0.35, 0.99),
        (World(10, round_trip_ns=100 * MS), MOSTLY_BULK, 0.45, 0.99),
        (World(1, answer_after_ns=3 * S), MOSTLY_BULK, 0.35, 0.99),
        (World(10, answer_after_ns=3 * S, round_trip_ns=100 * MS), MOSTLY_BULK, 0.8, 0.95),
        (World(1, stalls_ns=50 * MS), MOSTLY_BULK, 6, 0.93),
        (World(10, stalls_ns=20 * MS), MOSTLY_BULK, 6, 0.93),
        (World(10, stalls_ns=5 * MS), MOSTLY_BULK, 4, 0.95),
    ],
    ids=[
        "one",
        "ten",
        "hundred",
        "priorities",
        "ten_priorities",
        "far",
        "ten_far",
        "long_calls",
        "far_long_calls",
        "stalls",
        "ten_stalls",
        "short_stalls",
    ],
)
def test_a_service_refuses_little_itself_and_is_never_idle(
    world: World, mix: Mapping[int, float], refused_max: float, utilisation_min: float
) -> None:
    """At three times its capacity it would otherwise refuse two calls for each that it serves."""
    world.offer(3.0, 2, mix)
    world.offer(3.0, 4, mix)
    assert world.refused_there.total() < refused_max * world.served.total()
    assert world.utilisation(4) > utilisation_min


@pytest.mark.parametrize("mix", [MOSTLY_BULK, NEARLY_FULL, {1: 1.0, 3: 1.0, 5: 1.0}], ids=["bulk", "mixed", "equal"])
def test_what_is_more_urgent_is_refused_later(mix: Mapping[int, float]) -> None:
    """As the service does. The least urgent gives way first, and priority 0 never does."""
    world = World(5)
    world.offer(3.0, 2, mix)
    world.offer(3.0, 4, mix)
    parts = [world.refused_here[priority] / world.asked[priority] for priority in sorted(mix)]
    assert parts == sorted(parts)
    assert world.refused_here[0] == 0


def test_after_the_load_has_dropped_all_are_sent_within_seconds_and_asked_within_one() -> None:
    """A caller that keeps quiet about a service which has room is an outage of its own."""
    world = World(10)
    world.offer(3.0, 3, MOSTLY_BULK)
    dropped_ns = world.now_ns
    world.offer(0.5, 1, MOSTLY_BULK)
    assert world.served.total() > 0.75 * world.asked.total()
    world.offer(0.5, 4, MOSTLY_BULK)
    assert world.refused_here_ns < dropped_ns + 2 * S
    assert not any(caller.is_used for caller in world.callers), "nothing is kept"


def test_below_its_capacity_nothing_is_refused() -> None:
    world = World(3)
    world.offer(0.8, 5, MOSTLY_BULK)
    assert world.refused_here.total() == 0


# -- one caller -------------------------------------------------------------------------------------------------------


class Caller:
    """A throttle and its clock; the service is the test."""

    def __init__(self, random: float = 0.5) -> None:
        self.throttle = CallerThrottle(lambda: random)
        self.now_ns = S

    def asks(self, priority: int | None = 4, *, peer: bytes = PEER, route: str = ROUTE) -> Busy | None:
        return self.throttle.refusal(peer, route, priority, self.now_ns)

    def hears_refusal(self, priority: int | None = 4, told: int = 4, *, peer: bytes = PEER, route: str = ROUTE) -> None:
        self.throttle.refused(peer, route, priority, told, 0.02, self.now_ns)

    def meets_overload(self, priority: int | None = 4, told: int = 4) -> None:
        """Two calls of three are refused, until a share is known."""
        self.hears_refusal(priority, told)
        for number in range(90):
            self.now_ns += INTERVAL_MIN_NS // 45
            if self.asks(priority) is None and number % 3:
                self.hears_refusal(priority, told)


def test_a_refusal_says_where_it_was_made_and_when_to_come_again() -> None:
    """As if the service had refused it: it may be retried, whatever it does."""
    caller = Caller(random=0.99)
    caller.meets_overload()
    refusal = caller.asks()
    assert refusal is not None and "desk.serve: refused here" in refusal.message and "priority 4" in refusal.message
    assert refusal.status is Status.RESOURCE_EXHAUSTED and refusal.is_refused and refusal.overloaded_at == 4
    assert refusal.retry_after == 0.02
    before = caller.throttle.refused_count
    assert caller.asks() is not None
    assert caller.throttle.refused_count == before + 1


def test_other_routes_instances_and_priorities_are_not_concerned() -> None:
    """More urgent calls have more room, and another instance has a queue of its own."""
    caller = Caller(random=0.99)
    caller.meets_overload()
    assert caller.asks() is not None
    assert caller.asks(3) is None and caller.asks(0) is None
    assert caller.asks(route="desk.look") is None and caller.asks(peer=b"other") is None


def test_a_less_urgent_call_is_sent_no_more_often_than_a_more_urgent_one() -> None:
    """The queue that is too long for one is too long for the other."""
    caller = Caller(random=0.6)
    caller.hears_refusal(6, 6)
    assert caller.asks(6) is None, "its own calls have been refused once, which tells no share"
    caller.meets_overload()
    assert caller.asks(4) is not None
    assert caller.asks(6) is None, "none was sent for long"
    assert caller.asks(6) is not None


def test_priority_0_is_never_refused() -> None:
    """Not even if a service of another version should refuse it."""
    caller = Caller(random=0.99)
    caller.meets_overload(0, 0)
    assert caller.asks(0) is None and not caller.throttle.is_used


def test_calls_without_a_priority_have_that_of_their_operation() -> None:
    """The service tells it with the refusal. Until then, such calls are sent."""
    caller = Caller(random=0.99)
    caller.meets_overload(4, 4)
    assert caller.asks(None) is None
    caller.hears_refusal(None, 4)
    assert caller.asks(None) is not None


def test_a_call_leaves_from_time_to_time_whatever_the_share() -> None:
    """Or a service that refused everything for a while would never be asked again."""
    caller = Caller(random=0.99)
    caller.hears_refusal()
    for _ in range(60):
        caller.now_ns += INTERVAL_MIN_NS // 30
        if caller.asks() is None:
            caller.hears_refusal()
    sent = 0
    for _ in range(10):
        caller.now_ns += PROBE_NS
        for _ in range(100):
            if caller.asks() is None:
                caller.hears_refusal()
                sent += 1
    assert sent == 10


def test_the_accepted_and_a_margin_are_sent() -> None:
    """Of 300 calls, 100 were accepted: as many are sent of the next 300, and a fifth more."""
    caller = Caller()
    caller.hears_refusal()
    gaps = 300
    for _ in range(2):
        for number in range(gaps):
            caller.now_ns += INTERVAL_MIN_NS // gaps
            if caller.asks() is None:
                if number % 3:
                    caller.hears_refusal()
                else:
                    caller.throttle.answered(PEER, ROUTE, 4)
    share = caller.throttle._callees[PEER, ROUTE].gates[4].share
    assert share == pytest.approx((1 + MARGIN) / 3, rel=0.1)


def test_more_is_sent_to_a_service_that_refuses_and_is_idle_at_other_times() -> None:
    """It stands still now and then, or its calls come in bursts. Once it is busy all the time, the margin is as before."""
    caller = Caller()
    caller.meets_overload()
    callee = caller.throttle._callees[PEER, ROUTE]

    def goes_on(idle: int, seconds: float) -> float:
        for _ in range(round(seconds * 50)):
            caller.now_ns += 20 * MS
            caller.asks()
            caller.throttle.refused(PEER, ROUTE, 4, 4, 0.02, caller.now_ns, idle)
        return callee.margin

    assert goes_on(0, 2) == MARGIN
    assert goes_on(100, 1) > 3 * MARGIN
    assert goes_on(1_000, 10) == MARGIN_MAX
    assert goes_on(5, 10) == MARGIN


def test_long_calls_count_as_accepted_before_their_answers() -> None:
    """Those that were sent and not refused; with answers alone, a service of slow calls would be left idle."""
    caller = Caller()
    caller.meets_overload()
    assert caller.throttle._callees[PEER, ROUTE].gates[4].share > 0.3


def test_after_half_a_second_without_a_refusal_all_are_sent() -> None:
    caller = Caller(random=0.99)
    caller.meets_overload()
    assert caller.asks() is not None
    caller.now_ns += INTERVAL_MAX_NS
    assert caller.asks() is None
    assert not caller.throttle.is_used, "and nothing is kept"


def test_the_next_incarnation_of_a_service_begins_anew() -> None:
    caller = Caller(random=0.99)
    caller.meets_overload()
    caller.throttle.lost(PEER)
    assert not caller.throttle.is_used and caller.asks() is None


def test_casts_are_refused_as_calls_are_and_tell_nothing() -> None:
    """No answer says whether a cast was accepted, so it must not count as such."""
    caller = Caller(random=0.99)
    caller.meets_overload()
    gate = caller.throttle._callees[PEER, ROUTE].gates[4]
    before = gate.asked, gate.sent
    assert caller.throttle.cast_refusal(PEER, ROUTE, 4, caller.now_ns) is not None
    assert caller.throttle.cast_refusal(PEER, ROUTE, 0, caller.now_ns) is None
    assert caller.throttle.cast_refusal(PEER, "desk.look", 4, caller.now_ns) is None
    assert (gate.asked, gate.sent) == before
    caller.now_ns += INTERVAL_MAX_NS
    assert caller.throttle.cast_refusal(PEER, ROUTE, 4, caller.now_ns) is None, "it has refused nothing of late"


def test_the_table_is_bounded_and_makes_room_by_time() -> None:
    """A program may call as many routes of other nodes as it likes."""
    caller = Caller()
    for number in range(CALLEES_MAX + 1):
        caller.hears_refusal(route=f"far/desk.{number}")
    assert len(caller.throttle._callees) == CALLEES_MAX
    caller.now_ns += INTERVAL_MAX_NS
    caller.hears_refusal(route="far/another.one")
    assert len(caller.throttle._callees) == 1


def test_priorities_that_no_backplane_has_cost_nothing() -> None:
    """Another host may name a new number in each of its answers."""
    caller = Caller()
    for told in (-1, *range(PRIORITIES_MAX, PRIORITIES_MAX + 1_000), 1 << 64):
        caller.throttle.refused(PEER, ROUTE, None, told, 0.0, caller.now_ns)
    assert not caller.throttle._callees
