"""The optimiser on a real kernel: what it is told, what becomes of its moves, and that somebody else may change things, too."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.runtime.requests import Context, Figures, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.requests.operating import optimiser_loop
from appbackplane.runtime.requests.operating.optimiser_loop import possible, sample_of
from appbackplane.runtime.requests.optimiser import KernelSample, OptimiserPolicy
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.link import Link
from tests.waiting import LIMIT_S

WORKERS_MAX = 8
SECOND = 1_000_000_000


class Wait(Runnable):
    """Blocks, as a query to a database does: the more workers, the more of them end."""

    def execute(self, request: float, kernel: Context) -> None:
        threading.Event().wait(request)


class Queries(RequestKernel):
    """A kernel that is told nothing about the work."""

    runnables = (Wait,)
    policy = KernelPolicy(
        workers=1, optimise=True, record_interval=0.1, optimiser=OptimiserPolicy(workers_max=WORKERS_MAX)
    )


class Heard(logging.Handler):
    """What was logged, and an event when one line has a word."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.events = {word: threading.Event() for word in words}

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self.lines.append(line)
        for word, event in self.events.items():
            if word in line:
                event.set()

    def wait(self, word: str) -> None:
        """Until it was logged."""
        assert self.events[word].wait(LIMIT_S), f"never logged: {word!r}; logged: {self.lines}"


@pytest.fixture
def heard() -> Iterator[Heard]:
    """The runtime's log."""
    handler = Heard(f"{WORKERS_MAX} workers", "continues from 3 workers", "the bounds have changed")
    log = logging.getLogger("appbackplane.runtime")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    log.removeHandler(handler)
    log.setLevel(before)


@pytest.fixture
def queries(tmp_path: Path, heard: Heard) -> Iterator[Queries]:
    """A running kernel with a poster that never stops."""
    config = ProcessConfig(system="test", backplane="requests", run_dir=str(tmp_path), components=())
    kernel = Queries()
    link = Link("test-requests")
    link.bind(tmp_path / "requests.sock")
    backplane = Backplane(config, [kernel], clock=RealClock(), link=link)
    backplane.start(2)
    is_primary = threading.Event()
    errors: list[BaseException | None] = []

    def go_on(error: BaseException | None) -> None:
        errors.append(error)
        with backplane.engine.lead:
            backplane.engine.lifecycle.move(kernel.component_name, ModuleState.PRIMARY, lambda _: is_primary.set())

    with backplane.engine.lead:
        backplane.engine.lifecycle.move(kernel.component_name, ModuleState.INITIALIZING, go_on)
    assert is_primary.wait(LIMIT_S) and errors == [None]
    is_over = threading.Event()

    def post() -> None:
        while not is_over.is_set():
            kernel.kernel.post(0.005, Wait, rejoin=False, timeout=LIMIT_S)

    poster = threading.Thread(target=post)
    poster.start()
    yield kernel
    is_over.set()
    poster.join(LIMIT_S)
    assert not poster.is_alive()
    assert backplane.stop(LIMIT_S)


def test_blocking_work_gets_all_the_workers_it_may_have(queries: Queries, heard: Heard) -> None:
    """Each change of the number of workers is in the log, with its reason."""
    heard.wait(f"{WORKERS_MAX} workers")
    moves = [line for line in heard.lines if "->" in line]
    assert "workers 1 -> 2: do more workers raise the throughput?" in moves[0]
    assert all(line.startswith("requests/queries: ") for line in moves)


def test_what_a_person_changes_is_where_it_goes_on(queries: Queries, heard: Heard) -> None:
    """A change by hand is neither fought nor forgotten; other bounds are kept from then on."""
    heard.wait(f"{WORKERS_MAX} workers")
    queries.change(workers=3)
    heard.wait("continues from 3 workers")
    queries.change(optimiser=OptimiserPolicy(workers_min=2, workers_max=2))
    heard.wait("the bounds have changed")
    assert queries.policy.workers == 2


def test_a_sample_is_what_happened_between_two_moments() -> None:
    """Totals are subtracted, lanes added up."""
    none: dict[str, Any] = {name: 0 for name in Figures.__struct_fields__} | {"by_worker": {}}
    lanes: dict[str, Any] = {"ready": (0, 1, 2, 3), "executing_lanes": (0, 0, 1, 2), "rejoinable": (0, 0, 5, 6)}
    counts = {
        "executing": 3,
        "blocked": 1,
        "posting": 7,
        "ended_total": 10,
        "run_ns_total": 1000,
        "wait_ns_total": 2000,
    }
    before, after = Figures(**none | lanes), Figures(**none | lanes | counts | {"at_ns": 500})
    sample = sample_of(before, after, 2)
    assert (sample.interval_ns, sample.ended_count, sample.ready_count, sample.posting_count) == (500, 10, 6, 7)
    assert (sample.rejoinable_count, sample.workers, sample.executing_count, sample.blocked_count) == (11, 2, 3, 1)
    assert (sample.run_ns, sample.wait_ns) == (100, 200)


class Echo(Runnable):
    """Takes no time."""

    def execute(self, request: int, kernel: Context) -> int:
        return request


class Bulk(RequestKernel):
    """Looked at each second."""

    runnables = (Echo,)
    policy = KernelPolicy(workers=3, optimise=True, record_interval=1.0)


@pytest.mark.parametrize("command", ["hold", "stop now=true", "settings optimise=off"])
def test_time_in_which_nothing_was_begun_is_no_look(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """A minute of it would be taken for a throughput of nothing, and the workers looked for anew."""
    intervals: list[int] = []

    def looked(before: Figures, after: Figures, workers: int) -> KernelSample:
        intervals.append(after.at_ns - before.at_ns)
        return sample_of(before, after, workers)

    monkeypatch.setattr(optimiser_loop, "sample_of", looked)
    kernel = Bulk()
    backplane = VirtualBackplane(kernel)
    backplane.advance(5.5)
    assert set(intervals) == {SECOND}
    backplane.call("bulk.command", line=command).result()
    backplane.advance(60.0)
    backplane.call("bulk.command", line="resume").result()
    backplane.call("bulk.command", line="settings optimise=on").result()
    before_count = len(intervals)
    backplane.advance(5.0)
    assert len(intervals) > before_count and set(intervals) == {SECOND}


def test_what_a_person_changes_while_it_is_held_stays() -> None:
    """The first look after it has nothing to compare with; it is not the first of all, which brings the bounds about."""
    kernel = Bulk()
    backplane = VirtualBackplane(kernel)
    backplane.advance(3.5)
    for line in ("hold", "workers 7", "pools 8 rejoin=9"):
        backplane.call("bulk.command", line=line).result()
        backplane.advance(3.0)
    backplane.call("bulk.command", line="resume").result()
    backplane.advance(3.0)
    assert (kernel.policy.workers, kernel.policy.ready, kernel.policy.rejoin) == (7, 8, 9)
    assert kernel.optimiser_workers() == 7


def test_lanes_keep_a_worker_each() -> None:
    """A kernel with lanes refuses so few workers that one of them would have none; the optimiser does not ask for them."""
    policy = KernelPolicy(workers=10, mode="lanes", lanes=(0, 20, 20))
    least = possible(policy).workers_min
    assert policy.changed(workers=least).workers == least
    with pytest.raises(ValueError):
        policy.changed(workers=least - 1)
