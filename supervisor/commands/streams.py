"""Streams: standard input, output and error, as they are found: closed, broken, or on a disk that is full.

`>&-` closes standard output, and the next descriptor that is opened would be number 1: a socket, perhaps, which would get all
printed text. So closed streams are opened on /dev/null before anything else. A reader that stops early, as in `| head`, is no
error. A full disk is one, but no bug of ours.
"""

from __future__ import annotations

import os
import select
import sys
import threading

import click

_STDOUT, _STDERR = 1, 2


def hold_standard_ones() -> None:
    """Open closed standard streams on /dev/null. Call before anything else is opened."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == fd, "the lowest number that is free"
            os.set_inheritable(fd, True)
    if sys.stdout is None:
        sys.stdout = os.fdopen(_STDOUT, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_STDERR, "w", closefd=False)


def write(data: bytes) -> None:
    """Write to standard output, past its buffer: nothing is left to be written when Ctrl-C comes."""
    buffer = sys.stdout.buffer
    out, left = getattr(buffer, "raw", buffer), memoryview(data)
    while left:
        written = out.write(left)
        if written is None:  # another process has made the terminal non-blocking
            select.select([], [_STDOUT], [])
        left = left[written or 0 :]


def is_about_output(error: OSError) -> bool:
    """Whether printing raised it, and not another write."""
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code in (click.echo.__code__, write.__code__):
            return True
        entry = entry.tb_next
    return False


def write_nothing_more() -> None:
    """Discard buffered output, which would be written again at exit, and be reported as failed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)


def end_process(code: int | str | None) -> None:
    """End the process at once: the interpreter's teardown would take 5 ms of a person's time. With other threads, or an error
    text as the code, it ends as usual; a flush that fails raises.
    """
    if isinstance(code, str) or threading.active_count() > 1:
        raise SystemExit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)
