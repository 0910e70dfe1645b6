"""scale: changes the number of one backplane's threads or replicas while the system runs. The TOML keeps its own values."""

from __future__ import annotations

from typing import Any

import click

from appbackplane.transport.errors import InvalidArgument

from ..direction.scaling import check
from . import show
from .asking import order
from .cli import output_options
from .completing import backplanes
from .quantities import timeout_option
from .reload import TIMEOUT_S, NotDone
from .systems import find, system_option


@click.command("scale")
@click.argument("name", metavar="NAME", shell_complete=backplanes)
@system_option
@click.option("--threads", type=int, help="Number of threads from now on, 1 to 256.")
@click.option(
    "--replicas", type=int, help="Number of replicas from now on, 1 to 256; those beyond it finish their work."
)
@timeout_option(TIMEOUT_S, "Seconds to wait for the end; the change goes on afterwards.")
@output_options
def command(
    name: str, system: str | None, threads: int | None, replicas: int | None, timeout: float, as_json: bool
) -> None:
    """Change the number of threads or replicas of backplane NAME while it runs; its next process keeps the number."""
    if threads is None and replicas is None:
        raise click.UsageError("give --threads or --replicas, or both")
    try:
        check(name, threads, replicas)
    except InvalidArgument as error:
        raise click.UsageError(error.message) from error
    location = find(system)
    numbers = {key: number for key, number in (("threads", threads), ("replicas", replicas)) if number is not None}
    answer = order(location, "supervisor.scale", {"backplane": name, **numbers}, timeout, f"{name} to be scaled")
    if as_json:
        show.as_json({"system": location.system, **answer})
    else:
        for key, number in numbers.items():
            _tell(name, key, number, answer)
        show.unfinished(answer)
    if answer["problems"]:
        raise NotDone(answer["problems"])


def _tell(name: str, key: str, number: int, answer: dict[str, Any]) -> None:
    """Of one key: what it was before, and the file where it still is."""
    before = [change["old"] for change in answer["plan"]["changes"] if change["key"] == key]
    click.echo(f"{name}: {key} = {number} ({f'before: {before[0]}' if before else 'as before'})")
    # Replicas have entries of their own, `backplane.NAME-1` and so on.
    differs = [
        differing["file"]
        for path, differing in answer["differs"].items()
        if path == f"backplane.{name}.{key}" or (path.startswith(f"backplane.{name}-") and path.endswith(f".{key}"))
    ]
    if differs:
        click.echo(f"{answer['file']} still says {differs[0]}: the next reload goes back to it")
