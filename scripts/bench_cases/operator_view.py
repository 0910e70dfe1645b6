"""operator_view: how long a person waits for `status`, `top --once` and `logs` while four backplanes are saturated.

One has more short computations than it can do, one long ones that never yield, one calls that block, and one an extension
that keeps its interpreter to itself for a quarter of a second at a time; on two cores, with the clients that ask for all
that. Two figures a verb: until the answer is there, from when it was asked for, and the whole of the command as it was typed,
in a session of its own as a terminal is. The reference is a Python that does nothing: what no command written in it can
be below. `top` looks twice, 80 ms apart. A surprise would be an answer that waits for a backplane.

    python -m bench_cases.operator_view RUN_DIR COUNT
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from appbackplane.runtime import AppObject, operation
from appbackplane.supervisor.commands.asking import Asker
from appbackplane.supervisor.commands.logs import LINES, folder_of
from appbackplane.supervisor.commands.top import ONCE_S, once
from appbackplane.supervisor.logs.filter import LogFilter
from appbackplane.supervisor.logs.reader import end_of, last
from appbackplane.transport.discovery import Location

from .harness.bulk import Work, bulk_load
from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.parts import numbered
from .harness.systems import COMMAND, environment, running

#: Operation and seconds of each backplane's load.
LOADS = (("compute", 0.000_2), ("compute", 0.02), ("block", 0.005), ("hog", 0.25))
OUTSTANDING = 500
ANSWERS, COMMANDS = 15, 7
VERBS = {"status": ("status",), "top": ("top", "--once"), "logs": ("logs",)}


class Hog(AppObject):
    @operation(priority=6)
    def hog(self, seconds: float) -> None:
        """About so long: Python does not switch threads within one call of C."""
        sum(range(int(5e7 * seconds)))


class Saturated(Work):
    def setup(self) -> None:
        super().setup()
        self.add(Hog())


globals().update(numbered(Saturated, len(LOADS)))


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    tables = {f"b{n}": f'components = ["{__name__}:Saturated{n}"]\nthreads = 2' for n in range(len(LOADS))}
    with running(tables) as system, ExitStack() as stack:
        for n, (name, seconds) in enumerate(LOADS):
            load = bulk_load(system.run_dir, f"saturated{n}.{name}", seconds, OUTSTANDING)
            stack.enter_context(load).start()
        count = COMMANDS // 2 if is_quick else COMMANDS
        yield Sides(
            lambda: looked_at(system.run_dir, count), lambda: {"python_ms": typed_ms("-c", "pass", count=count)}
        )


def looked_at(run_dir: Path, count: int) -> Figures:
    words = ("-m", "bench_cases.operator_view", str(run_dir), str(ANSWERS))
    figures: Figures = json.loads(program(*words).stdout)
    for verb, typed in VERBS.items():
        figures[f"{verb}_whole_ms"] = typed_ms(*COMMAND[1:], *typed, "-s", str(run_dir), count=count)
    return figures


def typed_ms(*words: str, count: int) -> float:
    """The middle of so many, from start to end of the process."""
    return statistics.median(timed_ms(lambda: program(*words)) for _ in range(count))


def program(*words: str) -> subprocess.CompletedProcess[str]:
    """A Python in a session of its own: the scheduler shares by sessions (TRAPS 24), and a terminal is one."""
    return subprocess.run(
        [sys.executable, *words], env=environment(), capture_output=True, text=True, check=True, start_new_session=True
    )


def timed_ms(look: Callable[[], Any]) -> float:
    began = time.perf_counter()
    look()
    return (time.perf_counter() - began) * 1e3


def main(run_dir: Path, count: int) -> None:
    """The program: how long answers take, once it is there."""
    location = Location(run_dir, "bench", is_given=True)
    with closing(Asker(location)) as asker:
        looks: dict[str, Callable[[], Any]] = {
            "status": lambda: asker.ask("supervisor.status", {"statistics": False}),
            "top": lambda: once(asker, ONCE_S),
            "logs": lambda: last(
                folder_of(location), LogFilter(None, None, None, None), LINES, end_of(folder_of(location))
            ),
        }
        figures = {
            f"{verb}_answer_ms": statistics.median(timed_ms(look) for _ in range(count)) for verb, look in looks.items()
        }
    print(json.dumps(figures))


CASE = Case(
    name="operator_view",
    what="status, top --once and logs beside 4 saturated backplanes; reference: a Python that does nothing",
    requirements=tuple(
        Requirement(f"{verb} answered", ours(f"{verb}_answer_ms"), at_most=200, unit="ms") for verb in VERBS
    ),
    open=both,
    rounds=3,
    quick_rounds=1,
    is_warmed_up=False,
)

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
