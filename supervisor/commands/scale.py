"""scale: changes one backplane's number of threads while it runs. The TOML keeps its own value."""

from __future__ import annotations

from typing import Any

import click

from appbackplane.transport.errors import InvalidArgument

from ..direction.reconfiguration import check_threads
from . import show
from .asking import ask
from .cli import output_options
from .completing import backplanes
from .reload import NotDone
from .systems import find, system_option


@click.command("scale")
@click.argument("name", metavar="NAME", shell_complete=backplanes)
@system_option
@click.option("--threads", type=int, required=True, help="Number of threads from now on, 1 to 256.")
@output_options
def command(name: str, system: str | None, threads: int, as_json: bool) -> None:
    """Change the number of threads of backplane NAME without a restart; its next process keeps the number."""
    try:
        check_threads(name, threads)
    except InvalidArgument as error:
        raise click.UsageError(error.message) from error
    location = find(system)
    answer = ask(location, "supervisor.scale", {"backplane": name, "threads": threads}, 10.0)
    if as_json:
        show.as_json({"system": location.system, **answer})
    else:
        _tell(name, threads, answer)
    if answer["problems"]:
        raise NotDone(answer["problems"])


def _tell(name: str, threads: int, answer: dict[str, Any]) -> None:
    changes = answer["plan"]["changes"]
    before = f"before: {changes[0]['old']}" if changes else "as before"
    click.echo(f"{name}: threads = {threads} ({before})")
    differs = answer["differs"].get(f"backplane.{name}.threads")
    if differs is not None:
        click.echo(f"{answer['file']} still says {differs['file']}: the next reload goes back to it")
