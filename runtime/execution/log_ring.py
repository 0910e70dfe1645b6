"""Log ring: what a backplane has said and its supervisor has not read yet: DX's log pool, a clock buffer (seed 001, section 6).

Bytes between a head and a tail in memory that both processes have mapped. Whoever logs writes at the tail, the supervisor
reads at the head; neither waits for the other, and what the dead have said is still there. Full means that the line is not
taken, and counted in the ring itself; the last eighth is kept for warnings and worse, so that chatter does not cost the
reason. Each line bears its length and checksum: what is not whole (yet) is not read. About 1 us a line.

By configuration (`when_full = "wait"`) whoever logs waits for room instead, as in seed 001: a line is lost only if the reader
has read nothing for WAIT_MAX_S.
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
#: How long a log call waits for room, where it waits. A supervisor that runs makes some within a tenth of a second. One that
#: has been stopped for longer does not read: until it does again, lines are lost without waiting.
WAIT_MAX_S: Final = 10.0
#: Between two looks whether there is room: some hundred lines are read in this time.
WAIT_STEP_S: Final = 0.001
#: Looks at a line that is not whole, until it is given up: the first may have come between two stores.
TORN_LOOKS_MAX: Final = 3
#: The share that is kept for what is urgent.
_RESERVE: Final = 8
#: Words of 8 bytes; what one side writes is in a cache line of its own.
_HEADER_WORDS: Final = 24
_TAIL, _WRITTEN, _LOST, _HEAD, _SLEEPS = 0, 1, 2, 8, 16
_LENGTHS: Final = struct.Struct("<II")
_PADDING: Final = tuple(bytes(count) for count in range(8))


class _Line:
    """A line on its way into the ring."""

    __slots__ = ("data", "is_settled", "is_urgent")

    def __init__(self, data: bytes, is_urgent: bool) -> None:
        self.data, self.is_urgent = data, is_urgent
        #: It is in the ring, or counted as lost.
        self.is_settled = False


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

    def __init__(self, fd: int, wake_fd: int, *, waits: bool = False) -> None:
        """Takes both descriptors over. `waits`: for room, instead of losing a line."""
        super().__init__(fd)
        self._waits = waits
        #: The head when somebody had waited in vain: until it moves, nobody waits.
        self._unread_head = -1
        os.close(fd)
        os.set_inheritable(wake_fd, False)
        self._wake_fd = wake_fd
        self._pending: deque[_Line] = deque()
        self._refused: deque[None] = deque()
        self._is_written = threading.Lock()
        #: The thread that holds it; 0: none.
        self._written_by = 0
        self._tail = self._words[_TAIL]

    def write(self, line: bytes, *, is_urgent: bool = False) -> None:
        """Put a line behind the others, or count it; waits only for room, if at all, whoever else is at it."""
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
        """Lines that were lost before they came here."""
        self._refused.extend([None] * count)
        self._write_what_waits()

    def _write_what_waits(self) -> None:
        pending = self._pending
        # Whoever holds the lock looks for more after letting go of it: what was appended before our try failed is seen.
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
        gate = threading.Lock()  # of its own: an event is one lock for all, also for a signal handler in its middle
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
        """Whether there are lines left that wait for room."""
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
        """False: it is to wait for room."""
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
        words[_WRITTEN] += 1  # behind the tail: the reader never misses a line that he cannot see yet
        return True


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
