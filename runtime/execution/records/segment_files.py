"""SegmentFiles: makes, seals and removes the files that a recorder writes (observation/segments.py): one folder, one writer.

A file is fully allocated before use, so that a full disk is an error here and does not kill the process. It is mapped with its
pages in place, so that the hot path meets no page fault. That takes 2 to 5 ms, but the recording thread makes the next file
while the second half of this one is written; only if it falls behind does the writer wait.
Retention removes files older than `age`, or beyond `size` in total, the oldest first; never the current one.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from ...observation import segments
from ...observation.recorder import SegmentRoom
from ...observation.segments import SEAL_OFFSET, SegmentHeader
from ...process_config import RecordPolicy

#: A segment is closed after this even if it is not full, so that it can be compacted, and removed by age.
TURN_NS = 600 * 1_000_000_000
#: Wait after a failure to make a file: each attempt costs a system call or two, in the hot path.
RETRY_NS = 1_000_000_000
_PREPARED = "next.tmp"
#: Bytes read at a time to find the end of a killed process's last record.
_LOOK_BYTES = 1 << 20
_SEAL = struct.Struct("<q")

log = logging.getLogger("appbackplane.runtime")


class SegmentFiles:
    """The segments of one backplane's actions, or of one of its topics."""

    def __init__(
        self,
        folder: Path,
        header: SegmentHeader,
        suffix: str,
        policy: RecordPolicy,
        now_ns: Callable[[], int],
        unix_offset_ns: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        """`header`: number and time are filled in here. `unix_offset_ns`: add it to `now_ns` to get Unix time. `wake`: makes
        the recording thread call `tend` soon. `tend` makes the folder. Raises OSError if the folder cannot be read.
        """
        self._folder, self._suffix, self._policy = folder, suffix, policy
        #: Header of the segments made from now on.
        self.header = header
        self._now_ns, self._unix_offset_ns, self._wake = now_ns, unix_offset_ns, wake
        (folder / _PREPARED).unlink(missing_ok=True)
        self._number = max((number for number, _ in segments.files_in(folder, suffix)), default=0)
        #: The last segment of an earlier process, which may still have its allocated size; None: it has been checked.
        self._left: Path | None = self._path(self._number) if self._number else None
        #: Guards all fields below, which the recorder and the recording thread share.
        self._lock = threading.Lock()
        self._is_wanted = False
        self._prepared: mmap.mmap | None = None
        self._current: tuple[SegmentRoom, mmap.mmap, int] | None = None
        self._done: list[tuple[Path, mmap.mmap, int, int]] = []
        self._retry_ns = 0
        #: Why nothing can be recorded; None while there is no problem.
        self.problem: str | None = None
        self.topic = header.topic

    # -- for the recorder, which holds the lead ------------------------------------------------------------------------

    def take(self, least: int = 0) -> SegmentRoom | None:
        """The next segment, of `least` bytes or more, with its header written; None: none can be made now."""
        now_ns = self._now_ns()
        size = max(self._policy.segment, least)
        with self._lock:
            try:
                memory, self._prepared = self._prepared, None
                if memory is None or len(memory) < size:
                    if now_ns < self._retry_ns:
                        return None
                    memory = self._make(size)
                unix_ns = self._unix_offset_ns()
                header = replace(self.header, number=self._number + 1, created_ns=now_ns + unix_ns)
                head = segments.pack_header(header)
                memory[: len(head)] = head
                os.rename(self._folder / _PREPARED, self._path(self._number + 1))
            except OSError as error:
                self._failed(error, now_ns)
                return None
            self.problem = None
            self._number += 1
            room = SegmentRoom(memory, size, self._number, unix_ns)
            self._current = room, memory, now_ns
            return room

    def prepare(self) -> None:
        """Have the recording thread make the next file, which will be needed soon."""
        self._is_wanted = True
        self._wake()

    def finished(self, room: SegmentRoom, count: int, end: int) -> None:
        """The recorder is done with a segment, which holds `count` records in its first `end` bytes."""
        with self._lock:
            assert self._current is not None and self._current[0] is room, "a segment that was not taken"
            self._done.append((self._path(self._number), self._current[1], count, end))
            self._current = None
        self._wake()

    # -- for the recording thread --------------------------------------------------------------------------------------

    def tend(self) -> bool:
        """Seal finished segments, make the next file if needed, remove old ones. Returns whether the current one is old."""
        now_ns = self._now_ns()
        try:
            return self._tend(now_ns)
        except OSError as error:  # our files or folder were removed or locked
            self._failed(error, now_ns)
            return False

    def _tend(self, now_ns: int) -> bool:
        self._make_folder()
        with self._lock:
            done, self._done = self._done, []
            current = self._current
            is_needed = self._is_wanted and self._prepared is None and now_ns >= self._retry_ns
        for path, memory, count, end in done:
            _seal(path, memory, count, end)
        if self._left is not None:
            left, self._left = self._left, None
            with suppress(FileNotFoundError):
                _shrink(left)
        if is_needed:
            with self._lock:
                if self._prepared is None:
                    try:
                        self._prepared = self._make(self._policy.segment)
                        self._is_wanted = False
                    except OSError as error:
                        self._failed(error, now_ns)
        self._retain(now_ns + self._unix_offset_ns())
        return current is not None and now_ns - current[2] >= min(TURN_NS, self._policy.age_ns // 2)

    def close(self) -> None:
        """Seal the finished segments and remove the prepared file. Close the recorder first."""
        for path, memory, count, end in self._done:
            _seal(path, memory, count, end)
        self._done.clear()
        if self._prepared is not None:
            self._prepared.close()
            (self._folder / _PREPARED).unlink(missing_ok=True)

    def _make_folder(self) -> None:
        """Made before the first record, so that a reader sees that the topic is recorded but has no message yet."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _make(self, size: int) -> mmap.mmap:
        self._make_folder()
        path = self._folder / _PREPARED
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
            memory = mmap.mmap(fd, size, flags=mmap.MAP_SHARED)
            # Page by page: MAP_POPULATE holds the GIL all the time, 2 ms for 8 MiB, 0.2 s for 1 GiB.
            for at in range(0, size, mmap.PAGESIZE):
                memory[at] = 0
            return memory
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)

    def _failed(self, error: OSError, now_ns: int) -> None:
        self._retry_ns = now_ns + RETRY_NS
        problem = f"{self._folder}: {error.strerror or error}"
        if problem != self.problem:
            self.problem = problem
            log.warning("cannot record: %s; records are counted as lost until this is fixed", problem)

    def _retain(self, unix_ns: int) -> None:
        with self._lock:
            current = self._path(self._number)
        found = []
        for _, path in segments.files_in(self._folder, self._suffix):
            with suppress(FileNotFoundError):  # it was removed meanwhile
                found.append((path, path.stat()))
        left = sum(told.st_size for _, told in found)
        for path, told in found:
            if path == current:
                break
            is_old = told.st_mtime_ns < unix_ns - self._policy.age_ns
            if not is_old and left <= self._policy.size:
                break
            path.unlink(missing_ok=True)
            left -= told.st_size

    def _path(self, number: int) -> Path:
        return self._folder / segments.file_name(number, self._suffix)


def _shrink(path: Path) -> None:
    """Free the allocated but unused end of a killed process's segment: else, after a few kills, retention removes all others.

    Written bytes stay, torn or not, so that readers find the same; the file keeps its modification time.
    """
    with path.open("rb+") as file:
        told = os.fstat(file.fileno())
        if (
            told.st_size < segments.HEADER_BYTES
            or _SEAL.unpack_from(file.read(SEAL_OFFSET + _SEAL.size), SEAL_OFFSET)[0] >= 0
        ):
            return  # it is sealed: its process was not killed
        if path.suffix == segments.MESSAGES_SUFFIX:
            file.seek(0)
            end = _messages_end(file.read())
        else:
            end, at = segments.NAMES_END, told.st_size
            while at > segments.NAMES_END:
                begin = max(segments.NAMES_END, at - _LOOK_BYTES)
                file.seek(begin)
                if written := len(file.read(at - begin).rstrip(b"\0")):
                    records = -(-(begin + written - segments.NAMES_END) // segments.RECORD_BYTES)
                    end = segments.NAMES_END + records * segments.RECORD_BYTES
                    break
                at = begin
        if end < told.st_size:
            file.truncate(end)
            os.utime(file.fileno(), ns=(told.st_atime_ns, told.st_mtime_ns))


def _messages_end(data: bytes) -> int:
    """The end of the last complete message, or of later non-zero bytes, rounded up to 8."""
    at = segments.HEADER_BYTES
    while (found := segments.unpack_message(data, at)) is not None:
        at = found[3]
    return max(at, -(-len(data.rstrip(b"\0")) // 8) * 8)


def _seal(path: Path, memory: mmap.mmap, count: int, end: int) -> None:
    """Write the number of records into a segment and truncate it behind them, unless the file was removed."""
    _SEAL.pack_into(memory, SEAL_OFFSET, count)
    memory.close()
    if path.exists():
        os.truncate(path, end)
