"""list: the running systems of this user on this host; `-s` takes their names. A system that does not answer is listed, too."""

from __future__ import annotations

from typing import Any

import click

from appbackplane.transport.discovery import Location
from appbackplane.transport.errors import BackplaneError

from ..processes.run_dir import running_pid
from . import show
from .asking import ask
from .cli import output_options
from .systems import running_systems

#: Time-out of each: an answer takes a millisecond, and the user waits for all of them.
TIMEOUT_S = 1.0
_UNKNOWN: dict[str, Any] = {"state": "does not answer", "uptime": None}


@click.command("list")
@output_options
def command(as_json: bool) -> None:
    """List your systems that run under the default run directory."""
    found = [
        {"system": each.system, **told, "run_dir": str(each.run_dir)}
        for each in running_systems()
        if (told := _told(each)) is not None
    ]
    if as_json:
        show.as_json(found)
    elif found:
        rows = [(e["system"], e["state"], str(e["pid"]), show.duration(e["uptime"]), e["run_dir"]) for e in found]
        show.table(("SYSTEM", "STATE", "PID", "FOR", "RUN DIRECTORY"), rows)
    else:
        click.echo("no system is running")


def _told(location: Location) -> dict[str, Any] | None:
    """State, pid and uptime; None: it has just gone down."""
    try:
        answer = ask(location, "supervisor.status", {"statistics": False}, TIMEOUT_S)
    except BackplaneError:
        pid = running_pid(location.run_dir)
        return None if pid is None else {**_UNKNOWN, "pid": pid}
    return {key: answer[key] for key in ("state", "pid", "uptime")}
