"""What tasks make of actions is what numpy says of the same actions, however Spark has cut them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from appbackplane.spark.kernels.histogram import buckets_of
from appbackplane.spark.stream import partials as module
from appbackplane.spark.stream.partials import partials, unpack
from appbackplane.spark.stream.windows import Key, Sums

SECOND = 1_000_000_000


def actions(count: int, seed: int = 1) -> pa.Table:
    """Of three components, one of which is a backplane's own, over some twenty seconds."""
    random = np.random.default_rng(seed)
    components = np.array(["shop", "stock", "backplane.main"])[random.integers(0, 3, count)]
    return pa.table(
        {
            "start_ns": 1_000 * SECOND + np.sort(random.integers(0, 20 * SECOND, count)),
            "took_ns": random.integers(0, 3 * SECOND, count),
            "wait_ns": random.lognormal(12, 2, count).astype(np.int64),
            "run_ns": random.lognormal(11, 2, count).astype(np.int64),
            "component": components,
            "operation": [f"{name}.do{n}" for name, n in zip(components, random.integers(0, 5, count), strict=True)],
            "outcome": np.where(random.random(count) < 0.1, 13, 0).astype(np.int32),
        }
    )


def added_up(rows: Iterator[pa.RecordBatch]) -> tuple[dict[Key, Sums], int, int]:
    """By key; how many actions were read, and how many rows there were."""
    table = pa.Table.from_batches(list(rows))
    found, read = unpack(table)
    sums: dict[Key, Sums] = {}
    for key, each in found:
        sums.setdefault(key, Sums()).add(each)
    return sums, read, len(table)


@pytest.mark.parametrize("cut", [7, 1_000, 100_000])
@pytest.mark.parametrize("room", [3, 512])
def test_sums_are_those_of_the_actions(cut: int, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that lost an action, or counted one twice at the seam of two batches, would be wrong and nobody would know."""
    monkeypatch.setattr(module, "GROUPS_MAX", room)
    table = actions(2_000)
    sums, read, _ = added_up(partials(table.to_batches(cut), 5 * SECOND))
    assert read == 2_000
    columns = {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    window = (columns["start_ns"] + columns["took_ns"]) // (5 * SECOND) * 5 * SECOND
    ours = columns["component"] == "backplane.main"
    assert sum(each.count for each in sums.values()) == np.count_nonzero(~ours)
    for (window_ns, component, operation), each in sums.items():
        chosen = (window == window_ns) & (columns["component"] == component) & (columns["operation"] == operation)
        wait, run = columns["wait_ns"][chosen], columns["run_ns"][chosen]
        assert each.count == len(run) > 0
        assert each.errors == np.count_nonzero(columns["outcome"][chosen])
        assert (each.wait_total, each.wait_max, each.run_total, each.run_max) == (
            wait.sum(), wait.max(), run.sum(), run.max(),
        )  # fmt: skip
        for counts, values in ((each.wait, wait), (each.run, run)):
            buckets, numbers = np.unique(buckets_of(values), return_counts=True)
            assert counts == dict(zip(buckets.tolist(), numbers.tolist(), strict=True))


def test_of_many_actions_few_rows_come_out() -> None:
    """The driver is one process: what it is sent must not grow with the traffic."""
    _, read, rows = added_up(partials(actions(50_000).to_batches(10_000), 5 * SECOND))
    assert read == 50_000
    assert rows < 100


def test_nothing_comes_of_nothing() -> None:
    """A micro-batch in which other readers' records lie, or none."""
    assert added_up(partials(iter(()), SECOND))[:2] == ({}, 0)
    assert added_up(partials(actions(0).to_batches(), SECOND))[:2] == ({}, 0)
