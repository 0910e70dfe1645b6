"""Bulk: work that saturates a backplane, so that something urgent can be measured beside it.

The component serves bulk calls (pure computation of a given length that never yields), blocking ones, and an urgent one.
The load is a program that keeps a window of bulk calls outstanding while it is on; how many have ended, and when the last
one did, it writes where the bench reads it without asking: a question would be a call like any other.

    python -m bench_cases.harness.bulk RUN_DIR ROUTE SECONDS OUTSTANDING TALLY
"""

from __future__ import annotations

import mmap
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.transport import connect

from .processes import hear, program, say

COMPONENT = 'components = ["bench_cases.harness.bulk:Work"]'
OUTSTANDING = 1000
#: Bulk calls wait behind a thousand others of 20 ms.
TIMEOUT_S = 600.0
#: A window's first thousand calls come at once, which is not the load that is asked about: taking them in takes 20 ms, and one
#: of a slice's hundred urgent calls fell into that time, always, which left a p99 no other to be.
SETTLE_S = 0.1
#: Objects that serve blocking calls: enough for every thread of the case.
SLEEPERS = 16


def compute(seconds: float) -> None:
    """Pure computation, of so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Bulk(AppObject):
    @operation(priority=6)
    def compute(self, seconds: float) -> None:
        compute(seconds)


class Sleeper(AppObject):
    @operation(priority=6)
    def block(self, seconds: float) -> None:
        time.sleep(seconds)


class Urgent(AppObject):
    @operation(priority=0)
    def ping(self) -> None: ...


class Work(Component):
    def setup(self) -> None:
        self.add(Bulk())
        self.add(Urgent())
        for _ in range(SLEEPERS):
            self.add(Sleeper())


class Tally:
    """How many calls have ended, and when the last one did: two integers in a file that two processes map."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 16)).cast("q")

    def count(self) -> None:
        """One more. By one thread of one process."""
        self._numbers[1] = time.monotonic_ns()
        self._numbers[0] += 1

    def read(self) -> tuple[int, int]:
        """(how many, when the last one)."""
        return self._numbers[0], self._numbers[1]


class Window(threading.Thread):
    """Keeps so many calls outstanding until stopped, then waits for the last."""

    def __init__(self, submit: Callable[[], Any], tally: Tally, outstanding: int) -> None:
        super().__init__(daemon=True)
        self._submit, self._tally, self._outstanding = submit, tally, outstanding
        self._is_full, self._is_stopping = threading.Event(), threading.Event()
        self._error: Exception | None = None

    def fill(self) -> None:
        """Begin; back when as many as that are outstanding, taken in, and the first has ended. Raises what a call raised."""
        self.start()
        self._is_full.wait()
        if self._error is not None:
            raise self._error
        time.sleep(SETTLE_S)

    def stop(self) -> None:
        """Back when none is outstanding. Raises what a call raised."""
        self._is_stopping.set()
        self.join()
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            self._run()
        except Exception as error:  # handed to whoever fills or stops it
            self._error = error
            self._is_full.set()

    def _run(self) -> None:
        pending = deque(self._submit() for _ in range(self._outstanding))
        while pending:
            pending.popleft().result()
            self._tally.count()
            self._is_full.set()
            if not self._is_stopping.is_set():
                pending.append(self._submit())


class Load:
    """A load in a process of its own."""

    def __init__(self, child: Any, tally: Tally) -> None:
        self._child, self._tally = child, tally

    def start(self) -> None:
        """Fill the window."""
        say(self._child, "start")
        hear(self._child)

    def stop(self) -> None:
        """Let it run empty."""
        say(self._child, "stop")
        hear(self._child)

    def rate(self, during: Callable[[], Any]) -> float:
        """Calls a second that ended while `during` ran, from the end of one to the end of another."""
        return rate(self._tally, during)


def rate(tally: Tally, during: Callable[[], Any]) -> float:
    began, began_ns = tally.read()
    during()
    ended, ended_ns = tally.read()
    return (ended - began) / max(ended_ns - began_ns, 1) * 1e9


@contextmanager
def new_tally() -> Iterator[tuple[Tally, Path]]:
    with tempfile.NamedTemporaryFile(prefix="ab-tally-") as file:
        file.write(bytes(16))
        file.flush()
        yield Tally(Path(file.name)), Path(file.name)


@contextmanager
def bulk_load(run_dir: Path, route: str, seconds: float, outstanding: int = OUTSTANDING) -> Iterator[Load]:
    with (
        new_tally() as (tally, path),
        program("harness.bulk", str(run_dir), route, str(seconds), str(outstanding), str(path)) as child,
    ):
        hear(child)
        yield Load(child, tally)


def main(run_dir: str, route: str, seconds: float, outstanding: int, tally: Tally) -> None:
    """The program: obeys `start` and `stop`, says a word when done."""
    with connect(run_dir) as client:
        print("ready", flush=True)
        window: Window | None = None
        for line in sys.stdin:
            if line.strip() == "start":
                window = Window(lambda: client.submit(route, seconds=seconds, timeout=TIMEOUT_S), tally, outstanding)
                window.fill()
            elif window is not None:
                window.stop()
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), Tally(Path(sys.argv[5])))
