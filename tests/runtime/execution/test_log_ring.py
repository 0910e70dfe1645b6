"""The log ring: whoever logs never waits, what is lost is counted exactly, and what the dead have said is still there."""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.runtime.execution.logs import log_ring
from appbackplane.runtime.execution.logs.log_ring import RING_BYTES_MIN, TORN_LOOKS_MAX, RingReader, RingWriter
from tests.waiting import LIMIT_S, wait_until

ALL = 1 << 30


def pair(size: int = RING_BYTES_MIN) -> tuple[RingReader, RingWriter]:
    """Both ends, in one process."""
    reader = RingReader(size)
    return reader, RingWriter(os.dup(reader.fd), os.dup(reader.wake_fd))


@pytest.fixture
def ends() -> Iterator[tuple[RingReader, RingWriter]]:
    """Both ends, closed afterwards."""
    reader, writer = pair()
    yield reader, writer
    writer.unmap()
    reader.close()


class Twin:
    """A ring as one would write it without memory to share: a queue, and the bytes in it."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.lines, self.used, self.lost = capacity, deque[bytes](), 0, 0

    def write(self, line: bytes, is_urgent: bool) -> None:
        size = 8 + -(-len(line) // 8) * 8
        if self.used + size > self.capacity - (0 if is_urgent else self.capacity // 8):
            self.lost += 1
        else:
            self.lines.append(line)
            self.used += size

    def read(self) -> list[bytes]:
        found = list(self.lines)
        self.lines.clear()
        self.used = 0
        return found


SIZES = st.sampled_from([1, 8, 1_000, 5_000, 16_000, 30_000]) | st.integers(1, 40_000)
STEPS = st.lists(st.none() | st.tuples(SIZES, st.booleans()), max_size=60)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_it_behaves_as_a_bounded_queue(steps: list[tuple[int, bool] | None]) -> None:
    """Round and round, across its end: lines come out whole and in order, and every other one is counted."""
    reader, writer = pair()
    twin = Twin(reader.capacity)
    try:
        for number, step in enumerate([*steps, None]):
            if step is None:
                assert reader.read(ALL) == twin.read()
                assert reader.is_empty()
            else:
                line = bytes([33 + number % 90]) * step[0]
                writer.write(line, is_urgent=step[1])
                twin.write(line, step[1])
            assert reader.lost_count == twin.lost
    finally:
        writer.unmap()
        reader.close()


def test_room_is_kept_for_what_is_urgent(ends: tuple[RingReader, RingWriter]) -> None:
    """The one line that says why must not be lost for a thousand that say nothing."""
    reader, writer = ends
    for _ in range(RING_BYTES_MIN // 100):
        writer.write(b"x" * 100)
    assert reader.lost_count > 0
    reason = b"the reason" * 1_000
    writer.write(reason, is_urgent=True)
    assert reader.read(ALL)[-1] == reason


@pytest.fixture
def waiting() -> Iterator[tuple[RingReader, RingWriter]]:
    """Both ends; who logs waits for room."""
    reader = RingReader(RING_BYTES_MIN)
    writer = RingWriter(os.dup(reader.fd), os.dup(reader.wake_fd), waits=True)
    yield reader, writer
    writer.unmap()
    reader.close()


@pytest.mark.parametrize("threads_count", [1, 4])
def test_who_is_to_wait_for_room_loses_nothing(waiting: tuple[RingReader, RingWriter], threads_count: int) -> None:
    """`when_full = "wait"`: ten times what there is room for, and every line is read, each thread's in order."""
    reader, writer = waiting
    count, found = 10 * RING_BYTES_MIN // 1_000 // threads_count, list[bytes]()

    def log(thread: int) -> None:
        for number in range(count):
            writer.write(b"%d %d " % (thread, number) + b"x" * 1_000, is_urgent=not number % 7)

    threads = [threading.Thread(target=log, args=(number,)) for number in range(threads_count)]
    for thread in threads:
        thread.start()

    def has_read_all() -> bool:
        found.extend(reader.read(30_000))
        return len(found) == count * threads_count

    wait_until(has_read_all, lambda: f"{len(found)} lines are read, {reader.lost_count} are lost")
    for thread in threads:
        thread.join(LIMIT_S)
    assert reader.lost_count == 0
    for thread in range(threads_count):
        own = [int(line.split()[1]) for line in found if line.startswith(b"%d " % thread)]
        assert own == list(range(count))


