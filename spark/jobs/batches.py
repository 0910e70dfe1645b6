"""Batches: columns as an Arrow batch of a schema that is told as Spark tells it ("count long, name string")."""

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
    """`columns`, by name, each a sequence or an array of numpy; None is NULL."""
    fields = [(name, _TYPES[kind]) for name, kind in (part.split() for part in schema.split(","))]
    arrays = [pa.array(columns[name], kind) for name, kind in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
