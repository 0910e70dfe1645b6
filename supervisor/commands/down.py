"""down: take a system down in order, dependants first, and return when no process of it is left."""

from __future__ import annotations

import select
import time
from contextlib import closing

import click

from appbackplane.transport.discovery import Location
from appbackplane.transport.errors import BackplaneError, DeadlineExceeded

from ..processes.run_dir import holder, running_pid
from . import show
from .asking import Asker, ask
from .cli import output_options
from .quantities import WAIT_S_MAX, timeout_option
from .systems import find, system_option

#: A drain may take `drain_limit`; running actions, a hook and a process `stop_limit` each (10 s). A backplane that is stuck in
#: all of them is done by then. Most are done within a second.
TIMEOUT_S = 60.0
#: Waits longer than the first are reported; longer than the second, with the backplanes that are left.
_SILENT_MS, _PATIENT_MS = 1_000, 3_000
#: `up` needs up to this long to lock its run directory. `down` waits as long, or it would miss a system that just starts.
STARTING_S = 0.3
_LOOK_S = 0.01
#: Time-out of the status call for this report; the wait for the end does not depend on it.
ANSWER_S = 1.0


@click.command("down")
@system_option
@click.option("--now", is_flag=True, help="Kill everything at once instead of stopping it in order.")
@timeout_option(TIMEOUT_S, "Seconds to wait for the end.", is_above_0=False)
@output_options
def command(system: str | None, now: bool, timeout: float, as_json: bool) -> None:
    """Take the system down."""
    location = find(system)
    _wait_while_it_starts(location, timeout)
    with closing(Asker(location)) as asker:
        asker.send("supervisor.down", {"now": now, "wait": True}, WAIT_S_MAX)
        if not _is_down(asker.pidfd, location, timeout * 1e3):
            raise DeadlineExceeded(
                f"{location.system!r} (pid {asker.pid}) is still going down after {timeout:g} s; "
                "see appbackplane status, or kill it: appbackplane down --now"
            )
        answer = {"unfinished": [], **(asker.take_last() or {})}  # none: it has been killed
    if as_json:
        show.as_json({"system": location.system, "pid": asker.pid, **answer})
        return
    click.echo(f"system {location.system!r} is down")
    show.unfinished(answer)


def _wait_while_it_starts(location: Location, timeout_s: float) -> None:
    """Wait until its supervisor listens, if one holds the run directory or may have been started a moment ago."""
    began_s = time.monotonic()
    while running_pid(location.run_dir) is None:
        limit_s = STARTING_S if holder(location.run_dir) is None else timeout_s
        if time.monotonic() - began_s >= limit_s:
            return
        time.sleep(_LOOK_S)


def _is_down(pidfd: int, location: Location, timeout_ms: float) -> bool:
    """Whether the supervisor has ended in time. A long wait is reported."""
    end = select.poll()
    end.register(pidfd, select.POLLIN)
    try:
        if end.poll(min(_SILENT_MS, timeout_ms)):
            return True
        click.echo(f"waiting for {location.system!r} to go down", err=True)
        if end.poll(max(0.0, min(_PATIENT_MS, timeout_ms) - _SILENT_MS)):
            return True
        if timeout_ms > _PATIENT_MS and (left := _left(location)):
            click.echo(f"waiting for {left} (kill it: appbackplane down --now)", err=True)
        return bool(end.poll(max(0.0, timeout_ms - _PATIENT_MS)))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted: {location.system!r} is still going down (appbackplane status shows how far it is)"
        ) from None


def _left(location: Location) -> str:
    """Backplanes that still have a process, with their states; "": none has, or no answer came."""
    try:
        answer = ask(location, "supervisor.status", {"statistics": False}, ANSWER_S)
    except BackplaneError:  # it has just ended, or is too busy
        return ""
    return ", ".join(
        f"{one['name']}, {one['state']} for {show.duration(one['since'])}" for one in answer["backplanes"] if one["pid"]
    )
