"""Page: the contents as one HTML file, to read in a browser or on paper, to send, to keep. It loads nothing and runs nothing.

Names may be anything (an operation may be called `<script>`), so every string from a record is escaped by `text`. The page
also forbids scripts by its Content-Security-Policy, so that a browser would not run one either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from pathlib import Path as File

from .contents import BackplaneLoad, Contents, OperationSummary, Path, ProposedChange
from .plots import Strip, heat_map, parts, spent, spread, strips, text, waterfall
from .words import called, count, date, digits, duration, moment, rate, share

#: Rows of a table, and of a time line, at most: nobody reads more; --json has the rest.
ROWS_MAX, STRIPS_MAX = 40, 16
_STYLE = File(__file__).with_name("page.css")
_SAFE = "default-src 'none'; style-src 'unsafe-inline'"


def page(contents: Contents, zone: tzinfo | None = None) -> str:
    """Render the whole file. `zone`: time zone of all times; by default this machine's."""
    parts = [_head(contents, zone), _tiles(contents), _skipped(contents)]
    if contents.records:
        parts += [
            _advice(contents), _latency(contents, zone), _timeline(contents, zone), _utilisation(contents, zone),
            _operations(contents), _misses(contents), _inversions(contents), _slow(contents, zone),
            _paths(contents, zone),
        ]  # fmt: skip
    else:
        parts.append(_nothing(contents, zone))
    made = f"Made {date(contents.made_ns, zone)} by {contents.by}, from {contents.where}."
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{_SAFE}"><title>{text(contents.system)}: report</title>'
        f"<style>\n{_STYLE.read_text()}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + f"\n<footer>{text(made)}</footer>\n</main></body></html>\n"
    )


def _nothing(contents: Contents, zone: tzinfo | None) -> str:
    if contents.since_ns is not None:
        since = text(date(contents.since_ns, zone))
        return f"<h2>Nothing began since then</h2><p>All recorded actions began before {since}, or there is nothing yet.</p>"
    return (
        "<h2>Nothing was recorded</h2><p>The files are there and hold no action yet. Actions are recorded as they end, by "
        "backplanes of a system whose TOML has a table <code>[record]</code>.</p>"
    )


def _head(contents: Contents, zone: tzinfo | None) -> str:
    if not contents.records:
        return f"<h1>{text(contents.system)}</h1>"
    lasted = duration(contents.last_ns - contents.first_ns)
    return f'<h1>{text(contents.system)}</h1><p class="muted">{text(date(contents.first_ns, zone))}, over {lasted}</p>'


def _tiles(contents: Contents) -> str:
    errors, missed = (sum(getattr(one, name) for one in contents.backplanes) for name in ("errors", "missed"))
    lasted_s = max(1.0, (contents.last_ns - contents.first_ns) / 1e9)
    tiles = [
        (count(contents.records), "actions", False),
        (rate(contents.records / lasted_s), "on average", False),
        (duration(contents.latency_p50_ns), "median, from arrival to end", False),
        (duration(contents.latency_p99_ns), "99 % are faster", False),
        (count(errors), "ended in an error", bool(errors)),
        (count(missed), "missed their deadline", bool(missed)),
        (count(sum(one.inverted for one in contents.inversions)), "waited behind less urgent work", False),
    ]
    shown = tiles if contents.records else tiles[:1]
    cells = (
        f'<div class="tile{" bad" * is_bad}"><b>{text(what)}</b><span>{of}</span></div>' for what, of, is_bad in shown
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _skipped(contents: Contents) -> str:
    if not contents.skipped:
        return ""
    lines = "".join(f"<li>{text(line)}</li>" for line in contents.skipped)
    number = contents.skipped_records
    what = f"{count(number)} record{'s' * (number != 1)} left out" if number else "Some of it could not be read"
    return f'<div class="skipped"><b>{what}</b>; all other records are in this report.<ul>{lines}</ul></div>'


def _advice(contents: Contents) -> str:
    if not contents.advice and not contents.notes:
        return "<h2>Advice</h2><p>Nothing waited so long that other settings would help.</p>"
    cards = "".join(_card(one) for one in contents.advice)
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in contents.notes)
    patch = (
        '<p class="note">As a patch of the TOML, for <code>appbackplane reload</code>:</p>'
        f"<pre>{text_of_several(contents.patch)}</pre>"
        if contents.patch
        else ""
    )
    return f"<h2>Advice</h2>{cards}{notes}{patch}"


