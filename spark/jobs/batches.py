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
    fields = [(name, _TYPES[kind]) for name, kind in (part.split() for part in schema.split(","))]
    arrays = [pa.array(columns[name], kind) for name, kind in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
