"""logs: shows the log of a system, also of one that is down. Reads its log folder and calls no process.

Nothing is buffered here, and Ctrl-C ends it anywhere, also while a stopped terminal blocks its output.
"""

from __future__ import annotations

import os
import select
import sys
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

import click

from appbackplane.runtime.observation.log_line import LEVELS
from appbackplane.transport.discovery import Location
from appbackplane.transport.errors import FailedPrecondition, NotFound
from appbackplane.transport.lifeline import nearest

from ..configuration.replica_names import numbered
from ..logs import filter as log_filter
from ..logs.filter import LogFilter
from ..logs.folder import LINK, default_folder, names_in, numbers
from ..logs.reader import Found, LogReader, end_of, last, start_of
from ..logs.text import told
from . import streams
from .cli import output_options
from .systems import find, named_once, system_option

#: Without `--lines` and `--since`: two screens.
LINES = 100
#: Poll interval of `--follow`.
LOOK_MS = 50
#: Wide enough for most names, so that messages stand in a column.
_NAME_WIDTH = 12


@click.command("logs")
@click.argument("named", metavar="[SYSTEM]", required=False)
@system_option
@click.option("-f", "--follow", is_flag=True, help="Also print new lines as they are logged, until Ctrl-C.")
@click.option("--backplane", metavar="NAME", help="Only lines of this backplane or its replicas (or: supervisor).")
@click.option("--component", metavar="NAME", help="Only lines from actions of this component.")
@click.option(
    "--level",
    metavar="LEVEL",
    type=click.Choice(tuple(LEVELS), case_sensitive=False),
    help=f"Only lines of this level ({', '.join(LEVELS)}) and above.",
)
@click.option("--since", metavar="TIME", help='Only lines since: "10m" ago (s, m, h, d, w), or ISO 8601.')
@click.option(
    "--lines",
    type=click.IntRange(min=0),
    help=f"At most this many lines, the newest. Default: {LINES}; with --since all.",
)
@output_options
def command(
    named: str | None,
    system: str | None,
    follow: bool,
    backplane: str | None,
    component: str | None,
    level: str | None,
    since: str | None,
    lines: int | None,
    as_json: bool,
) -> None:
    """Show the log of a system, also when it is down."""
    named = named_once(named, system)
    try:
        instant = None if since is None else log_filter.since(since, datetime.now().astimezone())
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    folder = folder_of(find(named))
    wanted = LogFilter(backplane, component, level, instant, numbered(backplane or "", names_in(folder)))
    try:
        _show(folder, wanted, lines, follow=follow, as_json=as_json)
    except KeyboardInterrupt:  # the usual end of --follow
        return


def folder_of(location: Location) -> Path:
    """Folder of the system's log. Raises `NotFound`, `FailedPrecondition`."""
    usual = default_folder(location.system, location.run_dir)
    for folder in (location.run_dir / LINK, usual):
        try:
            if folder.is_dir() and numbers(os.listdir(folder)):
                return folder.resolve()
        except OSError as error:
            raise FailedPrecondition(f"log folder {folder} cannot be read: {error.strerror}") from error
    near = nearest(location)
    why = "it has never been up here" if near is None else f"did you mean {near!r}?"
    raise NotFound(f"no log of system {location.system!r} (looked for in {usual}): {why}")


def _show(folder: Path, wanted: LogFilter, lines: int | None, *, follow: bool, as_json: bool) -> None:
    in_colour = not as_json and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    if lines is None and wanted.since is not None:
        reader = LogReader(folder, wanted, start_of(folder, wanted.since))
        has_any = _print_all(reader, in_colour=in_colour, as_json=as_json)
    else:
        end = end_of(folder)
        reader = LogReader(folder, wanted, end)
        found = last(folder, wanted, LINES if lines is None else lines, end)
        has_any = bool(found)
        _print(found, in_colour=in_colour, as_json=as_json)
    if not has_any and (unknown := _unknown_name(folder, wanted)) is not None:
        if not follow:
            raise NotFound(unknown)
        click.echo(f"{unknown}; waiting for it", err=True)
    nothing = select.poll()
    while follow:
        _print_all(reader, in_colour=in_colour, as_json=as_json)
        nothing.poll(LOOK_MS)


def _unknown_name(folder: Path, wanted: LogFilter) -> str | None:
    """Message when nothing was found: the filter's name is unknown here; None: it is known, and has logged nothing."""
    names = names_in(folder)
    components = [component for each in names.values() for component in each]
    for kind, name, known in (
        ("backplane", wanted.backplane, list(names)),
        ("component", wanted.component, components),
    ):
        is_known = name in known or (kind == "backplane" and wanted.replicas)
        if name is not None and known and not is_known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            return f"no {kind} {name!r} has logged anything here ({hint})"
    return None


def _print_all(reader: LogReader, *, in_colour: bool, as_json: bool) -> bool:
    """Print all lines that are there by now. Returns whether there were any."""
    has_any = False
    while found := reader.read():
        has_any = True
        _print(found, in_colour=in_colour, as_json=as_json)
    if reader.missed_count:
        click.echo(f"({reader.missed_count} files were gone before they could be read)", err=True)
        reader.missed_count = 0
    return has_any


def _print(found: list[Found], *, in_colour: bool, as_json: bool) -> None:
    texts: list[str] = []
    for raw, line in found:
        if as_json:
            if line is not None:
                texts.append(raw.decode(errors="replace"))
        elif line is None:
            texts.append(f"(not a line of the log: {raw.decode(errors='replace')[:200]!r})")
        else:
            texts += told(line, name_width=_NAME_WIDTH, in_colour=in_colour)
    streams.write("".join(f"{text}\n" for text in texts).encode(errors="replace"))
