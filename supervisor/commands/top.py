"""top: a live view of a system; without a terminal, or with `--once`, one printout.

Reads the same figures as `status --stats`, so it disturbs nobody. A printout takes two samples, 80 ms apart, because rates and
percentiles are those of an interval. Both together take less than 200 ms in any case: a backplane that has not answered by
then is shown from the board, with its age.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import closing
from typing import Any

import click
from msgspec.structs import replace

from appbackplane.transport.errors import NotFound

from ..live.columns import SORTS
from ..live.figures import SystemFigures, figures
from ..live.line import text
from ..live.navigation import Navigation
from ..live.sample import Sample, sample_of
from ..live.view import report
from . import show
from .asking import TIMEOUT_S, Asker
from .cli import output_options
from .completing import backplanes
from .quantities import Seconds
from .systems import find, named_once, offered, system_option

#: Pause between the two samples of `--once`, and time-out of backplanes for each: together 120 ms, so that 80 are left of the
#: 200 for the supervisor on a machine whose cores are all busy. A sentinel answers within 10 ms while all is busy.
ONCE_S, ONCE_LIMIT_S = 0.08, 0.04
LIVE_S = 1.0
#: A shorter interval would keep the machine busy with sampling.
INTERVAL_S_MIN = 0.1
#: An hour; for a longer one, start it when needed.
INTERVAL_S_MAX = 3_600
#: Width where none is known: all columns.
WIDE = 200


@click.command("top")
@click.argument("named", metavar="[SYSTEM]", required=False, shell_complete=offered)
@system_option
@click.option(
    "--once", "is_once", is_flag=True, help="Print the figures once, and end (the default without a terminal)."
)
@click.option(
    "--interval", type=Seconds(min=INTERVAL_S_MIN, max=INTERVAL_S_MAX), help="Seconds between two updates. Default: 1."
)
@click.option("--sort", type=click.Choice(SORTS), default=SORTS[0], help="Sort order; the key s changes it.")
@click.option(
    "--backplane",
    metavar="NAME",
    shell_complete=backplanes,
    help="Show the operations of this backplane, or of all its replicas.",
)
@output_options
def command(
    named: str | None,
    system: str | None,
    is_once: bool,
    interval: float | None,
    sort: str,
    backplane: str | None,
    as_json: bool,
) -> None:
    """Watch the system live: load, durations and queues of each backplane."""
    location = find(named_once(named, system))
    navigation = Navigation(sort=sort)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if is_once or as_json or not is_terminal:
        with closing(Asker(location)) as asker:
            found = once(asker, ONCE_S if interval is None else interval)
        if backplane is not None:
            navigation = looking_at(found, navigation, backplane)
        if as_json:
            show.as_json(_data(found, backplane))
        else:
            _print(found, navigation)
        return
    with closing(Asker(location)) as asker:  # a missing system is an error now, and not a view that waits for it
        if backplane is not None:
            navigation = looking_at(once(asker, ONCE_S), navigation, backplane)
    from .window import TopScreen

    TopScreen(lambda: Asker(location), navigation, interval or LIVE_S).run()


def looking_at(found: SystemFigures, navigation: Navigation, backplane: str) -> Navigation:
    """Show one backplane, or the replicas that share the name. Raises `NotFound`."""
    names = [each.name for each in found.backplanes]
    if backplane in names:
        return replace(navigation, opened=backplane)
    if any(each.replica_of == backplane for each in found.backplanes):
        return replace(navigation, among=backplane)
    import difflib  # only for a mistyped name

    close = difflib.get_close_matches(backplane, names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else f": one of {', '.join(names)}"
    raise NotFound(f"no backplane {backplane!r} in {found.system!r}{hint}")


def once(asker: Asker, interval_s: float) -> SystemFigures:
    """Figures of one interval of `interval_s`."""
    began_s = time.monotonic()
    before = _look(asker)
    time.sleep(max(0.0, began_s + interval_s - time.monotonic()))
    return figures(before, _look(asker))


def _look(asker: Asker) -> Sample:
    return sample_of(asker.ask("supervisor.status", {"buckets": True, "limit": ONCE_LIMIT_S}, TIMEOUT_S))


def _data(found: SystemFigures, backplane: str | None) -> Any:
    import msgspec

    if backplane is not None:
        found = replace(
            found, backplanes=tuple(each for each in found.backplanes if backplane in (each.name, each.replica_of))
        )
    return msgspec.to_builtins(found)


def _print(found: SystemFigures, navigation: Navigation) -> None:
    width = shutil.get_terminal_size((WIDE, 24)).columns
    lines = report(found, navigation, width)
    if not sys.stdout.isatty():
        for line in lines:
            click.echo(text(line).rstrip())
        return
    from rich.console import Console

    from .window import in_colour

    console = Console()
    for line in lines:
        click.echo(in_colour(console, line))
