"""Show: prints results for people, or for programs.

On a terminal tables are drawn by rich; elsewhere columns are padded with blanks, so that awk and a diff can use them.
JSON is one document a line, never coloured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

import click

#: Wider columns that hold blanks may be folded at them, down to this. By itself rich would fold "hub.measured" to "hub.…", and
#: every figure to two lines.
SENTENCE_WIDTH_MIN = 20


def as_json(value: Any) -> None:
    """Print one document on one line. NaN and infinities, which JSON lacks, become null."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_other, allow_nan=False)
    except ValueError:
        text = in_one_line(json.loads(in_one_line(value), parse_constant=lambda _: None))
    click.echo(text)


def unfinished(answer: dict[str, Any]) -> None:
    """Print, for a person, a line for each piece of work that the order refused or cut off."""
    for line in answer.get("unfinished", ()):
        click.echo(f"but {line}", err=True)


def result(value: Any) -> None:
    """Print the result of a call for a person: text as it is, a table with a row a line, all else as indented JSON."""
    if isinstance(value, str):
        click.echo(value)
    elif isinstance(value, list) and len(value) > 1 and all(isinstance(row, dict) for row in value):
        click.echo("[\n  " + ",\n  ".join(map(in_one_line, value)) + "\n]")
    elif isinstance(value, dict) and value:
        # Tables in it, too.
        lines = [f"{in_one_line(str(key))}: {_below(each)}" for key, each in value.items()]
        click.echo("{\n  " + ",\n  ".join(lines) + "\n}")
    elif value is not None:
        click.echo(_indented(value))


def _below(value: Any) -> str:
    """A value below its key, as indented JSON; of a table each row on one line."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(row, dict) for row in value):
        return "[\n    " + ",\n    ".join(map(in_one_line, value)) + "\n  ]"
    return _indented(value).replace("\n", "\n  ")  # in JSON no text has line ends


def _indented(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=_other)


def in_one_line(value: Any) -> str:
    """`value` as JSON without line ends."""
    return json.dumps(value, ensure_ascii=False, default=_other)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, less: Sequence[str] = ()) -> None:
    """Print rows of text under their headings. A terminal that is too narrow leaves out the columns `less`, in this order, and
    folds sentences between words; names and figures are not cut. A pipe gets everything, a row a line.
    """
    if sys.stdout.isatty() and (fitting := _fitting(columns, rows, less, get_terminal_size().columns)) is not None:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for number, width in fitting:
            longest = max(map(len, (columns[number], *(row[number] for row in rows))))
            drawn.add_column(Text(columns[number]), min_width=width, no_wrap=width == longest)
        for row in rows:
            drawn.add_row(*(Text(row[number]) for number, _ in fitting))  # Text: a signature's brackets are not markup
        Console().print(drawn)
        return
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _fitting(
    columns: Sequence[str], rows: Sequence[Sequence[str]], less: Sequence[str], room: int
) -> list[tuple[int, int]] | None:
    """(number, least width) of the columns that fit; None: the others do not fit even if all columns in `less` are left out."""
    least = [_least(cells) for cells in zip(columns, *rows, strict=True)]
    shown = list(enumerate(least))
    for heading in (None, *less):
        shown = [(number, width) for number, width in shown if columns[number] != heading]
        if sum(width + 3 for _, width in shown) <= room:
            return shown
    return None


def _least(cells: Sequence[str]) -> int:
    """Least width of a column: that of its longest cell, unless it holds sentences."""
    width = max(map(len, cells))
    if width <= SENTENCE_WIDTH_MIN or not any(" " in cell for cell in cells):
        return width
    return max(SENTENCE_WIDTH_MIN, *(len(word) for cell in cells for word in cell.split()))


def counted(count: int, noun: str) -> str:
    """`count` with its noun, as in "1 line" or "2,000 lines"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(time: float | None, per_second: float = 1) -> str:
    """`time` as a person would write it; "-": unknown. `per_second`: its unit, 1e3 for milliseconds."""
    if time is None:
        return "-"
    seconds = time / per_second
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _other(value: Any) -> Any:
    """JSON form of a value that msgpack carries and JSON does not."""
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="backslashreplace")
    return str(value)
