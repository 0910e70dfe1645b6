"""Writer: whoever records waits for no disk; what the disk does not take is counted, and said once."""

from __future__ import annotations

import errno
import logging
import threading
from pathlib import Path

import msgspec
import pytest

from appbackplane.runtime.requests.instrumentation.instrumentation import Instrumentation
from appbackplane.runtime.requests.instrumentation.interval import IntervalRecord
from appbackplane.runtime.requests.instrumentation.record_files import RecordFiles
from appbackplane.runtime.requests.instrumentation.writer import QUEUE_MAX, RecordWriter
from appbackplane.runtime.requests.ledger.element import LANES
from appbackplane.runtime.requests.ledger.synchronized_ledger import SynchronizedLedger
from appbackplane.runtime.requests.policy import KernelPolicy
from tests.waiting import LIMIT_S

DAY_NS = 86_400 * 10**9
NONE = (0,) * LANES
FULL = OSError(errno.ENOSPC, "No space left on device", "/srv/requests")


def record(number: int, at_ns: int = 1) -> IntervalRecord:
    return IntervalRecord(
        kernel="index", backplane="main", at_ns=at_ns, interval_ns=10**9, posted=number, ended=0, failed=0, lost=0,
        unclaimed=0, withdrawn=0, joined=0, refused=0, throughput=0.0, wait_ms=None, run_ms=None, ready=NONE, ready_max=NONE,
        executing=NONE, executing_max=NONE, rejoinable=NONE, blocked=0, posting=0, owners=0, workers=4, utilisation=0.0,
        by_worker={},
    )  # fmt: skip


class Disk(RecordFiles):
    """Takes nothing while it is told so, or takes its time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1 << 20, DAY_NS)
        #: In which the next writes end.
        self.problems: list[OSError] = []
        self.is_free = threading.Event()
        self.is_free.set()
        self.has_begun = threading.Event()

    def write(self, line: bytes, at_ns: int) -> None:
        self.has_begun.set()
        assert self.is_free.wait(LIMIT_S)
        if self.problems:
            raise self.problems.pop()
        super().write(line, at_ns)


def on(folder: Path) -> list[IntervalRecord]:
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [msgspec.json.decode(line, type=IntervalRecord) for line in lines]


def test_what_is_put_is_on_the_disk_in_its_order(tmp_path: Path) -> None:
    """And reads back as it was."""
    writer = RecordWriter(Disk(tmp_path))
    for number in range(20):
        writer.put(record(number))
    writer.close()
    assert writer.join(LIMIT_S)
    assert on(tmp_path) == [record(number) for number in range(20)]
    assert writer.figures() == {"recorded": 20, "lost": 0, "problem": None}


def test_nobody_waits_for_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    """Whoever records has the backplane's lead: all would stand still. What finds no room is counted."""
    disk = Disk(tmp_path)
    disk.is_free.clear()
    writer = RecordWriter(disk)
    writer.put(record(0))
    assert disk.has_begun.wait(LIMIT_S)
    for number in range(1, QUEUE_MAX + 6):
        writer.put(record(number))
    assert writer.lost_count == 5
    writer.close()  # finds no room, either
    disk.is_free.set()
    assert writer.join(LIMIT_S)
    assert [each.posted for each in on(tmp_path)] == list(range(QUEUE_MAX + 1))


def test_a_full_disk_is_said_once_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line a second about a full disk fills the next one. It goes on when there is room, and says what is missing."""
    disk = Disk(tmp_path)
    disk.problems = [FULL] * 5
    with caplog.at_level(logging.WARNING, "appbackplane.runtime"):
        writer = RecordWriter(disk)
        for number in range(5):
            writer.put(record(number))
        writer.close()
        assert writer.join(LIMIT_S)
        said = [each.getMessage() for each in caplog.records]
        assert len(said) == 1 and "/srv/requests: No space left on device" in said[0]
        assert writer.figures() == {"recorded": 0, "lost": 5, "problem": "/srv/requests: No space left on device"}


def test_it_goes_on_when_there_is_room_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And says how much is missing: a hole in a file looks like an idle kernel."""
    disk = Disk(tmp_path)
    disk.problems = [FULL]
    with caplog.at_level(logging.WARNING, "appbackplane.runtime"):
        writer = RecordWriter(disk)
        for number in range(3):
            writer.put(record(number))
        writer.close()
        assert writer.join(LIMIT_S)
    assert [each.posted for each in on(tmp_path)] == [1, 2]
    assert writer.figures() == {"recorded": 2, "lost": 1, "problem": None}
    assert "1 intervals were lost" in caplog.records[-1].getMessage()


def test_a_kernel_that_goes_down_waits_for_its_last_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process may end at once behind it. The disk takes nothing here until somebody waits for it."""
    is_waited_for, write, join = threading.Event(), RecordFiles.write, RecordWriter.join

    def write_late(self: RecordFiles, line: bytes, at_ns: int) -> None:
        assert is_waited_for.wait(LIMIT_S)
        write(self, line, at_ns)

    def join_seen(self: RecordWriter, limit_s: float) -> bool:
        is_waited_for.set()
        return join(self, LIMIT_S)

    monkeypatch.setattr(RecordFiles, "write", write_late)
    monkeypatch.setattr(RecordWriter, "join", join_seen)
    ledger = SynchronizedLedger(
        "index", KernelPolicy(record=True, record_dir=str(tmp_path)), {}, iter(range(1, 1_000)).__next__
    )
    instrumentation = Instrumentation(
        "index", "main", tmp_path, ledger.policy, ledger.interval_figures, iter(range(1, 1_000)).__next__,
        lambda topic, body: None,
    )  # fmt: skip
    instrumentation.close()
    assert list(tmp_path.rglob("*.jsonl")) and [each.kernel for each in on(next(tmp_path.rglob("*.jsonl")).parent)] == [
        "index"
    ]
