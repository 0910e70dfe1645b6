"""View: a second of the running system, drawn for a terminal. Only looks at what it is given."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .figures import Second

#: Urgent p99 in ms up to which it is shown in green: the latency contract in codesearch.toml.
CONTRACT_MS = 5.0
#: Lines of the last search's answer that are shown.
HITS_SHOWN = 6


def draw(second: Second) -> RenderableType:
    """The whole picture."""
    return Panel(
        Group(_figures(second), Text(), _round(second), Text("\n"), _search(second), _said(second)),
        title="code search",
        subtitle=f"{second.elapsed_s} s, Ctrl-C ends it",
    )


def _figures(second: Second) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    for heading in ("", "this second", "since the start"):
        table.add_column(heading, justify="left" if not heading else "right")
    for percent in (50, 99):
        now, ever = (latencies.percentile_ms(percent) for latencies in (second.urgent, second.urgent_total))
        table.add_row(f"urgent search p{percent}", _contract(now), _contract(ever))
    errors = f", {second.errors_count} failed" if second.errors_count else ""
    table.add_row("searches", str(second.urgent.count), f"{second.urgent_total.count}{errors}")
    table.add_row(
        "bulk indexing", f"{second.bulk.files_s:.0f} files/s, {second.bulk.megabytes_s:.1f} MB/s",
        f"{second.progress['files']} files, {second.progress['bytes'] / 1e6:.0f} MB",
    )  # fmt: skip
    host = second.host
    if host:
        memory = f"memory {host['memory_used'] / 1e9:.1f} of {host['memory_total'] / 1e9:.1f} GB"
        table.add_row("machine", f"cpu {host['cpu_percent']:.0f} % of {host['cpus']}", memory)
    return table


def _contract(ms: float) -> Text:
    return Text(f"{ms:.2f} ms", style="green" if ms <= CONTRACT_MS else "bold red")


def _round(second: Second) -> RenderableType:
    progress = second.progress
    done = f"{progress['round_files_done']} of {progress['round_files']} files"
    label = f"round {progress['round']}: {done} of {progress['root']}"
    return Group(
        Text(label, no_wrap=True, overflow="ellipsis"),
        ProgressBar(total=max(1, progress["round_files"]), completed=progress["round_files_done"]),
    )


def _search(second: Second) -> RenderableType:
    root = second.progress["root"].rstrip("/") + "/"
    lines = [Text(f"query.search {second.text!r}", style="bold")]
    for hit in second.hits[:HITS_SHOWN]:
        place = f"{hit['file'].removeprefix(root)}:{hit['line']}"
        lines.append(Text.assemble((place, "cyan"), "  ", hit["context"], no_wrap=True, overflow="ellipsis"))
    lines += [Text("nothing found", style="dim")] * (not second.hits)
    lines += [Text()] * (HITS_SHOWN + 1 - len(lines))  # the picture keeps its height
    return Group(*lines)


def _said(second: Second) -> RenderableType:
    return Text(second.said, style="dim", no_wrap=True, overflow="ellipsis")
