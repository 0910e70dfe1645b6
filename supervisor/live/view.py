"""View: converts figures, a navigation and a size to lines. Pure.

Three pages: the backplanes, the operations of one, and help. Each has a heading, a table, and as much below it as there is
room for: there, details of the selected row make up for columns that are left out. Unchanged data does not move.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from . import cells, columns
from .edge_table import edge_table
from .figures import BackplaneFigures, RequestFigures, SystemFigures
from .line import Line, clean, ends, fit, text
from .navigation import Navigation

#: Rows that the table keeps before anything is shown below it.
ROWS_MIN = 4
#: Free lines below the table from which on the selected row's operations are shown: a blank, the headings, two rows.
PREVIEW_MIN = 5
#: A smaller terminal shows nothing but one line that says so.
WIDTH_MIN, HEIGHT_MIN = 30, 6

HELP = """
STATE     state of its components, or of its process while that is not up
HEALTH    ● busy: work runs or waits   ○ idle   ? no heartbeat   ✕ dead
CPU       of one core, all threads; the bar is full at its limit
QUEUES    objects that are ready, a bar a priority, the most urgent first
          ▁ 1  ▂ 2  ▃ 4  ▄ 10  ▅ 32  ▆ 100  ▇ 320  █ 1000 and more
          "0.3s old": no answer; the figures are from its board, so old
QUEUED    actions in all queues        RATE    actions ended a second
REQUESTS  requests of kernels that wait for a worker or for room
WAIT RUN  queueing and run times of actions that ended in the last interval
AWAIT     objects that wait for a reply, or for the locks of a message
BOOSTS    times it raised another backplane to the priority of its call
THROTTLED requests refused because a component was at its limit
SLOW      actions above slow_action    ERRORS    actions that failed
RE-STARTS since the system is up
EDGE      of a flow: items a second, credits in use, its oldest item, and
          the stage that has it; items lost, and dead letters of its consumer
Totals that have grown in the last interval are yellow.

