"""Compaction: each record that will not change is in the Parquet files once, with all that was recorded of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pytest

from appbackplane.runtime.observation.segments import FIELDS, NAMES_END, RECORD_BYTES
from appbackplane.spark import compaction
from appbackplane.spark.compaction import JOURNAL, CannotCompact, compact, compact_by
from appbackplane.spark.records.batch import ROUTE
from appbackplane.spark.records.compacted import Group, WrittenGroup, write
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import NothingRecorded, pieces, read_all
from tests.figures import IS_LONG
from tests.spark.made import EPOCH_NS, names_of, traffic, words_of, write_actions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pq = pytest.importorskip("pyarrow.parquet", reason="the extra is not installed: pip install 'appbackplane[spark]'")

#: Nobody has this number: /proc/sys/kernel/pid_max is at most 2^22.
NOBODY = 1 << 22
KILLS = 12 if IS_LONG else 3
#: Files that it writes before it is killed, at most: each of the runs has more to write.
FILES_MAX = 5
#: Asks before each file takes its place; compacts in groups and row groups so small that there is something to interrupt.
CHILD = """
import sys
from pathlib import Path
from appbackplane.spark import compaction
from appbackplane.spark.records import compacted
compaction.GROUP_RECORDS, compacted.GROUP_ROWS = 2000, 700

def ask(event, _):
    if event == "os.rename":
        print("about to rename", flush=True)
        sys.stdin.readline()

