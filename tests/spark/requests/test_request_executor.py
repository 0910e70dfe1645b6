"""SparkExecutor: requests that Spark executes rejoin as all others do, each once; what it cannot do it says."""

from __future__ import annotations

import threading
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from appbackplane.runtime.requests.executing.executor import ENTRY_POINTS
from appbackplane.runtime.requests.kernel import RequestKernel
from appbackplane.runtime.requests.runnable import Runnable
from appbackplane.spark.master import NoMaster
from appbackplane.spark.request_executor import SparkExecutor
from appbackplane.spark.requests import crew
from appbackplane.spark.requests.sharing import is_alive
from appbackplane.spark.session import running
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument

from .made import (
    Add,
    Counting,
    Deadly,
    Kernel,
    Later,
    Marking,
    Numbers,
    Office,
    Opaque,
    Poster,
    Query,
    Sum,
    office,
    until,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def open_office(spark: SparkSession) -> Iterator[Office]:
    """With the session of all tests."""
    with office() as opened:
        yield opened


def test_results_and_failures_rejoin_as_from_any_worker(open_office: Office) -> None:
    """Where requests are executed is the policy's affair, and nobody else's."""
    done = open_office.done([Numbers([1, 2]), Numbers([]), Numbers([3])], Add)
    assert [element.result and element.result.total for element in done] == [3, None, 3]
    assert type(done[0].result) is Sum
    assert done[1].error == "ValueError: nothing to add"
    assert str(done[1].trace).rstrip().endswith('raise ValueError("nothing to add")\nValueError: nothing to add')
    assert done[0].error is done[0].trace is None
    assert [each.error_type for each in done] == [None, "ValueError", None]
    assert done[0].run_ns > 0
    assert [element.result for element in open_office.done([1, 2], Later)] == [2, 3]


def test_what_cannot_be_done_there_is_said(open_office: Office) -> None:
    """And fails its own request only."""
    (opaque,) = open_office.done([1], Opaque)
    assert str(opaque.error).startswith("TypeError: Opaque returned a lock, which cannot be sent to another process: ")
    (poster,) = open_office.done([1], Poster)
    assert poster.error == (
        "NoWayBack: kernel.post: a request that Spark executes cannot reach the kernel: "
        "split the work before posting it"
    )


def test_ten_thousand_are_executed_and_rejoin_once_each(open_office: Office, tmp_path: Path) -> None:
    """Nothing is lost between a ready pool, jobs, tasks and a rejoin pool, and nothing is done twice."""
    done = open_office.done([(str(tmp_path), number) for number in range(10_000)], Counting)
    assert [element.result for element in done] == list(range(10_000))
    executed = Counter(int(line) for file in tmp_path.iterdir() for line in file.read_text().split())
    assert executed == Counter(range(10_000))


def test_one_that_kills_its_worker_is_lost_and_the_others_are_not(open_office: Office) -> None:
    """Spark gives up the whole job, after its own tries: none with this master."""
    done = open_office.done([*range(8), -1, *range(8)], Deadly)
    assert [element.result for element in done] == [*range(8), None, *range(8)]
    assert done[8].error == "lost worker: Python worker exited unexpectedly (crashed)"


def test_a_python_worker_holds_its_resources(open_office: Office) -> None:
    """Opened for each request, a database would be opened ten thousand times."""
    done = open_office.done(["a"] * 20, Query)
    assert [element.error for element in done] == [None] * 20
    asked: dict[int, int] = {}
    for process, count in (element.result for element in done):
        asked[process] = max(count, asked.get(process, 0))
    assert sum(asked.values()) >= 20
    assert len(asked) <= 2


def test_there_are_as_many_workers_as_are_wanted(open_office: Office, tmp_path: Path) -> None:
    """More, while they are needed; those that are too many leave, and what they were told of somebody else does."""
    executor = open_office.executor

    def names() -> list[str]:
        return [worker["name"] for worker in executor.workers()]

    executor.resize(3)
    until(lambda: names() == ["spark-1", "spark-2", "spark-3"], "a third worker")
    executor.resize(1)
    until(lambda: names() == ["spark-1"], "one worker")
    assert len(open_office.done([Numbers([1])] * 10, Add)) == 10
    executor.resize(2)
    until(lambda: names() == ["spark-1", "spark-2"], "two workers")


def test_stop_leaves_nothing_running_but_what_was_there_before(spark: SparkSession, tmp_path: Path) -> None:
    """A task of an hour would keep the kernel up, and a cluster busy with what nobody waits for any more."""
    before = set(threading.enumerate())
    with office() as opened:
        elements = opened.post([str(tmp_path)] * 3, Marking)
        until(lambda: list(tmp_path.iterdir()), "a request that is executed")
    assert {element.error for element in elements} == {"lost worker: its Spark session has ended"}
    assert {thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("spark-")} == set()
    assert running() is spark
    assert is_alive(spark)
    tracker = spark.sparkContext.statusTracker()
    until(lambda: not tracker.getActiveJobsIds(), "no job")


def test_what_spark_had_when_it_died_is_lost_and_it_is_started_again(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path
) -> None:
    """What it had not begun is executed all the same; nothing waits for a session that is gone."""
    is_gone = threading.Event()

    def alive_but_once(session: SparkSession) -> bool:
        gone = is_gone.is_set()
        is_gone.clear()
        return not gone

    monkeypatch.setattr(crew, "is_alive", alive_but_once)
    with office() as opened:
        assert len(opened.done([Numbers([1])] * 3, Add)) == 3  # and both workers wait
        is_gone.set()
        assert [element.error for element in opened.done([Numbers([1])] * 3, Add)] == [None] * 3
        elements = opened.post([str(tmp_path)], Marking)
        until(lambda: list(tmp_path.iterdir()), "a request that is executed")
        is_gone.set()
        opened.executor.resize(2)  # which has it look
        assert [element.error for element in opened.joined()] == ["lost worker: its Spark session has ended"]
        assert elements[0].is_failed
        assert [element.error for element in opened.done([Numbers([1])] * 3, Add)] == [None] * 3


def test_what_is_known_at_start_is_told_at_start() -> None:
    """In one sentence, before Spark is started."""
    with pytest.raises(InvalidArgument, match=r"^policy.spark: no setting 'mastre' \(did you mean 'master'\?\)$"):
        office(mastre="local").__enter__()
    with pytest.raises(NoMaster, match=r"^no master answers at spark://127.0.0.1:1 "):
        office(master="spark://127.0.0.1:1").__enter__()

    class Local(Runnable):
        def execute(self, request: int, kernel: Any) -> int:
            return request

    class Unfindable(RequestKernel):
        runnables: ClassVar = (Local,)

    with pytest.raises(
        FailedPrecondition, match=r"Local is defined inside a function, so no Spark worker can import it"
    ):
        office(cls=Unfindable).__enter__()


def test_spark_that_does_not_come_up_is_told_and_costs_nothing_that_was_posted(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """A master that is being restarted is back in a minute."""
    from appbackplane.spark.requests import sharing

    may_start = threading.Event()
    start = sharing.session_with

    def not_yet(*arguments: Any, **keywords: Any) -> Any:
        if not may_start.is_set():
            raise NoMaster("no master answers")
        return start(*arguments, **keywords)

    monkeypatch.setattr(sharing, "session_with", not_yet)
    with office() as opened:
        opened.post([Numbers([1, 2])], Add)
        until(lambda: opened.executor.workers()[0].get("problem"), "a problem")
        assert opened.executor.workers()[1] == {
            "name": "spark-2", "requests": 0, "state": "no Spark", "problem": "no master answers",
        }  # fmt: skip
        may_start.set()
        assert [element.result.total for element in opened.joined()] == [3]
        assert "problem" not in opened.executor.workers()[0]


def test_a_kernel_finds_it_by_its_name() -> None:
    """Runtime never names Spark: only this line does."""
    project = tomllib.loads(Path(__file__).parents[3].joinpath("pyproject.toml").read_text())
    named = project["project"]["entry-points"][ENTRY_POINTS]
    assert named == {"spark": f"{SparkExecutor.__module__}:{SparkExecutor.__qualname__}"}
    assert Kernel.policy.kernel == "local"
