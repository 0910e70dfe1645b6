"""Report: what was found, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from .case import Figures, Result


def table(results: Sequence[Result], measured: str = "AppBackplane") -> Table:
    """All results; below each the peers that were measured. `measured`: what this is about, for the title."""
    shown = Table(title=f"{measured}: what is promised, measured", title_justify="left")
    for heading in ("case", "ours", "reference"):
        shown.add_column(heading, overflow="fold")
    shown.add_column("ratio", justify="right")
    shown.add_column("target", overflow="fold")
    shown.add_column("", overflow="fold")
    for result in results:
        verdict = "[green]pass[/]" if result.is_passed else f"[bold red]fail[/] {result.note}"
        ratio = "" if math.isnan(result.ratio) else f"{result.ratio:.2f}"
        shown.add_row(
            result.case,
            figures(result.ours),
            figures(result.reference),
            ratio,
            result.target,
            verdict,
            end_section=True,
        )
        for peer, found in result.peers.items():
            shown.add_row(f"  {peer}", "", figures(found), "", "", "", style="dim")
    return shown


def line(result: Result) -> str:
    """One result in one line."""
    verdict = "pass" if result.is_passed else f"FAIL ({result.note})"
    return f"{result.case}: {verdict}; ours {_inline(result.ours)}; reference {_inline(result.reference)}"


def as_json(results: Sequence[Result]) -> str:
    """A list, one object a case; a ratio that could not be measured is null. `note` and `peers` only where there are any."""
    return json.dumps([_row(result) for result in results], indent=2, ensure_ascii=False) + "\n"


def _row(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {
        "case": result.case,
        "ours": _rounded(result.ours),
        "reference": _rounded(result.reference),
        "ratio": None if math.isnan(result.ratio) else float(f"{result.ratio:.4g}"),
        "target": result.target,
        "pass": result.is_passed,
    }
    if result.note:
        row["note"] = result.note
    if result.peers:
        row["peers"] = {peer: _rounded(found) for peer, found in result.peers.items()}
    return row


def _rounded(found: Figures) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else float(f"{value:.5g}") for name, value in found.items()}


def figures(found: Figures) -> str:
    """One a line: "48.1 us p50"."""
    return "\n".join(_figure(name, value) for name, value in found.items())


def _inline(found: Figures) -> str:
    return ", ".join(_figure(name, value) for name, value in found.items()) or "-"


def _figure(name: str, value: float) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    for ending, unit in _UNITS.items():
        if name.endswith(ending):
            return f"{name.removesuffix(ending).replace('_', ' ')} {text} {unit}".strip()
    return f"{name.replace('_', ' ')} {text}"


#: The longer ending first: "mb_per_s" ends in "per_s", too.
_UNITS = {
    "_mb_per_s": "MB/s", "mb_per_s": "MB/s", "_per_s": "/s", "per_s": "/s", "_us": "µs", "_ms": "ms", "_ns": "ns",
    "_mib": "MiB", "_bytes": "B", "_percent": "%", "_s": "s",
}  # fmt: skip
