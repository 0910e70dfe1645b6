"""python -m appbackplane.spark: the Spark programs, started by `appbackplane report`, `replay` and `pipeline`.

They take a folder, not a system. Times come in one form: the starting command has already parsed the user's input.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from . import program
from .master import LOCAL

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}


def _time(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Parse "1s" or "500ms" (a whole number and a unit, as the starting command writes it) to ns. Raises `BadParameter`."""
    if value is None:
        return None
    found = re.fullmatch(r"([1-9]\d*)(ns|us|ms|s|m|h)", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a time such as 1s")
    return int(found[1]) * _UNITS_NS[found[2]]


@click.group()
def main() -> None:
    """Programs on Spark."""


def _common(work: Callable[..., None]) -> Callable[..., None]:
    """Add the argument and options that report, compact and stream share, and run it only if the extra is installed."""

    @wraps(work)
    def function(*, debug: bool, **arguments: Any) -> None:
        def checked() -> None:
            from .session import check_installed

            check_installed()
            work(**arguments)

        _end(checked, debug=debug)

    function = click.option("--master", default=LOCAL)(function)
    function = click.option("--json", "as_json", is_flag=True)(function)
    function = click.option("--debug", is_flag=True)(function)
    return click.argument("where", type=click.Path(path_type=Path))(function)


@main.command("report")
@_common
@click.option("--since-ns", type=int)
@click.option("--html", type=click.Path(path_type=Path))
def report(where: Path, master: str, since_ns: int | None, html: Path | None, *, as_json: bool) -> None:
    """Report on the records in WHERE."""
    from .report.program import report

    report(where, master, since_ns=since_ns, html=html, as_json=as_json)


@main.command("replay")
@click.argument("where", type=click.Path(path_type=Path))
@click.option("--backplane", required=True)
@click.option("--changes", required=True)
@click.option("--since-ns", type=int)
@click.option("--json", "as_json", is_flag=True)
@click.option("--debug", is_flag=True)
def replay(where: Path, backplane: str, changes: str, since_ns: int | None, *, as_json: bool, debug: bool) -> None:
    """Predict the waits of the actions in WHERE under other settings. Needs the extra, but starts neither Spark nor Java."""

    def work() -> None:
        from .session import check_installed

        check_installed()
        from .report.replay import replay

        replay(where, backplane, changes, since_ns=since_ns, as_json=as_json)

    _end(work, debug=debug)


@main.command("compact")
@_common
@click.option("--to", type=click.Path(path_type=Path), required=True)
def compact(where: Path, master: str, to: Path, *, as_json: bool) -> None:
    """Compact the segments of WHERE into Parquet files in TO."""
    from .packing import pack

    pack(where, to, master, as_json=as_json)


@main.command("stream")
@_common
@click.option("--trigger", callback=_time)
@click.option("--window", callback=_time)
@click.option("--rules", type=click.Path(path_type=Path))
@click.option("--checkpoint", type=click.Path(path_type=Path))
def stream(
    where: Path,
    master: str,
    trigger: int | None,
    window: int | None,
    rules: Path | None,
    checkpoint: Path | None,
    *,
    as_json: bool,
) -> None:
    """Publish statistics of the running system in WHERE."""
    from .stream.program import TRIGGER_NS, WINDOW_NS, stream

    stream(
        where,
        master,
        trigger_ns=TRIGGER_NS if trigger is None else trigger,
        window_ns=WINDOW_NS if window is None else window,
        rules=rules,
        checkpoint=checkpoint,
        as_json=as_json,
    )


@main.command("here")
def here() -> None:
    """Print the versions of Spark and Java here as JSON, or why one is missing, for `appbackplane doctor`; starts neither."""

    def work() -> None:
        from .java import NoJava, choose, found_here
        from .session import missing

        lacks = missing()
        told = {"spark": None if lacks else importlib.metadata.version("pyspark"), "missing": lacks}
        try:
            java = choose(found_here())
        except NoJava as error:
            told |= {"java": None, "because": error.found}
        else:
            told |= {"java": f"{java.version}, by {java.whence}: {java.path}", "because": ""}
        click.echo(json.dumps(told))

    _end(work)


def _end(work: Callable[[], None], *, debug: bool = False) -> None:
    """Run `work`, then end the process at once. Spark's JVM notices and ends by itself; waiting for it would cost time."""
    code = program.run(work, debug=debug)
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(prog_name="appbackplane")