def test_who_has_waited_for_long_loses_the_line_and_the_next_do_not_wait(
    waiting: tuple[RingReader, RingWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that is stopped must not stop its system. Once it reads again, lines wait again."""
    reader, writer = waiting
    monkeypatch.setattr(log_ring, "WAIT_MAX_S", 5 * log_ring.WAIT_STEP_S)
    waits: list[object] = []
    wait_for_room = RingWriter._wait_for_room

    def waited(self: RingWriter, line: Any) -> None:
        waits.append(line)
        wait_for_room(self, line)

    monkeypatch.setattr(RingWriter, "_wait_for_room", waited)

    def fill() -> None:
        before = len(waits)
        while len(waits) == before:
            writer.write(b"x" * 1_000)

    fill()
    assert reader.lost_count == 1
    for _ in range(3):
        writer.write(b"x" * 1_000)
    assert (len(waits), reader.lost_count) == (1, 4)
    assert reader.read(ALL)
    fill()
    assert (len(waits), reader.lost_count) == (2, 5)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One for each time that a writer has looked for room."""
    found: list[None] = []
    write_what_waits = RingWriter._write_what_waits

    def looked(self: RingWriter) -> None:
        found.append(None)
        write_what_waits(self)

    monkeypatch.setattr(RingWriter, "_write_what_waits", looked)
    monkeypatch.setattr(log_ring, "WAIT_MAX_S", 5 * log_ring.WAIT_STEP_S)
    return found


def test_a_line_that_never_fits_is_not_waited_for(waiting: tuple[RingReader, RingWriter], looks: list[None]) -> None:
    """Though the ring is empty."""
    reader, writer = waiting
    writer.write(b"x" * reader.capacity)
    assert (reader.lost_count, len(looks)) == (1, 1)


def test_a_signal_handler_does_not_wait_for_the_code_that_it_interrupts(
    waiting: tuple[RingReader, RingWriter], looks: list[None]
) -> None:
    """That one would put its line into the ring, and goes on when the handler has returned."""
    reader, writer = waiting
    with writer._is_written:
        writer._written_by = threading.get_ident()
        writer.write(b"of the handler")
        writer._written_by = 0
    assert len(looks) == 1
    assert not reader.read(ALL)
    writer.write(b"the next")
    assert reader.read(ALL) == [b"of the handler", b"the next"]


def test_threads_that_log_at_once_lose_nothing(ends: tuple[RingReader, RingWriter]) -> None:
    """Two that write at one place would leave neither line; every line is read or counted."""
    reader, writer = ends
    count, found = 3_000, list[bytes]()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def log(thread: int) -> None:
        for number in range(count):
            writer.write(b"%d %d " % (thread, number) + b"x" * (number % 50))

    threads = [threading.Thread(target=log, args=(number,)) for number in range(4)]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            found += reader.read(ALL)
        for thread in threads:
            thread.join(LIMIT_S)
    finally:
        sys.setswitchinterval(before)
    found += reader.read(ALL)
    assert len(found) + reader.lost_count == 4 * count
    assert reader.written_count == len(found)
    assert reader.damaged_count == 0
    for number in range(4):
        mine = [int(line.split()[1]) for line in found if line.startswith(b"%d " % number)]
        assert mine == sorted(mine), "of one thread in order"


def test_who_logs_while_another_writes_does_not_wait(ends: tuple[RingReader, RingWriter]) -> None:
    """A thread that was interrupted there has no end that anybody knows: a signal handler in it would wait for ever."""
    reader, writer = ends
    writer._is_written.acquire()
    writer.write(b"by a signal handler")  # this test hangs if it waits
    assert reader.read(ALL) == []
    writer._is_written.release()
    writer.write(b"by the one that was interrupted")
    assert reader.read(ALL) == [b"by a signal handler", b"by the one that was interrupted"]


def test_what_comes_when_the_writer_has_looked_for_the_last_time_is_written(
    ends: tuple[RingReader, RingWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between that look and letting go there is room for another thread, whose line would wait for the next one."""
    reader, writer = ends
    lock = writer._is_written

    class Lock:
        acquire = lock.acquire
        has_come = False

        def release(self) -> None:
            if not self.has_come:
                self.has_come = True
                writer.write(b"just then")
            lock.release()

    monkeypatch.setattr(writer, "_is_written", Lock())
    writer.write(b"first")
    assert reader.read(ALL) == [b"first", b"just then"]


def test_lines_that_wait_too_long_for_a_writer_are_counted(ends: tuple[RingReader, RingWriter]) -> None:
    """Even then memory has a bound."""
    reader, writer = ends
    writer._is_written.acquire()
    for _ in range(1_010):
        writer.write(b"x")
    writer._is_written.release()
    writer.count_lost(2)
    assert (len(reader.read(ALL)), reader.lost_count) == (1_000, 12)


def test_a_sleeping_reader_is_woken_once(ends: tuple[RingReader, RingWriter]) -> None:
    """A reader that is not is never late; one that is woken for each line does nothing else."""
    reader, writer = ends
    writer.write(b"before")
    assert not select.select([reader.wake_fd], [], [], 0)[0], "it has not asked"
    reader.sleep()
    writer.write(b"one")
    writer.write(b"two")
    assert select.select([reader.wake_fd], [], [], LIMIT_S)[0]
    assert os.eventfd_read(reader.wake_fd) == 1
    reader.wake()  # nothing is there: no error


def test_what_is_no_line_is_passed_over(ends: tuple[RingReader, RingWriter]) -> None:
    """Memory that a broken extension has written over must not stop, or fool, the supervisor."""
    reader, writer = ends
    writer.write(b"good")
    writer.write(b"overwritten")
    writer._data[8 + 8 + 8] ^= 0xFF  # in the second line's text
    assert reader.read(ALL) == [b"good"]
    assert [reader.read(ALL) for _ in range(TORN_LOOKS_MAX)] == [[]] * TORN_LOOKS_MAX
    assert (reader.damaged_count, reader.is_empty()) == (1, True)
    assert reader.lost_count == 1
    writer.write(b"again")
    assert reader.read(ALL) == [b"again"]
    assert (reader.written_count, reader.lost_count) == (3, 1)


def test_a_length_that_cannot_be_is_not_believed(ends: tuple[RingReader, RingWriter]) -> None:
    """It would read beyond what is mapped."""
    reader, writer = ends
    writer.write(b"x" * 50)
    struct.pack_into("<I", writer._data, 0, 0xFFFF_FFF0)
    for _ in range(TORN_LOOKS_MAX):
        assert reader.read(ALL) == []
    assert reader.damaged_count == 1


@pytest.mark.systems
def test_what_the_dead_have_said_is_still_there() -> None:
    """The last line before a crash is the one that somebody needs."""
    reader = RingReader(RING_BYTES_MIN)
    child = os.fork()
    if child == 0:
        writer = RingWriter(os.dup(reader.fd), os.dup(reader.wake_fd))
        writer.write(b"last words")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert reader.read(ALL) == [b"last words"]
    reader.close()
