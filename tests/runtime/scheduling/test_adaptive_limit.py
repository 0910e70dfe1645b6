"""AdaptiveLimit: past saturation what is served is served in time, as much as ever, and the most urgent first of all."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from random import Random

import pytest

from appbackplane.runtime import AppObject
from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.scheduling.adaptive_limit import AdaptiveLimit

MS = 1_000_000
S = 1_000 * MS
AIM_NS = 20 * MS
#: Priority to its part of the load.
MIXED = {0: 0.1, 2: 0.2, 5: 0.7}
EQUAL = {1: 1.0, 3: 1.0, 5: 1.0}


class Work(Action):
    __slots__ = ("arrived_ns",)


class Service:
    """Workers that serve the admitted requests in the order of priorities, and a Poisson stream of them. Times are virtual."""

    def __init__(self, run_ns: Callable[[Random], float], *, workers: int = 1, seed: int = 1) -> None:
        self.random = Random(seed)
        self.run_ns, self.workers = run_ns, workers
        many = Random(0)
        self.mean_ns = sum(run_ns(many) for _ in range(20_000)) / 20_000
        self.object = AppObject()
        self.limit = AdaptiveLimit(AIM_NS, 8, 0)
        self.queues: list[deque[Work]] = [deque() for _ in range(8)]
        self.running: list[tuple[int, int, Work]] = []
        self.now_ns = 0
        self.number = 0
        #: Queueing times of the served, and counts of the offered and refused, by priority.
        self.queued_ns: dict[int, list[int]] = {}
        self.offered: dict[int, int] = {}
        self.early: dict[int, int] = {}
        self.late: dict[int, int] = {}
        self.served_ns = 0

    def offer(self, load: float, seconds: float, mix: Mapping[int, float]) -> float:
        """Offer `load` times what all workers can serve; how much of their time they served something, as a part of it."""
        end_ns, before = self.now_ns + round(seconds * S), self.served_ns
        gap_ns = self.mean_ns / (load * self.workers)
        next_ns = self.now_ns + round(self.random.expovariate(1 / gap_ns))
        while next_ns < end_ns:
            while self.running and self.running[0][0] <= next_ns:
                self._end(*heapq.heappop(self.running))
            self.now_ns = next_ns
            self._arrive(self.random.choices([*mix], [*mix.values()])[0])
            self._begin()
            next_ns += round(self.random.expovariate(1 / gap_ns))
        self.now_ns = end_ns
        return (self.served_ns - before) / (seconds * S * self.workers)

    def finish(self) -> None:
        """Serve what is outstanding."""
        while self.running:
            self._end(*heapq.heappop(self.running))

    def refused_part(self, priority: int) -> float:
        return (self.early.get(priority, 0) + self.late.get(priority, 0)) / self.offered[priority]

    def _arrive(self, priority: int) -> None:
        self.offered[priority] = self.offered.get(priority, 0) + 1
        while (late := self.limit.next_late(self.now_ns)) is not None:
            self.queues[late.priority].remove(late)  # type: ignore[arg-type]
            self._refuse_late(late)
        if not self.limit.admits(priority, self.now_ns):
            self.early[priority] = self.early.get(priority, 0) + 1
            return
        work = Work(self.object, "work", priority)
        work.posted_ns = self.now_ns
        self.limit.admitted(work, self.now_ns)
        self.queues[priority].append(work)

    def _begin(self) -> None:
        for queue in self.queues:
            while queue and len(self.running) < self.workers:
                work = queue.popleft()
                if self.limit.is_late(work, self.now_ns):
                    self._refuse_late(work)
                    continue
                work.started_ns = self.now_ns
                self.limit.begins(work)
                self.queued_ns.setdefault(work.priority, []).append(self.now_ns - work.posted_ns)
                self.number += 1
                heapq.heappush(self.running, (self.now_ns + max(1, round(self.run_ns(self.random))), self.number, work))

    def _refuse_late(self, work: Action) -> None:
        self.late[work.priority] = self.late.get(work.priority, 0) + 1
        self.limit.refused_late()
        self.limit.ended(work, self.now_ns)
        work.posted_ns = 0

    def _end(self, at_ns: int, number: int, work: Work) -> None:
        self.now_ns = at_ns
        self.served_ns += at_ns - work.started_ns
        self.limit.ended(work, at_ns)
        work.posted_ns = 0
        self._begin()


def constant(ns: float) -> Callable[[Random], float]:
    return lambda random: ns


def exponential(ns: float) -> Callable[[Random], float]:
    return lambda random: random.expovariate(1 / ns)


def two_kinds(random: Random) -> float:
    return 1 * MS if random.random() < 0.9 else 19 * MS


SERVICES = {
    "constant": Service(constant(1 * MS)), "exponential": Service(exponential(1 * MS)), "two kinds": Service(two_kinds),
    "long": Service(constant(5 * MS)), "short": Service(constant(100_000)),
    "four workers": Service(exponential(4 * MS), workers=4), "many waiters": Service(exponential(8 * MS), workers=64),
}  # fmt: skip


@pytest.mark.parametrize("mix", [{4: 1.0}, MIXED, EQUAL], ids=["one priority", "mixed", "equal"])
@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_past_saturation_it_serves_as_much_as_ever_and_in_time(service: Service, mix: Mapping[int, float]) -> None:
    """At three times the capacity. Without a limit the queue, and with it each answer's age, would grow without end."""
    service = Service(service.run_ns, workers=service.workers)
    served = service.offer(3.0, 2.0, mix)
    assert served > 0.9
    for priority, queued_ns in service.queued_ns.items():
        assert priority == 0 or max(queued_ns) <= AIM_NS
    assert service.refused_part(max(mix)) > 0.5


