"""Rows: the columns of the data source, and `Actions` turned into them.

A table: a column's name, Spark's type, and the field it is made of. Strings are made from numbers in Arrow, 300 million a
second; what is the same in the whole segment is made once. Only the columns that the schema names are made.
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


class Column(NamedTuple):
    """A column: Spark's type, and of which fields of a record it is made; none: it is the same in the whole segment."""

    type: str
    fields: tuple[str, ...] = ()


def _of(field: str) -> str:
    return COLUMN_OF.get(field, field)


#: In the order in which a reader sees them.
COLUMNS: Final = {
    **{_of(field): Column("bigint", (field,)) for field in ("start", "wait", "run", "cpu", "took", "margin")},
    **{name: Column("string") for name in ("node", "backplane")},
    "component": Column("string", ("object", "operation")),
    **{name: Column("string", (name,)) for name in ("object", "operation")},
    "generation": Column("int"),
    **{name: Column("int", (name,)) for name in ("priority", "effective", "lane", "outcome")},
    "boosted": Column("boolean", ("boosted",)),
    **{name: Column("bigint", (name,)) for name in ("trace_high", "trace_low", "span", "parent")},
    "segment": Column("bigint"),
    INDEX: Column("bigint", (INDEX,)),
}
SCHEMA: Final = ", ".join(f"{name} {column.type}" for name, column in COLUMNS.items())


class BadSchema(InvalidArgument):
    """A schema of the caller's that names what is not there. One line."""


class Rows:
    """Makes rows of one schema. Lives in a task; remembers what is the same in a segment."""

    def __init__(self, schema: StructType) -> None:
        """Raises `BadSchema`."""
        from pyspark.sql.pandas.types import to_arrow_schema

        check(schema, {name: column.type for name, column in COLUMNS.items()})
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        #: What has to be read for it.
        self.fields: Sequence[str] = tuple(
            dict.fromkeys(field for name in schema.fieldNames() for field in COLUMNS[name].fields)
        ) or (INDEX,)
        self._constants: dict[str, Any] = {}
        self._header: SegmentHeader | None = None
        #: Names that were made into Arrow before: they are the same object for most of a segment.
        self._names: list[tuple[str, str]] | None = None
        self._words: Any = None

    def of(self, actions: Actions) -> pa.RecordBatch:
        """The rows of some records."""
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
        """What every record of this segment has."""
        header = actions.header
        if header is None:
            value = None
        else:
            value = header.number if name == "segment" else getattr(header, name)
        made = self._constants.get(name)
        if made is None or len(made) < len(actions):
            made = self._constants[name] = pa.repeat(pa.scalar(value, kind), max(CHUNK, len(actions)))
        return made.slice(0, len(actions))


def check(schema: StructType, known: dict[str, str]) -> None:
    """That a schema names columns that there are, with their types."""
    for field in schema.fields:
        if field.name not in known:
            raise BadSchema(f"there is no column {field.name!r}: there are {', '.join(known)}")
        if field.dataType.simpleString() != known[field.name]:
            raise BadSchema(f"column {field.name} is {known[field.name]}, not {field.dataType.simpleString()}")
