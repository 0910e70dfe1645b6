"""python -m appbackplane.spark: the programs that run on Spark, as `appbackplane report` and `pipeline` start them.

They take a folder, not a system, and times in one form: what a person types is understood by the verb that starts them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from . import program
from .master import LOCAL

Function = TypeVar("Function", bound=Callable[..., Any])


@click.group()
def main() -> None:
    """Programs on Spark."""


def _common(function: Function) -> Function:
    """What all of them take."""
    function = click.option("--master", default=LOCAL)(function)
    function = click.option("--json", "as_json", is_flag=True)(function)
    function = click.option("--debug", is_flag=True)(function)
    return click.argument("where", type=click.Path(path_type=Path))(function)


@main.command("report")
@_common
@click.option("--since-ns", type=int)
@click.option("--html", type=click.Path(path_type=Path))
def report(where: Path, master: str, since_ns: int | None, html: Path | None, *, as_json: bool, debug: bool) -> None:
    """What was recorded in WHERE, told."""

    def work() -> None:
        from .report.program import report

        report(where, master, since_ns=since_ns, html=html, as_json=as_json)

    _end(work, debug=debug)


@main.command("java")
def java() -> None:
    """What Spark would run on here, as JSON: for `appbackplane doctor`."""

    def work() -> None:
        from .java import told

        click.echo(told())

    _end(work)


def _end(work: Callable[[], None], *, debug: bool = False) -> None:
    """The end of the process, at once: Spark's JVM ends with it by itself, and nobody waits for that."""
    code = program.run(work, debug=debug)
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(prog_name="appbackplane")
