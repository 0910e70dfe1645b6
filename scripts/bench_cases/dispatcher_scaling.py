"""dispatcher_scaling: figure 9 of seed 003, ten handlers of one message and 1 to 32 threads, as a plot and as bounds on it.

Handlers that idle, with a source that needs no lock: the time falls as 1/threads. The same with a source that is locked during
the whole dispatch: flat, and at no number of threads above a reactor with one thread that does the same work from the same
device (harness/figure9.py). Handlers that compute share the interpreter of a process, however many threads it has; over
two shards they use two cores. A curve is its best slices: what else the machine does only ever adds. A surprise would be a
locked source above the reactor: what is done beside the handlers would be less than what a hand-over costs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from appbackplane.transport.client import Client

from .harness.case import Case, Figures, Requirement, Sides
from .harness.case import ours as figure
from .harness.chart import Chart, Curve
from .harness.computing import computed, parts, tables
from .harness.figure9 import Idle, Locked, Ten, dispatched_s, reacted_s
from .harness.in_process import dispatching
from .harness.plots import PLOTS
from .harness.systems import running

THREADS, QUICK_THREADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (1, 2, 8, 32)
#: Messages for each thread: a multiple of all numbers of threads, or the last of them would run beside idle ones.
IDLE_COUNT = 96
#: And with a locked source, which costs the same at all of them. Many slices, so short that some find the machine at rest.
LOCKED_COUNT, LOCKED_SLICES = 6, 4
#: And for handlers that compute, in one process and over shards: there, a slice of 50 ms began and ended for a tenth of it.
COMPUTING_COUNT, SHARDED_COUNT = 16, 48
#: How much one point of a flat curve, the reactor's own for one, differs from the next: 0.3 % on a machine at rest, 1 % beside
#: other work. All points together differ by a third of it.
ERROR = 0.01
SHARDS = 2
#: Both cores must be free at once, and two processes on them for as long as a slice takes.
SHARD_SLICES = 6
#: All of this is done so often, and is one round: of several, the median would leave half of the slices out. What takes long
#: and has a wide bound is left out after the second time.
SWEEPS, QUICK_SWEEPS, LONG_SWEEPS = 4, 2, 2


class Curves:
    """Milliseconds a message, the best that was seen: curve to number to figure."""

    def __init__(self) -> None:
        self.best: dict[str, dict[int, float]] = {}

    def measure(self, curve: str, number: int, count: int, spent_s: Callable[[], float]) -> None:
        """One slice of `count` messages."""
        points = self.best.setdefault(curve, {})
        points[number] = min(points.get(number, float("inf")), spent_s() * 1e3 / count)


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    curves, ten = Curves(), Ten()
    keys = parts(SHARDS, SHARDED_COUNT)
    with running(tables(SHARDS)) as system, dispatching(ten, threads=1) as backplane:

        def ours() -> Figures:
            for sweep in range(QUICK_SWEEPS if is_quick else SWEEPS):
                for threads in QUICK_THREADS if is_quick else THREADS:
                    backplane.set_threads(threads)
                    locked(curves, ten, threads)
                    if sweep < LONG_SWEEPS:
                        unlocked(curves, ten, system.client, threads, keys)
                shards(curves, system.client, keys)
            return figures(curves)

        # The reactor is measured in the same sweep, beside each number of threads.
        yield Sides(ours, lambda: {"locked_ms": max(curves.best["reactor"].values())})
    PLOTS.add("dispatcher_scaling", chart(curves))


def locked(curves: Curves, ten: Ten, threads: int) -> None:
    """Handlers that idle, with a locked source, and in a reactor, by turns."""
    for _ in range(LOCKED_SLICES):
        curves.measure("reactor", threads, LOCKED_COUNT, lambda: reacted_s(Locked, LOCKED_COUNT))
        curves.measure("locked", threads, LOCKED_COUNT, lambda: dispatched_s(ten, Locked, LOCKED_COUNT))


def unlocked(curves: Curves, ten: Ten, client: Client, threads: int, keys: list[str]) -> None:
    """Handlers that idle, and handlers that compute in one process."""
    curves.measure("idle", threads, IDLE_COUNT, lambda: dispatched_s(ten, Idle, IDLE_COUNT))
    client.call("backplane.alone.threads", count=threads)
    curves.measure("computing", threads, COMPUTING_COUNT, lambda: computed_s(client, "alone", keys[:COMPUTING_COUNT]))


def shards(curves: Curves, client: Client, keys: list[str]) -> None:
    """Handlers that compute, in one backplane with one thread, and over two."""
    client.call("backplane.alone.threads", count=1)
    for _ in range(SHARD_SLICES):
        curves.measure("sharded", 1, len(keys), lambda: computed_s(client, "alone", keys))
        curves.measure("sharded", SHARDS, len(keys), lambda: computed_s(client, "spread", keys))


def computed_s(client: Client, component: str, keys: list[str]) -> float:
    """How long a message to each part takes."""
    began = time.perf_counter()
    computed(client, component, keys)
    return time.perf_counter() - began


def figures(curves: Curves) -> Figures:
    idle, locked, sharded = curves.best["idle"], curves.best["locked"], curves.best["sharded"]
    to_reactor = [spent / curves.best["reactor"][threads] for threads, spent in locked.items()]
    return {
        "idle_ms": idle[1],
        "idle_32_threads_ms": idle[32],
        "efficiency": min(idle[1] / (threads * spent) for threads, spent in idle.items()),
        "locked_ms": max(locked.values()),
        "locked_best_ms": min(locked.values()),
        "locked_to_reactor": fmean(to_reactor),
        "locked_to_reactor_max": max(to_reactor),
        "computing_ms": sharded[1],
        "computing_2_shards_ms": sharded[SHARDS],
    }


def flatness(found: Figures, _reactor: Figures) -> float:
    """The locked source, slowest to fastest."""
    return found["locked_ms"] / found["locked_best_ms"]


def speedup(found: Figures, _reactor: Figures) -> float:
    return found["computing_ms"] / found["computing_2_shards_ms"]


def chart(curves: Curves) -> Chart:
    """Figure 9."""
    best, cores = curves.best, len(os.sched_getaffinity(0))
    return Chart(
        "Ten handlers of one message",
        f"Time a message takes, over the number of threads (of shards where it says so), {cores} cores",
        "threads, or shards",
        "milliseconds a message",
        [
            Curve("locked source", best["locked"], "#7fa6e6"),
            Curve("reactor, one thread", best["reactor"], "#1f2933", is_reference=True),
            Curve("computing, one process", best["computing"], "#d9a066", is_hollow=True),
            Curve("computing, shards", best["sharded"], "#b4501e"),
            Curve("idle handlers", best["idle"], "#1b7f5c"),
        ],
    )


CASE = Case(
    name="dispatcher_scaling",
    what="ten handlers of a message, 1 to 32 threads: idle, computing in 2 shards, with a locked source; reference: a reactor",
    requirements=(
        Requirement("idle handlers, least share of 1/threads", figure("efficiency"), at_least=0.8),
        Requirement("computing, 2 shards to 1", speedup, at_least=1.8),
        Requirement("locked source to reactor", figure("locked_to_reactor"), at_most=1.0),
        Requirement("where it is most", figure("locked_to_reactor_max"), at_most=1.0 + ERROR),
        Requirement("locked source, slowest to fastest", flatness, at_most=1.03),
    ),
    open=both,
    rounds=1,
    quick_rounds=1,
    is_warmed_up=False,
)
