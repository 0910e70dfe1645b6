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

from pyspark.sql.types import _parse_datatype_string  # noqa: E402

from appbackplane.spark.records.parquet import HEADERS  # noqa: E402
from appbackplane.spark.source.rows import COLUMNS, Rows  # noqa: E402
