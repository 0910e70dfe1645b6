"""reload: apply a TOML's present text to the running system; the plan is shown first, then carried out.

Settings are compared, code is not: after new code is deployed, restart the backplanes that use it.

An invalid file changes nothing: it is checked here as `check` does it, components included, before anything is touched, and
once more by the supervisor, which makes the plan.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from appbackplane.transport.errors import FailedPrecondition

from ..configuration.config import load, parse, read
from ..direction.reconfiguration import IN_WORDS, Takes, in_json
from . import show
from .asking import ask, order
from .check import tried
from .cli import output_options
from .quantities import timeout_option
from .systems import find, system_option

#: A restart has `stop_limit` and `start_limit`, 70 s in all, and goes on beyond this time-out.
TIMEOUT_S = 90.0


class NotDone(FailedPrecondition):
    """The change was not made, or only in part; a line for each reason."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


@click.command("reload")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@system_option
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@timeout_option(TIMEOUT_S, "Seconds to wait for the end; the change goes on afterwards.")
@output_options
def command(file: Path | None, system: str | None, dry_run: bool, timeout: float, as_json: bool) -> None:
    """Apply FILE to the running system (default: the TOML that it was started with)."""
    if file is not None and system is None:
        load(file)  # report problems of the file before looking for its system
        system = str(file)
    location = find(system)
    path = file or Path(ask(location, "supervisor.status")["config"]["file"])
    text = read(path)
    config = parse(text, path.absolute(), os.sched_getaffinity(0))
    body = {"file": str(path.absolute()), "text": text}
    told = ask(location, "supervisor.reload", {**body, "dry_run": True})
    if _needs_construction(told["plan"]) and not told["problems"]:
        tried(config)
    if not as_json:
        _show_plan(told)
    if told["problems"]:
        raise NotDone([*told["problems"], "nothing was changed"])
    if dry_run or not _is_any(told["plan"]):
        if as_json:
            show.as_json({"system": location.system, "done": False, **told})
        return
    body["digest"] = told["digest"]
    waiting = f"{location.system!r} to apply the change"
    answer: dict[str, Any] = order(location, "supervisor.reload", body, timeout, waiting)
    if as_json:
        show.as_json({"system": location.system, "done": True, **answer})
    else:
        again = ", ".join(f"{name} (generation {number})" for name, number in answer["generations"].items())
        click.echo(f"done: {again} up" if again and not answer["problems"] else "done")
        show.unfinished(answer)
    if answer["problems"]:
        raise NotDone([f"but {problem}" for problem in answer["problems"]])


def _show_plan(told: dict[str, Any]) -> None:
    """Print the plan as a table: old value, new value, and how it takes effect."""
    steps = told["plan"]
    if not _is_any(steps):
        click.echo(f"nothing has changed: the system runs as {told['file']} says")
        click.echo("the code was not compared: appbackplane restart BACKPLANE loads new code")
        return
    rows = [
        (
            change["backplane"] or "(system)",
            change["key"],
            in_json(change["old"]),
            in_json(change["new"]),
            IN_WORDS[Takes(change["takes"])],
        )
        for change in _worth_showing(steps["changes"])
    ]
    rows += [(name, "", "", "", "new: starts") for name in steps["added"]]
    rows += [(name, "", "", "", "removed: stops") for name in steps["removed"]]
    show.table(("BACKPLANE", "KEY", "NOW", "THEN", "TAKES EFFECT"), rows)
    if steps["restarted"]:
        click.echo(f"restarts: {', '.join(steps['restarted'])}")


def _worth_showing(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out values that a backplane inherits from the system's table, where they are listed."""
    of_system = [(change["key"], change["old"], change["new"]) for change in changes if not change["backplane"]]
    return [
        change
        for change in changes
        if not change["backplane"]
        or not change["key"].startswith("restart.")
        or (change["key"], change["old"], change["new"]) not in of_system
    ]


def _needs_construction(steps: dict[str, Any]) -> bool:
    """Whether components will be constructed, so that a trial is worth its time."""
    return bool(steps["restarted"] or steps["added"] or steps["removed"])


def _is_any(steps: dict[str, Any]) -> bool:
    return bool(steps["changes"] or steps["added"] or steps["removed"])
