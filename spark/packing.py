"""Packing: the program behind `appbackplane pipeline compact`, once its folder is known."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from .compaction import compact
from .program import end_on_interrupt, silent
from .progress import shown
from .records.pieces import files, nothing_in
from .session import SHORT_LIVED, session


def pack(where: Path, to: Path, master: str, *, as_json: bool) -> None:
    """Compact the segments of `where` that `to` lacks, and print a summary."""
    if not files(where):  # before Spark is started, which takes seconds
        raise nothing_in(where)
    with shown(2) as progress, silent() as said:
        spark = session(master, "appbackplane pipeline compact", stderr=said, **SHORT_LIVED)
        end_on_interrupt()
        progress.watch(spark)
        progress.step("packing")
        packed = compact(spark, where, to)
    if as_json:
        click.echo(json.dumps({"to": str(to), **dataclasses.asdict(packed)}))
        return
    first, *more = packed.lines()
    click.echo(f"{first}: {to}")
    for line in more:
        click.echo(line, err=True)
