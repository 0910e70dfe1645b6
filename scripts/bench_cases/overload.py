"""overload: a service of 1 ms a call is offered three times what it can serve, with and without admission by queueing time.

Beside it, in the same round: the same service with no admission but its 10,000 places, and with a fixed limit of 100 requests.
The services have one core, and the caller has another, so that the load costs them nothing but its calls. First the peak, with
a few calls outstanding. Then the overload, at a rate that does not depend on the answers, one call in twenty of priority 0.
Then half the peak, until all is as before; and the peak again. Goodput is what was answered within a second, of the mean of
both peaks. Beside it, the same for each second of CPU time of the service, which says what its calls cost even where other
programs take part of its core. A surprise would be a p99 that grows with the load, or as many calls refused by the service as
by its caller (transport/caller_throttle.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from appbackplane.runtime import Adaptive, AppObject, Component, operation
from appbackplane.transport import AsyncClient, connect_async
from appbackplane.transport.errors import BackplaneError, Busy, DeadlineExceeded

from .harness.bulk import compute
from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.machine import apart, cpu_s
from .harness.systems import System, running
from .harness.timing import percentile

CALL_S, AIM_MS, LOAD = 0.001, 20, 3.0
#: Seconds at the peak, past it, and below it.
PEAK_S, OVERLOAD_S, AFTER_S = 0.75, 3.0, 2.5
#: How long a caller waits.
DEADLINE_S = 1.0
#: Calls outstanding while the peak is measured.
PEAK_OUTSTANDING = 8
#: That serve the calls: an urgent one passes the others at another object (laws 1 and 2).
OBJECTS = 16
#: One call in so many is of priority 0, the others of 4.
URGENT_EVERY = 20


class Admitting(AppObject):
    @operation(admit=Adaptive(aim_ms=AIM_MS))
    def serve(self) -> None:
        compute(CALL_S)


class Plain(AppObject):
    @operation()
    def serve(self) -> None:
        compute(CALL_S)


class Desk(Component):
    def __init__(self, max_requests: int = 10_000, admits: bool = False) -> None:
        self.max_requests, self.admits = max_requests, admits

    def setup(self) -> None:
        for _ in range(OBJECTS):
            self.add(Admitting() if self.admits else Plain())


@dataclass(slots=True)
class Answers:
    """The calls of one priority: when each answered one was sent and how long it took, and when the refused ones were sent."""

    answered: list[tuple[float, float]] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    late_count: int = 0

    def p99_ms(self) -> float:
        return percentile([took for _, took in self.answered], 0.99) * 1e3 if self.answered else float("nan")


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with services() as (adaptive, fixed, plain):
        yield Sides(
            lambda: asyncio.run(measured(adaptive)),
            lambda: {
                **asyncio.run(measured(plain)),
                **{f"fixed_{name}": figure for name, figure in asyncio.run(measured(fixed)).items()},
            },
        )


@contextmanager
def services() -> Iterator[tuple[System, System, System]]:
    """The three: by queueing time, a fixed limit, no admission. All on one core, and we on another."""
    desk = f'components = ["{__name__}:Desk"]\n'
    with (
        apart() as step_aside,
        running({"desk": f"{desk}settings.Desk = {{ admits = true }}"}) as adaptive,
        running({"desk": f"{desk}settings.Desk = {{ max_requests = 100 }}"}) as fixed,
        running({"desk": desk}) as plain,
    ):
        step_aside()
        yield adaptive, fixed, plain


async def measured(system: System) -> Figures:
    pid = system.pids()["desk"]
    async with await connect_async(system.run_dir) as client:
        peak_per_s, peak_per_cpu_s = await peak(client, pid)
        here, cpu = client.refused_here_count, cpu_s([pid])
        urgent, others = await offered(client, LOAD * peak_per_s, OVERLOAD_S)
        here, cpu = client.refused_here_count - here, cpu_s([pid]) - cpu
        ended = time.perf_counter()
        _, after = await offered(client, 0.5 * peak_per_s, AFTER_S)
        again_per_s, again_per_cpu_s = await peak(client, pid)
        peak_per_s, peak_per_cpu_s = (peak_per_s + again_per_s) / 2, (peak_per_cpu_s + again_per_cpu_s) / 2
        troubled = [
            *after.refused, *(at for at, took in after.answered if took > AIM_MS / 1e3), ended
        ]  # fmt: skip
        count = len(urgent.answered) + len(others.answered)
        refused = len(urgent.refused) + len(others.refused)
        return {
            "peak_per_s": peak_per_s,
            "goodput_percent": 100.0 * count / OVERLOAD_S / peak_per_s,
            "goodput_by_cpu_percent": 100.0 * count / cpu / peak_per_cpu_s,
            "p99_ms": others.p99_ms(),
            "urgent_p99_ms": urgent.p99_ms(),
            "urgent_refused_count": float(len(urgent.refused)),
            "recovery_s": max(troubled) - ended,
            "refused_by_caller_percent": 100.0 * here / count,
            "refused_by_service_percent": 100.0 * (refused - here) / count,
        }


async def peak(client: AsyncClient, pid: int) -> tuple[float, float]:
    """Calls a second, and in a second of CPU time of the service, with a few outstanding."""
    end = time.perf_counter() + PEAK_S
    count = 0

    async def keep() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await client.call("desk.serve", priority=0)
            count += 1

    began, cpu = time.perf_counter(), cpu_s([pid])
    await asyncio.gather(*(keep() for _ in range(PEAK_OUTSTANDING)))
    return count / (time.perf_counter() - began), count / (cpu_s([pid]) - cpu)


async def offered(client: AsyncClient, per_s: float, seconds: float) -> tuple[Answers, Answers]:
    """Call so often, whatever the answers; those of the urgent calls, and those of the others."""
    urgent, others = Answers(), Answers()
    begin = time.perf_counter()
    tasks: set[asyncio.Task[None]] = set()
    for number in range(round(per_s * seconds)):
        pause = begin + number / per_s - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        is_urgent = number % URGENT_EVERY == 0
        task = asyncio.create_task(one(client, 0 if is_urgent else 4, urgent if is_urgent else others))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return urgent, others


async def one(client: AsyncClient, priority: int, answers: Answers) -> None:
    began = time.perf_counter()
    try:
        await client.call("desk.serve", priority=priority, timeout=DEADLINE_S, retry=False)
    except Busy:
        answers.refused.append(began)
    except DeadlineExceeded:
        answers.late_count += 1
    except BackplaneError as error:
        raise AssertionError(f"neither answered nor refused: {error}") from error
    else:
        answers.answered.append((began, time.perf_counter() - began))


CASE = Case(
    name="overload",
    what="goodput at three times the capacity, admitted by queueing time; references: no admission, and a fixed limit of 100",
    requirements=(
        Requirement("goodput", ours("goodput_percent"), at_least=95, unit="% of the peak"),
        Requirement("p99", ours("p99_ms"), at_most=2 * AIM_MS, unit="ms"),
        Requirement("urgent calls refused", ours("urgent_refused_count"), at_most=0),
        Requirement("recovery", ours("recovery_s"), at_most=2, unit="s"),
    ),
    open=both,
    rounds=3,
    quick_rounds=1,
)
