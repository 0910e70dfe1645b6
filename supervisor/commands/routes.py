"""routes: every operation of a system: its route, signature, priority, and whether it can be called now."""

from __future__ import annotations

import click

from . import show
from .asking import ask
from .cli import output_options
from .systems import find, system_option


@click.command("routes")
@system_option
@output_options
def command(system: str | None, as_json: bool) -> None:
    """List the routes that can be called."""
    entries = ask(find(system), "supervisor.routes")
    if as_json:
        show.as_json(entries)
        return
    show.table(
        ("ROUTE", "PRIORITY", "BACKPLANE", "UP", "SIGNATURE", "DESCRIPTION"),
        [
            (
                entry["route"],
                str(entry["priority"]),
                ", ".join(entry["places"]),
                _up(list(entry["places"].values())),
                entry["signature"],
                entry["summary"],
            )
            for entry in sorted(entries, key=lambda entry: entry["route"])
        ],
        less=("PRIORITY", "BACKPLANE", "DESCRIPTION"),
    )


def _up(places: list[bool]) -> str:
    return "yes" if all(places) else f"{sum(places)} of {len(places)}" if any(places) else "no"
