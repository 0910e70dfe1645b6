"""`scripts/bench [CASE...] [--json FILE] [--quick]`: measure, show, and exit 0 if all that is promised holds."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import click
from rich.console import Console

from appbackplane.runtime.build import BUILD
from appbackplane.transport.directory import nearest

from .cases import CASES
from .harness.plots import PLOTS
from .harness.report import as_json, line, table
from .harness.runner import run


@click.command("bench")
@click.argument("names", nargs=-1, metavar="[CASE]...")
@click.option(
    "--json", "file", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write results here."
)
@click.option(
    "--plots", type=click.Path(file_okay=False, path_type=Path), help="Where plots are written; default: build/plots."
)
@click.option("--quick", "is_quick", is_flag=True, help="Fewer and shorter rounds: within 90 s, and less sure.")
@click.option("--interpreted", "is_interpreted", is_flag=True, help="Measure the sources as they are, not compiled.")
@click.option("--list", "is_list", is_flag=True, help="Name the cases and their targets, and measure nothing.")
def main(
    names: tuple[str, ...], file: Path | None, plots: Path | None, is_quick: bool, is_interpreted: bool, is_list: bool
) -> None:
    """Measure each CASE (default: all) against its reference; exit code 0 if all targets hold, 1 if not, 2 on bad usage."""
    known = {case.name: case for case in CASES}
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"known here: {', '.join(known)}"
            raise click.UsageError(f"no case {name!r} ({hint})")
    chosen = [known[name] for name in dict.fromkeys(names)] or CASES
    if is_list:
        for case in chosen:
            click.echo(f"{case.name:<20} {case.target}\n{'':<20} {case.what}")
        return
    if is_interpreted and BUILD != "interpreted":
        raise click.UsageError("--interpreted, but the package of this Python is compiled: use scripts/bench")
    if file is not None and not file.absolute().parent.is_dir():
        raise click.UsageError(f"--json {file}: there is no folder {file.absolute().parent}")
    if plots is not None:
        PLOTS.folder = plots
    results, progress = [], Console(stderr=True)
    progress.print(f"measuring {measured()}", highlight=False, soft_wrap=True)
    for number, case in enumerate(chosen, 1):
        with progress.status(f"{number}/{len(chosen)} {case.name}: {case.what}"):
            results.append(run(case, is_quick=is_quick))
        progress.print(line(results[-1]), highlight=False, soft_wrap=True, markup=False)
        if file is not None:  # what has been found is kept, whatever happens to the rest
            file.write_text(as_json(results), encoding="utf-8")
    Console(width=None if sys.stdout.isatty() else 160).print(table(results, measured()))
    for plot in PLOTS.written:
        click.echo(f"plotted to {plot}")
    for reason in PLOTS.missing:
        click.echo(reason)
    if file is not None:
        click.echo(f"written to {file}: {measured()}")
    sys.exit(0 if all(result.is_passed for result in results) else 1)


def measured() -> str:
    """What is measured, and on what: figures of two machines, or of two forms, are not to be compared."""
    cores = len(os.sched_getaffinity(0))
    return f"AppBackplane {version('appbackplane')} {BUILD}, CPython {platform.python_version()}, {cores} cores"


if __name__ == "__main__":
    main()
