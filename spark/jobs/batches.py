"""Batches: build Arrow batches for a schema in Spark's notation ("count long, name string")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

_TYPES: Final = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
}


def batch_of(schema: str, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Build a batch from `columns` by name, each a sequence or a numpy array; None becomes NULL."""
    fields = schema_of(schema)
    return pa.RecordBatch.from_arrays([pa.array(columns[each.name], each.type) for each in fields], schema=fields)


def schema_of(schema: str) -> pa.Schema:
    """The same schema in Arrow's."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in (part.split() for part in schema.split(","))])
