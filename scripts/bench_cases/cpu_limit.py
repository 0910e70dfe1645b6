"""cpu_limit: the share of a core that spinning work gets under a limit of 30 % and of 120 %.

By the operating system: two backplanes of a running system, each with its limit. By the scheduler alone: the same
component in a bare process, with nobody to put it into a group. 120 % takes two threads, so the work lets go of the
interpreter while it computes. The reference is what two plain threads get in such groups: where it is too low, too, the
machine had no more to give, and the limits are not at fault.

    python -m bench_cases.cpu_limit PERCENT      a bare process with a limit
    python -m bench_cases.cpu_limit              plain threads
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from appbackplane.runtime import Action, AppObject, Component, Outcome
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.processes.cgroups import make

from .harness.case import Case, Figures, Requirement, Sides
from .harness.in_process import bound
from .harness.machine import cpu_s
from .harness.parts import numbered
from .harness.processes import hear, program
from .harness.systems import running

LIMITS = (30, 120)
OBJECTS, THREADS = 4, 2
ACTION_S = 0.002
DATA = bytes(1 << 16)  # large enough for hashlib to let go of the interpreter
#: A whole number of integration periods, or the last one counts by chance; and the first ones, in which it starts up.
SLICE_S, QUICK_SLICE_S, SETTLE_S = 10.0, 2.0, 1.2


class Spin(Action):
    """A little work, and the same again."""

    __slots__ = ()

    def run(self) -> Outcome:
        end = time.thread_time() + ACTION_S
        while time.thread_time() < end:
            hashlib.sha256(DATA)
        component = self.object._component
        assert component is not None
        component.post(Spin(self.object, self.name, self.priority))
        return Outcome.DONE


class Spinner(Component):
    def setup(self) -> None:
        for _ in range(OBJECTS):
            self.add(AppObject())

    def on_primary(self) -> None:
        for object in self.objects:
            self.post(Spin(object, "spinner.spin", 4))


globals().update(numbered(Spinner, len(LIMITS)))


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    yield Sides(lambda: by_the_system(seconds) | by_the_scheduler(seconds), lambda: plain(seconds))


def by_the_system(seconds: float) -> Figures:
    tables = {
        f"limit{limit}": f'components = ["{__name__}:Spinner{n}"]\nthreads = {THREADS}\ncpu_limit = {limit}'
        for n, limit in enumerate(LIMITS)
    }
    with running(tables) as system:
        pids = system.pids()
        shares = shares_percent([pids[f"limit{limit}"] for limit in LIMITS], seconds)
    return {f"os_{limit}_percent": share for limit, share in zip(LIMITS, shares, strict=True)}


def by_the_scheduler(seconds: float) -> Figures:
    """Without any help."""
    with program("cpu_limit", str(LIMITS[0])) as low, program("cpu_limit", str(LIMITS[1])) as high:
        hear(low)
        hear(high)
        shares = shares_percent([low.pid, high.pid], seconds)
    return {f"scheduler_{limit}_percent": share for limit, share in zip(LIMITS, shares, strict=True)}


def plain(seconds: float) -> Figures:
    """Two threads that compute and know nothing of us, in groups with these limits. Nothing where no groups can be made."""
    with TemporaryDirectory(prefix="ab-") as folder, ExitStack() as started:
        groups = make("bench", Path(folder))
        if not groups:
            return {}
        started.callback(groups.close, lambda why: print(why, file=sys.stderr))
        pids = []
        for limit in LIMITS:
            name = f"limit{limit}"
            groups.add(name)
            with groups.entered(name):
                spinner = started.enter_context(program("cpu_limit"))
            hear(spinner)
            pids.append(spinner.pid)
            started.callback(groups.limit, name, None)  # or to kill it takes a while
            groups.limit(name, limit)
        shares = shares_percent(pids, seconds)
    return {f"os_{limit}_percent": share for limit, share in zip(LIMITS, shares, strict=True)}


def shares_percent(pids: Sequence[int], seconds: float) -> list[float]:
    """Of a core that each process used meanwhile."""
    time.sleep(SETTLE_S)
    began, before = time.perf_counter(), [cpu_s([pid]) for pid in pids]
    time.sleep(seconds)
    after, spent = [cpu_s([pid]) for pid in pids], time.perf_counter() - began
    return [100 * (now - then) / spent for now, then in zip(after, before, strict=True)]


def serve(limit: int) -> None:
    """A backplane that nobody looks after."""
    spinner = Spinner()
    with bound("limited", spinner, cpu_limit=limit, preempt=False) as backplane:
        backplane.start(THREADS)
        with backplane.engine.lead:
            for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
                backplane.engine.lifecycle.move(spinner.component_name, state, lambda error: None)
        print("spinning", flush=True)
        sys.stdin.read()


def spin() -> None:
    while True:
        hashlib.sha256(DATA)


def serve_plain() -> None:
    for _ in range(THREADS):
        threading.Thread(target=spin, daemon=True).start()
    print("spinning", flush=True)
    sys.stdin.read()


def error_points(kind: str) -> Requirement:
    """How far the worse of the two is from its limit."""
    at_most = {"os": 2.0, "scheduler": 5.0}[kind]
    return Requirement(
        f"off by, {kind}",
        lambda ours, _: max(abs(ours[f"{kind}_{limit}_percent"] - limit) for limit in LIMITS),
        at_most=at_most,
        unit="points",
    )


CASE = Case(
    name="cpu_limit",
    what="spinning work under a limit of 30 % and of 120 % of a core, by the OS and by the scheduler alone; reference: plain"
    " threads",
    requirements=(error_points("os"), error_points("scheduler")),
    open=both,
    rounds=1,
    quick_rounds=1,
    is_warmed_up=False,
)

if __name__ == "__main__":
    serve(int(sys.argv[1])) if len(sys.argv) > 1 else serve_plain()
