"""Rows: the columns of the data source, and their construction from `Actions`.

A table defines for each column Spark's type and the fields that it is made of. Strings are made from numbers in Arrow, 300
million a second; columns that are constant in a segment are made once. Only columns in the schema are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from appbackplane.runtime.observation.segments import NO_DEADLINE, SegmentHeader
from appbackplane.transport.errors import InvalidArgument

from ..records.batch import COLUMN_OF, INDEX, Actions
from ..records.segment_file import CHUNK

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class SparkColumn(NamedTuple):
    """Spark's type of a column, and the record fields that it is made of; no fields: constant in a segment."""

    type: str
    fields: tuple[str, ...] = ()


def _of(field: str) -> str:
    return COLUMN_OF.get(field, field)


#: In the order that readers see.
COLUMNS: Final = {
    **{_of(field): SparkColumn("bigint", (field,)) for field in ("start", "wait", "run", "cpu", "took", "margin")},
    **{name: SparkColumn("string") for name in ("node", "backplane")},
    "component": SparkColumn("string", ("object", "operation")),
    **{name: SparkColumn("string", (name,)) for name in ("object", "operation")},
    "generation": SparkColumn("int"),
    **{name: SparkColumn("int", (name,)) for name in ("priority", "effective", "lane", "outcome")},
    "boosted": SparkColumn("boolean", ("boosted",)),
    **{name: SparkColumn("bigint", (name,)) for name in ("trace_high", "trace_low", "span", "parent")},
    "segment": SparkColumn("bigint"),
    INDEX: SparkColumn("bigint", (INDEX,)),
}
SCHEMA: Final = ", ".join(f"{name} {column.type}" for name, column in COLUMNS.items())


class BadSchema(InvalidArgument):
    """The caller's schema has an unknown column or a wrong type. One line."""


class Rows:
    """Makes rows of one schema. Lives in a task; caches the constant columns of a segment."""

    def __init__(self, schema: StructType) -> None:
        """Raises `BadSchema` for an unknown column or a wrong type."""
        self._schema = checked(schema, {name: column.type for name, column in COLUMNS.items()})
        #: Record fields that the schema needs.
        self.fields: Sequence[str] = tuple(
            dict.fromkeys(field for name in schema.fieldNames() for field in COLUMNS[name].fields)
        ) or (INDEX,)
        self._constants: dict[str, Any] = {}
        self._header: SegmentHeader | None = None
        #: Names already converted to Arrow; the list is the same object for most of a segment.
        self._names: list[tuple[str, str]] | None = None
        self._words: Any = None

    def of(self, actions: Actions) -> pa.RecordBatch:
        """Convert some records to rows."""
        if actions.header != self._header:
            self._header, self._constants = actions.header, {}
        arrays = [self._column(field.name, field.type, actions) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, kind: Any, actions: Actions) -> Any:
        if name in ("operation", "object"):
            if actions.names is not self._names:
                self._names = actions.names
                self._words = pa.array([word for _, word in actions.names], pa.string())
            return self._words.take(pa.array(actions[name]))
        if name == "component":
            return pa.array(actions.component_names(), pa.string()).take(pa.array(actions.components()))
        if name == _of("margin"):
            margin = actions["margin"]
            return pa.array(margin, mask=margin == NO_DEADLINE)
        fields = COLUMNS[name].fields
        return pa.array(actions[fields[0]]) if fields else self._constant(name, kind, actions)

    def _constant(self, name: str, kind: Any, actions: Actions) -> Any:
        """Column with the value that all records of this segment share."""
        header = actions.header
        if header is None:
            value = None
        else:
            value = header.number if name == "segment" else getattr(header, name)
        made = self._constants.get(name)
        if made is None or len(made) < len(actions):
            made = self._constants[name] = pa.repeat(pa.scalar(value, kind), max(CHUNK, len(actions)))
        return made.slice(0, len(actions))


def checked(schema: StructType, known: dict[str, str]) -> pa.Schema:
    """The schema in Arrow, if all its columns are known and have the right types. Raises `BadSchema`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        if field.name not in known:
            raise BadSchema(f"there is no column {field.name!r}: there are {', '.join(known)}")
        if field.dataType.simpleString() != known[field.name]:
            raise BadSchema(f"column {field.name} is {known[field.name]}, not {field.dataType.simpleString()}")
    return to_arrow_schema(schema, timezone="UTC")