@pytest.mark.parametrize("run_ns", [constant(1 * MS), exponential(1 * MS)], ids=["constant", "exponential"])
def test_few_of_the_refused_have_queued_in_vain(run_ns: Callable[[Random], float]) -> None:
    """An early refusal costs neither a place in the queue nor the caller's time. Late ones are what corrects the estimate."""
    service = Service(run_ns)
    service.offer(3.0, 10.0, {4: 1.0})
    assert service.late[4] < 0.15 * service.early[4]


@pytest.mark.parametrize("mix", [MIXED, {0: 0.5, 5: 0.5}], ids=["few", "more than can be served"])
def test_the_most_urgent_priority_is_never_refused(mix: Mapping[int, float]) -> None:
    service = Service(exponential(1 * MS))
    service.offer(4.0, 5.0, mix)
    assert service.refused_part(0) == 0
    assert service.refused_part(5) > 0.8


def queued(limit: AdaptiveLimit, priority: int, at_ns: int) -> Work:
    """One request that was admitted, and has not begun."""
    work = Work(AppObject(), "work", priority)
    work.posted_ns = at_ns
    limit.admitted(work, at_ns)
    return work


def test_what_is_less_urgent_does_not_count() -> None:
    """Law 3: it is served later anyway. Two requests are served within the aim."""
    limit = AdaptiveLimit(AIM_NS, 8, 0)
    limit.rate = 100.0
    for _ in range(2):
        queued(limit, 5, 0)
    assert limit.admits(4, 1)
    assert not limit.admits(5, 1) and not limit.admits(6, 1)


def test_what_more_urgent_requests_will_take_is_not_counted_on() -> None:
    """Priorities 0 and 2 keep coming, and are served first: 0.9 of the capacity is theirs."""
    service = Service(constant(1 * MS))
    service.offer(3.0, 5.0, MIXED)
    whole = service.limit.room(0)
    assert 0.6 * whole < service.limit.room(2) < 0.8 * whole
    assert service.limit.room(5) < 0.3 * whole


def test_a_late_request_is_found_behind_one_that_has_begun() -> None:
    """At another object, say: it may run for long."""
    limit = AdaptiveLimit(AIM_NS, 8, 0)
    limit.begins(queued(limit, 4, 0))
    late, later = queued(limit, 4, 2), queued(limit, 4, 3)
    assert limit.next_late(AIM_NS + 2) is None
    assert limit.next_late(AIM_NS + 3) is late
    assert limit.next_late(AIM_NS + 3) is None
    assert limit.next_late(AIM_NS + 4) is later


