"""Survey: made in parts, by tasks, it finds the same windows as one process that looks at everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from appbackplane.spark.advice import survey
from appbackplane.spark.advice.gather import gather, windows
from appbackplane.spark.advice.survey import FIELDS, SLICE_NS, SLICES_MAX, Survey, latest, slice_for, surveyed
from appbackplane.spark.records.batch import Actions
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import Piece, pieces, read
from tests.spark.made import EPOCH_NS, names_of, words_of, write_actions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MS = 1_000_000
DAY_NS = 86_400 * 10**9


def recorded(run_dir: Path, columns: dict[str, Any], number: int = 1, backplane: str = "desk", **header: Any) -> None:
    write_actions(run_dir, backplane, number, words_of(len(columns["start"]), columns), names_of(2, 4), **header)


def two_backplanes(run_dir: Path) -> None:
    """One of them under limits that were changed twice, to and fro; each with a stretch in which was waited."""
    for backplane in ("desk", "till"):
        for number in range(1, 5):
            start = EPOCH_NS + (number * 1_000 + np.arange(1_000)) * 10 * MS
            wait = np.where(np.arange(1_000) // 100 == number, 40 * MS, 0)
            threads = 2 if backplane == "desk" and number == 2 else 1
            recorded(run_dir, {"start": start, "wait": wait, "run": MS, "took": MS}, number, backplane,
                     limits={"threads": threads}, created_ns=EPOCH_NS + number)  # fmt: skip


def read_of(several: list[Piece]) -> Iterator[tuple[Piece, Actions]]:
    return ((piece, actions) for piece in several for actions in read(piece, FIELDS))


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_parts_add_up_to_the_whole(tmp_path: Path, tasks: int) -> None:
    """In any order: Spark says nothing of which task is heard first."""
    two_backplanes(tmp_path)
    several = pieces(tmp_path)
    parts = [each for first in reversed(range(tasks)) for each in surveyed(read_of(several[first::tasks]))]
    found = windows(latest(parts), 200)
    assert found == gather(several, Found(), window_max=200)
    assert [(each.backplane, each.setting.threads, each.recorded_count) for each in found] == [
        ("desk", 1, 3_000), ("till", 1, 4_000),
    ]  # fmt: skip


@pytest.mark.parametrize("tasks", [1, 3])
def test_what_others_execute_is_one_system_however_large_their_cluster_is(tmp_path: Path, tasks: int) -> None:
    """Its threads come and go by the minute, and all that was recorded before the last change was left out of the advice."""
    for number, threads in enumerate((None, 4, 2), start=1):
        start = EPOCH_NS + (number * 100 + np.arange(100)) * 10 * MS
        limits = {"executed_by": "spark"} | ({} if threads is None else {"threads": threads})
        recorded(tmp_path, {"start": start, "wait": 0, "run": MS, "took": MS}, number, "desk.spark",
                 limits=limits, created_ns=EPOCH_NS + number)  # fmt: skip
    several = pieces(tmp_path)
    (found,) = windows(latest([each for first in range(tasks) for each in surveyed(read_of(several[first::tasks]))]))
    assert (found.recorded_count, len(found.load), found.setting.threads) == (300, 300, 2)


def test_tasks_make_it(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of a cluster that has recorded for a month would read for hours, while the cluster waits for it."""
    from appbackplane.spark.frames import pieces_frame

    def here(*_: object) -> None:
        raise AssertionError("the driver reads the records")

    two_backplanes(tmp_path)
    expected = gather(pieces(tmp_path), Found(), EPOCH_NS + 1_500 * 10 * MS)
    monkeypatch.setattr(Survey, "add_actions", here)  # in this process; tasks have one of their own
    frame = pieces_frame(spark, tmp_path, since_ns=EPOCH_NS + 1_500 * 10 * MS)
    assert windows(survey.surveys(frame, SLICE_NS)) == expected


def test_however_long_it_was_recorded_the_survey_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten actions a second for a month are 26 million slices; where was waited most is still found."""
    monkeypatch.setattr(survey, "SLICES_MAX", 64)
    count = 10_000
    wait = np.full(count, MS)
    wait[7_000:7_050] = 10_000 * MS
    recorded(tmp_path, {"start": EPOCH_NS + np.arange(count) * 10**9 + wait, "wait": wait, "run": MS, "took": MS})
    [one] = latest(surveyed(read_of(pieces(tmp_path))))
    assert one.count == count
    assert len(one.counts) == len(one.waited) <= 64
    begin_ns, end_ns = one.window(1_000)
    assert begin_ns <= EPOCH_NS + 7_000 * 10**9 and end_ns >= EPOCH_NS + 7_050 * 10**9


def test_surveys_of_different_widths_add_up() -> None:
    """A task that met more slices than it may keep has made its own wider."""
    fine = Survey("n", "b", {}, 0, 2, {0: 1, 1: 2, 4: 3}, {0: 1.0, 1: 0.0, 4: 5.0})
    wide = Survey("n", "b", {}, 1, 4, {2: 10}, {2: 20.0})
    fine.add(wide)
    assert (fine.slice_ns, fine.counts, fine.waited) == (4, {0: 3, 2: 13}, {0: 1.0, 2: 25.0})
    assert fine.limits_ns == 1


def test_slices_are_as_wide_as_the_time_asks_for() -> None:
    """Of one width in all tasks, or each would send as many as it may keep."""
    assert slice_for(EPOCH_NS, EPOCH_NS) == SLICE_NS
    assert slice_for(EPOCH_NS, EPOCH_NS + SLICES_MAX * SLICE_NS - 1) == SLICE_NS
    assert slice_for(EPOCH_NS, EPOCH_NS + SLICES_MAX * SLICE_NS) == 2 * SLICE_NS
    assert slice_for(EPOCH_NS, EPOCH_NS + 30 * DAY_NS) == 128 * SLICE_NS
