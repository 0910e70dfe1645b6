"""requests_optimiser: the throughput of the setting that a kernel's optimiser found, as a share of the best fixed setting's.

For CPU-bound, blocking and mixed requests: a kernel of threads begins with four workers and has 20 intervals, or 40 more after
the load has become another one (`..._then`); then the setting
that it holds and fixed ones from 1 to 32 workers are measured in turn, many times, in the same kernel. Compared is what each
did within one turn of all, because a machine that others use, too, is another one a few seconds later; of these ratios the
median. CPU-bound requests let go of the interpreter while they compute, so that two cores can be used. A surprise would be a
share below 0.8, or 32 workers for CPU-bound work.
"""

from __future__ import annotations

import hashlib
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.requests.optimiser import OptimiserPolicy

from .harness.case import Case, Figures, Requirement, Sides
from .harness.in_process import bound

START, FIXED, WORKERS_MAX = 4, (1, 2, 4, 8, 16, 32), 32
INTERVALS, INTERVALS_AFTER = 20, 40
INTERVAL_S, QUICK_INTERVAL_S = 1.0, 0.25
#: How often it is each setting's turn, and for how long.
TURNS, QUICK_TURNS = 15, 5
SLICE_S, SETTLE_S = 0.4, 0.1
DATA = bytes(1 << 16)  # large enough for hashlib to let go of the interpreter
HASHES, BLOCK_S = 40, 0.02  # about 2 ms of computing
LIMIT_S = 30.0


class Computing(Runnable):
    """Bounded by the cores."""

    def execute(self, request: int, kernel: Context) -> None:
        for _ in range(request):
            hashlib.sha256(DATA)


class Blocking(Runnable):
    """Bounded by the workers."""

    def execute(self, request: int, kernel: Context) -> None:
        time.sleep(BLOCK_S)


class Mixed(Runnable):
    """Bounded by whichever is scarcer."""

    def execute(self, request: int, kernel: Context) -> None:
        for _ in range(request):
            hashlib.sha256(DATA)
        time.sleep(BLOCK_S)


KINDS: tuple[type[Runnable], ...] = (Computing, Blocking, Mixed)
#: What a kernel is given, one kind after the other; its setting is measured with the last.
WORK: dict[str, tuple[type[Runnable], ...]] = {
    "computing": (Computing,),
    "blocking": (Blocking,),
    "mixed": (Mixed,),
    "blocking_then": (Computing, Blocking),
    "mixed_then": (Blocking, Mixed),
}


class Kernel(RequestKernel):
    """One that is told nothing about the work."""

    runnables = KINDS


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    interval_s, turns = (QUICK_INTERVAL_S, QUICK_TURNS) if is_quick else (INTERVAL_S, TURNS)

    def ours() -> Figures:
        found: Figures = {}
        for name, kinds in WORK.items():
            found |= measured(name, kinds, interval_s, turns)
        return found

    yield Sides(ours)


def measured(name: str, kinds: Sequence[type[Runnable]], interval_s: float, turns: int) -> Figures:
    """What the optimiser finds for one kind of work, after others perhaps, and what that is worth."""
    policy = KernelPolicy(
        workers=START,
        optimise=True,
        record_interval=interval_s,
        optimiser=OptimiserPolicy(workers_max=WORKERS_MAX),
    )
    with running(Kernel(policy)) as kernel:
        for kind in kinds[:-1]:
            with fed(kernel, kind):
                time.sleep((INTERVALS + 1) * interval_s)
        with fed(kernel, kinds[-1]):
            time.sleep(((INTERVALS if len(kinds) == 1 else INTERVALS_AFTER) + 1) * interval_s)
            kernel.change(optimise=False)
            held = kernel.optimiser_workers()
            assert held is not None
            rates = rates_of(kernel, sorted({held, *FIXED}), turns)
    shares = {
        each: statistics.median(mine / other for mine, other in zip(rates[held], rates[each], strict=True) if other)
        for each in rates
    }
    best = min(shares, key=lambda workers: shares[workers])
    return {
        f"{name}_share": shares[best],
        f"{name}_held_workers": held,
        f"{name}_best_workers": best,
        f"{name}_per_s": statistics.median(rates[held]),
    }


def rates_of(kernel: Kernel, settings: Sequence[int], turns: int) -> dict[int, list[float]]:
    """Requests a second by workers, in each turn."""
    found: dict[int, list[float]] = {workers: [] for workers in settings}
    for _ in range(turns):
        for workers in settings:
            kernel.change(workers=workers)
            time.sleep(SETTLE_S)  # requests begun under the setting before
            before = kernel.figures()
            time.sleep(SLICE_S)
            after = kernel.figures()
            found[workers].append((after.ended_total - before.ended_total) * 1e9 / (after.at_ns - before.at_ns))
    return found


@contextmanager
def running(kernel: Kernel) -> Iterator[Kernel]:
    """A backplane of this process, with this kernel in it."""
    with bound("requests", kernel) as backplane:
        backplane.start(2)
        is_up = threading.Event()
        with backplane.engine.lead:
            backplane.engine.lifecycle.move(
                kernel.component_name, ModuleState.INITIALIZING, lambda error: error or is_up.set()
            )
        assert is_up.wait(LIMIT_S)
        yield kernel
        assert backplane.stop(LIMIT_S)


@contextmanager
def fed(kernel: Kernel, kind: type[Runnable]) -> Iterator[None]:
    """With more requests than it can execute."""
    is_over = threading.Event()

    def feed() -> None:
        while not is_over.is_set():
            kernel.kernel.post(HASHES, kind, rejoin=False, timeout=LIMIT_S)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        is_over.set()
        feeder.join(LIMIT_S)


def share(name: str) -> Requirement:
    return Requirement(f"share of the best, {name}", lambda ours, _: ours[f"{name}_share"], at_least=0.9)


CASE = Case(
    name="requests_optimiser",
    what=f"the optimiser's setting after {INTERVALS} intervals against the best of fixed ones, three kinds of work",
    requirements=tuple(map(share, WORK)),
    open=both,
    rounds=1,
    quick_rounds=1,
    is_warmed_up=False,
)
