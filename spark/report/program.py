"""Program: the program behind `appbackplane report`, once its folder is known."""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from appbackplane.transport.errors import FailedPrecondition

from ..program import end_on_interrupt, silent
from ..progress import shown
from ..records.pieces import files, nothing_in
from ..session import SHORT_LIVED, session
from .page import page
from .terminal import show, skipped_lines


def report(where: Path, master: str, *, since_ns: int | None, html: Path | None, as_json: bool) -> None:
    """Report on the records in `where`, on standard output, and in the file `html` if given."""
    if html is not None:
        _check_writable(html)
    if not files(where):  # before Spark is started, which takes seconds
        raise nothing_in(where)
    from .gathering import STEPS, gathered

    with shown(STEPS + 1) as progress, silent() as said:
        spark = session(master, "appbackplane report", stderr=said, **SHORT_LIVED)
        end_on_interrupt()
        progress.watch(spark)
        by = f"AppBackplane {importlib.metadata.version('appbackplane')} on Spark {spark.version}, {master}"
        contents = gathered(spark, where, progress, since_ns=since_ns, made_ns=time.time_ns(), by=by)
    if html is not None:
        _write(html, page(contents))
    if as_json:
        click.echo(msgspec.json.encode(contents).decode())
    else:
        show(contents)
        if html is not None:
            click.echo(f"\npage: {html}")
    for line in skipped_lines(contents):
        click.echo(line, err=True)


def _check_writable(html: Path) -> None:
    """Fail before the work, not after it. Raises `FailedPrecondition`."""
    folder = html.absolute().parent
    if html.is_dir():
        raise FailedPrecondition(f"{html} is a folder: --html takes the name of a file")
    if not folder.is_dir():
        raise FailedPrecondition(f"{html} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise FailedPrecondition(f"{html} cannot be written: Permission denied")


def _write(html: Path, text: str) -> None:
    """Write atomically: a reader sees the old page or the new one."""
    fd, name = tempfile.mkstemp(dir=html.absolute().parent, prefix=f".{html.name}.")
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644 & ~_umask())
        os.replace(name, html)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    """Read the umask, which is only possible by setting it."""
    before = os.umask(0o077)
    os.umask(before)
    return before
