"""Requests that other machines execute are recorded with the times of their worker, at the time of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.execution.actions import external_work
from appbackplane.runtime.execution.actions.external_work import ExternalWorkRecorder
from appbackplane.runtime.execution.records.segment_files import SegmentFiles
from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.observation.recorder import Recorder
from appbackplane.runtime.observation.segments import ACTIONS_SUFFIX, NAMES_END, RECORD, SegmentHeader, unpack_header
from appbackplane.runtime.observation.span_ids import SpanIds
from appbackplane.runtime.observation.statistics import OperationStatistics
from appbackplane.runtime.process_config import RecordPolicy
from appbackplane.runtime.requests.executing.remote_records import RemoteRecords
from appbackplane.runtime.requests.kernel import RequestKernel
from appbackplane.runtime.requests.ledger.element import Done, Element, Failure
from appbackplane.runtime.requests.ledger.synchronized_ledger import SynchronizedLedger
from appbackplane.runtime.requests.policy import KernelPolicy

SEGMENT = 1 << 20
HEADER = SegmentHeader(
    kind="actions", system="s", node="n", backplane="main.spark", generation=1, pid=7, number=0, created_ns=0,
    limits={"executed_by": "spark"},
)  # fmt: skip
INTERNAL = 13


class Primes(RequestKernel):
    """A kernel that nobody starts."""


class Noted:
    """An `ExternalWorkRecorder` that keeps what it is told."""

    def __init__(self) -> None:
        self.recorded: list[tuple[Action, OperationStatistics, int]] = []
        self.threads = 0

    def has_threads(self, count: int) -> None:
        self.threads = count

    def record(self, action: Action, account: OperationStatistics, ended_ns: int) -> None:
        self.recorded.append((action, account, ended_ns))


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
def ledger(noted: Noted) -> SynchronizedLedger:
    """With the records of a kernel at it."""
    beside: Any = noted
    made = SynchronizedLedger("ledger", KernelPolicy(), {}, lambda: 1_000)
    made.executor = Executor()  # type: ignore[assignment]
    made.records = RemoteRecords(Primes(), beside, 8)
    return made


class Executor:
    def kick(self, worker: str) -> None:
        """There is none."""


def taken(ledger: SynchronizedLedger, priority: int = 100) -> Element:
    """A request that was posted and taken at 1,000."""
    ledger.post(Element(0, 0, "Part", "owner", priority, 2), None)
    [element] = ledger.take("spark-1", 1)
    return element


def test_a_request_is_recorded_with_its_own_times(ledger: SynchronizedLedger, noted: Noted) -> None:
    """Reports and advice were blind to exactly the work that had outgrown the machine."""
    ledger.ended("spark-1", [Done(taken(ledger, 75), None, None, 500, 300, 4_000)])
    [(action, account, ended_ns)] = noted.recorded
    assert account.name == "primes.Part"
    assert (action.started_ns, action.wait_ns, action.run_ns, action.cpu_ns) == (4_000, 3_000, 500, 300)
    assert (ended_ns, action.lane, action.priority, action.error) == (4_500, 2, 5, None)
    assert action.object.name.endswith("spark-1") and action.object._component is not None


def test_a_failure_is_recorded_as_one(ledger: SynchronizedLedger, noted: Noted) -> None:
    """By its outcome: what it was is in the words of whoever posted it."""
    ledger.ended("spark-1", [Done(taken(ledger), None, Failure("ValueError: no"), 500, 900, 4_000)])
    [(action, _, _)] = noted.recorded
    assert action.error is not None
    assert action.cpu_ns == 500, "more than it ran: other threads of its process computed, too"


def test_what_was_not_executed_elsewhere_is_not_recorded(ledger: SynchronizedLedger, noted: Noted) -> None:
    """A request that could not be packed, and those that threads here or worker processes have executed: these record it."""
    ledger.ended("spark-1", [Done(taken(ledger), None, Failure("too large"), 0)])
    assert noted.recorded == []
    ledger.has_threads(8)
    assert noted.threads == 8


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SegmentFiles]:
    """Of a backplane that nobody is."""
    policy = RecordPolicy(size=4 * SEGMENT, age_ns=10**15, segment=SEGMENT)
    made = SegmentFiles(tmp_path, HEADER, ACTIONS_SUFFIX, policy, lambda: 0, lambda: 10**18, lambda: None)
    yield made
    made.close()


def segments(folder: Path) -> list[tuple[SegmentHeader, int]]:
    """Header and number of records of each."""
    found = []
    for path in sorted(folder.glob(f"*{ACTIONS_SUFFIX}")):
        data = path.read_bytes()
        count = (len(data) - NAMES_END) // RECORD.size
        found.append((unpack_header(data)[0], count))
    return found


def test_records_are_written_by_who_tends_and_by_the_end(tmp_path: Path, files: SegmentFiles) -> None:
    """Whoever ends a request never waits for the disk, or for the lead; and the number of threads is in the header."""
    woken: list[None] = []
    beside = ExternalWorkRecorder(Recorder(files, SpanIds(1)), files, lambda: woken.append(None))
    action, account = Action(Primes(), "primes.Part", 7), OperationStatistics("primes.Part")
    beside.has_threads(4)
    beside.record(action, account, 5)
    assert (len(woken), beside.count) == (1, 0)
    beside.flush()
    beside.record(action, account, 6)
    beside.has_threads(8)
    beside.record(action, account, 7)
    beside.close()
    files.tend()
    assert [(header.limits, count) for header, count in segments(tmp_path)] == [
        ({"executed_by": "spark", "threads": 4}, 1), ({"executed_by": "spark", "threads": 8}, 2),
    ]  # fmt: skip
    assert (beside.count, beside.lost_count) == (3, 0)


def test_no_more_is_queued_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch, files: SegmentFiles) -> None:
    """Where the disk hangs, and a cluster goes on."""
    monkeypatch.setattr(external_work, "PENDING_MAX", 2)
    beside = ExternalWorkRecorder(Recorder(files, SpanIds(1)), files, lambda: None)
    action, account = Action(Primes(), "primes.Part", 7), OperationStatistics("primes.Part")
    for _ in range(3):
        beside.record(action, account, 5)
    beside.flush()
    assert (beside.count, beside.lost_count) == (2, 1)
