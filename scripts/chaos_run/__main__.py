"""`scripts/chaos [--seconds N] [--seed S] [--json FILE]`: one run, what it found, and exit 0 if nothing is wrong."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import click

from .moves import WEIGHTS
from .run import run


@click.command("chaos")
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(5.0), help="How long, in all.")
@click.option("--seed", type=click.IntRange(0), help="Draw the moves from this. Default: any, and it is said.")
@click.option("--without", multiple=True, type=click.Choice(list(WEIGHTS)), help="Leave out a kind of move.")
@click.option(
    "--json", "file", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write results here."
)
def main(seconds: float, seed: int | None, without: tuple[str, ...], file: Path | None) -> None:
    """Kill, stop and restart what a system consists of, under load; count what is left; exit 0 if nothing is wrong."""
    seed = random.randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    verdict = run(seconds, seed, without, say=lambda text: click.echo(text, err=True))
    click.echo(verdict.text())
    if file is not None:
        file.write_text(json.dumps(verdict.to_map(), indent=2), encoding="utf-8")
    sys.exit(0 if verdict.holds else 1)


if __name__ == "__main__":
    main()
