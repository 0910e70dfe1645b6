"""Program: what becomes of an error, of output that nobody reads, and of Ctrl-C, in the programs of this folder.

As in all of `appbackplane`: an error is one line on standard error, and an exit code: 1 failed, 2 wrong usage. Spark's own
errors are pages in two languages; their first sentence is told, and `--debug` shows the rest.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import click

from appbackplane.runtime.observation.segments import BadSegment
from appbackplane.transport.errors import BackplaneError, InvalidArgument

FAILED, WRONG_USAGE = 1, 2
#: As a shell tells it of a program that was ended by Ctrl-C.
INTERRUPTED = 130
#: A screen of 80 columns is 1,920 characters.
LINE_LENGTH_MAX = 1_600
_STDOUT = 1
#: Whether Ctrl-C was heard.
_interrupted = threading.Event()


@contextmanager
def silent() -> Iterator[IO[bytes] | None]:
    """Where what Spark says goes, of a program that ends at once: nowhere, but for what keeps it from starting. Nor does py4j
    say that it was interrupted.
    """
    if is_debug():
        yield None
        return
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryFile() as file:
        yield file


def end_on_interrupt() -> None:
    """At once: Spark's own handler, which its start has set, talks to a JVM with which this thread is talking already."""
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_number: int, _frame: object) -> None:
    # Remembered as well: raised while py4j tidies up after a JVM that has heard it too, and has gone, it would be lost.
    _interrupted.set()
    raise KeyboardInterrupt


def is_debug() -> bool:
    """Whether the person asked for tracebacks."""
    return bool(click.get_current_context().params.get("debug"))


def run(work: Callable[[], None], *, debug: bool = False) -> int:
    """Do the work and tell its exit code. Nothing is raised."""
    try:
        try:
            work()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `| head`: nobody reads on, which is no error
        _write_nothing_more()
        return 0
    except Exception as error:
        if _interrupted.is_set():
            return INTERRUPTED
        if debug:
            traceback.print_exception(error)
        code, line = told(error)
        say(line)
        if isinstance(error, OSError):
            _write_nothing_more()
        return code
    return 0


def told(error: Exception) -> tuple[int, str]:
    """Exit code and line."""
    if isinstance(error, BackplaneError):
        return WRONG_USAGE if isinstance(error, InvalidArgument) else FAILED, error.message
    if isinstance(error, click.ClickException):
        return WRONG_USAGE, error.format_message()
    if isinstance(error, BadSegment) or type(error).__module__.startswith("appbackplane.spark."):
        return FAILED, str(error)
    if isinstance(error, OSError):
        what = "standard output" if error.filename is None else str(error.filename)
        return FAILED, f"{what} cannot be written: {error.strerror or error}"
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        from .session import in_a_line

        return FAILED, f"Spark failed: {in_a_line(error)} (--debug shows the traceback)"
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {last.name}, line {last.lineno} of {last.filename}"
    return FAILED, f"a bug of ours: {where}: {error} (--debug shows the traceback)"


def say(line: str) -> None:
    """On standard error; what would move the cursor is shown, and not done."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if len(shown) > LINE_LENGTH_MAX:
        shown = f"{shown[: LINE_LENGTH_MAX // 2]} ... {shown[-LINE_LENGTH_MAX // 2 :]}"
    click.echo(f"appbackplane: {shown}", err=True)


def _write_nothing_more() -> None:
    """What is left in buffers would be tried again at the end, and be said to have failed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
