"""Cells: numbers, durations and bars, each in few characters and of a constant width. Pure.

Widths do not change with the value, so that a view stands still where nothing happens. Queue bars have an absolute,
logarithmic scale: a bar means the same depth in each row, and now as a minute ago.
"""

from __future__ import annotations

from collections.abc import Sequence

from .line import Line

#: Depths at which a queue's bar grows by a step: about three to a decade, the last from a thousand.
DEPTHS = (1, 2, 4, 10, 32, 100, 320, 1000)
_STEPS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
#: Share of a limit from which the CPU bar warns.
NEAR = 0.9


def count(value: float | None) -> str:
    """`value` in at most six characters; "-": unknown."""
    if value is None:
        return "-"
    if value < 99_999.5:
        return f"{value:,.0f}"
    for unit in "kMG":
        value /= 1000
        if value < 99.95:
            return f"{value:.1f}{unit}"
        if value < 9_999.5:
            return f"{value:,.0f}{unit}"
    return f"{value:.0e}"


def rate(value: float | None) -> str:
    """Events a second; below ten with one decimal."""
    if value is not None and 0 < value < 9.95:
        return f"{value:.1f}"
    return count(value)


def duration(seconds: float | None) -> str:
    """`seconds` in at most six characters, with a unit; "-": unknown."""
    if seconds is None:
        return "-"
    for limit, scale, unit in ((999.5e-6, 1e6, "us"), (0.9995, 1e3, "ms"), (99.5, 1, "s")):
        if seconds < limit:
            value = seconds * scale
            return f"{value:.1f} {unit}" if value < 9.95 and unit != "us" else f"{value:.0f} {unit}"
    for limit, scale, unit in ((5970, 60, "m"), (172_000, 3600, "h"), (86_400_000 - 43_200, 86_400, "d")):
        if seconds < limit:
            return f"{seconds / scale:.0f} {unit}"
    return f"{seconds / 31_557_600:.0f} y"


def age(seconds: float) -> str:
    """At most four characters, for up to a hundred minutes; tenths of a second matter here."""
    return f"{seconds:.1f}s" if seconds < 9.95 else duration(seconds).replace(" ", "")


def percentile(ns: int | None) -> str:
    """`ns` as a duration; "-": unknown."""
    return duration(None if ns is None else ns / 1e9)


def queue_bars(ready: Sequence[int], width: int) -> Line:
    """A bar for each priority, the most urgent first; depths beyond `width` are added to the last."""
    shown = list(ready[:width])
    if len(ready) > width:
        shown[-1] = sum(ready[width - 1 :])
    return tuple((_step(depth), "bar" if depth else "quiet") for depth in shown)


def share_bar(share: float | None, of: float, width: int) -> Line:
    """Bar of `share` in `of`; it warns from `NEAR` on."""
    if share is None or of <= 0:
        return ((" " * width, ""),)
    used = min(1.0, max(0.0, share / of))
    eighths = round(used * width * 8)
    full, rest = divmod(eighths, 8)
    bar = "█" * full + (_EIGHTHS[rest] if rest else "")
    style = "warn" if used >= NEAR else "bar"
    return ((bar, style), ("·" * (width - len(bar)), "quiet"))


def _step(depth: int) -> str:
    return _STEPS[sum(depth >= limit for limit in DEPTHS) - 1] if depth else "·"
