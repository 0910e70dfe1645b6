"""Edge table: the edges of flows as lines, the columns that fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import cells
from .edges import EdgeFigures
from .line import Line, clean, fit, joined

#: Longer names are cut.
NAME_MAX = 40
#: Heading, width, and the words of a cell; the ones behind are left out first where there is no room.
_COLUMNS: tuple[tuple[str, int, Callable[[EdgeFigures], tuple[str, str]]], ...] = (
    ("RATE", 6, lambda edge: (cells.rate(edge.rate), "")),
    ("CREDITS", 15, lambda edge: (f"{cells.count(edge.used)} / {cells.count(edge.credits)}", _fullness(edge))),
    ("OLDEST", 6, lambda edge: (cells.duration(None if edge.oldest_ms is None else edge.oldest_ms / 1e3), "")),
    ("HELD UP BY", 14, lambda edge: (edge.held_up_by or "-", "warn" if edge.held_up_by else "quiet")),
    ("LOST", 6, lambda edge: (cells.count(edge.lost), "warn" if edge.lost_new else "")),
    ("DEAD", 6, lambda edge: (cells.count(edge.dead_letters), "warn" if edge.dead_letters_new else "")),
    ("WAITING", 7, lambda edge: (cells.count(edge.waiting), "")),
)


def edge_table(edges: Sequence[EdgeFigures], width: int) -> list[Line]:
    """A line of headings and one an edge, each `width` wide at most; none if there are no flows."""
    if not edges:
        return []
    names = [f"{each.flow}: {each.producer} → {each.consumer}" for each in edges]
    name_width = max(len("EDGE"), min(NAME_MAX, max(map(len, names)), max(12, width // 3)))
    room, shown = width - 2 - name_width, []
    for column in _COLUMNS:
        room -= column[1] + 2
        if room < 0:
            break
        shown.append(column)
    blank: Line = (("", ""),)
    heads = [fit(((heading, "heading"),), size, is_right=True) for heading, size, _ in shown]
    lines = [joined([blank, fit((("EDGE", "heading"),), name_width), *heads])]
    for name, edge in zip(names, edges, strict=True):
        parts = []
        for _, size, cell in shown:
            words, style = cell(edge)
            parts.append(fit(((clean(words), style),), size, is_right=True))
        lines.append(joined([blank, fit(((clean(name), "title"),), name_width), *parts]))
    return lines


def _fullness(edge: EdgeFigures) -> str:
    return "warn" if edge.used >= edge.credits else ""
