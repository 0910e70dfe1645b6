"""Bar: how far a round has come, as a line of text and as a picture. Only looks at what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .figures import Throughput

#: What the kernel's lanes are for, those that this example uses.
LANES = ((1, "feeder"), (2, "files"), (3, "parts"))


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a round."""

    progress: Mapping[str, Any]
    #: Since the round began.
    seconds: float

    @property
    def bulk(self) -> Throughput:
        """What has been done of it."""
        return Throughput(self.progress["round_files_done"], self.progress["round_bytes"], 0, self.seconds)

    @property
    def failed(self) -> int:
        """What could not be."""
        failed: int = self.progress["round_failed"]
        return failed


def line(look: Look) -> str:
    """As a line of text."""
    progress, bulk = look.progress, look.bulk
    return (
        f"{_percent(progress):3d} % | {progress['round_files_done']:5d} of {progress['round_files']} files"
        f" | {bulk.files_s:5.0f} files/s, {bulk.megabytes_s:5.1f} MB/s | {_lanes(progress)} | {look.failed} failed"
    )


def draw(look: Look) -> RenderableType:
    """As a picture."""
    progress = look.progress
    failed = Text(f"{look.failed} failed", style="bold red" if look.failed else "green")
    rates = f"{look.bulk.files_s:.0f} files/s, {look.bulk.megabytes_s:.1f} MB/s"
    done = f"{progress['round_files_done']} of {progress['round_files']} files"
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(ratio=1, min_width=10)
    bar.add_column(no_wrap=True)
    bar.add_row(
        ProgressBar(total=max(1, progress["round_files"]), completed=progress["round_files_done"]),
        Text.assemble(f"{_percent(progress):3d} %  {done}  {rates}  ", failed),
    )
    return Group(
        Text(f"indexing {progress['root']}", no_wrap=True, overflow="ellipsis"),
        bar,
        Text(_lanes(progress), style="dim", no_wrap=True, overflow="ellipsis"),
    )


def summary(look: Look) -> str:
    """What there is to say in the end."""
    bulk = look.bulk
    return (
        f"{look.progress['round_files_done']} files, {bulk.bytes / 1e6:.1f} MB in {bulk.seconds:.1f} s: "
        f"{bulk.files_s:.0f} files/s, {bulk.megabytes_s:.1f} MB/s, {look.failed} failed"
    )


def _percent(progress: Mapping[str, Any]) -> int:
    total = progress["round_files"]
    return 100 * progress["round_files_done"] // total if total else 0


def _lanes(progress: Mapping[str, Any]) -> str:
    """Who is at work, of how many; and what waits for them."""
    executing = progress["executing"]
    busy = ", ".join(f"{executing[lane]} {name}" for lane, name in LANES)
    return f"{sum(executing)} of {progress['workers']} workers ({busy}), {progress['ready']} wait"
