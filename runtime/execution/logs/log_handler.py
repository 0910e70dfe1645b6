"""Log handler: writes `logging` records into the log ring buffer, each with the action that logged it.

It is on the root logger, so the standard library's logging works as usual: levels, loggers, `exc_info`, `extra`. The logging
thread formats the record, since a logged object may change a moment later. There is no lock: a thread interrupted while it
logs delays no other, nor itself when a signal handler logs. A forked child writes to standard error instead.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Set
from datetime import UTC, datetime
from typing import Any, Final

from ...objects.action import Action
from ...observation.log_line import LEVELS, LogLine, cut, encode, words_of
from ..workers.current import current
from .log_ring import RingWriter

#: From this level on a line may use the reserved part of the ring.
URGENT: Final = logging.WARNING
#: Attribute of a record that holds its action: no user's `extra` has this name by accident. Attributes not in `_OWN` were
#: given as `extra`.
ACTION: Final = "_appbackplane_action"
_OWN: Final[Set[str]] = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", ACTION}
_OWN_COUNT: Final = len(vars(logging.makeLogRecord({})))
_FORMATTER: Final = logging.Formatter()


class LogHandler(logging.Handler):
    """Writes the records of the root logger into the ring; in a forked child, to standard error."""

    def __init__(self, ring: RingWriter, backplane: str, generation: int) -> None:
        super().__init__()
        self._ring: RingWriter | None = ring
        self._backplane, self._generation = backplane, generation

    @classmethod
    def install(cls, ring: RingWriter, backplane: str, generation: int, level: int) -> LogHandler:
        """Replace all handlers of the root logger by this one, and set the logger's level."""
        root = logging.getLogger()
        handler = cls(ring, backplane, generation)
        root.handlers[:] = [handler]
        root.setLevel(level)
        os.register_at_fork(after_in_child=handler._leave_ring)
        return handler

    def createLock(self) -> None:
        """Create no lock: the ring takes lines from any number of threads."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """As in the standard library, but without its lock."""
        wanted: Any = self.filter(record)  # a bool; from Python 3.12 on perhaps a record to use instead
        if wanted:
            self.emit(wanted if isinstance(wanted, logging.LogRecord) else record)
        return bool(wanted)

    def emit(self, record: logging.LogRecord) -> None:  # hot: scripts/bench log_call
        """Write the record into the ring. Never fails; waits only for room there, and only if configured to."""
        if self._ring is None:
            text = f"{record.levelname} {record.name}: {_message(record)}"
            sys.stderr.write("\n".join(filter(None, (text, _error(record) if record.exc_info else ""))) + "\n")
            return
        name, fields = record.levelname, record.__dict__
        action = fields.get(ACTION) or current.action
        line = LogLine(
            time=datetime.fromtimestamp(record.created, UTC),
            level=name,
            backplane=self._backplane,
            message=_message(record),
            generation=self._generation,
            logger=record.name,
            where=f"{record.filename}:{record.lineno}",
        )
        if action is not None:
            _say_whose(line, action)
        else:
            line.thread = record.threadName or ""
        if name not in LEVELS:
            line.severity = record.levelno
        if record.exc_info or record.exc_text:
            line.error = _error(record)
        if record.stack_info:
            line.stack = cut(record.stack_info)
        if len(fields) > _OWN_COUNT:
            line.extra = {key: value for key, value in fields.items() if key not in _OWN}
        self._ring.write(encode(line), is_urgent=record.levelno >= URGENT)

    def count_lost(self, count: int) -> None:
        """Add records that were lost before they reached the ring to its count."""
        if self._ring is not None:
            self._ring.count_lost(count)

    def _leave_ring(self) -> None:
        """In a forked child: stop using the parent's ring."""
        self._ring = None


def of_action(action: Action) -> dict[str, Any]:
    """The `extra` that attributes a record to this action, regardless of the thread that logs it."""
    return {ACTION: action}


def _say_whose(line: LogLine, action: Action) -> None:
    object = action.object
    component = getattr(object, "_component", None) or object
    line.component = getattr(component, "component_name", "")
    host = current.host if current.action is action else None  # in another thread it may be getting its span just now
    line.trace = (action.trace if host is None else host.trace_of(action)) or ""
    line.object, line.route = object.name, action.name


def _message(record: logging.LogRecord) -> str:
    try:
        return cut(record.getMessage())
    except Exception as error:  # the edge: a user's arguments do not fit the format string, or fail in str()
        said = record.msg if isinstance(record.msg, str) else words_of(record.msg)
        return cut(f"{said} (cannot be put together: {words_of(error)})")


def _error(record: logging.LogRecord) -> str:
    if record.exc_text:
        return cut(record.exc_text)
    info = record.exc_info
    return cut(_FORMATTER.formatException(info)) if isinstance(info, tuple) and info[0] is not None else ""
