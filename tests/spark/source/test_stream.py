"""The reader of a stream, beside the driver: where it begins, and where there is nothing to begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from pyspark.sql.types import LongType, StructType

from appbackplane.spark.records.pieces import NothingRecorded
from appbackplane.spark.source.stream import StreamOptions, StreamReader


def reader(where: Path) -> StreamReader:
    return StreamReader(where, StructType().add("index", LongType()), StreamOptions())


def test_where_nothing_is_recorded_a_stream_says_so(tmp_path: Path) -> None:
    """A query over a system without [record] waits for ever and says nothing; one that is about to record is waited for."""
    for where in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NothingRecorded):
            reader(where).initialOffset()
    (tmp_path / "records").mkdir()
    assert reader(tmp_path).initialOffset() == reader(tmp_path / "records").initialOffset() == {}
