"""Actions: rows of Spark and Parquet give what segments give."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from appbackplane.runtime.observation.segments import FIELDS, BadSegment
from appbackplane.spark.records.batch import Actions
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import Piece, pieces, read, read_all
from tests.spark.made import EPOCH_NS, names_of, traffic, words_of, write_actions

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyspark")

from pyspark.sql.types import StructType  # noqa: E402

from appbackplane.spark.records.parquet import HEADERS  # noqa: E402
from appbackplane.spark.source.rows import COLUMNS, Rows  # noqa: E402

COUNT = 5000
_TYPES = {"bigint": "long", "int": "integer"}
SCHEMA = StructType.fromJson(
    {"fields": [{"name": name, "type": _TYPES.get(column.type, column.type), "nullable": True, "metadata": {}}
                for name, column in COLUMNS.items()]}
)  # fmt: skip


def compacted(where: Path, rows_a_group: int = 2000) -> Path:
    """Two backplanes' segments as one Parquet file in the order of time, as `pipeline compact` writes it."""
    tables, headers = [], []
    for backplane in ("one", "two"):
        columns = traffic(COUNT, seed=len(headers)) | {"boosted": np.arange(COUNT) % 2}
        write_actions(where, backplane, 1, words_of(COUNT, columns), names_of(), limits={"threads": len(headers)})
    for piece in pieces(where):
        for actions in read(piece, Rows(SCHEMA).fields):
            headers.append(actions.header)
            tables.append(pa.Table.from_batches([Rows(SCHEMA).of(actions)]))
    table = pa.concat_tables(tables).sort_by("start_ns")
    for name in ("node", "backplane", "component", "object", "operation"):
        table = table.set_column(
            table.schema.get_field_index(name), name, table[name].combine_chunks().dictionary_encode()
        )
    table = table.replace_schema_metadata({HEADERS: msgspec.json.encode(headers)})
    path = where / "compacted" / "day" / "part.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path, row_group_size=rows_a_group)
    return path


def told(batches: list[Actions]) -> set[tuple[object, ...]]:
    """All of all records, with names for numbers, so that it does not matter in which order they come."""
    rows = set()
    for actions in batches:
        assert actions.header is not None
        columns = [actions[name].tolist() for name in (*FIELDS, "index") if name not in ("operation", "object")]
        operations = [actions.names[number][1] for number in actions["operation"]]
        objects = [actions.names[number][1] for number in actions["object"]]
        components = [actions.component_names()[number] for number in actions.components()]
        whose = (actions.header.backplane, actions.header.generation, actions.header.limits["threads"])
        rows |= {(*whose, *row) for row in zip(operations, objects, components, *columns, strict=True)}
    return rows


def test_parquet_gives_what_the_segments_gave(tmp_path: Path) -> None:
    """Who compacts must not get other answers; and limits are of the backplane, not of the file."""
    path = compacted(tmp_path)
    fields = [*FIELDS, "index"]
    found = Found()
    of_segments = told(list(read_all(pieces(tmp_path / "records"), fields, found)))
    of_parquet = told(list(read_all(pieces(path.parent.parent), fields, found)))
    assert len(of_segments) == 2 * COUNT and of_segments == of_parquet
    assert found.records == 4 * COUNT and not found.unreadable


def test_pieces_of_parquet_are_its_row_groups_that_may_hold_something(tmp_path: Path) -> None:
    """An hour of a month of Parquet must not cost the month; and a piece is the same rows for ever."""
    path = compacted(tmp_path)
    everything = pq.read_table(path)["start_ns"].to_numpy()
    halves = [Piece(str(path), 0, 3333), Piece(str(path), 3333, -1)]
    assert sum(len(actions) for actions in read_all(halves, ["start"], Found())) == 2 * COUNT
    middle = int(everything[5500])
    (piece,) = pieces(path.parent, since_ns=middle)
    assert (piece.start, piece.stop) == (4000, 2 * COUNT)
    (piece,) = pieces(path.parent, until_ns=middle)
    assert (piece.start, piece.stop) == (0, 6000)
    assert pieces(path.parent, backplanes=["zzz"]) == []
    kept = read_all([Piece(str(path))], ["start"], Found(), (["start"], lambda actions: actions["start"] >= middle))
    assert np.array_equal(np.sort(np.concatenate([actions["start"] for actions in kept])), everything[5500:])


def test_parquet_that_somebody_else_wrote_is_named(tmp_path: Path) -> None:
    """A folder of other Parquet files is easily given by mistake."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadSegment, match="has no column start_ns: it was not made by pipeline compact"):
        list(read(Piece(str(tmp_path / "other.parquet")), ["start"]))


def test_rows_of_a_stream_feed_a_kernel_as_a_segment_does(tmp_path: Path) -> None:
    """The same kernel answers for what was and for what is: NULL and numbers of names are the difference."""
    write_actions(tmp_path, "one", 1, words_of(COUNT, traffic(COUNT)), names_of(), limits={"threads": 0})
    (actions,) = list(read(pieces(tmp_path)[0], [*FIELDS, "index"]))
    batch = Rows(SCHEMA).of(actions)
    again = Actions.from_arrow(batch)
    assert again.header is not None and actions.header is not None
    again.header = actions.header
    assert told([again]) == told([actions])
    few = Actions.from_arrow(batch.select(["run_ns", "operation"]), ["run", "operation"])
    assert few.header is None and few.names[few["operation"][0]] == ("", actions.names[actions["operation"][0]][1])
    assert batch.column("start_ns")[0].as_py() > EPOCH_NS
