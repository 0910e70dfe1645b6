"""Jobs: each answer is what plain numpy and Python make of the same records, whichever way these were shared out.

One Spark test goes through all of them; the rest needs none: what a task adds up, and what is made of it, are functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from appbackplane.runtime.observation.segments import NO_DEADLINE
from appbackplane.spark.compaction import compact
from appbackplane.spark.frames import pieces_frame, within
from appbackplane.spark.jobs import critical_paths as paths
from appbackplane.spark.jobs import deadlines as misses
from appbackplane.spark.jobs import inversions as waits
from appbackplane.spark.jobs import operation_statistics as statistics
from appbackplane.spark.jobs import slow_actions as slow
from appbackplane.spark.jobs import throughput as slots
from appbackplane.spark.jobs.found import found as found_job
from appbackplane.spark.kernels.histogram import ERROR
from appbackplane.spark.records.batch import Actions
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import Piece, pieces, read_all
from tests.spark.made import names_of, traffic, words_of, write_actions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 20_000
LIMITS = {"threads": 2, "cpu_limit": 150}
SECOND = 10**9


def columns_of(backplane: int) -> dict[str, np.ndarray]:
    """What happened in one backplane."""
    random = np.random.default_rng(backplane)
    columns = traffic(COUNT, seed=backplane, per_s=5000)
    columns["priority"] = random.integers(0, 4, COUNT)
    columns["effective"] = np.maximum(0, columns["priority"] - (random.random(COUNT) < 0.2))
    columns["outcome"] = random.choice([0, 0, 0, 4, 13], COUNT)
    # As late as they waited, some more and some less.
    columns["margin"] = np.where(random.random(COUNT) < 0.5, random.integers(-(10**5), 10**5, COUNT), NO_DEADLINE)
    columns["took"] = columns["run"] + np.where(random.random(COUNT) < 0.1, random.integers(0, SECOND, COUNT), 0)
    columns["trace_low"] = np.arange(COUNT) // 5
    columns["trace_high"] = np.full(COUNT, backplane)
    columns["parent"] = np.where(np.arange(COUNT) % 5, np.arange(COUNT), 0)
    return {name: np.asarray(values) * np.ones(COUNT, dtype=np.int64) for name, values in columns.items()}


BACKPLANES = {"one": columns_of(1), "two": columns_of(2)}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both backplanes, in three segments each, whose names are numbered differently."""
    where = tmp_path_factory.mktemp("run")
    for backplane, columns in BACKPLANES.items():
        for number, part in enumerate(np.array_split(np.arange(COUNT), 3), 1):
            names = names_of()
            order = np.random.default_rng(number).permutation(len(names))
            place = np.argsort(order)
            own = {name: values[part] for name, values in columns.items()}
            own |= {name: place[own[name]] for name in ("operation", "object")}
            write_actions(
                where, backplane, number, words_of(len(part), own), [names[n] for n in order],
                limits=LIMITS, sealed=True, created_ns=int(own["start"][0]),
            )  # fmt: skip
    return where


def tasks(where: Path, fields: Sequence[str], count: int = 3) -> Iterator[list[Actions]]:
    """What each of some tasks reads."""
    all_pieces = pieces(where)
    for first in range(count):
        yield list(read_all(all_pieces[first::count], fields, Found()))


def together() -> dict[str, np.ndarray]:
    """All columns of both, with what they are called, and whose they are."""
    columns = {name: np.concatenate([each[name] for each in BACKPLANES.values()]) for name in BACKPLANES["one"]}
    columns["backplane"] = np.repeat(list(BACKPLANES), COUNT)
    return columns


def names(numbers: np.ndarray, which: int) -> np.ndarray:
    """Components (0) or names (1)."""
    return np.array([names_of()[n][which] for n in range(len(names_of()))])[numbers]


def by(columns: dict[str, np.ndarray], *keys: np.ndarray) -> Iterator[tuple[tuple[Any, ...], dict[str, np.ndarray]]]:
    """Groups, the obvious way."""
    combined = list(zip(*(key.tolist() for key in keys), strict=True))
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(combined):
        places.setdefault(key, []).append(place)
    for key in sorted(places):
        yield key, {name: values[places[key]] for name, values in columns.items()}


def near(told: float, exact: float) -> bool:
    """Within the bound that is stated."""
    return abs(told - exact) <= ERROR * abs(exact) + 1e-6


def by_route() -> Iterator[tuple[tuple[Any, ...], dict[str, np.ndarray]]]:
    columns = together()
    return by(columns, names(columns["object"], 0), names(columns["operation"], 1), columns["priority"])


