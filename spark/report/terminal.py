"""Terminal: the contents as tables for a terminal; padded with blanks for awk and diff if standard output is no terminal.

Each table shows its most important lines; the page and `--json` have more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click

from .contents import Contents, Path
from .page import value
from .words import called, count, date, digits, duration, moment, rate, share, shown

#: Lines of a table: it fits on a screen with its heading.
ROWS_MAX = 15
PATHS_MAX = 3
_STEPS_MAX = 12


def show(contents: Contents, zone: tzinfo | None = None) -> None:
    """Print to standard output. `zone`: time zone of all times; by default this machine's."""
    for line in summary(contents, zone):
        click.echo(shown(line))
    for title, head, rows in tables(contents, zone):
        click.echo()
        click.echo(click.style(title, bold=True))
        print_table(head, rows[:ROWS_MAX])
        if len(rows) > ROWS_MAX:
            click.echo(f"and {count(len(rows) - ROWS_MAX)} more: --html and --json have them")
    for path in contents.paths[:PATHS_MAX]:
        click.echo()
        for number, line in enumerate(path_lines(path, contents, zone)):
            click.echo(click.style(shown(line), bold=number == 0))
    for line in advice_lines(contents):
        click.echo(shown(line))


def skipped_lines(contents: Contents) -> Iterator[str]:
    """Lines about data that was left out, for standard error."""
    if contents.skipped:
        number = contents.skipped_records
        yield f"{count(number)} record{'s' * (number != 1)} left out:" if number else "some of it could not be read:"
        yield from (f"  {line}" for line in contents.skipped)


def summary(contents: Contents, zone: tzinfo | None) -> Iterator[str]:
    """One or two lines about the whole."""
    if not contents.records:
        since_ns = contents.since_ns
        said = (
            "nothing was recorded yet" if since_ns is None else f"nothing recorded began since {date(since_ns, zone)}"
        )
        yield f"{contents.system}: {said}"
        return
    lasted_ns = contents.last_ns - contents.first_ns
    number = contents.records
    yield (
        f"{contents.system}: {count(number)} action{'s' * (number != 1)} from {date(contents.first_ns, zone)} over "
        f"{duration(lasted_ns)}, {rate(number * 1e9 / max(lasted_ns, 10**9))}"
    )
    errors, missed = (sum(getattr(one, name) for one in contents.backplanes) for name in ("errors", "missed"))
    yield (
        f"from arrival to end: median {duration(contents.latency_p50_ns)}, 99 % below {duration(contents.latency_p99_ns)}; "
        f"errors {count(errors)}, deadlines missed {count(missed)}, waited behind less "
        f"urgent work {count(sum(one.inverted for one in contents.inversions))}"
    )