↑ ↓ j k  select     enter →  operations     esc ←  back
s S      sort by the next, the previous     q  quit
""".strip("\n").split("\n")


def names(figures: SystemFigures | None, navigation: Navigation) -> list[str]:
    """Names of the rows that are shown, in order."""
    if figures is None:
        return []
    if navigation.opened is None:
        return [row.name for row in columns.ordered(_among(figures, navigation).backplanes, navigation.sort)]
    opened = find(figures, navigation.opened)
    return [] if opened is None else [row.name for row in columns.ordered(opened.operations, navigation.sort)]


def _among(figures: SystemFigures, navigation: Navigation) -> SystemFigures:
    if navigation.among is None:
        return figures
    return replace(figures, backplanes=tuple(b for b in figures.backplanes if b.replica_of == navigation.among))


def find(figures: SystemFigures, name: str) -> BackplaneFigures | None:
    """The backplane of this name; None: there is none."""
    return next((each for each in figures.backplanes if each.name == name), None)


def screen(
    figures: SystemFigures | None,
    navigation: Navigation,
    width: int,
    height: int,
    remark: str = "",
    interval_s: float = 1.0,
) -> list[Line]:
    """Exactly `height` lines, `width` wide at most. `remark`: a warning about the figures, if there is one."""
    if width < WIDTH_MIN or height < HEIGHT_MIN:
        return [fit((("too small", "warn"),), width)] + [()] * (height - 1)
    if figures is not None:
        figures = _among(figures, navigation)
    head: list[Line] = [_head(figures, navigation, width, remark), ()]
    foot = [_keys(navigation, width, interval_s)]
    room = height - len(head) - len(foot)
    body: list[Line]
    if navigation.has_help:
        body = [((f" {line}"[:width], ""),) for line in HELP]
    elif figures is None:
        body = []
    else:
        body = _body(figures, navigation, width, room)
    body = [fit(line, width) if len(text(line)) > width else line for line in body[:room]]
    return [*head, *body, *[()] * (room - len(body)), *foot]


def report(figures: SystemFigures, navigation: Navigation, width: int) -> list[Line]:
    """The view as one printout of any length: without the line of key hints, but with the remarks of every backplane."""
    figures = _among(figures, navigation)
    head = [_head(figures, navigation, width, ""), ()]
    opened = None if navigation.opened is None else find(figures, navigation.opened)
    if opened is not None:
        return [*head, *_details(opened, width), (), *_table(figures, navigation, width)]
    remarks = [line for each in figures.backplanes for line in _remarks(each)]
    below = [((), *block) for block in (edge_table(figures.edges, width), remarks) if block]
    return [*head, *_table(figures, navigation, width), *(line for block in below for line in block)]


def _body(figures: SystemFigures, navigation: Navigation, width: int, room: int) -> list[Line]:
    shown = names(figures, navigation)
    if shown and navigation.selected not in shown:
        navigation = replace(navigation, selected=shown[0])
    at = shown.index(navigation.selected) if navigation.selected in shown else 0
    lines = _table(figures, navigation, width)
    heading, rows = lines[:2], lines[2:]
    opened = None if navigation.opened is None else find(figures, navigation.opened)
    if opened is not None:
        above = [*_details(opened, width), ()]
        above = above[: max(0, room - len(heading) - ROWS_MIN)]
        return [*above, *heading, *_window(rows, at, room - len(above) - len(heading))]
    selected = find(figures, navigation.selected or "")
    below = [] if selected is None else [(), *_details(selected, width)]
    space = room - len(heading)
    among_edges = [(), *edge_table(figures.edges, width)] if figures.edges else []
    if space - len(among_edges) < min(len(rows), ROWS_MIN):
        among_edges = []
    space -= len(among_edges)
    if space - len(below) < min(len(rows), ROWS_MIN):
        below = []
    rows = _window(rows, at, space - len(below))
    space -= len(rows) + len(below)
    if below and selected is not None and space >= PREVIEW_MIN:
        preview = _table(figures, Navigation(navigation.sort, selected.name), width)
        below = [*below, (), *preview[: space - 1]]
    return [*heading, *rows, *among_edges, *below]


def _window(rows: Sequence[Line], at: int, room: int) -> list[Line]:
    """As many rows as fit, the selected one among them."""
    if len(rows) <= room:
        return list(rows)
    first = min(max(0, at - room // 2), len(rows) - room)
    return list(rows[first : first + max(0, room)])


def _table(figures: SystemFigures, navigation: Navigation, width: int) -> list[Line]:
    opened = None if navigation.opened is None else find(figures, navigation.opened)
    if opened is not None:
        rows = columns.ordered(opened.operations, navigation.sort)
        lines = columns.table("OPERATION", columns.OPERATIONS, rows, width, navigation.selected)
        return lines if rows else [*lines, (("  none has run yet", "quiet"),)]
    backplanes = columns.ordered(figures.backplanes, navigation.sort)
    return columns.table("BACKPLANE", columns.BACKPLANES, backplanes, width, navigation.selected)


def _head(figures: SystemFigures | None, navigation: Navigation, width: int, remark: str) -> Line:
    if figures is None:
        return fit(((" ", ""), (remark or "waiting for the first figures", "quiet")), width)
    opened = "".join(f" › {name}" for name in (navigation.among, navigation.opened) if name is not None)
    state_style = "" if figures.state == "up" else "warn"
    left: Line = (
        (f" {figures.system}{opened}", "title"),
        (f"  {figures.state}", state_style),
        (f"  for {cells.duration(figures.uptime_s)}, {figures.build}", "quiet"),
    )
    if remark:
        return ends(left, ((f"{clean(remark)} ", "warn"),), width)
    rates = [each.rate for each in figures.backplanes if each.rate is not None]
    shares = [each.cpu for each in figures.backplanes if each.cpu is not None]
    right: Line = (
        (f"{cells.rate(sum(rates)) if rates else '-'} actions/s", ""),
        (f"   cpu {sum(shares) * 100:.0f}% " if shares else "   cpu - ", ""),
    )
    return ends(left, right, width)


def _keys(navigation: Navigation, width: int, interval_s: float) -> Line:
    if navigation.has_help:
        return fit(((" any key", "key"), (" back", "quiet")), width)
    words = [("q", "quit"), ("s", f"sort: {navigation.sort}"), ("↑↓", "select")]
    words.append(("esc", "back") if navigation.opened is not None else ("enter", "operations"))
    words.append(("?", "help"))
    line: Line = ((" ", ""),)
    for key, meaning in words:
        line = (*line, (key, "key"), (f" {meaning}   ", "quiet"))
    return ends(line, ((f"every {interval_s:g} s ", "quiet"),), width)


def _details(row: BackplaneFigures, width: int) -> list[Line]:
    """All facts of one backplane, in sentences, with those that a narrow table leaves out."""
    rule = f"── {row.name} "
    process = f"pid {row.pid}" if row.pid else "no process"
    workers = "" if row.threads is None else f", {row.threads} worker{'s' if row.threads != 1 else ''}"
    limit = "no cpu_limit" if row.limit_percent is None else f"cpu_limit {row.limit_percent}% by {row.limit_by}"
    lines: list[Line] = [
        ((f" {clean(rule)}{'─' * max(0, width - len(rule) - 2)}", "heading"),),
        _told(
            f"{row.state} for {cells.duration(row.since_s)}, {process}{workers}", f"health {row.health}",
            f"restarts {row.restarts}",
        ),
        _told(limit, "components " + (", ".join(f"{name}={state}" for name, state in row.components.items()) or "none")),
        _told(
            f"wait p50 {_times(row.wait)}", f"run p50 {_times(row.run)}",
            f"awaiting replies {cells.count(row.waiting)}",
        ),
        _told(
            f"boosts {_total(row.boosts, row.boosts_new)}", f"throttled {_total(row.throttled, row.throttled_new)}",
            f"slow actions {_total(row.slow, row.slow_new)}",
            f"errors {_total(row.errors, row.errors_new)}",
            *_running(row),
        ),
        _queues(row),
        *map(_requests, row.requests or ()),
    ]  # fmt: skip
    return [*lines, *_remarks(row, is_named=False)]


def _running(row: BackplaneFigures) -> list[str]:
    """Actions that have been running for a second."""
    if row.running:
        return [
            f"{one.route} has run for {cells.duration(one.seconds)} on {one.object}"
            for one in row.running
            if one.seconds >= 1
        ]
    is_long = (row.running_for_s or 0) >= 1
    return [f"one action has been running for {cells.duration(row.running_for_s)}"] if is_long else []


def _times(percentiles: object) -> str:
    p50, p99 = getattr(percentiles, "p50_ns", None), getattr(percentiles, "p99_ns", None)
    return f"{cells.percentile(p50)} p99 {cells.percentile(p99)}"


def _total(total: int | None, new: int) -> str:
    return cells.count(total) + (f" (+{cells.count(new)})" if new else "")


def _told(*facts: str) -> Line:
    return ((" " + " · ".join(clean(fact) for fact in facts), ""),)


def _queues(row: BackplaneFigures) -> Line:
    """Each priority that has ready objects, with the age of the oldest."""
    if row.ready is None:
        return _told("queues by priority: unknown")
    parts = []
    for priority, depth in enumerate(row.ready):
        if depth:
            oldest_ms = row.oldest_ms[priority] if row.oldest_ms else None
            age = "" if oldest_ms is None else f" (oldest {cells.duration(oldest_ms / 1e3)})"
            parts.append(f"priority {priority}: {cells.count(depth)}{age}")
    return _told(*parts) if parts else ((" nothing is ready", "quiet"),)


def _requests(kernel: RequestFigures) -> Line:
    now = kernel.now
    return _told(
        f"requests of {kernel.component}: {cells.count(now.ready)} of {now.ready_max} ready",
        f"{now.executing} of {now.workers} executing"
        + (f", {now.blocked} of these wait for others" if now.blocked else ""),
        *([f"{cells.count(now.posting)} wait for room"] if now.posting else []),
        f"{cells.count(now.rejoinable)} of {now.rejoinable_max} to rejoin",
        f"{cells.rate(kernel.rate)} ended a second",
    )


def _remarks(row: BackplaneFigures, *, is_named: bool = True) -> list[Line]:
    name = f"{row.name}: " if is_named else ""
    remarks: list[Line] = []
    if row.age_s is not None:
        said = f"{name}did not answer in time; from the board, {cells.duration(row.age_s)} old"
        remarks.append(((f" {said}", "warn"),))
    if row.reason:
        before = "its last process: " if row.state in ("up", "starting") else ""
        remarks.append(((f" {clean(name + before + row.reason)}", "warn"),))
    return remarks