def check_statistics(rows: list[dict[str, Any]]) -> None:
    """Against numpy."""
    expected = list(by_route())
    assert [(row["component"], row["operation"], row["priority"]) for row in rows] == [key for key, _ in expected]
    for row, (_, mine) in zip(rows, expected, strict=True):
        assert row["count"] == len(mine["run"])
        assert row["errors"] == np.count_nonzero(mine["outcome"])
        assert row["cpu_ns"] == mine["cpu"].sum()
        for name in ("wait", "run"):
            assert row[f"{name}_mean_ns"] == pytest.approx(mine[name].mean(), rel=1e-12)
            assert row[f"{name}_max_ns"] == mine[name].max()
            for rank in (50, 90, 99):
                assert near(row[f"{name}_p{rank}_ns"], float(np.quantile(mine[name], rank / 100)))


def test_operation_statistics_are_what_numpy_says(run_dir: Path) -> None:
    """The question that everybody asks first."""
    whole = statistics.GroupStatistics()
    for several in tasks(run_dir, statistics.FIELDS):
        part = statistics.GroupStatistics()
        for actions in several:
            part.add(actions)
        whole.add_partial(part.partial())
    check_statistics(whole.result().to_pylist())


def test_deadlines_are_what_python_says(run_dir: Path) -> None:
    """A miss that is blamed on waiting sends somebody to change the wrong thing."""
    whole = misses.Misses()
    for several in tasks(run_dir, misses.FIELDS):
        part = misses.Misses()
        for actions in several:
            part.add(actions)
        whole.add_partial(part.partial())
    rows = {(row["component"], row["operation"], row["priority"]): row for row in whole.result().to_pylist()}
    order = [row["missed"] for row in rows.values()]
    assert order == sorted(order, reverse=True)
    for key, mine in by_route():
        having = mine["margin"] != NO_DEADLINE
        margin, wait, given_up = mine["margin"][having], mine["wait"][having], mine["outcome"][having] == 4
        late = [max(-m, 0) for m, g in zip(margin.tolist(), given_up.tolist(), strict=True) if m < 0 or g]
        waited = [w for m, w, g in zip(margin.tolist(), wait.tolist(), given_up.tolist(), strict=True) if m < 0 or g]
        row = rows.pop(key)
        assert (row["with_deadline"], row["missed"], row["given_up"]) == (len(margin), len(late), given_up.sum())
        assert row["by_waiting"] == sum(ns <= queued for ns, queued in zip(late, waited, strict=True))
        assert row["missed_share"] == pytest.approx(len(late) / len(margin))
        assert row["late_max_ns"] == max(late)
        assert near(row["late_p50_ns"], float(np.quantile(late, 0.5)))
    assert not rows