def tables(contents: Contents, zone: tzinfo | None) -> Iterator[tuple[str, Sequence[str], list[list[str]]]]:
    """(title, headings, rows) of each table; a heading that ends in # stands above numbers. Empty tables are left out."""
    span = contents.last_ns - contents.first_ns
    found: list[tuple[str, Sequence[str], list[list[str]]]] = [
        (
            "Backplanes",
            ("BACKPLANE", "ACTIONS#", "RATE#", "THREADS#", "BUSY#", "MAX#", "CPU#", "MAX#", "QUEUED#", "MAX#", "CPU LIMIT#",
             "ERRORS#", "MISSED#"),
            [
                [one.name, count(one.records), rate(one.rate), "-" if one.threads is None else str(one.threads),
                 share(one.busy), share(one.busy_max), share(one.cpu), share(one.cpu_max),
                 digits(one.waiting), digits(one.waiting_max),
                 "none" if one.cpu_limit is None else share(one.cpu_limit / 100), count(one.errors), count(one.missed)]
                for one in contents.backplanes
            ],
        ),
        (
            "Operations, by total time",
            ("OPERATION", "PRIORITY#", "COUNT#", "ERRORS#", "WAIT P50#", "P99#", "MAX#", "RUN P50#", "P99#", "MAX#", "CPU#"),
            [
                [called(one), str(one.priority), count(one.count), count(one.errors),
                 duration(one.wait_p50_ns), duration(one.wait_p99_ns), duration(one.wait_max_ns),
                 duration(one.run_p50_ns), duration(one.run_p99_ns), duration(one.run_max_ns), duration(one.cpu_ns)]
                for one in sorted(contents.operations, key=lambda one: -(one.wait_mean_ns + one.run_mean_ns) * one.count)
            ],
        ),
        (
            "Deadlines missed",
            ("OPERATION", "PRIORITY#", "WITH DEADLINE#", "MISSED#", "BY WAITING#", "SHARE#", "LATE P50#", "MAX#"),
            [
                [called(one), str(one.priority), count(one.with_deadline), count(one.missed), count(one.by_waiting),
                 share(one.missed / max(1, one.with_deadline)), duration(one.late_p50_ns), duration(one.late_max_ns)]
                for one in contents.misses
            ],
        ),
        (
            "Priority inversions: work queued while less urgent work ran",
            ("BACKPLANE", "PRIORITY#", "ACTIONS#", "INVERTED#", "TOTAL#", "LONGEST#", "BOOSTED#", "OVERTAKEN#", "STARVED#",
             "WAIT P99#", "MAX#"),
            [
                [one.backplane, str(one.priority), count(one.count), count(one.inverted), duration(one.inversion_ns),
                 duration(one.inversion_max_ns), duration(one.boosted_ns), count(one.overtaken), count(one.starved),
                 duration(one.wait_p99_ns), duration(one.wait_max_ns)]
                for one in sorted(contents.inversions, key=lambda one: -one.inversion_ns)
                if one.inverted or one.starved
            ],
        ),
        (
            "Critical paths: where the time of the slowest traces went",
            ("OPERATION", "TRACES#", "ACTIONS#", "SHARE#", "QUEUED#", "RUNNING#", "OTHER#"),
            [
                [called(one), count(one.traces), count(one.actions), share(one.share), duration(one.queue_ns),
                 duration(one.run_ns), duration(one.other_ns)]
                for one in contents.culprits
            ],
        ),
        (
            "Slow actions",
            ("AT#", "OPERATION", "OBJECT", "BACKPLANE", "TOTAL#", "WAITED#", "COMPUTED#", "BLOCKED#", "AWAITED#"),
            [
                [moment(one.when_ns, span, zone), called(one), one.object, one.backplane,
                 duration(one.wait_ns + one.took_ns), duration(one.wait_ns), duration(one.cpu_ns),
                 duration(max(0, one.run_ns - one.cpu_ns)), duration(max(0, one.took_ns - one.run_ns))]
                for one in contents.slow
            ],
        ),
    ]  # fmt: skip
    yield from ((title, head, rows) for title, head, rows in found if rows)


def path_lines(path: Path, contents: Contents, zone: tzinfo | None) -> Iterator[str]:
    """Lines for one slow trace, one a step."""
    when = moment(path.when_ns, contents.last_ns - contents.first_ns, zone)
    yield f"Slowest traces: {duration(path.total_ns)} at {when}, trace {path.trace}"
    for step in path.steps[:_STEPS_MAX]:
        name = f"{'  ' * min(step.depth, 10)}{step.operation} in {step.backplane}"
        yield (
            f"  {name:<44} waited {duration(step.wait_ns):>8}, took {duration(step.took_ns):>8}, ran "
            f"{duration(step.own_ns):>8}"
        )
    if path.calls > _STEPS_MAX:
        yield f"  and {count(path.calls - _STEPS_MAX)} more"


def advice_lines(contents: Contents) -> Iterator[str]:
    """Lines with the proposed changes, their reasons, and the patch to copy."""
    if not contents.records:
        return
    yield ""
    if not contents.advice:
        yield "Advice: none" + ("" if contents.notes else "; nothing waited so long that other settings would help")
    for one in contents.advice:
        yield f"Advice: [{one.target}] {one.key} = {value(one.new)} instead of {value(one.old)}"
        yield f"  {one.evidence}"
        yield (
            f"  {one.figure}: {duration(one.now_ms * 1e6)} as recorded, {duration(one.predicted_ms * 1e6)} predicted by a "
            f"simulation that is {share(abs(one.error))} off"
        )
    yield from contents.notes
    if contents.patch:
        yield ""
        yield from contents.patch.rstrip("\n").split("\n")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; a heading that ends in # stands above numbers."""
    titles = [title.removesuffix("#") for title in head]
    is_number = [title.endswith("#") for title in head]
    cells = [[shown(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title, right in zip(titles, is_number, strict=True):
            drawn.add_column(title, justify="right" if right else "left", overflow="fold")
        for row in cells:
            drawn.add_row(*(Text(cell) for cell in row))  # Text: a name's brackets are not markup
        Console().print(drawn)
        return
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for row in (titles, *cells):
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        )
        click.echo("  ".join(padded).rstrip())
