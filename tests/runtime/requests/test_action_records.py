"""Action records: each request that a backplane executes is in its records, by its own name, with its lane and its times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from appbackplane.runtime.observation.recorder import Recorder
from appbackplane.runtime.observation.span_ids import SpanIds
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Status
from tests.runtime.observation.test_recorder import SPAN, UNIX_NS, Memory, names_of

MS = 1_000_000


class Reading(Runnable):
    """Takes time."""

    def execute(self, request: int, kernel: Context) -> int:
        Indexing.running.backplane.clock.work(request / 1e3)
        return request


class Failing(Runnable):
    """Never works."""

    def execute(self, request: int, kernel: Context) -> int:
        raise ValueError("no such file")


class Following(Runnable):
    """A coroutine."""

    async def execute(self, request: int, kernel: Context) -> int:
        Indexing.running.backplane.clock.work(request / 1e3)
        return request


class Indexing(RequestKernel):
    """Where the test is found."""

    runnables = (Reading, Failing, Following)
    running: Running


class Running:
    """A kernel under a virtual clock, recorded into memory."""

    def __init__(self, *, is_recorded: bool = True) -> None:
        self.kernel = Indexing(KernelPolicy(workers=1, mode="lanes", lanes=(0, 0, 0)))
        self.backplane = VirtualBackplane(self.kernel, slow_action=3600.0)
        self.memory = Memory(1_000)
        engine = self.backplane.backplane.engine
        if is_recorded:
            engine.recorders.ids = ids = SpanIds(SPAN)
            engine.recorders.actions = Recorder(self.memory, ids)

    def records(self) -> list[tuple[str, Mapping[str, int]]]:
        """(operation, fields) of what the workers did, in the order of the records."""
        names = [name for room in self.memory.rooms for _, name in names_of(room)]
        found = [(names[record["operation"]], record) for record in self.memory.records()]
        return [(name, record) for name, record in found if names[record["object"]].endswith("worker-1")]


@contextmanager
def recorded(*, is_recorded: bool = True) -> Iterator[Running]:
    Indexing.running = Running(is_recorded=is_recorded)
    yield Indexing.running


@pytest.fixture
def running() -> Iterator[Running]:
    with recorded() as running:
        yield running


def post(running: Running, request: int, runnable: type[Runnable]) -> None:
    running.kernel.kernel.post(request, runnable, owner="test", rejoin=False)


def test_each_request_is_a_record_of_its_own(running: Running) -> None:
    """With its lane and its times: who asks what took so long is not told "requests"."""
    for _ in range(3):
        post(running, 0, Reading)
    post(running, 2, Reading)
    running.backplane.run_until_idle()
    found = running.records()
    assert Counter(name for name, _ in found) == {"indexing.Reading": 4, "indexing.requests": 2}
    by_name = [record for name, record in found if name == "indexing.Reading"]
    assert {record["lane"] for record in by_name} == {3}
    assert [record["took"] for record in by_name] == [0, 0, 0, 2 * MS]
    assert by_name[0]["start"] == running.backplane.clock.now_ns() - 2 * MS + UNIX_NS


def test_waits_are_those_of_the_ready_pool(running: Running) -> None:
    """From its posting on: behind others it stood there, and nowhere else."""
    for milliseconds in (3, 4, 5):
        post(running, milliseconds, Reading)
    running.backplane.run_until_idle()
    found = [record for name, record in running.records() if name == "indexing.Reading"]
    assert [record["wait"] for record in found] == [0, 3 * MS, 7 * MS]
    assert [record["run"] for record in found] == [record["cpu"] for record in found] == [3 * MS, 4 * MS, 5 * MS]


def test_run_times_add_up_to_what_the_workers_did(running: Running) -> None:
    """Reports sum them up: what is counted as a request is not counted as the action that executed it as well."""
    for milliseconds in (0, 0, 2, 3):
        post(running, milliseconds, Reading)
    running.backplane.run_until_idle()
    assert sum(record["run"] for _, record in running.records()) == 5 * MS
    account = running.backplane.backplane.engine.statistics.of("indexing.requests")
    assert account.run.total_ns == 5 * MS, "the statistics have the whole action, recorded or not"


def test_a_request_that_fails_is_recorded_as_failed(running: Running) -> None:
    """And the one behind it is not."""
    post(running, 0, Failing)
    post(running, 0, Reading)
    running.backplane.run_until_idle()
    outcomes = {name: record["outcome"] for name, record in running.records()}
    assert outcomes == {"indexing.Failing": Status.INTERNAL, "indexing.Reading": 0, "indexing.requests": 0}


def test_a_coroutine_is_recorded_with_its_lane_too(running: Running) -> None:
    """It is an action already, under the name of its runnable."""
    post(running, 2, Reading)
    post(running, 4, Following)
    running.backplane.run_until_idle()
    (record,) = [record for name, record in running.records() if name == "indexing.Following"]
    assert (record["lane"], record["run"], record["wait"]) == (3, 4 * MS, 2 * MS)


def test_where_nothing_is_recorded_nothing_is_kept() -> None:
    """Nor is a clock read: a thousand requests a slice would pay for what nobody reads."""

    def read() -> int:
        raise AssertionError("the thread's CPU clock was read")

    with recorded(is_recorded=False) as running:
        platform = running.backplane.backplane._platform
        platform.cpu_ns = read
        for _ in range(10):
            post(running, 0, Reading)
        running.backplane.run_until_idle()
        assert running.kernel.figures().ended_total == 10 and running.kernel.figures().failed_total == 0
