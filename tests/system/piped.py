"""What the systems of the flow tests run. Copied beside each system's TOML, as a user's module would lie there."""

from __future__ import annotations

import os
import select
from pathlib import Path

from appbackplane.runtime import Batch, Flow, sink, source, stage

HERE = Path(__file__).parent
#: The source gives nothing more once it is there.
STOP = HERE / "stop"
#: Made by the source when it gives nothing more: what it has given is counted by then.
STOPPED = HERE / "stopped"
#: Where the sinks write, a number a line: a process that is killed leaves what it has written.
KEPT = HERE / "kept"


@source(poll=0.01)
def numbers(after: int | None, wanted: int) -> list[tuple[int, int]]:
    """All numbers, in order."""
    if STOP.exists():
        STOPPED.touch()
        return []
    begin = 0 if after is None else after + 1
    return [(number, number) for number in range(begin, begin + wanted)]


@stage
def square(number: int) -> dict[str, int]:
    """The number and its square."""
    return {"number": number, "square": number * number}


@sink(batch=Batch(max=64))
def keep(squares: list[dict[str, int]]) -> None:
    """Write them down, in one go."""
    assert all(each["square"] == each["number"] ** 2 for each in squares)
    _write([each["number"] for each in squares])


@stage(by=lambda number: number % 7, parallel=3)
def by_rest(number: int) -> int:
    """The same number, in the lane of its rest."""
    return number


@sink(by=lambda number: number % 7, parallel=3, batch=Batch(max=64))
def keep_by_rest(numbers: list[int]) -> None:
    """Write them down."""
    _write(numbers)


@sink(parallel="auto")
def wait_for(number: int) -> None:
    """Block, as for a device that serves any number at a time: so long that further lanes pay where the CPU is scarce."""
    select.select((), (), (), 0.008)


def _write(numbers: list[int]) -> None:
    """Slowly, as a database would: on the disk."""
    fd = os.open(KEPT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, b"".join(b"%09d\n" % number for number in numbers))
        os.fsync(fd)
    finally:
        os.close(fd)


surely = Flow("surely", numbers >> square >> keep, delivery="at_least_once")
once = Flow("once", numbers >> square >> keep, delivery="at_most_once")
ordered = Flow("ordered", numbers >> by_rest >> keep_by_rest, delivery="at_least_once")
waiting = Flow("waiting", numbers >> wait_for, credits=128)  # in small chunks, which soon tell how fast it is
puts = Flow("puts", square >> keep, credits=64)
