"""Async log: what the runtime has to say is put into words, and handed to handlers, by a thread of its own.

The runtime logs while it holds the lead. Our own handler (log_handler.py) never blocks, but a traceback takes it 100 us, and
users add handlers of theirs: one that blocks, that fails, or that waits for a lock whose holder waits for the lead (a
handler that publishes what is logged) would stop the whole backplane. So records go into a bounded queue, with the action
in which they were said; what does not fit is counted, and the count is said as soon as there is room. About 3 us a record.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from .current import current
from .log_handler import ACTION

#: Whose records these are: all of ours. Users' own loggers write in the thread that logs, as they are used to.
LOGGER = "appbackplane"
#: Records kept for a reader who does not read. Reports are limited to one a subject and interval: this is a lot of trouble.
RECORDS_MAX = 1_000
#: How long the end of the process waits for what is still to be written.
FLUSH_TIMEOUT_S = 1.0


class AsyncLog(logging.Handler):
    """Stands in front of all handlers above `logger`."""

    def __init__(self, logger: logging.Logger, count_lost: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._logger, self._count_lost = logger, count_lost
        self._queue: queue.Queue[logging.LogRecord | threading.Event] = queue.Queue(RECORDS_MAX)
        self._left_out_count = 0
        #: Whether all that was said by the last `flush` has been written.
        self.is_written = True
        threading.Thread(target=self._write, name="log", daemon=True).start()

    @classmethod
    def install(cls, name: str = LOGGER, count_lost: Callable[[int], None] | None = None) -> AsyncLog:
        """Take over from the handlers above the logger of this name. `count_lost` is told what found no room."""
        logger = logging.getLogger(name)
        handler = cls(logger, count_lost)
        logger.addHandler(handler)
        logger.propagate = False
        return handler

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it for the thread; never blocks."""
        record.__dict__.setdefault(ACTION, current.action)
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._left_out_count += 1

    def flush(self) -> None:
        """Wait until all has been written, for a second at most."""
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
    """Before the process ends: have all written that has been said. False: nobody reads it."""
    handlers = logging.getLogger(LOGGER).handlers
    for handler in handlers:
        handler.flush()
    return all(handler.is_written for handler in handlers if isinstance(handler, AsyncLog))
