"""Writer: `df.write` and `df.writeStream` with format "backplane": rows to a topic or to a route of a running system.

Tasks convert their rows and stage them in their commit message, bounded. `commit`, in one place beside the driver, delivers
them under the batch's number (delivery.py), so a batch that Spark repeats is delivered once. Rows are counted in the order of
partitions, so a repeated batch must have the same partitions, as it has from a source with positions. Options: path (system),
topic or route, group, key, backplane, timeout. docs/concepts/stream.md
"""

from __future__ import annotations

import datetime
import decimal
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import check_topic

from .delivery import PATIENCE_S, SystemDelivery, check_group

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

#: Bytes that one task may stage: they pass through the JVM, whose memory holds a whole batch at once.
STAGED_BYTES_MAX: Final = 32 << 20
#: Bytes that all tasks of a batch may stage. They are unpacked in one process, which takes ten times the memory.
BATCH_BYTES_MAX: Final = 256 << 20
_NS: Final = 1_000_000_000
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The rows of one task, packed as msgpack."""

    packed: bytes


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Destination of the rows, from the options."""

    system: str
    group: str
    topic: str | None
    route: str | None
    key: str | None
    backplane: str | None
    patience_s: float

    def check(self) -> None:
        """Check that the system runs, before anything is computed for it. Raises `BackplaneError`."""
        with closing(SystemDelivery(self.system, self.group)) as delivery:
            delivery.check()

    def deliver(self, batch: int, messages: Sequence[WriterCommitMessage | None]) -> int:
        """Deliver all rows of a batch; returns how many were new. Raises `InvalidArgument` if too large, `BackplaneError`."""
        staged = [each.packed for each in messages if isinstance(each, Staged)]
        check_together(sum(map(len, staged)))
        rows = [row for packed in staged for row in msgspec.msgpack.decode(packed)]
        delivery = SystemDelivery(self.system, self.group, backplane=self.backplane, patience_s=self.patience_s)
        with closing(delivery):
            if self.topic is not None:
                return delivery.to_topic(self.topic, batch, rows)
            assert self.route is not None
            return delivery.to_route(self.route, batch, rows, self.key)


class BatchWriter(DataSourceArrowWriter):
    """Writer for `df.write`: one batch, in a group of its own unless the options name one."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Raises `InvalidArgument`, and the errors of a system that does not run."""
        self._target = target_of(options, schema, f"write-{secrets.token_hex(8)}")
        self._batch = _number(options, "batch", 0)
        self._target.check()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task: stages its rows."""
        return staged(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Deliver the batch; called by Spark when all tasks have ended."""
        self._target.deliver(self._batch, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer for `df.writeStream`: one batch for each micro-batch, in the group that the options name."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Raises `InvalidArgument`, also if the option group is missing."""
        if not options.get("group"):
            raise InvalidArgument(
                'option group: name the stream, with a name of its own: .option("group", "alerts-of-today")'
            )
        self._target = target_of(options, schema, "")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task: stages its rows."""
        return staged(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Deliver a micro-batch; called by Spark when all tasks have ended."""
        self._target.deliver(batchId, messages)


def target_of(options: Mapping[str, str], schema: StructType, group: str) -> WriteTarget:
    """Parse the options; `group` is the default of that option. Raises `InvalidArgument`."""
    system, topic, route, key = (options.get(name) for name in ("path", "topic", "route", "key"))
    if not system:
        raise InvalidArgument("no target given: .save(SYSTEM) or .start(SYSTEM), its name, run directory or TOML")
    if (topic is None) == (route is None):
        raise InvalidArgument("options topic and route: expected one of them, the target of each row")
    if topic is not None:
        check_topic(topic)
    if key is not None and (route is None or key not in schema.fieldNames()):
        raise InvalidArgument(
            f"option key names a column whose value is the object to call, with option route: got {key!r}"
        )
    group = options.get("group") or group
    try:
        check_group(group)
        patience_s = float(options.get("timeout", PATIENCE_S))
    except ValueError as error:
        raise InvalidArgument(f"option group or timeout: {error}") from error
    if not patience_s >= 0:  # false for NaN, too
        raise InvalidArgument(f"option timeout: expected seconds, 0 or more, got {options['timeout']!r}")
    for field in schema.fields:
        kind = field.dataType.typeName()
        if "interval" in kind or kind == "variant":
            raise InvalidArgument(f"column {field.name}: a value of type {kind} cannot be sent: cast it")
    return WriteTarget(system, group, topic, route, key, options.get("backplane"), patience_s)


def staged(batches: Iterable[pa.RecordBatch]) -> Staged:
    """Pack the rows of one task. Raises `InvalidArgument` above `STAGED_BYTES_MAX`."""
    rows: list[dict[str, Any]] = []
    size = 0
    for batch in batches:
        kinds = {field.name: field.type for field in batch.schema}
        made = [{name: plain(value, kinds[name]) for name, value in row.items()} for row in batch.to_pylist()]
        size += len(msgspec.msgpack.encode(made))
        if size > STAGED_BYTES_MAX:
            raise InvalidArgument(
                f"a task has more than {STAGED_BYTES_MAX >> 20} MiB of rows to deliver at once: bound the micro-batch "
                "(maxRecordsPerTrigger), or have more partitions"
            )
        rows += made
    return Staged(msgspec.msgpack.encode(rows))


def check_together(bytes_count: int) -> None:
    """Raises `InvalidArgument` above `BATCH_BYTES_MAX`, before any row of the batch is delivered."""
    if bytes_count > BATCH_BYTES_MAX:
        raise InvalidArgument(
            f"a batch has {bytes_count >> 20} MiB of rows to deliver at once, more than {BATCH_BYTES_MAX >> 20} MiB: bound the "
            "micro-batch (maxRecordsPerTrigger), or write the rows in several batches"
        )


def plain(value: Any, kind: pa.DataType) -> Any:
    """Convert to a type that can travel: times to Unix ns, dates and decimals to text. `kind` separates maps from lists."""
    if isinstance(value, datetime.datetime):
        passed = (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _EPOCH
        return (passed.days * 86_400 + passed.seconds) * _NS + passed.microseconds * 1_000
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if isinstance(value, list):
        if hasattr(kind, "item_type"):
            return {str(name): plain(each, kind.item_type) for name, each in value}
        return [plain(each, kind.value_type) for each in value]
    return value


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    said = options.get(name, str(default))
    if not said.isdecimal():
        raise InvalidArgument(f"option {name}: expected a whole number, 0 or more, got {said!r}")
    return int(said)
