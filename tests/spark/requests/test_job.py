"""Job: each request ends exactly once, whatever Spark does with the tasks that execute it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from pyspark.errors import PythonException

from appbackplane.runtime.requests.kernel import specs_of
from appbackplane.runtime.requests.ledger.element import Done, Element
from appbackplane.runtime.requests.ledger.owners import Rejoin
from appbackplane.runtime.requests.ledger.synchronized_ledger import SynchronizedLedger
from appbackplane.runtime.requests.policy import KernelPolicy
from appbackplane.spark.requests import job, task
from appbackplane.spark.requests.arriving import Arriving
from appbackplane.spark.requests.job import RETRIES_MAX, Batches, why_of
from appbackplane.spark.requests.settings import SparkSettings
from appbackplane.spark.requests.sizing import Sizing
from appbackplane.spark.requests.task import ImportPlace, Slice, _decoder

from .made import OWNER, Deadly, Opaque

CRASH = (
    "Job aborted due to stage failure: Task 0 in stage 21.0 failed 4 times, most recent failure: Lost task 0.3 in stage 21.0 "
    "(TID 30) (host executor 1): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting"
)
#: Travels as what is executed nowhere, as if it killed its worker.
KILLS = -1


class Gathered:
    """An accumulator that adds up at once."""

    def __init__(self, arriving: Arriving) -> None:
        self._arriving = arriving

    def add(self, term: list[bytes]) -> None:
        """As PySpark does it in the driver."""
        self._arriving.addInPlace([], term)


class Spark:
    """A context whose tasks are executed here, one after the other; of a job with a deadly one, those before it are."""

    def __init__(
        self, problem: Callable[[], Exception] = lambda: RuntimeError(CRASH), *, is_twice: bool = False
    ) -> None:
        self._problem, self._is_twice = problem, is_twice
        self.jobs: list[list[list[int]]] = []

    def parallelize(self, slices: list[bytes], tasks: int) -> list[bytes]:
        """One slice a task."""
        assert len(slices) == tasks
        return slices

    def runJob(self, rdd: list[bytes], function: Callable[[Iterable[bytes]], Iterable[Any]]) -> None:
        """Raises what Spark would."""
        self.jobs.append([[one.number for one in _decoder.decode(packed).asked] for packed in rdd])
        for packed in rdd:
            if is_deadly(_decoder.decode(packed)):
                raise self._problem()
            for _ in range(2 if self._is_twice else 1):
                list(function([packed]))


def is_deadly(one: Slice) -> bool:
    """Whether a slice has a request that kills."""
    return any(asked.request == b"\xff" for asked in one.asked)


class Run:
    """A batch that was taken and run."""

    def __init__(
        self,
        requests: Sequence[int],
        spark: Spark,
        *,
        runnable: str = Deadly.__name__,
        tasks: int = 4,
        is_over: bool = False,
        records: Any = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        specs = specs_of((Deadly, Opaque))
        policy = KernelPolicy(workers=1, ready=20_000, rejoin=20_000)
        self.ledger = SynchronizedLedger("test", policy, specs, now_ns)
        self.ledger.records = records
        arriving = Arriving()
        self.elements = [Element(0, request, runnable, OWNER, 0, 3) for request in requests]
        for element in self.elements:
            if element.request == KILLS:
                element.packed = b"\xff"
            assert self.ledger.post(element, None)
        gathered: Any = Gathered(arriving)
        context: Any = spark
        place = ImportPlace({name: spec.where for name, spec in specs.items()}, "", ())
        sizing = Sizing(SparkSettings(slices=tasks), lambda: 1)
        self.batches = Batches(context, arriving, gathered, self.ledger, "one", sizing, place, lambda: is_over)
        self.batches.run(self.ledger.take("one", len(requests)), 1)

    def joined(self) -> list[Element]:
        """What rejoins."""
        found = []
        while True:
            how, element = self.ledger.rejoin(OWNER, None, None)
            assert how is not Rejoin.NONE_READY, "it was said to have ended"
            if element is None:
                return found
            if element.result is not None:  # as contexts do it
                element.result = self.ledger.specs[element.runnable].unpack_result(element.result.data)
            found.append(element)


def test_each_has_its_result() -> None:
    """In one job, as many tasks as were asked for."""
    spark = Spark()
    done = Run(range(10), spark).joined()
    assert sorted(element.result for element in done) == list(range(10))
    assert [[len(task) for task in tasks] for tasks in spark.jobs] == [[3, 3, 2, 2]]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.sets(st.integers(0, 59), max_size=4), st.integers(1, 9))
def test_those_that_kill_their_worker_are_lost_and_no_others(count: int, deadly: set[int], tasks: int) -> None:
    """Spark gives up the whole job, with the requests of strangers in it."""
    deadly = {number for number in deadly if number < count}
    run = Run([KILLS if number in deadly else number for number in range(count)], Spark(), tasks=tasks)
    lost = {place for place, element in enumerate(run.elements) if element.is_failed}
    assert lost == deadly
    assert {run.elements[place].error for place in lost} <= {"lost worker: Python worker exited unexpectedly (crashed)"}
    assert len(run.joined()) == count


def test_it_is_not_tried_for_ever() -> None:
    """Where every request kills its worker, a batch would keep it doing so for hours."""
    spark = Spark()
    run = Run([KILLS] * 3_000, spark)
    assert len(spark.jobs) == RETRIES_MAX + 1
    assert all(element.is_failed for element in run.joined())
    assert any(
        "too many requests of its batch have made a Spark job fail" in str(element.error) for element in run.elements
    )


def test_what_no_request_can_have_done_is_not_tried_again() -> None:
    """Where the workers' Python lacks this package, each job says so, after all of Spark's own tries."""
    spark = Spark(lambda: PythonException("No module named 'appbackplane'"))
    run = Run([*range(8), KILLS], spark, tasks=1)
    assert len(spark.jobs) == 1
    assert {element.error for element in run.joined()} == {"lost worker: No module named 'appbackplane'"}


def test_when_spark_has_ended_nothing_is_tried_again() -> None:
    """Nobody knows what became of them, and nobody will."""
    spark = Spark()
    run = Run(range(8), spark, is_over=True)
    assert spark.jobs == []
    assert {element.error for element in run.joined()} == {"lost worker: its Spark session has ended"}


def test_a_task_that_was_tried_twice_counts_once(caplog: pytest.LogCaptureFixture) -> None:
    """The kernel would be told of what its worker has no more, and how long requests take be learned from what they did not."""
    run = Run(range(10), Spark(is_twice=True))
    assert caplog.records == []
    assert sorted(element.result for element in run.joined()) == list(range(10))
    assert run.ledger.figures().ended_total == 10


def test_what_is_too_much_for_a_job_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand requests of a megabyte would be ten gigabytes, three times."""
    monkeypatch.setattr(job, "BYTES_MAX", 5)
    spark = Spark()
    run = Run(range(8), spark)
    assert [element.state.value for element in run.elements] == ["rejoinable"] * 5 + ["ready"] * 3
    assert run.ledger.figures().ready[3] == 3


