"""down: take a system down in order, dependants first, and come back when nothing of it is left."""

from __future__ import annotations

import os
import select
from contextlib import suppress

import click

from appbackplane.transport.errors import DeadlineExceeded, PeerDown

from . import show
from .asking import ask
from .cli import debug_option, json_option
from .quantities import Seconds
from .systems import check_running, find, system_option

#: A drain has `drain_limit`, and what has begun, a hook and a process have `stop_limit` each (10 s): one that is stuck in all
#: of them is done by then. Most are done within a second.
TIMEOUT_S = 60.0
#: A day: whoever needs longer looks again.
TIMEOUT_S_MAX = 86_400
_SILENT_MS = 1_000


@click.command("down")
@system_option
@click.option("--now", is_flag=True, help="Kill everything at once instead of stopping it in order.")
@click.option(
    "--timeout",
    type=Seconds(0, TIMEOUT_S_MAX),
    default=TIMEOUT_S,
    show_default=True,
    help="Seconds to wait for the end.",
)
@json_option
@debug_option
def command(system: str | None, now: bool, timeout: float, as_json: bool) -> None:
    """Take the system down."""
    location = find(system)
    pid = check_running(location)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:  # it has gone down just now
        raise location.not_running() from None
    try:
        with suppress(PeerDown):  # gone before it could answer: that is what was asked for
            ask(location, "supervisor.down", {"now": now})
        end = select.poll()
        end.register(pidfd, select.POLLIN)
        timeout_ms = timeout * 1e3
        if not end.poll(min(_SILENT_MS, timeout_ms)):
            click.echo(f"waiting for {location.system!r} to go down", err=True)
            if not end.poll(max(0.0, timeout_ms - _SILENT_MS)):
                raise DeadlineExceeded(
                    f"{location.system!r} (pid {pid}) is still going down after {timeout:g} s; "
                    "see appbackplane status, or kill it: appbackplane down --now"
                )
    finally:
        os.close(pidfd)
    if as_json:
        show.as_json({"system": location.system, "pid": pid})
    else:
        click.echo(f"system {location.system!r} is down")
