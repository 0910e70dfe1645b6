"""Plots: draw finished figures as SVG text. No library, no script, nothing loaded; colours come from the page's style sheet.

Plots are 960 points wide and scale with the page. Cells of one colour are one path, and neighbours in it are one rectangle, so
that a map of ten thousand cells is 100 KB. Every figure in a plot is also in a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from html import escape
from typing import NamedTuple

from .contents import Heat, Path, Slow
from .words import count, duration, marks_of_latency, marks_of_time, moment, nice, shown

WIDTH = 960
#: Room for the labels of the axes.
LEFT, RIGHT = 92, 16
#: Number of colours of a heat map; --h1 to --h9 in the style sheet.
LEVELS = 9
#: Height of a heat map.
_HEAT_HEIGHT = 260
#: Smallest number of latency bins shown: a decade, so that there is a mark beside it.
_BUCKETS_MIN = 8
_STRIP_HEIGHT, _STRIP_GAP = 46, 12
_TIME_MARKS = 8
#: Longest name in a strip's label; the rest is cut.
_NAME_MAX = 14
#: Height of a waterfall's row, and the room for its names.
_ROW = 22
_NAMES = 300


def text(value: object) -> str:
    """Escape any value for the page: it is shown literally, and has no effect."""
    return escape(shown(str(value)), quote=True)


def heat_map(heat: Heat, zone: tzinfo | None = None) -> str:
    """Time to the right, latency upwards, number of actions as colour; above it the lines of median and 99th percentile."""
    used = [n for n in range(len(heat.edges_ns) - 1) if any(row[n] for row in heat.counts)]
    if not used:
        return ""
    low, high = max(0, used[0] - 1), min(len(heat.edges_ns) - 2, used[-1] + 1)
    while high - low < _BUCKETS_MIN:
        low, high = max(0, low - 1), min(len(heat.edges_ns) - 2, high + 1)
    top, bottom = 10, 10 + _HEAT_HEIGHT
    x = _time_axis(heat, len(heat.counts))
    first_ns, last_ns = heat.edges_ns[low], heat.edges_ns[high + 1]

    def y(ns: float) -> float:
        part = math.log(min(max(ns, first_ns), last_ns) / first_ns) / math.log(last_ns / first_ns)
        return round(bottom - part * _HEAT_HEIGHT, 1)

    most = max(row[n] for row in heat.counts for n in used)
    paths: dict[int, list[str]] = {}
    for n in range(low, high + 1):
        levels = [level(row[n], most) for row in heat.counts]
        upper, lower = y(heat.edges_ns[n + 1]), y(heat.edges_ns[n])
        for begin, end, which in _runs(levels):
            if which:
                left, right = x(begin), x(end)
                paths.setdefault(which, []).append(f"M{left:g} {upper:g}H{right:g}V{lower:g}H{left:g}z")
    drawn = [f'<path class="h{which}" d="{"".join(parts)}"/>' for which, parts in sorted(paths.items())]
    for name, values in (("p50", heat.p50_ns), ("p99", heat.p99_ns)):
        points = [(x(n + 0.5), None if ns is None else y(ns)) for n, ns in enumerate(values)]
        drawn += [f'<path class="halo" d="{_line(points)}"/>', f'<path class="{name}" d="{_line(points)}"/>']
    marks = [_mark_left(y(ns), told) for ns, told in marks_of_latency(first_ns, last_ns)]
    marks += _time_marks(heat.begin_ns, heat.width_ns, len(heat.counts), bottom, zone)
    hover = [
        f'<rect class="hover" x="{x(n):g}" y="{top}" width="{x(n + 1) - x(n):g}" height="{_HEAT_HEIGHT}"><title>'
        f"{_said(heat, n, zone)}</title></rect>"
        for n, row in enumerate(heat.counts)
        if any(row)
    ]
    frame = f'<rect class="frame" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{_HEAT_HEIGHT}"/>'
    key = _heat_key(most, bottom + 34)
    return _svg(bottom + 52, "How many actions took how long, by time", frame, *drawn, *marks, *key, *hover)


def level(value: int, most: int) -> int:
    """Colour level of a count: 0 for none, 1 to `LEVELS` by its logarithm."""
    if value <= 0:
        return 0
    return LEVELS if most == 1 else 1 + min(LEVELS - 1, int(math.log(value) / math.log(most) * (LEVELS - 1) + 1e-9))


class Strip(NamedTuple):
    """One row of a time line: a name, an area, and optionally a line above it and a limit."""

    name: str
    area: Sequence[float]
    #: Label below the name: the greatest value.
    said: str
    line: Sequence[float] = ()
    limit: float | None = None


def strips(heat: Heat, rows: Sequence[Strip], about: str, zone: tzinfo | None = None) -> str:
    """Draw one row for each strip over a common time axis; each scales from 0 to its greatest value or its limit."""
    if not rows:
        return ""
    bins = len(rows[0].area)
    x = _time_axis(heat, bins)
    drawn: list[str] = []
    for number, row in enumerate(rows):
        top = 8 + number * (_STRIP_HEIGHT + _STRIP_GAP)
        base = top + _STRIP_HEIGHT
        most = max([*row.area, *row.line, row.limit or 0.0, 1e-12])

        def y(value: float, base: int = base, most: float = most) -> float:
            return round(base - value / most * (_STRIP_HEIGHT - 2), 1)

        drawn.append(f'<path class="axis" d="M{LEFT} {base}H{WIDTH - RIGHT}"/>')
        steps = "".join(f"H{x(n):g}V{y(value):g}" for n, value in enumerate(row.area))
        drawn.append(f'<path class="area" d="M{LEFT} {base}{steps}H{x(bins):g}V{base}z"/>')
        if row.line:
            points: list[tuple[float, float | None]] = [(x(n + 0.5), y(value)) for n, value in enumerate(row.line)]
            drawn.append(f'<path class="p99" d="{_line(points)}"/>')
        if row.limit:
            drawn.append(f'<path class="limit" d="M{LEFT} {y(row.limit):g}H{WIDTH - RIGHT}"/>')
        name = row.name if len(row.name) <= _NAME_MAX else row.name[: _NAME_MAX - 1] + "…"
        drawn.append(f'<text class="name" x="{LEFT - 8}" y="{base - _STRIP_HEIGHT / 2:g}">{text(name)}')
        drawn.append(f"<title>{text(row.name)}</title></text>")
        drawn.append(
            f'<text class="mark left" x="{LEFT - 8}" y="{base - _STRIP_HEIGHT / 2 + 14:g}">{text(row.said)}</text>'
        )
    bottom = 8 + len(rows) * (_STRIP_HEIGHT + _STRIP_GAP) - _STRIP_GAP
    drawn += _time_marks(heat.begin_ns, heat.width_ns, bins, bottom, zone)
    return _svg(bottom + 24, about, *drawn)


def waterfall(path: Path) -> str:
    """Draw the steps of a path below each other: arrival, begin and end of each call, and its own run time."""
    steps = path.steps
    total = max(1, path.total_ns, *(step.from_ns + step.wait_ns + step.took_ns for step in steps))
    scale = (WIDTH - _NAMES - RIGHT) / total
    drawn: list[str] = []
    for number, step in enumerate(steps):
        y = 4 + number * _ROW
        left = _NAMES + step.from_ns * scale
        waited, took, own = (max(0, ns) * scale for ns in (step.wait_ns, step.took_ns, step.own_ns))
        indent = 4 + 10 * min(step.depth, 8)
        name = f"{step.operation} · {step.backplane}"
        most = 44 - 2 * min(step.depth, 8)
        cut = name if len(name) <= most else name[: most - 1] + "…"
        told = f"{name}: waited {duration(step.wait_ns)}, took {duration(step.took_ns)}, ran {duration(step.own_ns)}"
        drawn.append(f"<g><title>{text(told)}</title>")
        drawn.append(f'<text class="step" x="{indent}" y="{y + 13}">{text(cut)}</text>')
        drawn.append(f'<rect class="waited" x="{left:.1f}" y="{y + 3}" width="{waited:.1f}" height="12"/>')
        drawn.append(f'<rect class="took" x="{left + waited:.1f}" y="{y + 3}" width="{max(1, took):.1f}" height="12"/>')
        drawn.append(
            f'<rect class="own" x="{left + waited:.1f}" y="{y + 3}" width="{max(1, own):.1f}" height="12"/></g>'
        )
    height = 8 + len(steps) * _ROW
    step_ns = nice(total / 5)
    for number in range(1, int(total / step_ns) + 1):
        at = _NAMES + number * step_ns * scale
        drawn.insert(0, f'<path class="grid" d="M{at:.1f} 0V{height}"/>')
        drawn.append(f'<text class="mark" x="{at:.1f}" y="{height + 13}">{duration(number * step_ns)}</text>')
    return _svg(height + 20, f"The chain of calls of trace {text(path.trace)}", *drawn)


def spent(action: Slow, most_ns: int) -> str:
    """Draw the time of one action as parts: waited, computed, blocked, awaited others."""
    blocked = max(0, action.run_ns - action.cpu_ns)
    awaited = max(0, action.took_ns - action.run_ns)
    computed = min(action.cpu_ns, action.run_ns)
    return parts((("waited", action.wait_ns), ("own", computed), ("blocked", blocked), ("took", awaited)), most_ns)


def parts(named: Iterable[tuple[str, int]], most_ns: int) -> str:
    """Draw parts side by side in their colours, on a scale common to the table."""
    at, drawn = 0.0, []
    for name, ns in named:
        width = ns / max(1, most_ns) * 160
        drawn.append(f'<rect class="{name}" x="{at:.1f}" width="{width:.1f}" height="10"/>')
        at += width
    return f'<svg class="small" viewBox="0 0 160 10" width="160" height="10" aria-hidden="true">{"".join(drawn)}</svg>'


def spread(p50: float, p90: float, p99: float, most: float, low_ns: float, high_ns: float) -> str:
    """Draw the median, 90 %, 99 % and maximum on a logarithmic scale common to the table."""

    def x(ns: float) -> float:
        part = math.log(max(ns, low_ns) / low_ns) / max(1e-9, math.log(high_ns / low_ns))
        return round(3 + min(1.0, part) * 78, 1)

    return (
        '<svg class="small" viewBox="0 0 84 10" width="84" height="10" aria-hidden="true">'
        f'<path class="rail" d="M{x(p50)} 5H{x(most)}"/><path class="body" d="M{x(p50)} 5H{x(p90)}"/>'
        f'<circle class="dot" cx="{x(p50)}" cy="5" r="3"/><path class="tick" d="M{x(p99)} 1V9"/></svg>'
    )


def _time_axis(heat: Heat, bins: int) -> Callable[[float], float]:
    scale = (WIDTH - LEFT - RIGHT) / max(1, bins)
    return lambda n: round(LEFT + n * scale, 1)


def _time_marks(begin_ns: int, width_ns: int, bins: int, y: float, zone: tzinfo | None) -> list[str]:
    end_ns = begin_ns + bins * width_ns
    marks: list[str] = []
    for at, told in marks_of_time(begin_ns, end_ns, _TIME_MARKS, zone):
        x = LEFT + (at - begin_ns) / max(1, end_ns - begin_ns) * (WIDTH - LEFT - RIGHT)
        marks.append(f'<path class="axis" d="M{x:.1f} {y}v4"/>')
        if LEFT + 20 < x < WIDTH - RIGHT - 20:
            marks.append(f'<text class="mark" x="{x:.1f}" y="{y + 16}">{text(told)}</text>')
    return marks


def _mark_left(y: float, told: str) -> str:
    label = f'<text class="mark left" x="{LEFT - 8}" y="{y + 4:g}">{text(told)}</text>'
    return f'<path class="axis" d="M{LEFT - 4} {y:g}h4"/>{label}'


def _heat_key(most: int, y: float) -> list[str]:
    """The legend of the colours and lines."""
    x = float(LEFT)
    key: list[str] = []
    if most > 1:
        key.append(f'<text class="mark begin" x="{x:g}" y="{y + 10:g}">1</text>')
        x += 14
    for which in range(1, LEVELS + 1):
        if which == LEVELS or most > 1:
            key.append(f'<path class="h{which}" d="M{x:g} {y:g}h16v12h-16z"/>')
            x += 16
    key.append(f'<text class="mark begin" x="{x + 6:g}" y="{y + 10:g}">{_actions(most)}</text>')
    for name, told in (("p50", "median"), ("p99", "99 % are below")):
        x = WIDTH - RIGHT - (210 if name == "p50" else 120)
        key.append(f'<path class="{name}" d="M{x} {y + 6:g}h20"/>')
        key.append(f'<text class="mark begin" x="{x + 26}" y="{y + 10:g}">{told}</text>')
    return key


def _said(heat: Heat, n: int, zone: tzinfo | None) -> str:
    at = moment(heat.begin_ns + n * heat.width_ns, heat.width_ns * len(heat.counts), zone)
    return text(
        f"{at}, {duration(heat.width_ns)}: {_actions(sum(heat.counts[n]))}, median {duration(heat.p50_ns[n])}, "
        f"99 % below {duration(heat.p99_ns[n])}"
    )


def _actions(number: int) -> str:
    return f"{count(number)} action{'s' * (number != 1)}"


def _runs(values: Sequence[int]) -> Iterable[tuple[int, int, int]]:
    """Yield (begin, end, value) for each run of equal neighbours."""
    begin = 0
    for n in range(1, len(values) + 1):
        if n == len(values) or values[n] != values[begin]:
            yield begin, n, values[begin]
            begin = n


def _line(points: Iterable[tuple[float, float | None]]) -> str:
    """Path through the points, with a gap at each None. A single point becomes a short stroke."""
    parts: list[str] = []
    is_drawing = False
    for x, y in points:
        if y is None:
            is_drawing = False
        else:
            parts.append(f"{'L' if is_drawing else 'M'}{x:g} {y:g}" + ("" if is_drawing else "h.1"))
            is_drawing = True
    return "".join(parts)


def _svg(height: float, about: str, *parts: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {height:g}" role="img"><title>{about}</title>'
        + "".join(parts)
        + "</svg>"
    )
