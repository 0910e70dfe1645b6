"""Writer: brings the records of intervals to the disk in a thread of its own, because a disk may take its time.

The recording thread holds the backplane's lead, so it leaves each record in a bounded queue, and never waits. Records that the
disk does not take, or that find the queue full, are counted as lost. The reason is logged once, until a write succeeds again.
"""

from __future__ import annotations

import logging
import queue
import threading
from contextlib import suppress
from typing import Any

import msgspec

from .interval import IntervalRecord
from .record_files import RecordFiles

#: A minute's worth at the default interval, 1 KB each: a disk that takes nothing for longer counts as failed.
QUEUE_MAX = 64

log = logging.getLogger("appbackplane.runtime")


class RecordWriter:
    def __init__(self, files: RecordFiles) -> None:
        self._files = files
        self._queue: queue.Queue[IntervalRecord | None] = queue.Queue(QUEUE_MAX)
        #: Records written to the disk, and records that never will be.
        self.recorded_count = self.lost_count = 0
        #: Why records cannot be written; None: they can.
        self.problem: str | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._write_all, name="requests-record", daemon=True)
        self._thread.start()

    def put(self, record: IntervalRecord) -> None:
        """Queue a record to be written soon, or count it as lost; never waits."""
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self.lost_count += 1

    def close(self) -> None:
        """No more records come; queued ones are written, if the process lives so long. Never waits."""
        self._is_closed = True
        with suppress(queue.Full):  # the thread also checks `_is_closed`, once it gets through
            self._queue.put_nowait(None)

    def join(self, limit_s: float) -> bool:
        """Whether all records have been written, after so long at most."""
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def figures(self) -> dict[str, Any]:
        """Counts of records, and the present problem, for the statistics."""
        return {"recorded": self.recorded_count, "lost": self.lost_count, "problem": self.problem}

    def _write_all(self) -> None:
        while True:
            record = self._queue.get()
            if record is not None:
                self._write(record)
            if record is None or (self._is_closed and self._queue.empty()):
                self._files.close()
                return

    def _write(self, record: IntervalRecord) -> None:
        try:
            self._files.write(msgspec.json.encode(record), record.at_ns)
        except OSError as error:
            self.lost_count += 1
            problem = f"{error.filename or self._files.folder}: {error.strerror or error}"
            if problem != self.problem:
                self.problem = problem
                log.warning("%s: cannot record what it does: %s; intervals are counted as lost", record.kernel, problem)
            return
        self.recorded_count += 1
        if self.problem is not None:
            self.problem = None
            log.warning("%s: records what it does again; %d intervals were lost", record.kernel, self.lost_count)