sys.addaudithook(ask)
compaction.compact(None, Path(sys.argv[1]), Path(sys.argv[2]))
print("done", flush=True)
"""


def recorded(run_dir: Path, backplane: str, number: int, count: int, *, seed: int = 0, **more: Any) -> np.ndarray:
    """A segment of a busy day, that goes on around midnight; and its words."""
    columns = traffic(count, seed=seed or number) | {"parent": np.arange(count) % 7, "boosted": np.arange(count) % 2}
    columns["start"] = columns["start"] - EPOCH_NS + more.pop("at_ns", EPOCH_NS + number * 10**11)
    words = words_of(count, columns)
    write_actions(run_dir, backplane, number, words, names_of(), **{"created_ns": EPOCH_NS + number, **more})
    return words


def rows_in(to: Path) -> list[tuple[Any, ...]]:
    """All rows, sorted by whose they are and where they stood."""
    columns = ["segment", "index", "start_ns", "wait_ns", "object", "operation", "component", "outcome"]
    found: list[tuple[Any, ...]] = []
    for path in sorted(to.rglob("*.parquet")):
        table = pq.ParquetFile(path).read(columns=columns)
        backplane = unquote(path.parent.name.partition("=")[2])
        found += zip(repeat(backplane), *(table.column(name).to_pylist() for name in columns), strict=False)
    return sorted(found)


def truth(backplane: str, number: int, words: np.ndarray) -> list[tuple[Any, ...]]:
    """The same rows, by what was written."""
    names = names_of()
    return [
        (backplane, number, index, int(row[0]), int(row[1]), names[row[10] >> 32][1],
         names[row[10] & 0xFFFF_FFFF][1], names[row[10] >> 32][0], int(row[11] >> 24 & 0xFF))
        for index, row in enumerate(words)
    ]  # fmt: skip


def test_every_field_of_every_record_is_read_back(tmp_path: Path) -> None:
    """Whoever compacts removes the segments sooner or later: what is lost here is lost."""
    run_dir, to = tmp_path / "run", tmp_path / "to"
    for number in (1, 2):
        recorded(run_dir, "one", number, 30_000, sealed=True, limits={"threads": number})
    compact(None, run_dir, to)
    fields = (*FIELDS, "index", ROUTE)
    before, after = (list(read_all(pieces(where), fields, Found())) for where in (run_dir, to))
    for name in (*FIELDS, "index"):
        if name not in ("operation", "object"):
            assert np.array_equal(np.concatenate([a[name] for a in before]), np.concatenate([a[name] for a in after]))
    assert words_by(before) == words_by(after)
    assert {(a.header.number, a.header.limits["threads"]) for a in after if a.header} == {(1, 1), (2, 2)}


def words_by(several: Sequence[Any]) -> list[tuple[Any, ...]]:
    """What their numbers mean: object, operation, and route."""
    return [
        (actions.names[whose], actions.names[operation][1], actions.routes[route])
        for actions in several
        for whose, operation, route in zip(actions["object"], actions["operation"], actions[ROUTE], strict=True)
    ]


def test_rows_are_partitioned_by_the_day_on_which_they_began(tmp_path: Path) -> None:
    """DuckDB, Spark and pandas find a day by its folder; a row in the wrong one is not found."""
    midnight = EPOCH_NS + 86_400 * 10**9
    words = recorded(tmp_path / "run", "a b", 1, 1000, at_ns=midnight - 5 * 10**8, sealed=True)
    compact(None, tmp_path / "run", tmp_path / "to")
    files = sorted((tmp_path / "to").rglob("*.parquet"))
    assert [path.parent.relative_to(tmp_path / "to").as_posix() for path in files] == [
        "date=2026-01-01/backplane=a%20b",
        "date=2026-01-02/backplane=a%20b",
    ]
    days = [pq.read_table(path, partitioning=None).column("start_ns").to_numpy() // 86_400 // 10**9 for path in files]
    assert [set(np.diff(day)) for day in days] == [{0}, {0}]
    assert rows_in(tmp_path / "to") == truth("a b", 1, words)


def test_what_was_compacted_is_not_compacted_again_and_what_came_since_is(tmp_path: Path) -> None:
    """Compaction runs every hour, over segments of which it has seen the most."""
    run_dir, to = tmp_path / "run", tmp_path / "to"
    all_rows = truth("one", 1, recorded(run_dir, "one", 1, 3000, sealed=True))
    assert compact(None, run_dir, to).rows == 3000
    before = {path: path.stat().st_mtime_ns for path in to.rglob("*.parquet")}
    assert (compact(None, run_dir, to).rows, compact(None, run_dir, to).files) == (0, 0)
    (run_dir / "records/one/00000001.actions").unlink()
    all_rows += truth("one", 2, recorded(run_dir, "one", 2, 500, sealed=True))
    result = compact(None, run_dir, to)
    assert (result.rows, result.segments) == (500, 1)
    assert rows_in(to) == all_rows
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_segment_that_grows_is_left_until_its_process_is_gone(tmp_path: Path) -> None:
    """Half a segment would be compacted, and the rest never; what a killed process left has to be taken, too."""
    run_dir, to = tmp_path / "run", tmp_path / "to"
    mine = {"node": os.uname().nodename, "pid": os.getpid()}
    words = recorded(run_dir, "one", 1, 1000, room=50, created_ns=2**62, **mine)
    result = compact(None, run_dir, to)
    assert (result.rows, result.growing) == (0, 1)
    recorded(run_dir, "two", 1, 1000, room=50, **(mine | {"pid": NOBODY}))
    recorded(run_dir, "far", 1, 1000, room=50, node="elsewhere", pid=NOBODY)
    result = compact(None, run_dir, to)
    assert (result.rows, result.growing) == (1000, 2)
    recorded(run_dir, "far", 2, 10, room=50, node="elsewhere", pid=NOBODY, generation=2)
    assert compact(None, run_dir, to).rows == 1000
    write_actions(run_dir, "one", 1, words, names_of(), created_ns=2**62, sealed=True, **mine)
    assert compact(None, run_dir, to).rows == 1000


def test_what_a_process_wrote_that_was_taken_for_dead_is_taken_later(tmp_path: Path) -> None:
    """A process number of another container tells nothing; no record may be lost over it, none be there twice."""
    run_dir, to = tmp_path / "run", tmp_path / "to"
    words = words_of(1000, traffic(1000))
    more = {"created_ns": 5, "node": os.uname().nodename, "pid": NOBODY}
    write_actions(run_dir, "one", 1, words[:600], names_of(), room=400, **more)  # type: ignore[arg-type]
    assert compact(None, run_dir, to).rows == 600
    write_actions(run_dir, "one", 1, words, names_of(), sealed=True, **more)  # type: ignore[arg-type]
    assert compact(None, run_dir, to).rows == 400
    assert rows_in(to) == truth("one", 1, words)


def test_damaged_records_are_counted_and_the_rest_is_there(tmp_path: Path) -> None:
    """Never silently fewer."""
    run_dir, to = tmp_path / "run", tmp_path / "to"
    words = recorded(run_dir, "one", 1, 1000, sealed=True)
    path = run_dir / "records/one/00000001.actions"
    data = bytearray(path.read_bytes())
    data[NAMES_END + 500 * RECORD_BYTES] ^= 1
    path.write_bytes(data)
    path.with_name("00000002.actions").write_bytes(b"not a segment")
    result = compact(None, run_dir, to)
    assert (result.rows, result.damaged) == (999, 1)
    assert [path.rpartition("/")[2] for path in result.unreadable] == ["00000002.actions"]
    assert any("is no segment" in line for line in result.lines())
    rows = truth("one", 1, words)
    del rows[500]
    assert rows_in(to) == rows


def test_killed_at_any_moment_and_run_again_the_rows_are_the_same(tmp_path: Path) -> None:
    """Issue 5: idempotent, safe to kill at any moment. Rows that are there twice, or not, make every later answer wrong.

    Segments come meanwhile, so that whoever planned anew what was begun would cut it differently.
    """
    run_dir, to = tmp_path / "run", tmp_path / "to"
    expected: list[tuple[Any, ...]] = []

    def come(number: int) -> None:
        for backplane in ("one", "two"):
            at_ns = EPOCH_NS + number * 4_000 * 10**9
            words = recorded(run_dir, backplane, number, 800, sealed=True, at_ns=at_ns)
            expected.extend(truth(backplane, number, words))

    for number in range(1, 12):
        come(number)
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    interrupted = 0
    for number in range(12, 12 + KILLS):
        come(number)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(run_dir), str(to)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdin is not None and child.stdout is not None
        with child:
            for _ in range(chance.randint(1, FILES_MAX)):
                assert child.stdout.readline() == b"about to rename\n", "it has ended"
                child.stdin.write(b"\n")
                child.stdin.flush()
            child.send_signal(signal.SIGKILL)  # at work: before the next file it would ask
        journal = (to / JOURNAL).read_bytes() if (to / JOURNAL).exists() else b""
        interrupted += journal.count(b'"plan"') > journal.count(b'"done"')
    compact(None, run_dir, to)
    assert interrupted, f"nobody was killed at work: nothing was tried (seed {seed})"
    assert rows_in(to) == sorted(expected), f"seed {seed}"
    assert not list(to.rglob("*.tmp"))
    assert compact(None, run_dir, to).rows == 0


class Crash(BaseException):
    """The end, at this call."""


@pytest.mark.parametrize("is_done_first", [False, True])
def test_wherever_it_ends_the_next_one_goes_on_though_more_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done_first: bool
) -> None:
    """Every place at which something reaches the disk, before it and behind it: with a group that was written in part, or was
    not yet said to be, and that would be cut differently now.
    """
    calls_left = 0

    def ending(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal calls_left
            calls_left -= 1
            if calls_left == 0 and not is_done_first:
                raise Crash
            result = real(*arguments)
            if calls_left == 0:
                raise Crash
            return result

        return call

    for name in ("rename", "fsync"):
        monkeypatch.setattr(os, name, ending(getattr(os, name)))
    monkeypatch.setattr(compaction, "GROUP_RECORDS", 25)
    midnight = EPOCH_NS + 86_400 * 10**9
    for place in range(1, 1000):
        run_dir, to = tmp_path / f"run{place}", tmp_path / f"to{place}"
        expected: list[tuple[Any, ...]] = []
        for number in (1, 2, 3, 4, 5):
            words = recorded(run_dir, "one", number, 10, sealed=True, at_ns=midnight + (number - 4) * 5 * 10**6)
            expected += truth("one", number, words)
            if number in (3, 5):
                calls_left = place if number == 3 else 0
                with suppress(Crash):
                    compact(None, run_dir, to)
                if calls_left > 0:
                    assert place > 6, "next to nothing was written"
                    return
        assert rows_in(to) == expected, f"ended at call {place}"
    raise AssertionError("never came to its end")


def test_a_plan_whose_segments_were_removed_meanwhile_keeps_what_was_written(tmp_path: Path) -> None:
    """Killed between the files and the journal's line; then retention comes first."""
    run_dir, to = tmp_path / "run", tmp_path / "to"
    rows = truth("one", 1, recorded(run_dir, "one", 1, 1000, sealed=True))
    compact(None, run_dir, to)
    plan, _ = (to / JOURNAL).read_bytes().splitlines(keepends=True)
    (to / JOURNAL).write_bytes(plan + b'{"done":{"na')
    (run_dir / "records/one/00000001.actions").unlink()
    rows += truth("one", 2, recorded(run_dir, "one", 2, 10, sealed=True))
    result = compact(None, run_dir, to)
    assert [why for why in result.unreadable.values()] == ["was removed since it was found"]
    assert rows_in(to) == rows
    assert compact(None, run_dir, to).unreadable == {}


