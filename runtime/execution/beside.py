"""Beside: work that others do for a backplane, recorded by it as that of a backplane of its own, BACKPLANE.NAME.

What a Spark cluster executes uses neither the threads nor the CPU of the kernel's backplane. Among that one's actions it would
make it look busier than it is. No other backplane has this name: theirs have no dot.

Whoever reports an ended request never waits: records are queued, and written by the thread that tends the files, which alone
owns the recorder. Up to `PENDING_MAX` are queued; what comes on top is counted as lost, as where the disk is full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from ..objects.action import Action
from ..observation.recorder import Recorder
from ..observation.statistics import OperationStatistics
from .segment_files import SegmentFiles

#: 1 KB each. The files are tended as soon as the first is queued, and a record takes a microsecond.
PENDING_MAX: Final = 100_000


class Beside:
    """Of one name. Accounts and objects of its actions are used for no other recorder, which would number them anew."""

    def __init__(self, recorder: Recorder, files: SegmentFiles, wake: Callable[[], object]) -> None:
        """`wake`: has `flush` called soon."""
        self._recorder, self._files, self._wake = recorder, files, wake
        self._pending: deque[tuple[Action, OperationStatistics, int]] = deque()
        self._threads: int | None = None

    # -- any thread ---------------------------------------------------------------------------------------------------

    def has_threads(self, count: int) -> None:
        """So many work there, from now on: what they are busy for is a share of that."""
        self._threads = count

    def record(self, action: Action, account: OperationStatistics, ended_ns: int) -> None:
        """This has ended, by the clock of this process."""
        if len(self._pending) >= PENDING_MAX:
            self._recorder.lost_count += 1
            return
        self._pending.append((action, account, ended_ns))
        self._wake()

    # -- the thread that tends; `close`: when it has ended ------------------------------------------------------------

    @property
    def count(self) -> int:
        """Records written since the process began."""
        return self._recorder.count

    @property
    def lost_count(self) -> int:
        """Those that were not written."""
        return self._recorder.lost_count

    def turn(self) -> None:
        """As `Recorder.turn`."""
        self._recorder.turn()

    def close(self) -> None:
        """Nothing is recorded any more."""
        self.flush()
        self._recorder.close()

    def flush(self) -> None:
        """Write what is queued."""
        limits = self._files.header.limits
        if self._threads is not None and limits.get("threads") != self._threads:
            self._files.header = replace(self._files.header, limits=limits | {"threads": self._threads})
            self._recorder.turn()
        while self._pending:
            self._recorder.record(*self._pending.popleft())
