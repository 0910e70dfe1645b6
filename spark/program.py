"""Program: handling of errors, closed output and Ctrl-C, common to the programs of this folder.

As in all of `appbackplane`, an error is one line on standard error and an exit code: 1 failed, 2 wrong usage. Spark's own
errors are pages in two languages; only their first sentence is printed, and `--debug` prints the rest.
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
#: Exit code by which a shell reports a program ended by Ctrl-C.
INTERRUPTED = 130
#: Keeps an error on one screen: 80 columns by 24 lines are 1,920 characters.
LINE_LENGTH_MAX = 1_600
_STDOUT = 1
#: Set once Ctrl-C was received.
_interrupted = threading.Event()


@contextmanager
def silent() -> Iterator[IO[bytes] | None]:
    """Yield a file for Spark's messages and silence py4j, or yield None with `--debug`. For programs that end at once."""
    if is_debug():
        yield None
        return
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryFile() as file:
        yield file


def end_on_interrupt() -> None:
    """End at once on Ctrl-C: the handler that Spark installs would use the JVM connection that this thread is using already."""
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_number: int, _frame: object) -> None:
    # Also kept in a flag: the JVM gets Ctrl-C too and ends, and an exception raised in py4j's clean-up after that is lost.
    _interrupted.set()
    raise KeyboardInterrupt


def is_debug() -> bool:
    return bool(click.get_current_context().params.get("debug"))


def run(work: Callable[[], None], *, debug: bool = False) -> int:
    """Run `work`, print any error, and return the exit code. Never raises."""
    try:
        try:
            work()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe (`| head`), which is no error
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
    """Exit code and error line for an exception."""
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
    return FAILED, f"internal error: {where}: {error} (--debug shows the traceback)"


def say(line: str) -> None:
    """Print to standard error, at most `LINE_LENGTH_MAX` characters; control characters are escaped."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if len(shown) > LINE_LENGTH_MAX:
        shown = f"{shown[: LINE_LENGTH_MAX // 2]} ... {shown[-LINE_LENGTH_MAX // 2 :]}"
    click.echo(f"appbackplane: {shown}", err=True)


def _write_nothing_more() -> None:
    """Discard buffered output: Python would try to write it again at exit, and report the failure again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
