"""report: summarises a system's recordings: on the terminal, and as a page. The system need not run."""

from __future__ import annotations

from datetime import datetime

import click

from ..logs import filter as log_filter
from .cli import output_options
from .recorded import become, folder_of, master_option
from .systems import offered, system_option


@click.command("report")
@click.argument("named", metavar="[SYSTEM|DIR]", required=False, shell_complete=offered)
@system_option
@click.option("--since", metavar="TIME", help='Only actions that began since: "10m" ago (s, m, h, d, w), or ISO 8601.')
@click.option("--html", metavar="FILE", help="Also write a page with plots, as one self-contained file.")
@master_option
@output_options
def command(
    named: str | None, system: str | None, since: str | None, html: str | None, master: str | None, as_json: bool
) -> None:
    """Summarise a system's recordings: durations, load, late actions, and what waited for what."""
    try:
        instant = None if since is None else log_filter.since(since, datetime.now().astimezone())
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    if html == "":
        raise click.UsageError("--html: expected the name of a file, got ''")
    become(
        "report", folder_of(named, system),
        "--since-ns", None if instant is None else str(nanoseconds(instant)),
        "--html", html,
        "--master", master,
        "--json", "" if as_json else None,
    )  # fmt: skip


def nanoseconds(instant: datetime) -> int:
    """Unix time; 0 for an instant long before it."""
    try:
        return max(0, int(instant.timestamp() * 1e6)) * 1_000
    except (OverflowError, ValueError):  # the year 1
        return 0
