"""Columns: the cells of a table's rows, and the choice of columns that fit. Pure; tables, no cleverness.

Columns stand in reading order and are chosen by rank: the lowest first, as many as fit. So a narrow terminal shows the same
as a wide one, but less of it. Width that the names do not need stays empty, so that columns do not move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from . import cells
from .figures import BackplaneFigures, OperationFigures, Percentiles
from .line import Line, clean, fit, joined, restyled

Row = TypeVar("Row", BackplaneFigures, OperationFigures)

#: Longer names are cut to so many characters.
NAME_MAX = 32
#: Sign of each health, for readers without colours, and its style.
SIGNS = {
    "busy": ("●", "bar"), "idle": ("○", "quiet"), "wedged": ("!", "bad"), "unknown": ("?", "warn"), "dead": ("✕", "bad"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: its heading, width and rank, and the function that makes a cell."""

    #: Two lines of heading.
    heading: tuple[str, str]
    width: int
    #: The lower, the sooner it is shown.
    rank: int
    cell: Callable[[Row], Line]
    #: Words are aligned left, numbers right.
    is_left: bool = False
    #: Whether the column says something of this row; a column that says nothing of any row is left out.
    tells_of: Callable[[Row], bool] | None = None


def _plain(words: str) -> Line:
    return ((words, "quiet" if words in ("-", "0", "0%") else ""),)


def _p(percentiles: Percentiles | None, which: str) -> Line:
    return _plain(cells.percentile(None if percentiles is None else getattr(percentiles, which)))


def _state(row: BackplaneFigures) -> Line:
    sign, style = SIGNS[row.health]
    if row.state == "up":
        word, word_style = ("/".join(row.roles) or "up"), ""
    else:
        word, word_style = row.state, "bad" if row.state == "failed" else "warn"
    return ((sign, style), (" ", ""), (word, word_style))


def _health(row: BackplaneFigures) -> Line:
    style = SIGNS[row.health][1]
    return ((row.health, style if style in ("warn", "bad", "quiet") else ""),)


def _cpu(row: BackplaneFigures, width: int) -> Line:
    of = 1.0 if row.limit_percent is None else row.limit_percent / 100
    percent = "-" if row.cpu is None else f"{row.cpu * 100:.0f}%"
    return (*cells.share_bar(row.cpu, of, width), *fit(_plain(percent), 5, is_right=True))


def _limit(row: BackplaneFigures) -> Line:
    return _plain("-" if row.limit_percent is None else f"{row.limit_percent}%")


def _queues(row: BackplaneFigures) -> Line:
    if row.ready is not None:
        return cells.queue_bars(row.ready, 8)
    if row.age_s is not None:
        return ((f"{cells.age(row.age_s)} old", "warn" if row.age_s > 1 else "quiet"),)
    return _plain("-")


def _grown(total: int | None, new: int) -> Line:
    """A total, styled as a warning if it has grown by `new` since the last sample."""
    return ((cells.count(total), "warn"),) if new else _plain(cells.count(total))


def _requests(row: BackplaneFigures) -> Line:
    """Waiting requests: for a worker, or with their posters for room."""
    if not row.requests:
        return _plain("-")
    posting = sum(kernel.now.posting for kernel in row.requests)
    waiting = sum(kernel.now.ready for kernel in row.requests) + posting
    return ((cells.count(waiting), "warn"),) if posting else _plain(cells.count(waiting))


BACKPLANES: tuple[Column[BackplaneFigures], ...] = (
    Column(("", "STATE"), 11, 1, _state, is_left=True),
    Column(("", "HEALTH"), 7, 16, _health, is_left=True),
    Column(("", "CPU"), 9, 2, lambda row: _cpu(row, 4), is_left=True),
    Column(("", "LIMIT"), 5, 11, _limit),
    Column(("QUEUES", "0 → low"), 8, 3, _queues, is_left=True),
    Column(("", "QUEUED"), 6, 4, lambda row: _plain(cells.count(row.queued))),
    Column(("RE-", "QUESTS"), 6, 5, _requests, tells_of=lambda row: bool(row.requests)),
    Column(("", "RATE"), 6, 6, lambda row: _plain(cells.rate(row.rate))),
    Column(("WAIT", "p50"), 6, 9, lambda row: _p(row.wait, "p50_ns")),
    Column(("WAIT", "p99"), 6, 7, lambda row: _p(row.wait, "p99_ns")),
    Column(("RUN", "p50"), 6, 10, lambda row: _p(row.run, "p50_ns")),
    Column(("RUN", "p99"), 6, 8, lambda row: _p(row.run, "p99_ns")),
    Column(("AWAIT", "REPLY"), 6, 13, lambda row: _plain(cells.count(row.waiting))),
    Column(("", "BOOSTS"), 6, 18, lambda row: _plain(cells.count(row.boosts))),
    Column(("THROT-", "TLED"), 6, 14, lambda row: _grown(row.throttled, row.throttled_new)),
    Column(("", "SLOW"), 6, 15, lambda row: _grown(row.slow, row.slow_new)),
    Column(("", "ERRORS"), 6, 12, lambda row: _grown(row.errors, row.errors_new)),
    Column(("RE-", "STARTS"), 6, 17, lambda row: ((str(row.restarts), "warn"),) if row.restarts else _plain("0")),
    Column(("", "FOR"), 6, 19, lambda row: _plain(cells.duration(row.since_s))),
)

