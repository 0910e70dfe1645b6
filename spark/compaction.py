"""Compaction: convert recorded segments to Parquet, partitioned by date and backplane; each record once, even after a kill.

A journal records progress: a group of segments is entered as a plan before any file is written, and as done when its files
exist. A run killed in between leaves a plan, and the next run carries it out unchanged. Its files then get the same names
(records/compacted.py), and a file under its final name is complete. Only segments that no longer change are read: sealed ones,
and those whose writer process is gone. Segments that retention removes before they are planned are not noticed; segments that
it removes after that are reported.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from appbackplane.runtime.observation.segments import ACTIONS_SUFFIX, BadSegment, SegmentHeader
from appbackplane.transport.errors import FailedPrecondition

from .records.compacted import Group, SegmentRange, WrittenGroup, write
from .records.pieces import files, nothing_in
from .records.pinned import is_gone
from .records.segment_file import Gone, SegmentFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Files in the target folder. Spark, DuckDB and this package ignore names that begin with _.
JOURNAL: Final = "_compacted.jsonl"
LOCK: Final = "_lock"
#: Records of a group at most (but at least one segment): files of some 50 MB, 4 s of work for a task.
GROUP_RECORDS: Final = 1 << 21
#: Groups planned at a time, for each that can be written in parallel. At most these are written again after a kill.
GROUPS_AHEAD: Final = 4


class CannotCompact(FailedPrecondition):
    """The target cannot be used. One line, with the remedy."""


class _Line(msgspec.Struct, omit_defaults=True):
    """One line of the journal; exactly one field is set."""

    plan: Group | None = None
    done: WrittenGroup | None = None


@dataclass(slots=True)
class Compacted:
    """Counts of one run, for the report."""

    rows: int = 0
    files: int = 0
    #: Segments read, and segments that are still written to, which a later run will compact.
    segments: int = 0
    growing: int = 0
    damaged: int = 0
    #: Reason by path.
    unreadable: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Format the counts for people, one line each."""
        yield f"{self.rows} records of {self.segments} segments compacted into {self.files} files"
        if self.growing:
            yield f"{self.growing} segments are still written to: left for the next time"
        if self.damaged:
            yield f"{self.damaged} records are damaged, left out"
        yield from (f"{path} {why}: left out" for path, why in sorted(self.unreadable.items()))


Run = Callable[[Sequence[Group], Path], Iterable[WrittenGroup]]


def compact(spark: SparkSession | None, run_dir: Path | str, to: Path | str) -> Compacted:
    """Compact the segments of `run_dir` that `to` lacks, in Spark's tasks, or without Spark here, one group at a time.

    On a cluster all workers have to see both folders. Raises `CannotCompact`, `NothingRecorded`, OSError.
    """
    return compact_by(_here if spark is None else _in_tasks(spark), Path(run_dir), Path(to), lambda: _width(spark))


def compact_by(run: Run, run_dir: Path, to: Path, width: Callable[[], int]) -> Compacted:
    """Like `compact`, with `run` to carry out plans, `width()` of them at a time. A cluster grows and shrinks between calls."""
    to = to.absolute()
    paths = [path for path in files(run_dir) if path.suffix == ACTIONS_SUFFIX]
    if not paths:
        raise nothing_in(run_dir)
    result = Compacted()
    with _journal(run_dir, to) as journal:
        for left in _by(journal.unfinished(), width):
            _carry_out(left, run, journal, to, result)
        groups = _plans(paths, journal.taken, result)
        for planned in _by(groups, width):
            journal.append([_Line(plan=group) for group in planned])
            _carry_out(planned, run, journal, to, result)
    return result


def _carry_out(groups: Sequence[Group], run: Run, journal: _Journal, to: Path, result: Compacted) -> None:
    segments = {group.name: len(group.parts) for group in groups}
    for written in run(groups, to):
        _check_shared(written, to)
        journal.append([_Line(done=written)])
        result.rows += sum(written.rows.values())
        result.files += len(written.rows)
        result.segments += segments[written.name] - len(written.unreadable)
        result.damaged += written.damaged
        result.unreadable |= written.unreadable


def _check_shared(written: WrittenGroup, to: Path) -> None:
    """Check that the task saw the same folders as this process, before its result counts as done. Raises `CannotCompact`."""
    remedy = "on a cluster all workers see the folders under the same path"
    for path, why in written.unreadable.items():
        if why == str(Gone()) and Path(path).exists():
            raise CannotCompact(f"{path}: it exists here, but a task did not find it: {remedy}")
    for name in written.rows:
        if not (to / name).exists():
            raise CannotCompact(f"{to / name}: a task has written it, but it does not exist here: {remedy}")


def _here(groups: Sequence[Group], to: Path) -> Iterator[WrittenGroup]:
    return (write(group, to) for group in groups)


