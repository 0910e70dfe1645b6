"""The page says which columns and options there are, and it says all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from appbackplane.spark.datasource import READ_OPTIONS, STREAM_OPTIONS
from appbackplane.spark.source.rows import COLUMNS
from appbackplane.spark.source.topics import COLUMNS as TOPIC_COLUMNS
from tests.docs.pages import DOCS, table

PAGE = (DOCS / "concepts" / "records.md").read_text()


def test_every_column_is_on_the_page_with_its_type() -> None:
    """Who writes a query looks there."""
    assert [row[:2] for row in table(PAGE, "Columns")] == [(name, column.type) for name, column in COLUMNS.items()]
    assert [row[:2] for row in table(PAGE, "Topics")] == list(TOPIC_COLUMNS.items())


def test_every_option_is_on_the_page_with_where_it_goes() -> None:
    """An option that is not there does not exist, and one that is has to be understood."""
    where = {name: "both" if name in READ_OPTIONS & STREAM_OPTIONS else "batch" if name in READ_OPTIONS else "stream"
             for name in READ_OPTIONS | STREAM_OPTIONS}  # fmt: skip
    assert {row[0]: row[1] for row in table(PAGE, "Streams")} == where
