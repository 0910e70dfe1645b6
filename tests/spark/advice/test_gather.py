"""Which records are looked at, and what becomes of them: nothing but columns from here on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from appbackplane.runtime.observation.segments import NAMES_END, RECORD_BYTES
from appbackplane.spark.advice import advise
from appbackplane.spark.advice.gather import GatheredWindow, gather
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import pieces
from appbackplane.spark.replay import NEVER, ReplaySetting
from tests.spark.made import EPOCH_NS, names_of, words_of, write_actions

MS = 1_000_000
NAMES = names_of(2, 4)


def recorded(run_dir: Path, columns: dict[str, Any], *, number: int = 1, names: Any = NAMES, **header: Any) -> Path:
    """A segment of the backplane `desk`."""
    words = words_of(len(columns["start"]), columns)
    return write_actions(run_dir, "desk", number, words, names, **header)


def gathered(run_dir: Path, found: Found | None = None, **options: Any) -> GatheredWindow:
    """Of the only backplane."""
    [only] = gather(pieces(run_dir), found or Found(), **options)
    return only


def test_an_action_arrived_when_it_began_to_wait_and_its_deadline_is_a_moment(tmp_path: Path) -> None:
    """The records say when it started and what was left at the end."""
    recorded(
        tmp_path,
        {"start": [EPOCH_NS], "wait": [3 * MS], "run": [2 * MS], "cpu": [MS], "took": [5 * MS], "margin": [7 * MS],
         "object": [2], "priority": [4], "effective": [4]},
    )  # fmt: skip
    load = gathered(tmp_path).load
    assert (load.arrival, load.wait, load.run, load.cpu) == ([EPOCH_NS - 3 * MS], [3 * MS], [2 * MS], [MS])
    assert (load.awaited, load.deadline) == ([3 * MS], [EPOCH_NS + 12 * MS])


def test_what_came_too_late_would_have_run_as_long_as_others(tmp_path: Path) -> None:
    """It is replayed, since another setting may bring it in time; what was taken back is not."""
    recorded(
        tmp_path,
        {
            "start": EPOCH_NS + np.arange(4) * MS, "wait": [0, 0, MS, MS], "run": [2 * MS, 4 * MS, 0, 0],
            "cpu": [MS, MS, 0, 0], "took": [2 * MS, 4 * MS, 0, 0], "outcome": [0, 0, 4, 1],
        },
    )  # fmt: skip
    load = gathered(tmp_path).load
    assert load.run == [2 * MS, 4 * MS, 3 * MS]
    assert load.wait == [0, 0, -1]
    assert load.awaited == [0, 0, 0]


def test_a_boosted_action_had_the_priority_that_it_ended_with(tmp_path: Path) -> None:
    """Others, the one that was asked for."""
    recorded(
        tmp_path,
        {"start": [EPOCH_NS] * 2, "run": [MS] * 2, "took": [MS] * 2, "priority": [6, 6], "effective": [1, 1],
         "boosted": [1, 0]},
    )  # fmt: skip
    assert gathered(tmp_path).load.priority == [1, 6]


def test_each_segment_has_numbers_of_its_own(tmp_path: Path) -> None:
    """The same operation and the same object in both, by other numbers."""
    start = np.array([EPOCH_NS, EPOCH_NS + MS])
    columns = {"start": start, "run": [MS] * 2, "took": [MS] * 2}
    recorded(tmp_path, {**columns, "operation": [0, 1], "object": [2, 3]})
    names = [("a", "a/x"), *reversed(NAMES)]
    recorded(
        tmp_path,
        {**columns, "start": start + 5 * MS, "operation": [6, 5], "object": [4, 3]},
        number=2,
        names=names,
    )
    found = gathered(tmp_path)
    assert found.load.operation == [0, 1, 0, 1]
    assert found.load.object[:2] == found.load.object[2:]
    assert found.operations == ("part0.work0", "part1.work1")


def test_only_what_was_done_under_the_latest_limits_counts(tmp_path: Path) -> None:
    """Advice about settings that hold no more is about another system."""
    columns = {"start": [EPOCH_NS], "run": [MS], "took": [MS]}
    recorded(tmp_path, columns, number=1, limits={"threads": 1}, created_ns=EPOCH_NS)
    recorded(tmp_path, columns, number=2, limits={"threads": 4}, created_ns=EPOCH_NS + 1)
    recorded(tmp_path, columns, number=3, limits={"threads": 4}, created_ns=EPOCH_NS + 2)
    found = gathered(tmp_path)
    assert found.setting == ReplaySetting(threads=4)
    assert (len(found.load), found.recorded_count) == (2, 2)


def test_what_the_header_does_not_say_is_the_default() -> None:
    """Older records; and a limit of nothing is none."""
    assert ReplaySetting.of({}) == ReplaySetting()
    told = {"threads": 2, "quotas": [0, 5], "cpu_limit": None, "nice": [], "slow_action_ns": 5, "order": "deadline"}
    assert ReplaySetting.of(told) == ReplaySetting(threads=2, quotas=(0, 5), order="deadline")
    assert not ReplaySetting.of({"cpu_limit": 30, "cpu_exempt": 1}).is_limited_by_kernel


def test_of_much_the_part_is_taken_in_which_was_waited_most(tmp_path: Path) -> None:
    """Over all segments and pieces, whatever their order."""
    start = EPOCH_NS + np.arange(4000) * 10 * MS
    wait = np.where((start >= start[2600]) & (start < start[2650]), 40 * MS, 0)
    for number, part in enumerate(np.array_split(np.arange(4000), 4), 1):
        count = len(part)
        run = np.full(count, MS)
        recorded(tmp_path, {"start": start[part], "wait": wait[part], "run": run, "took": run}, number=number)
    [found] = gather(pieces(tmp_path)[::-1], Found(), window_max=200)
    assert 100 <= len(found.load) <= 200
    assert (sum(each > 0 for each in found.load.wait), found.recorded_count) == (50, 4000)
    assert found.load.arrival == sorted(found.load.arrival)


def test_a_window_begins_where_nobody_is_queued(tmp_path: Path) -> None:
    """Or the first would be predicted not to wait for those who came before them."""
    start = EPOCH_NS + np.arange(100) * MS
    wait = np.zeros(100, dtype=np.int64)
    wait[:5] = 20 * MS - np.arange(5) * MS
    run = np.full(100, MS)
    recorded(tmp_path, {"start": start, "wait": wait, "run": run, "took": run})
    load = gathered(tmp_path).load
    assert len(load) == 95
    assert load.wait == [0] * 95


def test_more_than_can_be_simulated_in_one_slice_is_cut(tmp_path: Path) -> None:
    """A million a second."""
    start = EPOCH_NS + np.arange(5000) * 1000
    run = np.full(5000, 1000)
    recorded(tmp_path, {"start": start, "run": run, "took": run})
    assert len(gathered(tmp_path, window_max=300).load) == 300


def test_a_window_is_read_and_not_more(tmp_path: Path) -> None:
    """Of 5000 actions 200."""
    start = EPOCH_NS + np.arange(5000) * MS
    wait = np.where((start >= start[3000]) & (start < start[3100]), 30 * MS, 0)
    recorded(tmp_path, {"start": start, "wait": wait, "run": np.full(5000, MS), "took": np.full(5000, MS)})
    found = gathered(tmp_path, window_max=200)
    assert 100 <= len(found.load) <= 200
    assert found.recorded_count == 5000
    assert sum(wait > 0 for wait in found.load.wait) == 100


def test_times_may_be_bounded(tmp_path: Path) -> None:
    """--since."""
    start = EPOCH_NS + np.arange(100) * MS
    recorded(tmp_path, {"start": start, "run": np.full(100, MS), "took": np.full(100, MS)})
    found = gathered(tmp_path, since_ns=int(start[40]), until_ns=int(start[60]))
    assert found.recorded_count == 20


def test_damaged_records_are_left_out_and_counted_once(tmp_path: Path) -> None:
    """Never silently."""
    start = EPOCH_NS + np.arange(50) * MS
    path = recorded(tmp_path, {"start": start, "run": np.full(50, MS), "took": np.full(50, MS)}, sealed=True)
    data = bytearray(path.read_bytes())
    data[NAMES_END + 7 * RECORD_BYTES] ^= 1
    path.write_bytes(bytes(data))
    found = Found()
    assert len(gathered(tmp_path, found).load) == 49
    assert found.skipped == 1


@pytest.mark.parametrize("lane", [0, 3])
def test_lanes_are_there_where_there_are_any(tmp_path: Path, lane: int) -> None:
    """Until the request kernel exists they are all 0."""
    recorded(tmp_path, {"start": [EPOCH_NS], "run": [MS], "took": [MS], "lane": [lane]})
    assert gathered(tmp_path).load.lane == ([3] if lane else ())


def test_no_deadline_is_none(tmp_path: Path) -> None:
    """The smallest number there is stands for it in a record."""
    recorded(tmp_path, {"start": [EPOCH_NS], "run": [MS], "took": [MS]})
    assert gathered(tmp_path).load.deadline == [NEVER]


def test_of_what_others_executed_a_note_is_all_there_is(tmp_path: Path) -> None:
    """Threads or a CPU limit of a backplane that does not exist are no advice; that requests wait for a cluster is."""
    count = 100
    start = EPOCH_NS + np.arange(count) * 100 * MS + 500 * MS
    limits = {"threads": 16, "executed_by": "spark"}
    recorded(
        tmp_path, {"start": start, "wait": 500 * MS, "run": 80 * MS, "cpu": 70 * MS, "took": 80 * MS}, limits=limits
    )
    assert gathered(tmp_path).executed_by == "spark"
    advice = advise(tmp_path)
    assert advice.items == ()
    assert advice.notes == (
        "backplane desk: part0.work0 (priority 0) waits 500 ms on average and runs 80 ms: more cores for spark would help, or, "
        "where its cores are idle, more `workers` in the kernel's policy",
    )