OPERATIONS: tuple[Column[OperationFigures], ...] = (
    Column(("", "RATE"), 6, 1, lambda row: _plain(cells.rate(row.rate))),
    Column(("", "CPU"), 5, 4, lambda row: _plain("-" if row.cpu is None else f"{row.cpu * 100:.0f}%")),
    Column(("WAIT", "p50"), 6, 5, lambda row: _p(row.wait, "p50_ns")),
    Column(("WAIT", "p99"), 6, 2, lambda row: _p(row.wait, "p99_ns")),
    Column(("RUN", "p50"), 6, 6, lambda row: _p(row.run, "p50_ns")),
    Column(("RUN", "p99"), 6, 3, lambda row: _p(row.run, "p99_ns")),
    Column(("", "COUNT"), 6, 7, lambda row: _plain(cells.count(row.count))),
    Column(("", "ERRORS"), 6, 8, lambda row: _grown(row.errors, row.errors_new)),
    Column(("", "SLOW"), 6, 9, lambda row: _grown(row.slow, row.slow_new)),
    Column(("RE-", "FUSED"), 6, 10, lambda row: _grown(row.refused, row.refused_new)),
    Column(("EX-", "PIRED"), 6, 11, lambda row: _plain(cells.count(row.expired))),
    Column(("CAN-", "CELLED"), 6, 12, lambda row: _plain(cells.count(row.cancelled))),
)

#: Sort keys: numbers sort the largest first, "file" is the order of the TOML.
SORTS = ("file", "name", "cpu", "queued", "rate", "wait", "run", "slow", "restarts")
_KEYS: Mapping[str, Callable[[BackplaneFigures | OperationFigures], float]] = {
    "cpu": lambda row: row.cpu or 0.0,
    "queued": lambda row: (row.queued or 0) if isinstance(row, BackplaneFigures) else (row.rate or 0.0),
    "rate": lambda row: row.rate or 0.0,
    "wait": lambda row: row.wait.p99_ns if row.wait else -1,
    "run": lambda row: row.run.p99_ns if row.run else -1,
    "slow": lambda row: row.slow or 0,
    "restarts": lambda row: row.restarts if isinstance(row, BackplaneFigures) else row.errors,
}


def ordered(rows: Sequence[Row], sort: str) -> list[Row]:
    """Rows by one of `SORTS`; equal rows keep their order, so that they do not jump."""
    if sort == "name":
        return sorted(rows, key=lambda row: row.name)
    if sort not in _KEYS:
        return list(rows)
    return sorted(rows, key=_KEYS[sort], reverse=True)


def table(
    title: str, columns: Sequence[Column[Row]], rows: Sequence[Row], width: int, selected: str | None
) -> list[Line]:
    """Two lines of headings and one a row, each `width` wide at most."""
    longest = max((len(row.name) for row in rows), default=0)
    name_width = max(len(title), min(longest, NAME_MAX, max(9, width // 3)))
    telling = [column for column in columns if column.tells_of is None or any(map(column.tells_of, rows))]
    shown = chosen(telling, width - 2 - name_width)
    blank: Line = (("", ""),)
    headings: list[Line] = []
    for number in (0, 1):
        titles: list[Line] = [fit((((title if number else ""), "heading"),), name_width)]
        titles += [fit(((column.heading[number], "heading"),), column.width, is_right=not column.is_left)
                   for column in shown]  # fmt: skip
        headings.append(joined([blank, *titles]))
    lines: list[Line] = []
    for row in rows:
        parts: list[Line] = [fit(((clean(row.name), "title"),), name_width)]
        parts += [fit(column.cell(row), column.width, is_right=not column.is_left) for column in shown]
        if row.name == selected:
            lines.append(fit(restyled(joined([(("", ""),), *parts]), "selected"), width))
        else:
            lines.append(joined([blank, *parts]))
    return [*headings, *lines]


def chosen(columns: Sequence[Column[Row]], room: int) -> list[Column[Row]]:
    """Columns that fit, the lowest ranks first, up to the first that does not fit."""
    kept = set()
    for column in sorted(columns, key=lambda column: column.rank):
        room -= column.width + 2
        if room < 0:
            break
        kept.add(column.rank)
    return [column for column in columns if column.rank in kept]
