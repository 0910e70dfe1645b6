"""`scripts/requests [--requests N] [--kinds K,K] [--kill-every S] [--seed N] [--json FILE]`: exit 0 if nothing is lost."""

from __future__ import annotations

import json
import random
import signal
import sys
from pathlib import Path

import click

from .run import run

KINDS = ("threads", "processes")


def kinds_of(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    """As they are written, with commas."""
    kinds = value.split(",")
    for kind in kinds:
        if kind not in KINDS:
            raise click.BadParameter(f"{kind!r}: expected {' or '.join(KINDS)}, or both with a comma")
    return kinds


@click.command("requests")
@click.option("--requests", default=200_000, show_default=True, type=click.IntRange(1), help="How many, about.")
@click.option("--kinds", default="threads,processes", show_default=True, callback=kinds_of, help="Of workers.")
@click.option(
    "--kill-every",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.0),
    help="Seconds from one kill of a worker process to the next, on average; 0: none is killed.",
)
@click.option("--seed", type=click.IntRange(0), help="Draw failures and kills from this. Default: any, and it is said.")
@click.option(
    "--json", "file", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write the accounts here."
)  # fmt: skip
def main(requests: int, kinds: list[str], kill_every: float, seed: int | None, file: Path | None) -> None:
    """Have requests executed in a three-level hierarchy, kill workers meanwhile, and account for every request."""
    seed = random.randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what has been started is taken down, too
    accounts = []
    for kind in kinds:
        accounts.append(run(requests, seed, kind, kill_every, lambda text: click.echo(text, err=True)))
        click.echo(accounts[-1].text())
    if file is not None:
        file.write_text(json.dumps([account.to_map() for account in accounts], indent=2), encoding="utf-8")
    sys.exit(0 if all(account.holds for account in accounts) else 1)


if __name__ == "__main__":
    main()
