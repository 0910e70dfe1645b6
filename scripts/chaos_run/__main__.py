"""`scripts/chaos [--seconds N] [--seed S] [--json FILE]`: one run, what it found, and exit 0 if nothing is wrong."""

from __future__ import annotations

import json
import random
import signal
import sys
from pathlib import Path

import click

from .kills import run_kills
from .moves import WEIGHTS
from .run import run


@click.command("chaos")
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(5.0), help="How long, in all.")
@click.option("--seed", type=click.IntRange(0), help="Draw the moves from this. Default: any, and it is said.")
@click.option("--kills", type=click.IntRange(1), help="Instead: kill one backplane so many times in a row.")
@click.option("--without", multiple=True, type=click.Choice(list(WEIGHTS)), help="Leave out a kind of move.")
@click.option(
    "--json", "file", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write results here."
)
def main(seconds: float, seed: int | None, kills: int | None, without: tuple[str, ...], file: Path | None) -> None:
    """Kill, stop and restart what a system consists of, under load; count what is left; exit 0 if nothing is wrong."""
    seed = random.randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what has been started is taken down, too

    def say(text: str) -> None:
        click.echo(text, err=True)

    verdict = run(seconds, seed, without, say) if kills is None else run_kills(kills, seed, say)
    click.echo(verdict.text())
    if file is not None:
        file.write_text(json.dumps(verdict.to_map(), indent=2), encoding="utf-8")
    sys.exit(0 if verdict.holds else 1)


if __name__ == "__main__":
    main()
