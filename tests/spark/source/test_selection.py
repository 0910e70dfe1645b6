"""The options that narrow what is read: the rows are those that a filter leaves, and files that hold none stay closed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.made import EPOCH_NS, names_of, traffic, words_of, write_actions, write_messages

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from appbackplane.spark.datasource import BackplaneDataSource, register
from appbackplane.spark.source.batch import Pieces
from appbackplane.spark.source.rows import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 300
MS, HOUR_NS = 10**6, 3600 * 10**9
#: Within the first hour: some records are before, some within, some after.
SINCE_NS, UNTIL_NS = EPOCH_NS + 100 * MS, EPOCH_NS + 200 * MS
RANGE = {"since_ns": str(SINCE_NS), "until_ns": str(UNTIL_NS)}


@pytest.fixture
def starts(tmp_path: Path) -> dict[tuple[str, int], list[int]]:
    """Actions and messages of two backplanes, an hour for each segment. When each action began, by backplane and segment."""
    found = {}
    for backplane, seed in (("index", 1), ("query", 2)):
        for number in (1, 2):
            columns = traffic(COUNT, seed=seed)
            columns["start"] = columns["start"] + (number - 1) * HOUR_NS
            created = {"created_ns": EPOCH_NS + (number - 1) * HOUR_NS}
            write_actions(tmp_path, backplane, number, words_of(COUNT, columns), names_of(), sealed=True, **created)
            found[backplane, number] = columns["start"].tolist()
        write_messages(tmp_path, backplane, "host.sample", 1, [b"\xc0"] * COUNT)
    return found


@pytest.mark.parametrize(
    ("options", "backplanes"),
    [
        (RANGE, ["index", "query"]),
        ({"backplane": "query"}, ["query"]),
        ({"backplane": "query, index"} | RANGE, ["index", "query"]),
        ({"backplane": "index"} | RANGE, ["index"]),
        ({"backplane": "nobody"}, []),
    ],
)
def test_a_selection_is_what_a_filter_leaves(
    spark: SparkSession, tmp_path: Path, starts: dict[tuple[str, int], list[int]], options: dict[str, str],
    backplanes: list[str],
) -> None:  # fmt: skip
    """Whoever replaces a filter by an option for its speed must not get other numbers."""
    register(spark)
    since_ns, until_ns = (SINCE_NS, UNTIL_NS) if "since_ns" in options else (0, 1 << 62)

    def rows(schema: str, **topic: str) -> list[tuple[Any, ...]]:
        frame = spark.read.format("backplane").schema(schema).options(**options, **topic).load(str(tmp_path))
        return sorted(tuple(row) for row in frame.collect())

    assert rows("backplane string, segment bigint, index bigint") == sorted(
        (backplane, segment, index)
        for (backplane, segment), started in starts.items()
        for index, start_ns in enumerate(started)
        if backplane in backplanes and since_ns <= start_ns < until_ns
    )
    assert rows("backplane string, time_ns bigint", topic="host.sample") == [
        (backplane, EPOCH_NS + index * MS)
        for backplane in backplanes
        for index in range(COUNT)
        if since_ns <= EPOCH_NS + index * MS < until_ns
    ]


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({}, {("index", 1), ("index", 2), ("query", 1), ("query", 2)}),
        ({"backplane": "query"}, {("query", 1), ("query", 2)}),
        ({"since_ns": str(EPOCH_NS + HOUR_NS)}, {("index", 2), ("query", 2)}),
        ({"since_ns": str(EPOCH_NS + HOUR_NS), "backplane": "index"}, {("index", 2)}),
    ],
)
@pytest.mark.usefixtures("spark")  # which parses the schema
def test_files_that_hold_nothing_of_it_are_not_read(
    tmp_path: Path, starts: dict[tuple[str, int], list[int]], options: dict[str, str], read: set[tuple[str, int]]
) -> None:
    """A day that is asked for in a year of records must cost a day."""
    assert set(starts) >= read
    reader = BackplaneDataSource(options | {"path": str(tmp_path)}).reader(StructType.fromDDL(SCHEMA))
    parts = [part for part in reader.partitions() if isinstance(part, Pieces)]
    paths = [Path(piece.path) for part in parts for piece in part.pieces]
    assert {(path.parent.name, int(path.stem)) for path in paths} == read
