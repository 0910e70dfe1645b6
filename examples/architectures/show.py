"""Bring up one architecture after the other, give each the same work, and print who did it.

    python show.py [FILE.toml ...]
    python show.py --curves [FOLDER]

The first: twelve pieces of work of 50 ms that block their thread, asked for at the same time. How many processes and threads
did them, and how many were done at once? The second offers the inspection station of each architecture more and more work
(curves.py), and writes architectures.svg and architectures.json into FOLDER.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry import ARCHITECTURES, HERE

from appbackplane.transport import connect

FILES = tuple(each.applications.name for each in ARCHITECTURES if each.has_applications)
APPLICATIONS = ("orders", "billing", "alerts")
WORK_COUNT, WORK_S = 12, 0.05
#: Of a step of the curves: before what counts, and what counts.
SETTLE_S, MEASURED_S = 0.5, 1.5


@dataclass(frozen=True, slots=True)
class Observed:
    """What the answers said."""

    applications: int
    processes: int
    threads: int
    at_once: int
    seconds: float


def observe(served: Iterable[Mapping[str, Any]]) -> Observed:
    """From the answers to `work`: who did it, and how many pieces of it at the same time."""
    served = list(served)
    return Observed(
        applications=len({piece["application"] for piece in served}),
        processes=len({piece["process"] for piece in served}),
        threads=len({(piece["process"], piece["thread"]) for piece in served}),
        at_once=at_once(served),
        seconds=(max(piece["ended_ns"] for piece in served) - min(piece["began_ns"] for piece in served)) / 1e9,
    )


def at_once(served: Iterable[Mapping[str, Any]]) -> int:
    """The most pieces of work that were being done at one moment."""
    moments = [moment for piece in served for moment in ((piece["began_ns"], 1), (piece["ended_ns"], -1))]
    running = most = 0
    for _, change in sorted(moments):  # at the same moment, an end comes before a beginning
        running += change
        most = max(most, running)
    return most


def work(client: Any) -> list[Mapping[str, Any]]:
    """Ask for all pieces of work at once, of whichever applications the system has."""
    routes = client.directory().routes
    present = [name for name in APPLICATIONS if f"{name}.work" in routes]
    pending = [client.submit(f"{present[n % len(present)]}.work", seconds=WORK_S) for n in range(WORK_COUNT)]
    return [call.result() for call in pending]


def ship(client: Any) -> list[Mapping[str, Any]]:
    """The same by state machines: shipments are asked for first, and each waits for its payment."""
    keys = [f"ticket-{n}" for n in range(WORK_COUNT)]
    shipped = [client.submit("orders.ship", key=key, seconds=WORK_S) for key in keys]
    for call in [client.submit("orders.pay", key=key) for key in keys]:
        call.result()
    return [call.result() for call in shipped]


def main(words: list[str]) -> int:
    """Exit code 0: all were shown."""
    parser = argparse.ArgumentParser(prog="show.py")
    parser.add_argument("files", nargs="*", metavar="FILE.toml", help="default: all that run applications.py")
    parser.add_argument("--curves", nargs="?", const=".", metavar="FOLDER", help="measure and draw; default: here")
    options = parser.parse_args(words)
    if options.curves is None:
        show(options.files)
    else:
        draw(Path(options.curves))
    return 0


def draw(folder: Path) -> None:
    """Measure all stations, for two seconds a step, and write the picture and the figures."""
    import curves  # it imports the benchmarks of this repository, which the table does not need

    if not folder.is_dir():
        sys.exit(f"--curves {folder}: there is no such folder")
    steps = curves.sweep(
        ARCHITECTURES, curves.LOADS, SETTLE_S, MEASURED_S, lambda step: print(curves.line(step), flush=True)
    )
    for name, text in (("svg", curves.picture(steps)), ("json", curves.as_json(steps, SETTLE_S, MEASURED_S))):
        path = folder / f"architectures.{name}"
        path.write_text(text, encoding="utf-8")
        print(f"written to {path}")


def show(files: list[str]) -> None:
    """The table."""
    print(f"{'':16}applications  processes  threads  at once  {WORK_COUNT} x {WORK_S * 1000:.0f} ms took")
    for file in files or FILES:
        path = HERE / file
        appbackplane("up", str(path), "--detach")
        try:
            with connect(path) as client:
                seen = observe(ship(client) if "orders.ship" in client.directory().routes else work(client))
        finally:
            appbackplane("down", "-s", str(path))
        figures = f"{seen.applications:12}  {seen.processes:9}  {seen.threads:7}  {seen.at_once:7}"
        print(f"{path.stem:16}{figures}  {seen.seconds * 1000:.0f} ms", flush=True)


def appbackplane(*words: str) -> None:
    """The command line, by this very Python."""
    command = [sys.executable, "-m", "appbackplane.supervisor", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"appbackplane {' '.join(words)}:\n{ended.stdout}{ended.stderr}".rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
