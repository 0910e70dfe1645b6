"""Log ring: what a backplane has said and its supervisor has not read yet: DX's log pool, a clock buffer (seed 001, section 6).

Bytes between a head and a tail in memory that both processes have mapped. Whoever logs writes at the tail, the supervisor
reads at the head; neither waits for the other, and what the dead have said is still there. Full means that the line is not
taken, and counted in the ring itself; the last eighth is kept for warnings and worse, so that chatter does not cost the
reason. Each line bears its length and checksum: what is not whole (yet) is not read. About 1 us a line.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from collections import deque
from typing import Final
from zlib import crc32

#: Below this one long line would be most of it; above, it is memory of the system's that nobody meant.
RING_BYTES_MIN: Final = 131_072
RING_BYTES_MAX: Final = 1 << 30
#: Lines that wait for a thread which was interrupted while it wrote. One that is not running for long enough that a
#: thousand are said meanwhile has lost the processor; then they are counted.
PENDING_MAX: Final = 1_000
#: Looks at a line that is not whole, until it is given up: the first may have come between two stores.
TORN_LOOKS_MAX: Final = 3
#: The share that is kept for what is urgent.
_RESERVE: Final = 8
#: Words of 8 bytes; what one side writes is in a cache line of its own.
_HEADER_WORDS: Final = 24
_TAIL, _WRITTEN, _LOST, _HEAD, _SLEEPS = 0, 1, 2, 8, 16
_LENGTHS: Final = struct.Struct("<II")
_PADDING: Final = tuple(bytes(count) for count in range(8))


class _Mapped:
    """The memory behind a descriptor."""

    def __init__(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        self._map = mmap.mmap(fd, size)
        self._memory = memoryview(self._map)
        self._words = self._memory[: _HEADER_WORDS * 8].cast("Q")
        self._data = self._memory[_HEADER_WORDS * 8 :]
        self.capacity = len(self._data)

    def unmap(self) -> None:
        """Let go of it."""
        for view in (self._words, self._data, self._memory):
            view.release()
        self._map.close()


class RingWriter(_Mapped):
    """The end of those who log, for all threads of one process."""

    def __init__(self, fd: int, wake_fd: int) -> None:
        """Takes both descriptors over."""
        super().__init__(fd)
        os.close(fd)
        os.set_inheritable(wake_fd, False)
        self._wake_fd = wake_fd
        self._pending: deque[tuple[bytes, bool]] = deque()
        self._refused: deque[None] = deque()
        self._is_written = threading.Lock()
        self._tail = self._words[_TAIL]

    def write(self, line: bytes, *, is_urgent: bool = False) -> None:
        """Put a line behind the others, or count it; never blocks, whoever else is at it, a signal handler too."""
        pending = self._pending
        if len(pending) < PENDING_MAX:
            pending.append((line, is_urgent))
        else:
            self._refused.append(None)
        self._write_what_waits()

    def count_lost(self, count: int) -> None:
        """Lines that were lost before they came here."""
        self._refused.extend([None] * count)
        self._write_what_waits()

    def _write_what_waits(self) -> None:
        pending = self._pending
        # Whoever holds the lock looks for more after letting go of it: what was appended before our try failed is seen.
        while (pending or self._refused) and self._is_written.acquire(False):
            try:
                self._write_pending()
            finally:
                self._is_written.release()
        words = self._words
        if words[_SLEEPS]:
            words[_SLEEPS] = 0
            os.eventfd_write(self._wake_fd, 1)

    def _write_pending(self) -> None:
        while self._refused:
            self._refused.popleft()
            self._words[_LOST] += 1
        while self._pending:
            self._put(*self._pending.popleft())

    def _put(self, line: bytes, is_urgent: bool) -> None:
        words, tail, capacity = self._words, self._tail, self.capacity
        entry = _LENGTHS.pack(len(line), crc32(line)) + line + _PADDING[-len(line) % 8]
        size = len(entry)
        room = capacity - (tail - words[_HEAD])
        if size > (room if is_urgent else room - capacity // _RESERVE):
            words[_LOST] += 1
            return
        at = tail % capacity
        if at + size <= capacity:
            self._data[at : at + size] = entry
        else:
            first = capacity - at
            self._data[at:] = entry[:first]
            self._data[: size - first] = entry[first:]
        self._tail = words[_TAIL] = tail + size
        words[_WRITTEN] += 1  # behind the tail: the reader never misses a line that he cannot see yet


class RingReader(_Mapped):
    """The supervisor's end. Believes nothing that it reads."""

    def __init__(self, bytes_max: int) -> None:
        """Make the memory; `fd` and `wake_fd` are to be inherited by the writer."""
        size = bytes_max - bytes_max % mmap.PAGESIZE
        self.fd = os.memfd_create("appbackplane-log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        #: Readable once something has been written after `sleep`.
        self.wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        super().__init__(self.fd)
        #: Times that what was found there was not a line.
        self.damaged_count = 0
        self._head = 0
        self._torn_looks = 0
        self._read_count = self._passed_over_count = 0

    @property
    def written_count(self) -> int:
        """Lines that found room."""
        return self._words[_WRITTEN]

    @property
    def lost_count(self) -> int:
        """Lines that did not, and those that were passed over with what was damaged."""
        return self._words[_LOST] + self._passed_over_count

    def read(self, bytes_max: int) -> list[bytes]:
        """The lines that have come, of about so many bytes at most."""
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
        """Whether all has been read."""
        return self._head >= self._words[_TAIL]

    def sleep(self) -> None:
        """Have `wake_fd` say when there is more. What was written while this was said shows at the next look."""
        self._words[_SLEEPS] = 1

    def wake(self) -> None:
        """It has said so."""
        try:
            os.eventfd_read(self.wake_fd)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Let go of it all."""
        self.unmap()
        os.close(self.fd)
        os.close(self.wake_fd)

    def _line(self, at: int, length: int) -> bytes:
        at %= self.capacity
        first = bytes(self._data[at : at + length])
        return first if len(first) == length else first + bytes(self._data[: length - len(first)])
