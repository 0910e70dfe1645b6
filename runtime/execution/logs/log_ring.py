"""Log ring buffer: lines that the supervisor has not read yet (DX's log pool, a clock buffer: seed 001, section 6).

Both processes map the memory. The logging process writes at the tail, the supervisor reads at the head. Neither waits for the
other, and the lines of a dead process stay readable. A full ring drops a line and counts it in the ring itself; the last
eighth is reserved for warnings and worse, so that chatter does not displace the reason of a failure. Each line bears its
length and checksum, so an incomplete one is not read. About 1 us a line.

With `when_full = "wait"` a log call waits for room instead, as in seed 001: a line is lost only if the reader has read nothing
for `WAIT_MAX_S`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from collections import deque
from contextlib import suppress
from typing import Final
from zlib import crc32

#: Bounds of the configured size. In a smaller ring one long line would fill most of it; a larger one is surely a mistake.
RING_BYTES_MIN: Final = 131_072
RING_BYTES_MAX: Final = 1 << 30
#: Lines queued behind a thread that was interrupted while it wrote. If a thousand come meanwhile, that thread has lost the
#: processor; further lines are then counted as lost.
PENDING_MAX: Final = 1_000
#: How long a log call waits for room, if configured to. A running supervisor makes room within a tenth of a second. A stopped
#: one does not read: once a log call has waited in vain, lines are dropped without waiting until the supervisor reads again.
WAIT_MAX_S: Final = 10.0
#: Interval between two checks for room: the supervisor reads some hundred lines in this time.
WAIT_STEP_S: Final = 0.001
#: Reads of an incomplete line before it is given up: the first read may have come between two stores.
TORN_LOOKS_MAX: Final = 3
#: One part in this many is reserved for urgent lines.
_RESERVE: Final = 8
#: Words of 8 bytes; each side writes in a cache line of its own.
_HEADER_WORDS: Final = 24
_TAIL, _WRITTEN, _LOST, _HEAD, _SLEEPS = 0, 1, 2, 8, 16
_LENGTHS: Final = struct.Struct("<II")
_PADDING: Final = tuple(bytes(count) for count in range(8))


class _Line:
    """A line that waits to be written to the ring."""

    __slots__ = ("data", "is_settled", "is_urgent")

    def __init__(self, data: bytes, is_urgent: bool) -> None:
        self.data, self.is_urgent = data, is_urgent
        #: Whether it is in the ring, or counted as lost.
        self.is_settled = False


class _Mapped:
    """The mapped memory of a ring; base of its reader and its writer."""

    def __init__(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        self._map = mmap.mmap(fd, size)
        self._memory = memoryview(self._map)
        self._words = self._memory[: _HEADER_WORDS * 8].cast("Q")
        self._data = self._memory[_HEADER_WORDS * 8 :]
        self.capacity = len(self._data)

    def unmap(self) -> None:
        """Release the views and the mapping; the descriptor stays open."""
        for view in (self._words, self._data, self._memory):
            view.release()
        self._map.close()


class RingWriter(_Mapped):
    """The writing end, used by all threads of one process."""

    def __init__(self, fd: int, wake_fd: int, *, waits: bool = False) -> None:
        """Take over both descriptors. `waits`: a log call waits for room instead of dropping the line."""
        super().__init__(fd)
        self._waits = waits
        #: The head when a log call had waited in vain: until it moves, none waits again.
        self._unread_head = -1
        os.close(fd)
        os.set_inheritable(wake_fd, False)
        self._wake_fd = wake_fd
        self._pending: deque[_Line] = deque()
        self._refused: deque[None] = deque()
        self._is_written = threading.Lock()
        #: The thread that holds `_is_written`; 0: none.
        self._written_by = 0
        self._tail = self._words[_TAIL]

    def write(self, line: bytes, *, is_urgent: bool = False) -> None:
        """Append a line, or count it as lost. Never waits for another thread; waits for room only if configured to."""
        pending = self._pending
        if len(pending) >= PENDING_MAX:
            self._refused.append(None)
            self._write_what_waits()
            return
        entry = _Line(line, is_urgent)
        pending.append(entry)
        self._write_what_waits()
        if self._waits and not entry.is_settled:
            self._wait_for_room(entry)

    def count_lost(self, count: int) -> None:
        """Add lines that were lost before they came here to the count."""
        self._refused.extend([None] * count)
        self._write_what_waits()

    def _write_what_waits(self) -> None:
        pending = self._pending
        # The holder of the lock checks for more lines after releasing it, so a line appended before our failed try is seen.
        is_full = False
        while (pending or self._refused) and not is_full and self._is_written.acquire(False):
            self._written_by = threading.get_ident()
            try:
                is_full = self._write_pending()
            finally:
                self._written_by = 0
                self._is_written.release()
        words = self._words
        if words[_SLEEPS]:
            words[_SLEEPS] = 0
            os.eventfd_write(self._wake_fd, 1)

    def _wait_for_room(self, line: _Line) -> None:
        # Not an Event: its one lock could be held by the code that a signal handler interrupted.
        gate = threading.Lock()
        gate.acquire()
        for _ in range(round(WAIT_MAX_S / WAIT_STEP_S)):
            if self._written_by == threading.get_ident():
                return  # a signal handler, in the middle of `_write_pending`, which goes on when this has returned
            gate.acquire(timeout=WAIT_STEP_S)
            self._write_what_waits()
            if line.is_settled:
                return
        self._unread_head = self._words[_HEAD]
        self._write_what_waits()

    def _write_pending(self) -> bool:
        """Write the pending lines and the count of lost ones; whether lines are left that wait for room."""
        while self._refused:
            self._refused.popleft()
            self._words[_LOST] += 1
        while self._pending:
            line = self._pending.popleft()
            if not self._put(line.data, line.is_urgent):
                self._pending.appendleft(line)
                return True
            line.is_settled = True
        return False

    def _put(self, line: bytes, is_urgent: bool) -> bool:
        """Write one line, or count it as lost; False: it must wait for room."""
        words, tail, capacity = self._words, self._tail, self.capacity
        entry = _LENGTHS.pack(len(line), crc32(line)) + line + _PADDING[-len(line) % 8]
        size = len(entry)
        reserve = 0 if is_urgent else capacity // _RESERVE
        if size > capacity - (tail - words[_HEAD]) - reserve:
            if self._waits and words[_HEAD] != self._unread_head and size <= capacity - reserve:
                return False
            words[_LOST] += 1
            return True
        at = tail % capacity
        if at + size <= capacity:
            self._data[at : at + size] = entry
        else:
            first = capacity - at
            self._data[at:] = entry[:first]
            self._data[: size - first] = entry[first:]
        self._tail = words[_TAIL] = tail + size
        words[_WRITTEN] += 1  # after the tail: the reader never counts a line that it cannot see yet
        return True


class RingReader(_Mapped):
    """The reading end, for the supervisor. Checks everything that it reads."""

    def __init__(self, bytes_max: int) -> None:
        """Create the memory, of at most `bytes_max`. The writer inherits `fd` and `wake_fd`."""
        size = bytes_max - bytes_max % mmap.PAGESIZE
        self.fd = os.memfd_create("appbackplane-log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        #: Readable once something has been written after `sleep`.
        self.wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        super().__init__(self.fd)
        #: Times that the bytes found were not a valid line.
        self.damaged_count = 0
        self._head = 0
        self._torn_looks = 0
        self._read_count = self._passed_over_count = 0

    @property
    def written_count(self) -> int:
        """Lines written to the ring since it was created."""
        return self._words[_WRITTEN]

    @property
    def lost_count(self) -> int:
        """Lines that found no room, and lines skipped together with damaged bytes."""
        return self._words[_LOST] + self._passed_over_count

    def read(self, bytes_max: int) -> list[bytes]:
        """The unread lines, up to about `bytes_max` bytes. Frees their room."""
        words, data, capacity = self._words, self._data, self.capacity
        written = words[_WRITTEN]
        head, tail = self._head, words[_TAIL]
        end = min(tail, head + bytes_max)
        lines: list[bytes] = []
        while head < end:
            at = head % capacity
            length, checksum = _LENGTHS.unpack_from(data, at)  # never across the end: entries begin at multiples of 8
            size = (_LENGTHS.size + length + 7) & ~7
            line = self._line(at + _LENGTHS.size, length) if size <= min(tail - head, capacity) else None
            if line is None or crc32(line) != checksum:
                self._torn_looks += 1
                if self._torn_looks >= TORN_LOOKS_MAX:
                    self._torn_looks = 0
                    self.damaged_count += 1
                    head = tail
                    self._passed_over_count = max(self._passed_over_count, written - self._read_count)
                break
            self._torn_looks = 0
            lines.append(line)
            self._read_count += 1
            head += size
        self._head = words[_HEAD] = head
        return lines

    def is_empty(self) -> bool:
        """Whether all lines have been read."""
        return self._head >= self._words[_TAIL]

    def sleep(self) -> None:
        """Have the writer wake `wake_fd` for the next line. Check `is_empty` afterwards: a line may have come meanwhile."""
        self._words[_SLEEPS] = 1

    def wake(self) -> None:
        """Reset `wake_fd` after it was signalled."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.wake_fd)

    def close(self) -> None:
        """Unmap the memory and close both descriptors."""
        self.unmap()
        os.close(self.fd)
        os.close(self.wake_fd)

    def _line(self, at: int, length: int) -> bytes:
        at %= self.capacity
        first = bytes(self._data[at : at + length])
        return first if len(first) == length else first + bytes(self._data[: length - len(first)])