def _card(one: ProposedChange) -> str:
    most = max(one.now_ms, one.predicted_ms, 1e-9)
    bars = "".join(
        f'<tr><td>{name}</td><td class="n">{duration(ms * 1e6)}</td><td class="b"><span class="bar{bad}" '
        f'style="width:{ms / most * 100:.0f}%"></span></td></tr>'
        for name, ms, bad in (("as recorded", one.now_ms, " bad"), ("predicted", one.predicted_ms, ""))
    )
    return (
        f'<div class="advice"><h3><code>[{text(one.target)}] {text(one.key)} = {text(value(one.new))}</code> '
        f'<span class="arrow">instead of {text(value(one.old))}</span></h3><p>{text(one.evidence)}</p>'
        f'<table style="max-width:520px"><tbody>{bars}</tbody></table>'
        f'<p class="note">{text(one.figure)}. With the present settings, the simulation is '
        f"{share(abs(one.error))} off the records: trust the prediction no further than that.</p></div>"
    )


def _latency(contents: Contents, zone: tzinfo | None) -> str:
    return (
        "<h2>Latency</h2><p>From arrival to end, with all waiting. The stronger the colour, the more actions.</p>"
        f"<figure>{heat_map(contents.heat, zone)}</figure>"
    )


def _timeline(contents: Contents, zone: tzinfo | None) -> str:
    rows = [
        Strip(line.backplane, line.rate, f"{rate(max(line.rate, default=0))} max")
        for line in contents.timeline[:STRIPS_MAX]
    ]
    return (
        "<h2>Actions a second, by backplane</h2><p>Each row has a scale of its own, up to the figure at its left.</p>"
        f"<figure>{strips(contents.heat, rows, 'Actions a second by backplane', zone)}</figure>{_others(contents.timeline)}"
    )


def _utilisation(contents: Contents, zone: tzinfo | None) -> str:
    limits = {one.name: one for one in contents.backplanes}
    rows = []
    for line in contents.timeline[:STRIPS_MAX]:
        of = limits[line.backplane]
        rows.append(Strip(line.backplane, line.busy, f"{share(max(line.busy, default=0))} max", line.cpu, _limit(of)))
    cells = [
        [
            words(one.name), words(one.node), number(count(one.records)), number(rate(one.rate)),
            number("–" if one.threads is None else str(one.threads)), number(share(one.busy)), number(share(one.busy_max)),
            number(share(one.cpu)), number(share(one.cpu_max)), number(digits(one.waiting)), number(digits(one.waiting_max)),
            number("none" if one.cpu_limit is None else share(one.cpu_limit / 100)), number(count(one.generations)),
        ]
        for one in contents.backplanes[:ROWS_MAX]
    ]  # fmt: skip
    head = (
        "Backplane", "Node", "Actions#", "Mean rate#", "Threads#", "Busy#", "max#", "CPU#", "max#", "Queued#",
        "max#", "CPU limit#", "Processes#",
    )  # fmt: skip
    return (
        "<h2>Utilisation against limits</h2><p>Area: run time as a share of the threads' time; 100 % means all threads "
        "are busy. Line: CPU, as a share of one core; dashed: the CPU limit, or where there is none, all threads.</p>"
        f"<figure>{strips(contents.heat, rows, 'Utilisation by backplane', zone)}</figure>"
        f"{table(head, cells)}{_more(contents.backplanes)}"
    )


def _limit(one: BackplaneLoad) -> float:
    return 1.0 if one.cpu_limit is None else one.cpu_limit / 100


def _operations(contents: Contents) -> str:
    rows = sorted(contents.operations, key=lambda one: -(one.wait_mean_ns + one.run_mean_ns) * one.count)
    low = min((max(1e3, min(one.wait_p50_ns, one.run_p50_ns)) for one in rows), default=1e3)
    high = max((max(one.wait_max_ns, one.run_max_ns) for one in rows), default=1e9)
    cells = [_operation(one, low, max(high, low * 10)) for one in rows[:ROWS_MAX]]
    head = (
        "Operation", "Priority#", "Count#", "Errors#", "Wait p50#", "p99#", "max#", "", "Run p50#", "p99#", "max#", "",
        "CPU#",
    )  # fmt: skip
    return (
        "<h2>Operations</h2><p>Sorted by total time. Dot: the median; thick: to 90 %; stroke: 99 %; thin: "
        f"the longest; all on one logarithmic scale, {duration(low)} to {duration(max(high, low * 10))}.</p>"
        f"{table(head, cells, 'dense')}{_more(rows)}"
    )


