"""Overview: sums that do not depend on how the records were cut, nor on the order in which they are added up."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.runtime.observation.segments import NO_DEADLINE, SegmentHeader
from appbackplane.spark.records.batch import Actions
from appbackplane.spark.report.gathering import contents
from appbackplane.spark.report.overview import BINS_MAX, BUCKETS, FIELDS, Overview, buckets_of, edges_ns
from appbackplane.spark.report.page import page

from ..made import EPOCH_NS, traffic


def header(backplane: str, generation: int = 1) -> SegmentHeader:
    return SegmentHeader(
        kind="actions", system="s", node="n", backplane=backplane, generation=generation, pid=1, number=1,
        created_ns=0, limits={"threads": 4},
    )  # fmt: skip


def actions(backplane: str, columns: dict[str, np.ndarray]) -> Actions:
    return Actions({name: np.asarray(columns[name]) for name in FIELDS}, (), header(backplane))


def test_nothing_is_lost_and_each_is_in_its_bin() -> None:
    """A plot that leaves out the last bin hides what a person looks for: what happened just now."""
    columns = traffic(5_000)
    total = Overview()
    total.add_actions(actions("a", columns))
    begin_ns, table = total.table()
    assert table[:, :BUCKETS].sum() == 5_000 == total.sources["a@n"].records
    assert table[:, BUCKETS].sum() == columns["run"].sum()
    missed = (columns["margin"] != NO_DEADLINE) & (columns["margin"] < 0)
    assert table[:, BUCKETS + 2].sum() == np.count_nonzero(columns["outcome"])
    assert table[:, BUCKETS + 3].sum() == np.count_nonzero(missed)
    expected = np.bincount((columns["start"] - begin_ns) // total.width_ns, minlength=len(table))
    assert table[:, :BUCKETS].sum(axis=1).tolist() == expected.tolist()
    assert BINS_MAX // 2 < len(table) <= BINS_MAX


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_limits_are_the_latest_whichever_task_is_done_first(order: tuple[int, int]) -> None:
    """After `scale` the page tells how many threads there are now, not how many there were."""
    total = Overview()
    for number in order:
        one = actions("a", traffic(10))
        one.header = msgspec.structs.replace(header("a"), created_ns=number, limits={"threads": number})
        part = Overview()
        part.add_actions(one)
        total.add(part)
    assert total.sources["a@n"].limits == {"threads": 2}


def test_systems_that_were_recorded_below_one_folder_are_all_named() -> None:
    """Two that are made alike have the same backplanes: under the name of one, its figures would be taken for its own."""
    total = Overview()
    for system, backplane in (("shop", "main"), ("yard", "main"), ("yard", "web"), ("", "web"), ("bank", "web")):
        one = actions(backplane, traffic(10))
        one.header = msgspec.structs.replace(header(backplane), system=system)
        part = Overview()
        part.add_actions(one)
        total.add(msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=Overview))
    made = contents(Path("/runs"), total, {}, made_ns=EPOCH_NS, by="Spark")
    assert made.system == "bank, shop and yard"
    assert [note.partition(":")[0] for note in made.notes] == [
        "main@n is a backplane of shop and yard", "web@n is a backplane of bank and yard",
    ]  # fmt: skip
    assert made.notes[0] in page(made)
    del total.sources["main@n"], total.bins["main@n"]
    total.sources["web@n"].systems = {"yard"}
    made = contents(Path("/runs"), total, {}, made_ns=EPOCH_NS, by="Spark")
    assert (made.system, made.notes) == ("yard", [])


def test_it_begins_when_the_first_action_arrived() -> None:
    """One that waited for long, late in the day, does not make the day longer, nor all rates lower."""
    zero = np.zeros(2, dtype=np.int64)
    hour = 3600 * 10**9
    columns = {"start": np.array([EPOCH_NS, EPOCH_NS + hour]), "wait": np.array([5, hour // 2]), "run": zero, "cpu": zero,
               "took": zero + 1, "margin": zero + NO_DEADLINE, "outcome": zero}  # fmt: skip
    total = Overview()
    total.add_actions(actions("a", columns))
    assert (total.first_ns, total.last_ns) == (EPOCH_NS - 5, EPOCH_NS + hour + 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2**42), st.integers(0, 2**44)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_however_it_is_cut_the_sum_is_the_same(records: list[tuple[int, int, int]], random: object) -> None:
    """Spark cuts as it likes, and tasks end in any order: a figure that depends on it is a rumour."""

    def columns(some: list[tuple[int, int, int]]) -> dict[str, np.ndarray]:
        scale, start, took = (np.array(values, dtype=np.int64) for values in zip(*some, strict=True))
        zero = np.zeros(len(some), dtype=np.int64)
        return {"start": start + (1 << 60) + (scale << 40), "wait": zero, "run": took // 2, "cpu": zero, "took": took,
                "margin": zero + NO_DEADLINE, "outcome": zero}  # fmt: skip

    whole = Overview()
    whole.add_actions(actions("a", columns(records)))
    parts = []
    for record in records:
        part = Overview()
        part.add_actions(actions("a", columns([record])))
        parts.append(msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=Overview))
    random.shuffle(parts)  # type: ignore[attr-defined]
    total = Overview()
    for part in parts:
        total.add(part)
    assert (total.first_ns, total.last_ns) == (whole.first_ns, whole.last_ns)
    while whole.shift < total.shift:
        whole._coarsen()
    assert total.shift == whole.shift
    assert np.array_equal(total.table()[1], whole.table()[1])
    assert total.sources == whole.sources


def test_tables_of_all_backplanes_begin_at_the_same_time() -> None:
    """Their lines are drawn over one axis: a backplane that was started later would be shown before its time."""
    early, late = traffic(100), traffic(100)
    late["start"] = late["start"] + 10**12
    total = Overview()
    total.add_actions(actions("early", early))
    total.add_actions(actions("late", late))
    tables = {name: total.table(f"{name}@n") for name in ("early", "late")}
    assert tables["early"][0] == tables["late"][0] == total.table()[0]
    assert len(tables["early"][1]) == len(tables["late"][1]) <= BINS_MAX
    assert tables["late"][1][0].sum() == 0


@pytest.mark.parametrize("ns", [0, 999, 1_000, 1_414, 1_415, 2_000, 10**9, 10**18])
def test_latencies_fall_between_their_edges(ns: int) -> None:
    """The axis beside the plot is drawn from the edges."""
    (bucket,) = buckets_of(np.array([ns])).tolist()
    edges = edges_ns()
    assert edges[bucket] <= max(ns, 1_000)
    assert ns < edges[bucket + 1] or bucket == BUCKETS - 1


def test_nothing_is_an_overview_too() -> None:
    """A system that was up and did nothing has a report that says so."""
    total = Overview()
    total.add(Overview())
    assert total.table()[1].shape[0] == 0
    assert (total.first_ns, total.last_ns) == (0, 0)
