"""Data source "backplane": `spark.read.format("backplane").load(RUN_DIR)` and `spark.readStream…` read a system's recordings.

`register(spark)` makes it known. Options and columns: docs/concepts/records.md. Bad options raise a one-line error in the
caller, before a task is started. The readers are in `source/`, the writers in `writer.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from appbackplane.transport.errors import InvalidArgument

from .offsets import EARLIEST
from .session import make_active
from .source.batch import RecordsReader
from .source.rows import SCHEMA as RECORDS_SCHEMA
from .source.selection import Selection
from .source.skipped import SCHEMA as SKIPPED_SCHEMA
from .source.skipped import SkippedReader
from .source.stream import StreamOptions, StreamReader
from .source.topics import SCHEMA as TOPIC_SCHEMA
from .source.topics import TopicReader
from .writer import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "backplane"

#: The largest time that a record can hold, in the year 2262.
TIME_NS_MAX = (1 << 63) - 1

#: Options that Spark itself adds to those of a streaming write.
SPARKS_OWN = frozenset({"checkpointLocation"})
#: Options that a reader understands. Any other is an error, because it would have no effect.
READ_OPTIONS = frozenset({"path", "topic", "backplane", "since_ns", "until_ns", "skipped"})
STREAM_OPTIONS = frozenset({"path", "topic", "backplane", "startingOffsets", "maxRecordsPerTrigger", "failOnDataLoss"})

WRITE_OPTIONS = frozenset({"path", "topic", "route", "key", "group", "batch", "backplane", "timeout", *SPARKS_OWN})


class BadOption(InvalidArgument):
    """An option that is unknown or has an unusable value. Its text is one line."""


def register(spark: SparkSession) -> None:
    """Make `format("backplane")` known to a session, and make the session active in this thread.

    Each thread that writes in this format has to call this or `session()`: Spark looks formats up in the thread's session.
    """
    spark.dataSource.register(BackplaneDataSource)
    make_active(spark)


class BackplaneDataSource(DataSource):
    """Created by Spark for each `load` or `save`."""

    @classmethod
    def name(cls) -> str:
        """The name to pass to `format`."""
        return NAME

    def schema(self) -> str:
        """All columns, for records, a topic or skipped files, depending on the options."""
        if self._is_on("skipped"):
            return SKIPPED_SCHEMA
        return RECORDS_SCHEMA if self.options.get("topic") is None else TOPIC_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Batch reader, for `spark.read`. Raises `BadOption`."""
        self._check(READ_OPTIONS)
        topic = self.options.get("topic")
        if self._is_on("skipped"):
            return SkippedReader(self._where(), topic, self._selection())
        if topic is None:
            return RecordsReader(self._where(), schema, self._selection())
        return TopicReader(self._where(), schema, topic, self._selection())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Stream reader, for `spark.readStream`. Raises `BadOption`."""
        self._check(STREAM_OPTIONS)
        options = StreamOptions(
            starting=self.options.get("startingOffsets", EARLIEST),
            records_max=self._count("maxRecordsPerTrigger"),
            is_loss_fatal=self._is_on("failOnDataLoss", default="true"),
            topic=self.options.get("topic"),
            backplanes=self._backplanes(),
        )
        return StreamReader(self._where(), schema, options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Batch writer, for `df.write`. Raises `BadOption`."""
        self._check(WRITE_OPTIONS)
        return BatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Stream writer, for `df.writeStream`. Raises `BadOption`."""
        self._check(WRITE_OPTIONS)
        return StreamWriter(self.options, schema)

    def _where(self) -> Path:
        path = self.options.get("path")
        if not path:
            raise BadOption('no path given: spark.read.format("backplane").load(RUN_DIR), one folder')
        if path.startswith("file:"):
            path = unquote(urlparse(path).path)
        return Path(path).absolute()

    def _selection(self) -> Selection:
        return Selection(self._time_ns("since_ns"), self._time_ns("until_ns"), self._backplanes())

    def _time_ns(self, name: str) -> int | None:
        said = self.options.get(name)
        if said is None:
            return None
        if not str(said).isdecimal() or int(said) > TIME_NS_MAX:
            raise BadOption(f"option {name} is Unix time in ns, a whole number, not {said!r}")
        return int(said)

    def _backplanes(self) -> frozenset[str] | None:
        said = self.options.get("backplane")
        if said is None:
            return None
        names = [name.strip() for name in str(said).split(",")]
        if not all(names):
            raise BadOption(f'option backplane is a name, or several with commas between: "web,index", not {said!r}')
        return frozenset(names)

    def _check(self, known: Collection[str]) -> None:
        lower = {name.lower() for name in known}
        for name in self.options:
            if name.lower() not in lower:
                raise BadOption(f"there is no option {name!r} here: there are {', '.join(sorted(known))}")

    def _is_on(self, name: str, default: str = "false") -> bool:
        said = str(self.options.get(name, default)).lower()
        if said not in ("true", "false"):
            raise BadOption(f"option {name} is true or false, not {said!r}")
        return said == "true"

    def _count(self, name: str) -> int | None:
        said = self.options.get(name)
        if said is None:
            return None
        if not str(said).isdecimal() or not int(said):
            raise BadOption(f"option {name} is a number of records, 1 or more, not {said!r}")
        return int(said)