def _operation(one: OperationSummary, low: float, high: float) -> list[str]:
    return [
        words(called(one)), number(str(one.priority)), number(count(one.count)),
        number(count(one.errors), is_bad=one.errors > 0),
        number(duration(one.wait_p50_ns)), number(duration(one.wait_p99_ns)), number(duration(one.wait_max_ns)),
        plain(spread(one.wait_p50_ns, one.wait_p90_ns, one.wait_p99_ns, one.wait_max_ns, low, high)),
        number(duration(one.run_p50_ns)), number(duration(one.run_p99_ns)), number(duration(one.run_max_ns)),
        plain(spread(one.run_p50_ns, one.run_p90_ns, one.run_p99_ns, one.run_max_ns, low, high)),
        number(duration(one.cpu_ns)),
    ]  # fmt: skip


def _misses(contents: Contents) -> str:
    if not contents.misses:
        return "<h2>Deadlines</h2><p>No action missed its own.</p>"
    cells = [
        [
            words(called(one)), number(str(one.priority)), number(count(one.with_deadline)),
            number(count(one.missed), is_bad=True), number(count(one.by_waiting)),
            bar(one.missed / max(1, one.with_deadline), bad=True),
            number(share(one.missed / max(1, one.with_deadline))), number(duration(one.late_p50_ns)),
            number(duration(one.late_max_ns)),
        ]
        for one in contents.misses[:ROWS_MAX]
    ]  # fmt: skip
    head = (
        "Operation", "Priority#", "With a deadline#", "Missed#", "Because of waiting#", "", "#", "Late by, median#", "Max#",
    )  # fmt: skip
    return f"<h2>Deadlines missed</h2>{table(head, cells)}{_more(contents.misses)}"


def _inversions(contents: Contents) -> str:
    about = "Work that was queued while less urgent work ran in the same backplane."
    found = [one for one in contents.inversions if one.inverted or one.starved]
    if not found:
        return f"<h2>Priority inversions</h2><p>{about} There was none, and nothing was queued for a second.</p>"
    found.sort(key=lambda one: -one.inversion_ns)
    most = max(one.inversion_ns for one in found)
    cells = [
        [
            words(one.backplane), number(str(one.priority)), number(count(one.count)), number(count(one.inverted)),
            number(duration(one.inversion_ns)), bar(one.inversion_ns / max(1, most)), number(duration(one.inversion_max_ns)),
            number(duration(one.boosted_ns)), number(count(one.overtaken)), number(count(one.passed_by)),
            number(count(one.starved), is_bad=one.starved > 0), number(duration(one.wait_p99_ns)),
            number(duration(one.wait_max_ns)),
        ]
        for one in found[:ROWS_MAX]
    ]  # fmt: skip
    head = (
        "Backplane", "Priority#", "Actions#", "Inverted#", "Total#", "", "Longest#", "Boosted#", "Overtaken#",
        "Passed by#", "Starved#", "Wait p99#", "max#",
    )  # fmt: skip
    return (
        f"<h2>Priority inversions</h2><p>{about} Boosted: for how long that work had been lent their priority, to clear "
        "the way. Overtaken: less urgent actions that began meanwhile, which quotas allow. Passed by: more urgent ones that "
        f"did. Starved: queued for a second or more.</p>{table(head, cells, 'dense')}{_more(found)}"
    )