@pytest.mark.parametrize("step_ns", [SECOND // 100, SECOND, 7 * SECOND])
def test_each_slot_has_its_part_of_what_lasts(run_dir: Path, step_ns: int) -> None:
    """An action that runs for a minute keeps its thread busy in each second of it, not in the last one."""
    sums: dict[tuple[str, int], dict[str, float]] = {}
    for actions in (actions for several in tasks(run_dir, slots.FIELDS) for actions in several):
        found = slots.slots_of(actions, step_ns)
        assert set(found["threads"]) == {2}
        assert set(found["cpu_limit"]) == {1.5}
        for n, slot in enumerate(found["slot"].tolist()):
            row = sums.setdefault(
                (found["backplane"][n], slot), dict.fromkeys(("ended", "run", "waiting", "errors"), 0)
            )
            for name in row:
                row[name] += found[name][n]
    expected: dict[tuple[str, int], dict[str, float]] = {}
    for backplane, columns in BACKPLANES.items():
        columns = {name: values.tolist() for name, values in columns.items()}
        for start, wait, run, took, outcome in zip(
            *(columns[name] for name in ("start", "wait", "run", "took", "outcome")), strict=True
        ):
            whole = ((start, start + took, run, "run"), (start - wait, start, wait, "waiting"))
            for begin, end, amount, name in whole:
                for slot in range(begin // step_ns, max(begin, end - 1) // step_ns + 1):
                    row = expected.setdefault(
                        (backplane, slot), dict.fromkeys(("ended", "run", "waiting", "errors"), 0)
                    )
                    inside = min(end, (slot + 1) * step_ns) - max(begin, slot * step_ns)
                    row[name] += amount * inside / (end - begin) if end > begin else amount
            row = expected.setdefault(
                (backplane, (start + took) // step_ns), dict.fromkeys(("ended", "run", "waiting", "errors"), 0)
            )
            row["ended"] += 1
            row["errors"] += outcome != 0
    assert set(sums) == set(expected)
    for key, row in expected.items():
        assert sums[key] == pytest.approx(row, rel=1e-6, abs=1e-3)


def slowest(key: str, count: int) -> list[tuple[int, str]]:
    """(how long, operation) of the slowest, the obvious way."""
    columns = together()
    found = zip(columns[key].tolist(), names(columns["operation"], 1).tolist(), strict=True)
    return sorted(found, reverse=True)[:count]


@pytest.mark.parametrize("key", ["run", "took", "wait"])
def test_the_slowest_are_found_with_their_names(run_dir: Path, key: str) -> None:
    """The one action that somebody was called out of bed for must be in the list, whichever task came across it."""
    whole = slow.Slowest(20, key)
    for several in tasks(run_dir, slow.FIELDS):
        part = slow.Slowest(20, key)
        for actions in several:
            part.add(actions)
        whole.add_partial(part.partial())
    rows = whole.result().to_pylist()
    assert [(row[f"{key}_ns"], row["operation"]) for row in rows] == slowest(key, 20)
    columns = together()
    for row in rows:
        (place,) = np.flatnonzero((columns["start"] == row["start_ns"]) & (columns["backplane"] == row["backplane"]))
        assert row["object"] == names(columns["object"], 1)[place]
        assert row["component"] == names(columns["object"], 0)[place]
        assert row["margin_ns"] == (None if columns["margin"][place] == NO_DEADLINE else columns["margin"][place])
        assert row["trace"] == f"{columns['trace_high'][place]:016x}{columns['trace_low'][place]:016x}"
        same = (columns["operation"] == columns["operation"][place]) & (names(columns["object"], 0) == row["component"])
        assert near(row["typical_ns"], float(np.median(columns[key][same])))


def inverted(columns: dict[str, np.ndarray]) -> dict[int, dict[str, int]]:
    """Each action compared with each other."""
    start, wait, run = (columns[name] for name in ("start", "wait", "run"))
    found: dict[int, dict[str, int]] = {}
    for place, mine in enumerate(columns["priority"].tolist()):
        began, queued = start[place] - wait[place], start[place]
        inside = np.maximum(np.minimum(start + run, queued) - np.maximum(start, began), 0)
        lower, boosted = columns["priority"] > mine, columns["effective"] <= mine
        is_begun = (start > began) & (start < queued)
        row = found.setdefault(
            mine, dict.fromkeys(("count", "inverted", "inversion_ns", "boosted_ns", "overtaken", "passed_by"), 0)
        )
        row["count"] += 1
        row["inverted"] += int(inside[lower & ~boosted].any())
        row["inversion_ns"] += int(inside[lower & ~boosted].sum())
        row["boosted_ns"] += int(inside[lower & boosted].sum())
        row["overtaken"] += np.count_nonzero(is_begun & lower & ~boosted)
        row["passed_by"] += np.count_nonzero(is_begun & (columns["priority"] < mine))
    return found


def test_inversions_are_those_that_comparing_each_with_each_finds() -> None:
    """Sums of differences instead of 400 million comparisons: one sign wrong, and inheritance looks useless."""
    columns = {name: values[:3000] for name, values in BACKPLANES["one"].items()}
    expected = inverted(columns)
    counted = np.ones(3000, dtype=bool)
    told = {mine: (sums, wait) for mine, sums, wait in waits.waits_of(columns, counted, 10**6)}
    assert {mine: {name: sums[name] for name in expected[mine]} for mine, (sums, _) in told.items()} == expected
    assert sum(sums["starved"] for sums, _ in told.values()) == np.count_nonzero(columns["wait"] >= 10**6)


def test_stretches_count_each_piece_once_and_see_what_is_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the seams between tasks something waits, and something else runs, in two pieces."""
    monkeypatch.setattr(waits, "STRETCH_RECORDS", 200)
    monkeypatch.setattr(waits, "AROUND_RECORDS", 150)
    several = [Piece(f"/r/{name}/{n:08d}.actions", 0, 100) for name in ("a", "b") for n in range(5)]
    stretches = waits.stretches_of(several)
    assert sorted(piece for _, counted, _ in stretches for piece in counted) == sorted(several)
    before, counted, behind = stretches[1]
    assert [piece.path for piece in (*before, *counted, *behind)] == [f"/r/a/{n:08d}.actions" for n in range(5)]


def test_the_slowest_traces_are_found_however_they_are_read(run_dir: Path) -> None:
    """A trace lies in several batches; its longest action says how slow it was."""
    columns = together()
    lengths: dict[tuple[int, int], int] = {}
    for high, low, wait, took in zip(
        *(columns[name].tolist() for name in ("trace_high", "trace_low", "wait", "took")), strict=True
    ):
        lengths[high, low] = max(lengths.get((high, low), 0), wait + took)
    found: dict[tuple[int, int], int] = {}
    for several in tasks(run_dir, ("wait", "took", "trace_high", "trace_low")):
        slowest = paths.SlowestTraces(10)
        for actions in several:
            slowest.add(actions)
        for row in slowest.partial().to_pylist():
            trace = row["trace_high"], row["trace_low"]
            found[trace] = max(found.get(trace, 0), row["length"])
    assert sorted(found.values(), reverse=True)[:10] == sorted(lengths.values(), reverse=True)[:10]


def test_of_a_trace_that_goes_on_for_days_the_longest_actions_are_kept() -> None:
    """A coroutine shares its trace with all that it calls: as objects in one task, millions of them are gigabytes."""
    kept, most = paths.LongestSpans(50), 50
    columns = dict.fromkeys(("trace_high", "start", "run", "wait"), np.zeros(100, dtype=np.int64))
    everything = []
    for part in np.random.default_rng(1).permutation(5_000).reshape(-1, 100):
        rows = {"span": part + 1, "parent": part // 3, "took": part // 7, "trace_low": np.where(part < 30, 8, 9)}
        named = {"component": ["shop"] * 100, "operation": [f"o{number}" for number in part]}
        kept.add(paths.batch_of(paths._SPANS, columns | rows | named))
        everything += [(-took, span) for took, span in zip(rows["took"].tolist(), rows["span"].tolist(), strict=True)]
        assert kept.table().num_rows <= 2 * most
        assert sum(map(len, kept._batches)) <= 4 * most, "more is held than is kept"
    short, endless = kept.traces()
    assert sorted(span.span for span in short) == list(range(1, 31)), "a trace that is no longer than that is whole"
    assert [(-span.took, span.span) for span in endless] == sorted(everything)[:most]
    assert all(span.name == ("shop", f"o{span.span - 1}") for span in (*short, *endless))
    assert list(paths.LongestSpans().traces()) == []


def test_spark_answers_the_same_from_segments_and_from_parquet(
    spark: SparkSession, run_dir: Path, tmp_path: Path
) -> None:
    """What is left of a job when its kernel is known to be right: how it is cut up and put together."""
    compact(None, run_dir, tmp_path / "to")
    for where in (run_dir, tmp_path / "to"):
        check_statistics(statistics.operation_statistics(pieces_frame(spark, where)).toArrow().to_pylist())
    frame = pieces_frame(spark, tmp_path / "to")
    late, timeline, inversions, path, slowest_rows, there = (
        job.toArrow().to_pylist()
        for job in (
            misses.deadlines(frame),
            slots.throughput(frame, step_ns=SECOND),
            waits.inversions(frame, starved_ns=10**6),
            paths.critical_paths(frame, count=10),
            slow.slow_actions(frame, count=10),
            found_job(frame),
        )
    )
    assert sum(row["missed"] for row in late) > 0
    assert sum(row["ended"] for row in timeline) == 2 * COUNT
    assert {row["threads"] for row in timeline} == {2}
    assert sum(row["cpu"] for row in timeline) * SECOND == pytest.approx(together()["cpu"].sum(), rel=1e-9)
    for backplane, columns in BACKPLANES.items():
        mine = {row["priority"]: row["inversion_ns"] for row in inversions if row["backplane"] == backplane}
        assert mine == {n: sums["inversion_ns"] for n, sums, _ in waits.waits_of(columns, np.full(COUNT, True), 1)}
    assert sum(row["share"] for row in path) == pytest.approx(1)
    assert [(row["run_ns"], row["operation"]) for row in slowest_rows] == slowest("run", 10)
    assert {row["backplane"]: (row["records"], row["path"]) for row in there} == {
        name: (COUNT, None) for name in BACKPLANES
    }


def test_a_time_window_is_exact(run_dir: Path) -> None:
    """--since reads whole files; what began before it is not in the answer."""
    columns = together()
    since, until = np.quantile(columns["start"], [0.3, 0.6]).astype(np.int64).tolist()
    keep = within(since, until)
    found = list(read_all(pieces(run_dir, since_ns=since, until_ns=until), ("run",), Found(), keep))
    inside = (columns["start"] >= since) & (columns["start"] < until)
    assert sum(len(actions) for actions in found) == np.count_nonzero(inside)
    assert sum(int(actions["run"].sum()) for actions in found) == columns["run"][inside].sum()
