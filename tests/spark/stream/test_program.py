"""Exactly once, without Spark: the driver ends at any write, and Spark repeats what it had not heard the end of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructType

from appbackplane.runtime.observation.applied import Applied, LedgerEntry
from appbackplane.spark.source.stream import DataLoss, StreamOptions, StreamReader
from appbackplane.spark.stream import decisions as deciding
from appbackplane.spark.stream.alerts import BadRules, read_rules
from appbackplane.spark.stream.decisions import BadCheckpoint, Decisions
from appbackplane.spark.stream.ledger import CheckpointLedger
from appbackplane.spark.stream.program import in_our_words, ns_of, stream
from appbackplane.spark.stream.telling import TOPIC, TOPIC_OPEN, AlertPublisher
from appbackplane.transport.errors import InvalidArgument, NotFound, Unavailable
from tests.spark import made

SECOND = 1_000_000_000
RULES = '[[alert]]\noperation = "*"\nwhen = "count > 0"\nroute = "alerts.show"'


class Killed(BaseException):
    """The process has ended, here."""


class World:
    """What outlives a driver: what was recorded, Spark's log, the receiver; and when the driver is to die."""

    def __init__(self, folder: Path, lateness_ns: int = SECOND) -> None:
        self.folder, self.lateness_ns = folder, lateness_ns
        self.lives = -1
        self.now_ns = 1_000 * SECOND
        #: Ends of actions, in the order in which they were recorded.
        self.recorded: list[int] = []
        #: Spark's: how far each batch goes, and how many are committed.
        self.planned: list[int] = []
        self.committed = 0
        self.receiver = Applied()
        self.rows: dict[str, list[dict[str, Any]]] = {TOPIC: [], TOPIC_OPEN: []}
        self.calls: dict[str, dict[str, Any]] = {}
        self.is_deaf = False

    def at_a_write(self) -> None:
        if self.lives == 0:
            raise Killed
        self.lives -= 1

    # What a driver needs of Delivery

    def to_topic(self, topic: str, batch: int, rows: list[dict[str, Any]]) -> int:
        """As the receiver does it, row by row."""
        while rows and (done := self.receiver.done(topic, "g", batch)) < len(rows):
            self.at_a_write()
            entry = LedgerEntry(topic, "g", batch, done, 1, 1, 0, 0, 1)
            self.receiver.begin(entry)
            self.rows[topic].append(rows[done])
            self.receiver.end(entry, 1)
            self.at_a_write()
        return len(rows)

    def try_call(self, route: str, key: str | None, arguments: dict[str, Any], id: str, limit_s: float) -> None:
        if self.is_deaf:
            raise Unavailable("it is down")
        if route == "no.such":
            raise NotFound("no route")
        self.at_a_write()
        self.calls[id] = arguments

    # A driver

    def drive(self, batches: int, size_ns: int = 2 * SECOND) -> None:
        """Until so many more batches are committed, or it is killed."""
        ledger = CheckpointLedger(self.folder, size_ns, lambda: "main")
        try:
            keep = ledger.keep
            ledger.keep = lambda decision: (self.at_a_write(), keep(decision), self.at_a_write())  # type: ignore[assignment,func-returns-value,method-assign]
            decisions = Decisions(ledger.last, self.lateness_ns, read_rules(RULES))
            telling = AlertPublisher(decisions, ledger, self, lambda rows: None, lambda: self.now_ns)  # type: ignore[arg-type]
            telling.again()
            for _ in range(batches):
                self.now_ns += SECOND
                if len(self.planned) == self.committed:
                    if self.planned and self.planned[-1] == len(self.recorded):
                        telling.on_silence(self.now_ns)
                        continue
                    self.at_a_write()
                    self.planned.append(len(self.recorded))
                first = self.planned[-2] if len(self.planned) > 1 else 0
                telling.on_batch(self.frame(self.recorded[first : self.planned[-1]]), self.committed)  # type: ignore[arg-type]
                self.at_a_write()
                self.committed += 1
        finally:
            ledger.close()

    def frame(self, ends: list[int]) -> Any:
        """As Spark hands it to a batch: of two tasks."""
        half = len(ends) // 2
        tables = [_actions(ends[:half]), _actions(ends[half:])]

        class Frame:
            def mapInArrow(self, kernel: Any, schema: str) -> Any:
                made = pa.Table.from_batches([each for table in tables for each in kernel(iter(table.to_batches()))])
                self.toArrow = lambda: made
                return self

        return Frame()

    def check(self) -> None:
        """What must be true at the end."""
        told: Counter[int] = Counter()
        for row in self.rows[TOPIC]:
            told[row["window_ns"]] += row["count"]
        assert told == Counter(end // (2 * SECOND) * 2 * SECOND for end in self.recorded)
        on_time = Counter(row["window_ns"] for row in self.rows[TOPIC] if not row["late"])
        assert set(on_time.values()) <= {1}
        for rows in self.rows.values():
            assert set(Counter((row["window_ns"], row["step"]) for row in rows).values()) <= {1}


def _actions(ends: list[int]) -> pa.Table:
    count = len(ends)
    columns = {name: pa.array([0] * count, pa.int64()) for name in ("took_ns", "wait_ns", "run_ns", "outcome")}
    words = {name: pa.array([name] * count, pa.string()) for name in ("component", "operation")}
    return pa.table({"start_ns": pa.array(ends, pa.int64()), **columns, **words})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lots=st.lists(st.lists(st.integers(0, 6_000), max_size=6), min_size=1, max_size=8),
    deaths=st.lists(st.integers(0, 20), max_size=12),
)
def test_killed_at_any_write_it_tells_every_window_once(
    tmp_path_factory: pytest.TempPathFactory, lots: list[list[int]], deaths: list[int]
) -> None:
    """Between plan, decision, each row of each topic, each alert and the commit; the next driver goes on, and the sum of all
    rows is what was recorded, whatever came late.
    """
    world = World(tmp_path_factory.mktemp("checkpoint"))
    for lot in [*lots, [], [], []]:
        world.recorded += [world.now_ns - ago * 1_000_000 for ago in lot]
        while True:
            world.lives = deaths.pop() if deaths else -1
            try:
                world.drive(3)
                break
            except Killed:
                continue
    world.lives = -1
    world.drive(12)
    world.check()