def _slow(contents: Contents, zone: tzinfo | None) -> str:
    if not contents.slow:
        return ""
    most = max(one.wait_ns + one.took_ns for one in contents.slow)
    span = contents.last_ns - contents.first_ns
    cells = [
        [
            number(moment(one.when_ns, span, zone)), words(called(one), f"{one.object}, in {one.backplane}"),
            number(duration(one.wait_ns + one.took_ns)), number(duration(one.typical_ns)), plain(spent(one, most)),
            number(duration(one.wait_ns)),
            number(duration(one.cpu_ns)), number(duration(max(0, one.run_ns - one.cpu_ns))),
            number(duration(max(0, one.took_ns - one.run_ns))),
        ]
        for one in contents.slow[:ROWS_MAX]
    ]  # fmt: skip
    head = ("At#", "OperationSummary", "Total#", "Usual#", "", "Waited#", "Computed#", "Blocked#", "Awaited#")
    return (
        '<h2>Slow actions</h2><p class="key"><i class="waited"></i>waited in queues<i class="own"></i>computed'
        '<i class="blocked"></i>ran and did not compute: blocked, or kept from the CPU<i class="took"></i>awaited replies</p>'
        f"{table(head, cells)}{_more(contents.slow)}"
    )


def _paths(contents: Contents, zone: tzinfo | None) -> str:
    if not contents.culprits:
        return ""
    most = max(one.total_ns for one in contents.culprits)
    cells = [
        [
            words(called(one)), number(count(one.traces)), number(count(one.actions)), number(share(one.share)),
            plain(parts((("waited", one.queue_ns), ("own", one.run_ns), ("took", one.other_ns)), most)),
            number(duration(one.queue_ns)), number(duration(one.run_ns)), number(duration(one.other_ns)),
        ]
        for one in contents.culprits[:ROWS_MAX]
    ]  # fmt: skip
    head = ("Operation", "Traces#", "Actions#", "Share of time#", "", "Queued#", "Running#", "Other#")
    drawn = "".join(_path(path, contents, zone) for path in contents.paths)
    return (
        "<h2>Critical paths</h2><p>Of the slowest traces, the call that the caller was waiting for at each moment.</p>"
        '<p class="key"><i class="waited"></i>waited in queues<i class="own"></i>ran itself<i class="took"></i>awaited others, '
        f"or was on its way</p>{table(head, cells)}{_more(contents.culprits)}{drawn}"
    )


def _path(path: Path, contents: Contents, zone: tzinfo | None) -> str:
    when = moment(path.when_ns, contents.last_ns - contents.first_ns, zone)
    rest = path.calls - len(path.steps)
    more = f'<p class="note">and {count(rest)} shorter calls</p>' if rest > 0 else ""
    return (
        f'<h3>{duration(path.total_ns)} at {text(when)} <span class="muted mono">trace {text(path.trace)}</span></h3>'
        f"<figure>{waterfall(path)}</figure>{more}"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Render a table. A heading that ends in # stands above numbers; cells come from the functions below."""
    titles = "".join(f'<th class="n">{h[:-1]}</th>' if h.endswith("#") else f"<th>{h}</th>" for h in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def words(said: str, more: str = "") -> str:
    """Render a cell with a name; `more` stands below it."""
    return f'<td class="w">{text(said)}{f"<small>{text(more)}</small>" if more else ""}</td>'


def number(said: str, *, is_bad: bool = False) -> str:
    """Render a cell with a figure, aligned right."""
    return f'<td class="n{" bad" * is_bad}">{text(said)}</td>'


def bar(part: float, *, bad: bool = False) -> str:
    """Render a cell with a bar for a part of 1."""
    width = min(1.0, part if math.isfinite(part) else 0.0) * 100
    return f'<td class="b"><span class="bar{" bad" * bad}" style="width:{width:.1f}%"></span></td>'


def plain(drawn: str) -> str:
    """Render a cell with a drawing, without escaping."""
    return f"<td>{drawn}</td>"


def value(of_toml: object) -> str:
    """Format a value as in TOML; None becomes "none"."""
    return "none" if of_toml is None else str(of_toml).lower() if isinstance(of_toml, bool) else str(of_toml)


def text_of_several(lines: str) -> str:
    """Escape several lines, and keep them apart."""
    return "\n".join(text(line) for line in lines.splitlines())


def _others(lines: Sequence[object]) -> str:
    rest = len(lines) - STRIPS_MAX
    return f'<p class="note">and {rest} backplanes that did less</p>' if rest > 0 else ""


def _more(rows: Sequence[object]) -> str:
    rest = len(rows) - ROWS_MAX
    return (
        f'<p class="note">and {count(rest)} more: <code>appbackplane report --json</code> has all</p>'
        if rest > 0
        else ""
    )
