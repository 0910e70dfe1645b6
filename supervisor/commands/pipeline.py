"""pipeline: hands a system's recordings to other tools: packed into Parquet, or watched while they are made."""

from __future__ import annotations

import click

from .cli import debug_option, json_option
from .quantities import time
from .recorded import become, folder_of, master_option
from .systems import offered, system_option


@click.group("pipeline", no_args_is_help=False)
def command() -> None:
    """Pack what a system recorded, or watch it: on Spark."""


@command.command("compact")
@click.argument("named", metavar="[SYSTEM|DIR]", required=False, shell_complete=offered)
@system_option
@click.option("--to", metavar="DIR", required=True, help="Where to: a folder outside the run directory.")
@master_option
@json_option
@debug_option
def compact(named: str | None, system: str | None, to: str, master: str | None, as_json: bool) -> None:
    """Pack what was recorded into Parquet files, which keep it when the system forgets. Again at any time: each once."""
    if not to:
        raise click.UsageError("--to: expected the name of a folder, got ''")
    become("compact", folder_of(named, system), "--to", to, "--master", master, "--json", "" if as_json else None)


@command.command("stream")
@click.argument("named", metavar="[SYSTEM|DIR]", required=False, shell_complete=offered)
@system_option
@click.option("--trigger", metavar="TIME", callback=time, help='How often it looks, such as "1s". Default: 1s.')
@click.option(
    "--window", metavar="TIME", callback=time, help='Over how long figures are gathered, such as "10s". Default: 10s.'
)
@click.option("--rules", metavar="FILE", help="A TOML of alerts: what is watched, its limit, and the route to call.")
@click.option(
    "--checkpoint", metavar="DIR", help="Where it keeps how far it is. Default: a folder in the run directory."
)
@master_option
@json_option
@debug_option
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
    """Watch what is recorded: figures of each window on topic telemetry.window, and alerts by rule. Until Ctrl-C."""
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
