"""What a process prints while it describes a backplane is kept to its end, whatever else it prints."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator

import pytest

from appbackplane.supervisor.processes.description import PRINTED_BYTES_MAX, READ_BYTES, Printed

PIECES_MAX = PRINTED_BYTES_MAX // READ_BYTES


@pytest.fixture
def pipe() -> Iterator[tuple[Printed, int]]:
    """What is read, and where to write."""
    reading, writing = os.pipe()
    yield Printed(reading), writing
    os.close(reading)
    os.close(writing)


def test_the_last_of_what_is_printed_is_kept(pipe: tuple[Printed, int]) -> None:
    """The description is the last line, and a component may print as much as it likes before."""
    printed, fd = pipe
    for number in range(3 * PIECES_MAX + 1):
        os.write(fd, bytes([number % 256]) * READ_BYTES)
        assert printed.read()
    os.write(fd, b"the end")
    kept = printed.finish()
    assert len(kept) == PRINTED_BYTES_MAX
    assert kept.endswith(bytes([3 * PIECES_MAX % 256]) + b"the end")
    assert kept.startswith(bytes([(2 * PIECES_MAX + 1) % 256]))


def test_what_is_kept_is_not_copied_for_each_piece_that_comes(pipe: tuple[Printed, int]) -> None:
    """16 MB were, for each 64 KiB: a component that prints much kept the supervisor from all else."""
    printed, fd = pipe
    for _ in range(PIECES_MAX + 1):
        os.write(fd, bytes(READ_BYTES))
        assert printed.read()
    os.write(fd, bytes(READ_BYTES))
    tracemalloc.start()
    try:
        assert printed.read()
        _kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < PRINTED_BYTES_MAX // 8
