"""pipeline: hands a system's recordings to other tools: packed into Parquet, or watched while they are made."""

from __future__ import annotations

import click

from .cli import output_options
from .quantities import time
from .recorded import become, folder_of, master_option
from .systems import offered, system_option


@click.group("pipeline", no_args_is_help=False)
def command() -> None:
    """Pack or watch a system's recordings, on Spark."""


@command.command("compact")
@click.argument("named", metavar="[SYSTEM|DIR]", required=False, shell_complete=offered)
@system_option
@click.option("--to", metavar="DIR", required=True, help="Target folder, outside the run directory.")
@master_option
@output_options
def compact(named: str | None, system: str | None, to: str, master: str | None, as_json: bool) -> None:
    """Pack recordings into Parquet files, which outlive the system's own copies. Repeatable: each record is packed once."""
    if not to:
        raise click.UsageError("--to: expected the name of a folder, got ''")
    become("compact", folder_of(named, system), "--to", to, "--master", master, "--json", "" if as_json else None)


@command.command("stream")
@click.argument("named", metavar="[SYSTEM|DIR]", required=False, shell_complete=offered)
@system_option
@click.option("--trigger", metavar="TIME", callback=time, help='Interval between two reads, such as "1s". Default: 1s.')
@click.option(
    "--window",
    metavar="TIME",
    callback=time,
    help='Length of the windows of the statistics, such as "10s". Default: 10s.',
)
@click.option("--rules", metavar="FILE", help="A TOML of alerts: the operation, the condition, and the route to call.")
@click.option(
    "--checkpoint", metavar="DIR", help="Folder for the stream's progress. Default: one in the run directory."
)
@master_option
@output_options
def stream(
    named: str | None,
    system: str | None,
    trigger: str | None,
    window: str | None,
    rules: str | None,
    checkpoint: str | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Watch recordings until Ctrl-C: publish statistics of each window on topic telemetry.window, and send alerts by rule."""
    if checkpoint == "":
        raise click.UsageError("--checkpoint: expected the name of a folder, got ''")
    become(
        "stream", folder_of(named, system),
        "--trigger", trigger,
        "--window", window,
        "--rules", rules,
        "--checkpoint", checkpoint,
        "--master", master,
        "--json", "" if as_json else None,
    )  # fmt: skip
