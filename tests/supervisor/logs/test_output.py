"""Output never makes the supervisor wait, and what it cannot show it counts."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from appbackplane.supervisor.logs import output
from appbackplane.supervisor.logs.output import Output


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that nobody reads unless the test does; blocking, as an inherited standard error is."""
    read_fd, write_fd = os.pipe()
    yield read_fd, write_fd
    for fd in (read_fd, write_fd):
        os.close(fd)


def read_all(fd: int) -> bytes:
    """What is in a pipe now."""
    poll, found = select.poll(), b""
    poll.register(fd, select.POLLIN)
    while poll.poll(0):
        found += os.read(fd, 65_536)
    return found


def test_a_reader_that_does_not_read_stops_nobody(pipe: tuple[int, int]) -> None:
    """A terminal stopped with Ctrl-S would stop every restart. (This test hangs if `write` blocks.)"""
    read_fd, write_fd = pipe
    out = Output(write_fd)
    lines = [f"{n} {'x' * 100}" for n in range(5_000)]
    for line in lines:
        out.say(line)
        out.write()
    found = b""
    while out:
        out.write()
        found += read_all(read_fd)
    assert (found + read_all(read_fd)).decode().splitlines() == lines


def test_lines_without_room_are_counted_in_their_place(pipe: tuple[int, int]) -> None:
    """Nothing is dropped silently."""
    read_fd, write_fd = pipe
    out = Output(write_fd)
    line = "x" * 1023
    for _ in range(output.PENDING_BYTES_MAX // 1024 + 3):
        out.say(line)
    assert out.lost_count == 3
    found = b""
    while out:
        out.write()
        found += read_all(read_fd)
    out.say("again")
    out.write()
    assert read_all(read_fd).decode() == "(3 lines were not shown: nobody reads)\nagain\n"


def test_what_would_find_no_room_need_not_be_made(pipe: tuple[int, int]) -> None:
    """Putting a flood into words for nobody would cost the supervisor its time; it is counted all the same."""
    read_fd, write_fd = pipe
    out = Output(write_fd)
    assert not out.count_if_full(5)
    while not out.lost_count:
        out.say("x" * 100)
    assert out.count_if_full(5)
    assert out.lost_count == 6
    while out:
        out.write()
        read_all(read_fd)
    assert not out.count_if_full(5)
    out.say("again")
    out.write()
    assert read_all(read_fd).decode() == "(6 lines were not shown: nobody reads)\nagain\n"


def test_a_reader_that_has_gone_is_no_error() -> None:
    """A system outlives the terminal it was started from."""
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    out = Output(write_fd)
    out.say("nobody")
    out.write()
    assert not out
    assert out.lost_count == 1
    os.close(write_fd)
