"""Scheduler loop: actions a second of the bare loop, against asyncio tasks and a thread pool.

Measured: one thread; 100 objects, eight priorities, a backlog of 1000; each action is posted, chosen under quotas, run (it
adds one to a number), timed by the real clock, entered into a histogram, and finished. "mixed": the actions of one object
have different priorities. "by deadline": with `order = "deadline"`, of actions that have none. "engine": as the engine
does it, with the action made, its account looked up, the wait in a histogram too, and its CPU time charged. Against: the
same number of asyncio tasks in batches of 1000, and of calls submitted to a ThreadPoolExecutor of one thread; neither has
priorities, order by object or figures.
Rounds are interleaved, so that a noisy machine hits all alike; printed are medians and their ratios to asyncio.

A surprise would be less than 1.0 M actions/s for "scheduler" on a quiet machine (the prototype's figure, DESIGN 5, with one
histogram), a tenth less when mixed, or "engine" (0.65 M/s when written) below one and a half times asyncio.

    python scripts/bench_cases/scheduler_loop.py [rounds]
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns, perf_counter

from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.observation.histogram import Histogram
from appbackplane.runtime.observation.statistics import Statistics
from appbackplane.runtime.scheduling.deadline_order import DeadlineScheduler
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler

BATCH, BATCHES, OBJECTS, PRIORITIES = 1000, 50, 100, 8


class Counting(AppObject):
    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class AddOne(Action):
    __slots__ = ()

    def run(self) -> Outcome:
        self.object.number += 1  # type: ignore[attr-defined]
        return Outcome.DONE


def scheduler_rate(*, is_mixed: bool = False, kind: type[Scheduler] = Scheduler) -> float:
    """Actions a second."""
    scheduler, histogram = kind(Policy(priorities=PRIORITIES), monotonic_ns()), Histogram()
    objects = [Counting() for _ in range(OBJECTS)]
    numbers = [n * 7 % OBJECTS for n in range(BATCH)]
    places = [(objects[number], (n if is_mixed else number) * 3 % PRIORITIES) for n, number in enumerate(numbers)]
    actions = [AddOne(object, "bench.add", priority) for object, priority in places]
    post, choose, finished, record = scheduler.post, scheduler.next, scheduler.finished, histogram.record
    started = perf_counter()
    for _ in range(BATCHES):
        now_ns = monotonic_ns()
        for action in actions:
            post(action, now_ns)
        while (chosen := choose(now_ns)) is not None:
            outcome = chosen.run()
            ended_ns = monotonic_ns()
            record(ended_ns - now_ns)
            finished(chosen, outcome, ended_ns)
            now_ns = ended_ns
    spent = perf_counter() - started
    assert sum(object.number for object in objects) == histogram.count == BATCH * BATCHES
    return BATCH * BATCHES / spent


def engine_rate() -> float:
    """Actions a second, with everything that is kept of them."""
    scheduler, operations = Scheduler(Policy(priorities=PRIORITIES), monotonic_ns()), Statistics()
    objects = [Counting() for _ in range(OBJECTS)]
    post, choose, finished, charge = scheduler.post, scheduler.next, scheduler.finished, scheduler.budget.charge
    started = perf_counter()
    for _ in range(BATCHES):
        now_ns = monotonic_ns()
        for n in range(BATCH):
            post(AddOne(objects[n * 7 % OBJECTS], "bench.add", n * 3 % PRIORITIES), now_ns)
        while (chosen := choose(now_ns)) is not None:
            outcome = chosen.run()
            ended_ns = monotonic_ns()
            account = operations.of(chosen.name)
            account.wait.record(now_ns - chosen.posted_ns)
            account.run.record(ended_ns - now_ns)
            charge(ended_ns - now_ns)
            finished(chosen, outcome, ended_ns)
            now_ns = ended_ns
    spent = perf_counter() - started
    assert sum(object.number for object in objects) == operations.of("bench.add").run.count == BATCH * BATCHES
    return BATCH * BATCHES / spent


def asyncio_rate() -> float:
    """Tasks a second."""
    done = 0

    async def add_one() -> None:
        nonlocal done
        done += 1

    async def all_batches() -> float:
        started = perf_counter()
        for _ in range(BATCHES):
            await asyncio.gather(*[asyncio.create_task(add_one()) for _ in range(BATCH)])
        return perf_counter() - started

    spent = asyncio.run(all_batches())
    assert done == BATCH * BATCHES
    return done / spent


def thread_pool_rate() -> float:
    """Calls a second."""
    done = 0

    def add_one() -> None:
        nonlocal done
        done += 1

    with ThreadPoolExecutor(1) as pool:
        started = perf_counter()
        for _ in range(BATCHES):
            for future in [pool.submit(add_one) for _ in range(BATCH)]:
                future.result()
        spent = perf_counter() - started
    assert done == BATCH * BATCHES
    return done / spent


CASES: dict[str, Callable[[], float]] = {
    "scheduler": scheduler_rate,
    "scheduler, mixed": lambda: scheduler_rate(is_mixed=True),
    "scheduler, by deadline": lambda: scheduler_rate(kind=DeadlineScheduler),
    "engine": engine_rate,
    "asyncio": asyncio_rate,
    "thread pool": thread_pool_rate,
}


def main(rounds: int) -> None:
    rates: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(rounds):
        for name, case in CASES.items():
            rates[name].append(case())
    medians = {name: statistics.median(found) for name, found in rates.items()}
    result = {
        name: {
            "per_s": round(rate),
            "best_per_s": round(max(rates[name])),
            "to_asyncio": round(rate / medians["asyncio"], 2),
        }
        for name, rate in medians.items()
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