def _in_tasks(spark: SparkSession) -> Run:
    def run(groups: Sequence[Group], to: Path) -> Iterator[WrittenGroup]:
        told = [msgspec.json.encode(group) for group in groups]

        def carry_out(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                for number in batch.column("id").to_pylist():
                    written = write(msgspec.json.decode(told[number], type=Group), to)
                    yield pa.RecordBatch.from_pydict({"written": [msgspec.json.encode(written)]})

        frame = spark.range(0, len(told), 1, len(told)).mapInArrow(carry_out, "written binary")
        for row in frame.toLocalIterator():
            yield msgspec.json.decode(row.written, type=WrittenGroup)

    return run


def _width(spark: SparkSession | None) -> int:
    return GROUPS_AHEAD * (1 if spark is None else spark.sparkContext.defaultParallelism)


def _by(groups: Sequence[Group], width: Callable[[], int]) -> Iterator[Sequence[Group]]:
    while groups:
        count = width()
        yield groups[:count]
        groups = groups[count:]


# -- planning ---------------------------------------------------------------------------------------------------------

#: Identifies a segment for ever: backplane, number, created_ns. Emptying a run directory resets numbers, but not times.
_Key = tuple[str, int, int]


def _plans(paths: Sequence[Path], taken: dict[_Key, int], result: Compacted) -> list[Group]:
    """Plan the finished segments that were not planned before, as groups of consecutive segments of one backplane."""
    planned: list[Group] = []
    for folder in sorted({path.parent for path in paths}):
        parts: list[tuple[str, SegmentRange]] = []
        for path, header, end in _ready([path for path in paths if path.parent == folder], result):
            start = taken.get((header.backplane, header.number, header.created_ns), 0)
            if end > start:
                part = SegmentRange(str(path.absolute()), header.number, header.created_ns, start, end)
                parts.append((header.backplane, part))
        planned += _grouped(parts)
    return planned


def _grouped(parts: Sequence[tuple[str, SegmentRange]]) -> Iterator[Group]:
    group: list[SegmentRange] = []
    whose = ""
    for backplane, part in parts:
        is_full = sum(each.stop - each.start for each in group) + part.stop - part.start > GROUP_RECORDS
        if group and (is_full or backplane != whose):
            yield Group(whose, tuple(group))
            group = []
        group.append(part)
        whose = backplane
    if group:
        yield Group(whose, tuple(group))


def _ready(paths: Sequence[Path], result: Compacted) -> Iterator[tuple[Path, SegmentHeader, int]]:
    """Yield the segments of one folder that no process is writing, each with the offset of its end."""
    opened: list[tuple[Path, SegmentHeader, int]] = []
    for path in paths:
        try:
            with SegmentFile(path) as segment:
                opened.append((path, segment.header, segment.sealed))
        except BadSegment as error:
            result.unreadable[str(path)] = str(error)
    newest = max((header.generation for _, header, _ in opened), default=0)
    for path, header, sealed in opened:
        if sealed >= 0:
            yield path, header, sealed
        elif header.generation < newest or is_gone(header):
            try:
                with SegmentFile(path) as segment:
                    yield path, segment.header, segment.end()
            except BadSegment as error:
                result.unreadable[str(path)] = str(error)
        else:
            result.growing += 1


# -- the journal -------------------------------------------------------------------------------------------------------


class _Journal:
    """Plans and completions in the target folder, in the order in which they were written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._plans: dict[str, Group] = {}
        self._done: set[str] = set()
        #: Record up to which each segment was planned.
        self.taken: dict[_Key, int] = {}
        data = path.read_bytes() if path.exists() else b""
        for line in data.split(b"\n"):
            try:
                self._note(msgspec.json.decode(line, type=_Line))
            except msgspec.MsgspecError:
                continue  # a line torn by a kill: its group was not begun, or will be done again
        self._is_torn = bool(data) and not data.endswith(b"\n")

    def unfinished(self) -> list[Group]:
        """Groups that were planned but not done."""
        return [group for name, group in self._plans.items() if name not in self._done]

    def append(self, lines: Sequence[_Line]) -> None:
        """Append lines and sync them to the disk."""
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        with self._path.open("ab") as file:
            file.write(b"\n" * self._is_torn + data)
            file.flush()
            os.fsync(file.fileno())
        self._is_torn = False

    def _note(self, line: _Line) -> None:
        if line.plan is not None:
            self._plans[f"{line.plan.backplane}/{line.plan.name}"] = line.plan
            for part in line.plan.parts:
                key = (line.plan.backplane, part.number, part.created_ns)
                self.taken[key] = max(part.stop, self.taken.get(key, 0))
        if line.done is not None:
            self._done.add(f"{line.done.backplane}/{line.done.name}")


@contextmanager
def _journal(run_dir: Path, to: Path) -> Iterator[_Journal]:
    """Open the journal of a target, with an exclusive lock on the target until the block ends. Raises `CannotCompact`."""
    if to.exists() and not to.is_dir():
        raise CannotCompact(f"{to} is a file; give a folder for the Parquet files")
    if to.resolve().is_relative_to(run_dir.resolve()):
        raise CannotCompact(f"{to} lies in the run directory, whose files come and go; give a folder elsewhere")
    if to.exists() and any(to.iterdir()) and not (to / LOCK).exists():
        raise CannotCompact(f"{to} holds other files; give a new folder, or the target of an earlier compaction")
    to.mkdir(parents=True, exist_ok=True)
    with (to / LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CannotCompact(f"another compaction writes to {to}; wait until it has ended") from error
        for left in to.glob("date=*/backplane=*/.*.tmp"):
            left.unlink(missing_ok=True)
        yield _Journal(to / JOURNAL)