def test_silence_closes_the_last_windows(tmp_path: Path) -> None:
    """When nothing happens any more, the last window must still be told, and the news of silence come from another thread."""
    world = World(tmp_path)
    world.recorded += [world.now_ns]
    world.drive(1)
    assert world.rows[TOPIC] == []
    assert len(world.rows[TOPIC_OPEN]) == 1
    world.drive(8)
    assert [row["count"] for row in world.rows[TOPIC]] == [1]
    assert world.committed == 1
    world.check()


def test_an_alert_that_cannot_be_told_is_told_later_and_once(tmp_path: Path) -> None:
    """Whoever shows it was being restarted; and so are we."""
    world = World(tmp_path)
    world.is_deaf = True
    world.recorded += [world.now_ns]
    world.drive(4)
    assert world.calls == {}
    world.is_deaf = False
    world.drive(1)
    assert [call["is_over"] for call in world.calls.values()] == [False]
    world.drive(9)
    assert [call["is_over"] for call in world.calls.values()] == [False, True]


def test_alerts_that_are_given_up_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever watches sees nothing of them, ever: a line for each decision says so, and none that nothing more was lost."""
    monkeypatch.setattr(deciding, "PENDING_MAX", 1)
    world = World(tmp_path)
    world.is_deaf = True
    for lines in (1, 2):
        world.recorded += [world.now_ns]
        world.drive(12)
        told = [line for line in capsys.readouterr().err.splitlines() if "dropped" in line]
        assert (
            told == ["pipeline stream: an alert is dropped, the oldest first: at most 1,000 wait for delivery"] * lines
        )
    world.is_deaf = False
    world.drive(1)
    assert [call["is_over"] for call in world.calls.values()] == [True], "the newest is kept"


def test_a_checkpoint_is_used_by_one_and_for_what_it_was_begun(tmp_path: Path) -> None:
    """Two drivers would decide the same batch twice; other windows would not add up."""
    ledger = CheckpointLedger(tmp_path, SECOND, lambda: "main")
    with pytest.raises(BadCheckpoint, match="another 'pipeline stream' is using it"):
        CheckpointLedger(tmp_path, SECOND, lambda: "main")
    ledger.close()
    with pytest.raises(BadCheckpoint, match="begun with windows of 1 s"):
        CheckpointLedger(tmp_path, 2 * SECOND, lambda: "main")
    (tmp_path / "windows.msgpack").write_bytes(b"\x00")
    with pytest.raises(BadCheckpoint, match="remove the folder to begin anew"):
        CheckpointLedger(tmp_path, SECOND, lambda: "main")


def test_checkpoints_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    """Whoever removed one half of a checkpoint would otherwise get no windows for hours, or windows that lack their begin."""
    world = World(tmp_path)
    for _ in range(3):
        world.recorded += [world.now_ns]
        world.drive(1)
    planned, world.planned, world.committed = world.planned, [], 0
    with pytest.raises(BadCheckpoint, match="Spark is at batch 0, and the decisions are at 2"):
        world.drive(1)
    world.planned, world.committed = planned, 3
    world.recorded += [world.now_ns]
    (tmp_path / "windows.msgpack").unlink()
    with pytest.raises(BadCheckpoint, match="Spark is at batch 3, and the decisions are at -1"):
        world.drive(1)


def test_bad_input_is_one_line_before_anything_starts(tmp_path: Path) -> None:
    """Spark takes seconds to start, and says it in a hundred lines."""
    rules = tmp_path / "rules.toml"
    with pytest.raises(BadRules, match=r"rules\.toml: No such file"):
        stream(tmp_path, "local[1]", rules=rules)
    rules.write_text('[[alert]]\noperation = "a.b"\nwhen = "p98 > 1"\nroute = "c.d"')
    with pytest.raises(BadRules, match=r"rules\.toml: 'p98 > 1': no figure 'p98'"):
        stream(tmp_path, "local[1]", rules=rules)
    with pytest.raises(Unavailable, match="is not running"):
        stream(tmp_path, "local[1]")
    with pytest.raises(InvalidArgument, match=r"a window of 0 s: 0\.1 s is the minimum"):
        stream(tmp_path, "local[1]", window_ns=0)


def test_a_time_as_spark_writes_it() -> None:
    """To the millisecond: a ns too late would close a window before its last action was read."""
    assert ns_of("2026-01-01T00:00:00.123Z") == 1_767_225_600_123_000_000


def test_what_helps_against_lost_records_can_be_done_by_whoever_reads_it(tmp_path: Path) -> None:
    """An option of Spark's source is none of `pipeline stream`: its user would look for it in vain."""
    made.write_actions(tmp_path, "a", 2, made.words_of(5, made.traffic(5)), made.names_of())
    reader = StreamReader(tmp_path, StructType().add("index", LongType()), StreamOptions())
    with pytest.raises(DataLoss) as told:
        reader.partitions({"a": [1, 0]}, {"a": [2, 5]})
    kind = f"{DataLoss.__module__}.{DataLoss.__name__}"
    why = RuntimeError(
        f"[STREAM_FAILED] terminated: Traceback:\n  File stream.py, line 165\n{kind}: {told.value}\n. SQLSTATE: 3"
    )
    lost = in_our_words(why)
    assert isinstance(lost, DataLoss)
    assert str(lost) == (
        f"{tmp_path}: a: segment 1 was removed before it was read; "
        "name a new folder with --checkpoint to begin with the records that are left"
    )
    other = RuntimeError("no space left on device")
    assert in_our_words(other) is other
