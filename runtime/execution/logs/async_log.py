"""Async log: a separate thread formats the runtime's log records and passes them to the handlers.

The runtime logs while it holds the lead. Our own handler (log_handler.py) never blocks, but formats a traceback in 100 us, and
users add handlers. One that blocks, fails, or waits for a lock whose holder waits for the lead (a handler that publishes log
records) would stop the whole backplane. So records go into a bounded queue, each with its action. Records that do not fit are
counted, and the count is logged as soon as there is room. About 3 us a record.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from ..workers.current import current
from .log_handler import ACTION

#: All our own loggers are below this one. Users' loggers write in the thread that logs, as usual.
LOGGER = "appbackplane"
#: Records queued for slow handlers. Reports are limited to one a subject and interval, so even great trouble fits.
RECORDS_MAX = 1_000
#: How long the end of the process waits for queued records to be written.
FLUSH_TIMEOUT_S = 1.0


class AsyncLog(logging.Handler):
    """Queues the records of `logger`; its thread passes them to all handlers above that logger."""

    def __init__(self, logger: logging.Logger, count_lost: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._logger, self._count_lost = logger, count_lost
        self._queue: queue.Queue[logging.LogRecord | threading.Event] = queue.Queue(RECORDS_MAX)
        self._left_out_count = 0
        #: Whether all records up to the last `flush` have been written.
        self.is_written = True
        threading.Thread(target=self._write, name="log", daemon=True).start()

    @classmethod
    def install(cls, name: str = LOGGER, count_lost: Callable[[int], None] | None = None) -> AsyncLog:
        """Put it between the logger of this name and the handlers above. `count_lost` gets the number of dropped records."""
        logger = logging.getLogger(name)
        handler = cls(logger, count_lost)
        logger.addHandler(handler)
        logger.propagate = False
        return handler

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record, with its action, for the thread; never blocks."""
        record.__dict__.setdefault(ACTION, current.action)
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._left_out_count += 1

    def flush(self) -> None:
        """Wait until all queued records have been written, `FLUSH_TIMEOUT_S` each for room and for the writing."""
        written = threading.Event()
        try:
            self._queue.put(written, timeout=FLUSH_TIMEOUT_S)
        except queue.Full:
            self.is_written = False
        else:
            self.is_written = written.wait(FLUSH_TIMEOUT_S)

    def _write(self) -> None:
        while True:
            record = self._queue.get()
            if isinstance(record, threading.Event):
                record.set()
                continue
            self._pass_on(record)
            left_out, self._left_out_count = self._left_out_count, 0
            if left_out and self._count_lost is not None:
                self._count_lost(left_out)
            elif left_out:
                text = f"{left_out} lines were left out: they came faster than they were read"
                self._pass_on(logging.LogRecord(LOGGER, logging.WARNING, __file__, 0, text, None, None))

    def _pass_on(self, record: logging.LogRecord) -> None:
        above = self._logger.parent
        assert above is not None, "the root logger has nobody above it"
        try:
            above.callHandlers(record)
        except Exception:  # the edge: a user's handler; the next record may fare better
            self.handleError(record)


def last_words() -> bool:
    """Before the process ends: write all queued records. False: a handler did not take them in time."""
    handlers = logging.getLogger(LOGGER).handlers
    for handler in handlers:
        handler.flush()
    return all(handler.is_written for handler in handlers if isinstance(handler, AsyncLog))
