"""Instrumentation: records each interval of a kernel, on its topic and on the disk.

A timer of the kernel calls `record` every `policy.record_interval`, with the backplane's lead: it takes 25 us, and never
waits. An interval in which nothing happened, with nothing there, is recorded once, so that a reader sees the fall to nothing.
The idle ones after it are left out: a kernel that is idle over night would push its records out of the bounded files.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...observation.segments import RECORDS
from ..ledger.figures import Figures
from ..policy import KernelPolicy
from .described import described
from .interval import IntervalRecord, SettingsChange, between
from .record_files import RecordFiles
from .writer import RecordWriter

#: Changes of settings kept for one interval: of more in a second, the last ones matter.
CHANGES_MAX = 100
#: Seconds that a kernel which goes down waits for the disk to take its last records: a healthy one needs milliseconds.
CLOSE_S = 0.5

log = logging.getLogger("appbackplane.runtime")


class Instrumentation:
    """Records the intervals of one kernel, from when it comes up until it goes down."""

    def __init__(
        self,
        kernel: str,
        backplane: str,
        run_dir: Path,
        policy: KernelPolicy,
        look: Callable[[], Figures],
        unix_ns: Callable[[], int],
        publish: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        """`look`: returns figures, after which peaks begin anew; `publish`: sends data on a topic."""
        self._kernel, self._backplane, self._run_dir = kernel, backplane, run_dir
        self._look, self._unix_ns, self._publish = look, unix_ns, publish
        self._before = look()
        self._changes: deque[SettingsChange] = deque(maxlen=CHANGES_MAX)
        #: Guards the writer: settings change in any thread.
        self._mutex = threading.Lock()
        self._writer: RecordWriter | None = None
        self._place: tuple[object, ...] = ()
        self.topic = f"{kernel}.interval"
        #: The last interval; None: there was none yet.
        self.last: IntervalRecord | None = None
        self.follow(policy)

    def record(self) -> None:
        """An interval has ended: record it. With the lead."""
        figures = self._look()
        changes = [self._changes.popleft() for _ in range(len(self._changes))]
        record = between(self._before, figures, self._kernel, self._backplane, self._unix_ns(), changes)
        self._before = figures
        was_idle = self.last is not None and self.last.is_idle
        self.last = record
        if was_idle and record.is_idle:
            return
        with self._mutex:
            if self._writer is not None:
                self._writer.put(record)
        self._publish(self.topic, msgspec.to_builtins(record))

    def changed(self, before: KernelPolicy, after: KernelPolicy, reason: str) -> None:
        """Note changed settings, for the record of this interval. Any thread."""
        settings = {
            name: (getattr(before, name), getattr(after, name))
            for name in KernelPolicy.__struct_fields__
            if getattr(before, name) != getattr(after, name)
        }
        if settings:
            self._changes.append(SettingsChange(at_ns=self._unix_ns(), settings=settings, reason=reason))
        self.follow(after)

    def follow(self, policy: KernelPolicy) -> None:
        """Write records as this policy says: where, and as many; or none. Any thread."""
        place = (policy.record, policy.record_dir, policy.record_size, policy.record_age)
        with self._mutex:
            if place == self._place:
                return
            writer = (
                RecordWriter(self._files(policy)) if policy.record else None
            )  # if this raises, the present one goes on
            if self._writer is not None:
                self._writer.close()
            self._place, self._writer = place, writer

    def close(self) -> None:
        """The kernel goes down: record its work since the last interval, and wait for the disk, but not for long."""
        self.record()
        if self._writer is not None:
            self._writer.close()
            if not self._writer.join(CLOSE_S):
                log.warning("records of the last intervals are not on the disk after %g s, and may be lost", CLOSE_S)

    def figures(self, figures: Figures, policy: KernelPolicy) -> dict[str, Any]:
        """Figures for the statistics of the backplane. Any thread."""
        writer = self._writer
        return described(figures, policy) | {"recording": None if writer is None else writer.figures()}

    def _files(self, policy: KernelPolicy) -> RecordFiles:
        root = None
        folder = Path(policy.record_dir).expanduser()
        if not policy.record_dir:
            root = self._run_dir
            folder = root / RECORDS
        folder = folder / self._backplane / self.topic
        return RecordFiles(folder, policy.record_size, round(policy.record_age * 1e9), root)
