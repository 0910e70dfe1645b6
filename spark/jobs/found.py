"""Found: count the records of each backplane and the unreadable ones, to judge how complete the other answers are.

Each record is read and checked, 18 million/s on a core.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ..frames import actions_of
from ..records.found import Found
from .batches import batch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROW: Final = (
    "node string, backplane string, records long, first_ns long, last_ns long, generation int, path string, damaged long, "
    "torn long, problem string"
)


def found(pieces: DataFrame) -> DataFrame:
    """Two kinds of rows. By node and backplane: `records`, `first_ns` and `last_ns` (Unix time of the first and last start),
    and `generations` (how many); `path` is NULL. By `path`, the data left out: records `damaged`, `torn` (the last one, if not
    completely written), or the `problem` for which the file could not be read; the rest is NULL.
    """
    from pyspark.sql import functions as f

    return (
        pieces.mapInArrow(_look, _ROW)
        .groupBy("node", "backplane", "path")
        .agg(
            f.sum("records").alias("records"),
            f.min("first_ns").alias("first_ns"),
            f.max("last_ns").alias("last_ns"),
            f.countDistinct("generation").alias("generations"),
            f.sum("damaged").alias("damaged"),
            f.sum("torn").alias("torn"),
            f.first("problem").alias("problem"),
        )
        .orderBy("node", "backplane", "path")
    )


def _look(batches: Iterator[Any]) -> Iterator[Any]:
    what = Found()
    rows: list[dict[str, Any]] = []
    for actions in actions_of(batches, ("start",), what):
        header, start = actions.header, actions["start"]
        if len(start) and header is not None:
            rows.append(
                {"node": header.node, "backplane": header.backplane, "generation": header.generation,
                 "records": len(start), "first_ns": int(start.min()), "last_ns": int(start.max())}
            )  # fmt: skip
    left_out = {path: {"problem": why} for path, why in what.unreadable.items()}
    for name, counted in (("damaged", what.damaged), ("torn", what.torn)):
        for path, count in counted.items():
            left_out.setdefault(path, {})[name] = count  # type: ignore[assignment]
    rows += [{"path": path} | why for path, why in left_out.items()]
    columns = [part.split()[0] for part in _ROW.split(", ")]
    yield batch_of(_ROW, {name: [row.get(name) for row in rows] for name in columns})