def test_where_nothing_is_refused_nothing_is_learned() -> None:
    """Or the next overload would meet a limit that is none."""
    service = Service(constant(1 * MS))
    service.offer(3.0, 2.0, MIXED)
    service.offer(0.5, 10.0, MIXED)
    assert service.limit.rate < 3_000


def test_what_is_less_urgent_is_refused_first() -> None:
    """Priorities 0 and 2 are 0.9 of the capacity together: they are served, and 5 gets the rest."""
    service = Service(constant(1 * MS))
    service.offer(3.0, 5.0, MIXED)
    assert service.refused_part(2) < 0.05 < 0.85 < service.refused_part(5)


def test_below_saturation_hardly_anything_is_refused() -> None:
    """At 0.7 of the capacity one in a hundred may meet a queue of 20 ms by chance, but not one is refused without need."""
    service = Service(exponential(1 * MS))
    service.offer(3.0, 2.0, MIXED)
    early, late = dict(service.early), dict(service.late)
    service.offer(0.7, 0.5, MIXED)  # it recovers
    early, late = dict(service.early), dict(service.late)
    before = service.offered[5]
    service.offer(0.7, 10.0, MIXED)
    refused = service.early.get(5, 0) + service.late.get(5, 0) - early.get(5, 0) - late.get(5, 0)
    assert refused < 0.01 * (service.offered[5] - before)


def test_it_learns_that_the_service_has_become_faster_or_slower() -> None:
    run_ms = 4.0
    service = Service(lambda random: run_ms * MS)
    service.offer(3.0, 2.0, {4: 1.0})
    for run_ms in (1.0, 8.0):
        service.mean_ns = run_ms * MS
        service.offer(3.0, 2.0, {4: 1.0})  # it learns
        assert service.offer(3.0, 4.0, {4: 1.0}) > 0.95


def test_when_all_have_ended_nothing_is_kept() -> None:
    service = Service(exponential(1 * MS))
    service.offer(3.0, 1.0, MIXED)
    service.finish()
    assert service.limit.queued == [0] * 8
    assert service.limit.figures()["outstanding"] == 0


def test_without_any_late_request_nothing_is_refused() -> None:
    """Nothing is known yet, so a burst is admitted as a whole. What of it queues for too long is refused then."""
    service = Service(constant(1 * MS))
    assert all(service.limit.admits(4, 0) for _ in range(1_000))


def test_what_has_begun_is_no_queue() -> None:
    """Coroutines that await replies, and streams: some 40 of 0.2 s are outstanding at 200 a second, and none of them queues."""
    service = Service(constant(200 * MS), workers=60)
    service.limit.rate = 60.0  # after a stall
    service.offer(0.6, 3.0, {4: 1.0})
    before, refused = service.offered[4], sum(service.early.values())
    service.offer(0.6, 5.0, {4: 1.0})
    assert sum(service.early.values()) - refused < 0.01 * (service.offered[4] - before)


def test_an_estimate_that_is_too_low_recovers() -> None:
    """If it is what the most urgent take, nothing else would ever be admitted, and nothing more be served."""
    limit = AdaptiveLimit(AIM_NS, 8, 0)
    limit.rate = 100.0
    now_ns = 0
    for _ in range(50):
        work = queued(limit, 0, now_ns)
        limit.admits(5, now_ns)
        limit.begins(work)
        now_ns += 10 * MS
        work.started_ns = 1
        limit.ended(work, now_ns)
    assert limit.early_count and limit.rate > 105.0


def test_how_idle_the_service_is_is_known() -> None:
    """Its callers are told, and send more where it refuses all the same."""
    service = Service(constant(MS))
    service.offer(3.0, 2, MIXED)
    assert service.limit.idle_thousandths == 0
    service.offer(0.5, 2, MIXED)
    assert 350 < service.limit.idle_thousandths < 650