def test_what_a_task_has_left_is_executed_later_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has gathered enough; nobody may take what it has not begun for lost, or for done."""
    monkeypatch.setattr(task, "TASK_BYTES_MAX", 2)
    run = Run(range(12), Spark(is_twice=True), tasks=2)
    first = {element.id for element in run.elements if element.state.value == "rejoinable"}
    assert [element.state.value for element in run.elements] == [*["rejoinable"] * 2, *["ready"] * 4] * 2
    while taken := run.ledger.take("one", 12):
        assert first.isdisjoint(element.id for element in taken)
        run.batches.run(taken, 1)
    assert sorted(element.result for element in run.joined()) == list(range(12))
    figures = run.ledger.figures()
    assert (figures.ended_total, figures.lost_total, figures.failed_total) == (12, 0, 0)


def test_what_is_left_by_a_task_of_a_job_that_is_given_up_is_not_lost_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task of it has killed its worker: that is no affair of theirs."""
    monkeypatch.setattr(task, "TASK_BYTES_MAX", 2)
    run = Run([*range(6), KILLS], Spark(), tasks=2)
    while taken := run.ledger.take("one", 12):
        run.batches.run(taken, 1)
    done = run.joined()
    assert sorted(element.result for element in done if not element.is_failed) == list(range(6))
    assert [element.error for element in done if element.is_failed] == [
        "lost worker: Python worker exited unexpectedly (crashed)"
    ]


def test_an_executed_request_without_a_result_is_lost() -> None:
    """It must not be thought to run for ever."""

    class Silent(Spark):
        def runJob(self, rdd: list[bytes], function: Any) -> None:
            """Nothing arrives."""

    assert {element.error for element in Run(range(3), Silent()).joined()} == {
        "lost worker: Spark executed it, but its result did not arrive"
    }


def test_of_what_spark_says_what_happened_is_told() -> None:
    """A line, not what Spark did about it, or what one might set."""
    assert why_of(RuntimeError(CRASH)) == "Python worker exited unexpectedly (crashed)"
    assert why_of(RuntimeError("no more memory")) == "no more memory"


class Records:
    """What would be recorded."""

    def __init__(self) -> None:
        self.done: list[Done] = []

    def ended(self, worker: str, done: Sequence[Done], policy: KernelPolicy) -> None:
        self.done += done


class WorkersClock:
    """Of another machine: ten later each time that it is read."""

    def __init__(self, begins_ns: int) -> None:
        self.reads = 0
        self._begins_ns = begins_ns

    def monotonic_ns(self) -> int:
        """Since that machine was started."""
        self.reads += 1
        return self._begins_ns + 10 * self.reads

    def thread_time_ns(self) -> int:
        """Half as much."""
        return 5 * self.reads

    def ours_ns(self) -> int:
        """Of the kernel: early when requests are taken, and when the answer arrives."""
        return 10**9 if self.reads else 1_000


@pytest.mark.parametrize("begins_ns", [0, 10**15])
def test_times_are_the_workers_and_placed_by_our_clock(monkeypatch: pytest.MonkeyPatch, begins_ns: int) -> None:
    """Another machine has been up for longer, or not as long: its monotonic clock says nothing here but how much has passed."""
    records: Any = Records()
    clock = WorkersClock(begins_ns)
    monkeypatch.setattr(task, "time", clock)
    Run(range(3), Spark(), tasks=1, records=records, now_ns=clock.ours_ns)
    # Each request reads the clock three times, the second time when it begins; the end of the task is the tenth reading.
    assert [each.began_ns for each in records.done] == [10**9 - 10 * (10 - read) for read in (2, 5, 8)]
    assert {(each.run_ns, each.cpu_ns) for each in records.done} == {(10, 5)}