def test_a_target_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    """Nobody wants Parquet between the photographs."""
    run_dir = tmp_path / "run"
    recorded(run_dir, "one", 1, 10, sealed=True)
    (tmp_path / "file").write_text("x")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.jpg").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(run_dir)
    for to, said in (
        ("file", "is a file"),
        ("photos", "holds other files"),
        ("run/records/to", "run directory"),
        ("link/to", "run directory"),
        ("photos/../run/to", "run directory"),
    ):
        with pytest.raises(CannotCompact, match=said):
            compact(None, run_dir, tmp_path / to)
    with pytest.raises(NothingRecorded, match="nothing is recorded"):
        compact(None, tmp_path / "empty", tmp_path / "to")


def test_workers_that_see_other_folders_compact_nothing(tmp_path: Path) -> None:
    """What counts as done is never looked at again: a folder that is not mounted must not cost all that was recorded."""
    run_dir, to = tmp_path / "run", tmp_path / "to"
    rows = truth("one", 1, recorded(run_dir, "one", 1, 10, sealed=True))

    def elsewhere(groups: Sequence[Group], to: Path) -> Iterator[WrittenGroup]:
        (tmp_path / "run").rename(tmp_path / "away")
        try:
            told = [write(group, to) for group in groups]
        finally:
            (tmp_path / "away").rename(tmp_path / "run")
        yield from told

    with pytest.raises(CannotCompact, match="it exists here, but a task did not find it: on a cluster all workers"):
        compact_by(elsewhere, run_dir, to, lambda: 1)
    with pytest.raises(CannotCompact, match="a task has written it, but it does not exist here"):
        compact_by(lambda groups, _: [write(group, tmp_path / "local") for group in groups], run_dir, to, lambda: 1)
    assert compact(None, run_dir, to).rows == 10
    assert rows_in(to) == rows


def test_spark_writes_the_same_and_reads_it_as_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Tasks write, this process keeps the journal; and the folder is one that other programs understand."""
    run_dir, to = tmp_path / "run", tmp_path / "to"
    expected = [
        row for name in ("one", "two", "six") for row in truth(name, 1, recorded(run_dir, name, 1, 500, sealed=True))
    ]
    assert compact(spark, run_dir, to).rows == 1500
    assert rows_in(to) == sorted(expected)
    assert compact(spark, run_dir, to).rows == 0
    found = spark.read.parquet(str(to)).groupBy("backplane", "date").count().collect()
    assert {(row.backplane, str(row.date), row["count"]) for row in found} == {
        (name, "2026-01-01", 500) for name in ("one", "two", "six")
    }
    assert pq.read_table(to).num_rows == 1500
