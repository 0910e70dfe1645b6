"""Actions: records of one backplane as numpy columns, named as in `segments.FIELDS`, and `index`, the position.

This is the input of a kernel, whether records come from a segment, from Parquet, or from the rows of a stream. Times and ids
are int64, other fields int32, `boosted` is a bool. `operation` and `object` are indices of `names`. `route` can be requested
like a field and is an index of `routes`: component and operation, far cheaper than the object where only these matter. Cost:
each requested column is copied once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from appbackplane.runtime.observation.segments import FIELDS, NO_DEADLINE, SegmentHeader

if TYPE_CHECKING:
    import pyarrow as pa

#: Index of a record in its segment; not stored in the record.
INDEX: Final = "index"
#: Component and operation of a record, by number; not stored, but derived from its names (routes.py).
ROUTE: Final = "route"
#: Column names in Spark and Parquet, where they differ from the field names.
COLUMN_OF: Final = {name: f"{name}_ns" for name in ("start", "wait", "run", "cpu", "took", "margin")}
#: Stands for names that are missing from a damaged list of names.
NAMELESS: Final = ("", "?")


class Actions:
    """A batch of records, column by column."""

    __slots__ = ("columns", "header", "names", "routes", "skipped")

    def __init__(
        self,
        columns: Mapping[str, np.ndarray],
        names: Sequence[tuple[str, str]] = (),
        header: SegmentHeader | None = None,
        skipped: int = 0,
        routes: Sequence[tuple[str, str]] = (),
    ) -> None:
        #: Node, backplane, generation and limits of the records. None: of more than one backplane.
        self.header = header
        self.columns = dict(columns)
        #: (component, name), indexed by `operation` and `object`.
        self.names = names if isinstance(names, list) else list(names)
        #: Records that were left out between the last batch and the end of this one.
        self.skipped = skipped
        #: (component, operation), indexed by `route`.
        self.routes = routes

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __getitem__(self, field: str) -> np.ndarray:
        return self.columns[field]

    def where(self, mask: np.ndarray) -> Actions:
        """Select the records for which `mask` is true."""
        return Actions(
            {name: column[mask] for name, column in self.columns.items()},
            self.names, self.header, self.skipped, self.routes,
        )  # fmt: skip

    def components(self) -> np.ndarray:
        """Index into `component_names` for each record: its object's component. Needs `operation` and `object`."""
        found: np.ndarray = self._component_by_name()[self._whose()]
        return found

    def component_names(self) -> list[str]:
        """Sorted names, indexed by the numbers from `components`."""
        return sorted({component for component, _ in self.names})

    def _component_by_name(self) -> np.ndarray:
        number = {component: number for number, component in enumerate(self.component_names())}
        return np.array([number[component] for component, _ in self.names], dtype=np.int32)

    def _whose(self) -> np.ndarray:
        """The name that gives the component: the object's, or the operation's if the object's has no component."""
        has_none = np.array([not component for component, _ in self.names], dtype=bool)
        objects = self.columns["object"]
        if not has_none.any():
            return objects
        return np.where(has_none[objects], self.columns["operation"], objects)

    @classmethod
    def from_arrow(
        cls,
        batch: pa.RecordBatch,
        fields: Sequence[str] | None = None,
        component_of: Mapping[str, str] | None = None,
    ) -> Actions:
        """Convert rows with the columns of the data source (or some of them), as a stream or Parquet has them.

        `fields`: the wanted fields, by default all present; a missing column is an error. The header is None if the rows are
        of more than one backplane. `component_of`: component by operation, for `route`, if each operation has one component
        only.
        """
        present = set(batch.schema.names)
        if fields is None:
            fields = [name for name in (*FIELDS, INDEX) if COLUMN_OF.get(name, name) in present]
        columns: dict[str, np.ndarray] = {}
        names: list[tuple[str, str]] = []
        routes: list[tuple[str, str]] = []
        for field in fields:
            column = batch.column(COLUMN_OF.get(field, field if field != ROUTE else "operation"))
            if field == ROUTE and component_of is not None:
                columns[field], words = _dictionary(column)
                routes = [(component_of.get(word, ""), word) for word in words]
            elif field in ("operation", "object", ROUTE):
                columns[field] = _numbered(batch, column, routes if field == ROUTE else names)
            elif field == "margin":
                columns[field] = column.fill_null(NO_DEADLINE).to_numpy(zero_copy_only=False)
            else:
                columns[field] = column.to_numpy(zero_copy_only=False)
        return cls(columns, names, _header_of(batch, present), routes=routes)


def _numbered(batch: pa.RecordBatch, column: Any, names: list[tuple[str, str]]) -> np.ndarray:
    """Convert a string column to indices of `names`, to which the occurring strings are appended, each with its component."""
    codes, words = _dictionary(column)
    if "component" not in batch.schema.names:
        found = np.flatnonzero(np.bincount(codes, minlength=len(words)))
        pairs = [("", words[n]) for n in found.tolist()]
    else:
        whose, components = _dictionary(batch.column("component"))
        codes = whose.astype(np.int64) * len(words) + codes
        found = np.flatnonzero(np.bincount(codes, minlength=len(components) * len(words)))
        pairs = [(components[n // len(words)], words[n % len(words)]) for n in found.tolist()]
    number = np.zeros(int(found[-1]) + 1 if len(found) else 1, dtype=np.int32)
    number[found] = np.arange(len(names), len(names) + len(found), dtype=np.int32)
    names += pairs
    numbers: np.ndarray = number[codes]
    return numbers


def _dictionary(column: Any) -> tuple[np.ndarray, list[str]]:
    """Convert a column of strings to (codes, words)."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = column.indices
    words = [word or "" for word in column.dictionary.to_pylist()]
    if codes.null_count:
        codes, words = codes.fill_null(len(words)), [*words, ""]
    return codes.to_numpy(zero_copy_only=False), words


def _header_of(batch: pa.RecordBatch, present: set[str]) -> SegmentHeader | None:
    """Header for the rows, if their columns name exactly one backplane; else None."""
    said: dict[str, Any] = {}
    for name, empty in (("node", ""), ("backplane", ""), ("generation", 0), ("segment", 0)):
        values = batch.column(name).unique().to_pylist() if name in present else [empty]
        if len(values) != 1 and name != "segment":
            return None
        said[name] = values[0] if len(values) == 1 else 0
    if not said["backplane"]:
        return None
    said["number"] = said.pop("segment")
    return SegmentHeader(kind="actions", system="", pid=0, created_ns=0, **said)
