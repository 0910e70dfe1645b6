"""External work: records work that an external system does for a backplane, under a backplane name of its own, BACKPLANE.NAME.

Requests that a Spark cluster executes use neither the threads nor the CPU of the kernel's backplane. Among its actions they
would make it look busier than it is. No real backplane has such a name: theirs have no dot.

Reporting an ended request never waits. Records are queued; only the recording thread, which owns the recorder, writes them.
Up to `PENDING_MAX` are queued; further ones are counted as lost, as on a full disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from ...objects.action import Action
from ...observation.recorder import Recorder
from ...observation.statistics import OperationStatistics
from ..records.segment_files import SegmentFiles

#: Queued records, 1 KB each. The first one wakes the recording thread, which writes one in a microsecond.
PENDING_MAX: Final = 100_000


class ExternalWorkRecorder:
    """The records of one name. Use accounts and objects of its actions for no other recorder, which would renumber them."""

    def __init__(self, recorder: Recorder, files: SegmentFiles, wake: Callable[[], object]) -> None:
        """`wake`: makes the recording thread call `flush` soon; callable from any thread."""
        self._recorder, self._files, self._wake = recorder, files, wake
        self._pending: deque[tuple[Action, OperationStatistics, int]] = deque()
        self._threads: int | None = None

    # -- any thread ---------------------------------------------------------------------------------------------------

    def has_threads(self, count: int) -> None:
        """Set the number of threads of the external system, of which its utilization is a share."""
        self._threads = count

    def record(self, action: Action, account: OperationStatistics, ended_ns: int) -> None:
        """Queue the record of an ended action; `ended_ns` by the clock of this process."""
        if len(self._pending) >= PENDING_MAX:
            self._recorder.lost_count += 1
            return
        self._pending.append((action, account, ended_ns))
        self._wake()

    # -- the recording thread; `close`: when it has ended -------------------------------------------------------------

    @property
    def count(self) -> int:
        """Records written since the process began."""
        return self._recorder.count

    @property
    def lost_count(self) -> int:
        """Records dropped since the process began."""
        return self._recorder.lost_count

    def turn(self) -> None:
        """Continue in a new segment, as `Recorder.turn`."""
        self._recorder.turn()

    def close(self) -> None:
        """Write the queued records and close the recorder."""
        self.flush()
        self._recorder.close()

    def flush(self) -> None:
        """Write the queued records, under a new header if the number of threads has changed."""
        limits = self._files.header.limits
        if self._threads is not None and limits.get("threads") != self._threads:
            self._files.header = replace(self._files.header, limits=limits | {"threads": self._threads})
            self._recorder.turn()
        while self._pending:
            self._recorder.record(*self._pending.popleft())
