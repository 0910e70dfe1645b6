"""restart: replace a backplane's process by a new one, without losing a call unless `--now`; return when it is up."""

from __future__ import annotations

import threading

import click

from . import show
from .asking import ask
from .cli import debug_option, json_option
from .completing import backplanes
from .quantities import Seconds
from .systems import find, system_option

#: Covers trial, drain, last hook, the old process's end and the new one's start. Most take a second; a start at most 60 by
#: default.
TIMEOUT_S = 90.0
#: A day; for longer, run the command again.
TIMEOUT_S_MAX = 86_400
#: A longer wait is reported.
_SILENT_S = 1.0
#: Added to the time-out, because the supervisor's own message is better than ours.
_ANSWER_S = 2.0


@click.command("restart")
@click.argument("names", metavar="BACKPLANE...", nargs=-1, required=True, shell_complete=backplanes)
@system_option
@click.option("--rolling", is_flag=True, help="Replicas one at a time, each only while all the others answer.")
@click.option("--force", is_flag=True, help="With --rolling: also backplanes without replicas.")
@click.option("--now", is_flag=True, help="Kill it at once: no trial of its new code, and no draining.")
@click.option(
    "--timeout",
    type=Seconds(0, TIMEOUT_S_MAX, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    help="Seconds to wait for the end; the restart goes on afterwards.",
)
@json_option
@debug_option
def command(
    names: tuple[str, ...], system: str | None, rolling: bool, force: bool, now: bool, timeout: float, as_json: bool
) -> None:
    """Restart backplanes in order, one after the other.

    First, the new code is constructed in a trial process: where that fails, nothing is restarted. Then each backplane finishes
    its outstanding calls, its components go down, and its process is replaced. A name that replicas share means all of them.
    """
    if now and rolling:
        raise click.UsageError(
            "--now and --rolling exclude each other: a kill loses the calls that a rolling restart keeps"
        )
    if force and not rolling:
        raise click.UsageError("--force is for --rolling")
    location = find(system)
    text = f"waiting for {', '.join(names)} to finish, and to be up again"
    progress = threading.Timer(_SILENT_S, click.echo, [text], {"err": True})
    progress.daemon = True
    progress.start()
    try:
        body = {"backplanes": list(names), "timeout": timeout, "now": now, "rolling": rolling, "force": force}
        answer = ask(location, "supervisor.restart", body, timeout + _ANSWER_S)
    finally:
        progress.cancel()
    if as_json:
        show.as_json({"system": location.system, **answer})
        return
    for name, generation in answer["backplanes"].items():
        click.echo(f"backplane {name!r} is up again, generation {generation}")
    show.unfinished(answer)
