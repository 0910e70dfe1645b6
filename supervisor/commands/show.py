"""Show: answers for people, or for programs.

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

#: Of what has no sentence in it. Rich would fold "hub.measured" to "hub.…", and every figure to two lines.
CELL_WIDTH_MAX = 40


def as_json(value: Any) -> None:
    """One document on one line."""
    click.echo(in_one_line(value))


def result(value: Any) -> None:
    """What a call returned, for a person: text as it is, all else as indented JSON; of a table each row on one line."""
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
    """What stands under a key."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(row, dict) for row in value):
        return "[\n    " + ",\n    ".join(map(in_one_line, value)) + "\n  ]"
    return _indented(value).replace("\n", "\n  ")  # in JSON no text has line ends


def _indented(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=_other)


def in_one_line(value: Any) -> str:
    """As JSON, for a line that holds more than this."""
    return json.dumps(value, ensure_ascii=False, default=_other)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows of text under their headings. Sentences are folded on a narrow terminal, names and figures are not cut for it."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    is_folded = max(widths, default=0) > CELL_WIDTH_MAX
    if sys.stdout.isatty() and (is_folded or sum(widths) + 3 * len(widths) <= get_terminal_size().columns):
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in rows:
            drawn.add_row(*(Text(cell) for cell in row))  # Text: a signature's brackets are not markup
        Console().print(drawn)
        return
    for row in (columns, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def duration(seconds: float | None) -> str:
    """As a person would say it."""
    if seconds is None:
        return "-"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def _other(value: Any) -> Any:
    """What msgpack carries and JSON does not."""
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="backslashreplace")
    return str(value)
