"""Words: format figures for people, and place the marks of an axis. Pure; times are in the reader's time zone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contents import Culprit, Miss, OperationSummary, Slow

_UNITS = (
    (1e3, 1, "ns"),
    (1e6, 1e3, "µs"),
    (1e9, 1e6, "ms"),
    (120e9, 1e9, "s"),
    (7200e9, 60e9, "min"),
    (172_800e9, 3600e9, "h"),
)
_DAY_NS = 86_400_000_000_000
#: Possible distances between two marks of a time axis, s.
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)  # fmt: skip
NOTHING = "–"


def duration(ns: float | None) -> str:
    """Format ns with the fitting unit and at most three digits; None becomes a dash."""
    if ns is None or ns == 0:
        return NOTHING if ns is None else "0"
    for limit, scale, unit in _UNITS:
        if abs(ns) < limit * 0.9995:
            return f"{digits(ns / scale)} {unit}"
    return f"{digits(ns / _DAY_NS)} d"


def digits(value: float) -> str:
    """Format with three digits, or all digits of a whole number."""
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: float) -> str:
    """Format as "1,234", or as "12.3 M" from a million."""
    for limit, scale, unit in ((1e6, 1, ""), (1e9, 1e6, " M"), (math.inf, 1e9, " G")):
        if abs(value) < limit:
            return f"{value:,.0f}" if not unit else f"{digits(value / scale)}{unit}"
    return NOTHING


def rate(value: float) -> str:
    """Format a number of events a second."""
    return f"{digits(value) if value < 1e6 else count(value)}/s"


def share(value: float) -> str:
    """Format a share of 1 in percent: 0.123 as "12.3 %"."""
    percent = value * 100
    return f"{percent:.0f} %" if percent >= 9.95 or percent == 0 else "<0.1 %" if percent < 0.05 else f"{percent:.1f} %"


def moment(ns: int, span_ns: int = 0, zone: tzinfo | None = None) -> str:
    """Time of day, as fine as `span_ns` requires; with the date if that is longer than half a day."""
    at = datetime.fromtimestamp(ns // 1_000_000_000, UTC).astimezone(zone)
    text = at.strftime("%H:%M:%S" if span_ns < _DAY_NS // 2 else "%m-%d %H:%M")
    if span_ns < 20_000_000_000:
        text += f".{ns // 1_000_000 % 1_000:03}"
    return text


def date(ns: int, zone: tzinfo | None = None) -> str:
    """Date, time and zone in full."""
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def shown(text: str) -> str:
    """Escape control characters in names, which would move a terminal's cursor or have no meaning in a page."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def called(row: OperationSummary | Miss | Culprit | Slow) -> str:
    """Name of an operation for people; with its component if the route does not contain it."""
    component, operation = row.component, row.operation
    return operation if not component or operation.startswith(f"{component}.") else f"{operation} of {component}"


def marks_of_time(begin_ns: int, end_ns: int, most: int, zone: tzinfo | None = None) -> Iterator[tuple[int, str]]:
    """Yield (Unix ns, label), on whole seconds, minutes, hours or days if the axis is long enough."""
    span_ns = max(1, end_ns - begin_ns)
    step_ns = next((s * 10**9 for s in _STEPS_S if span_ns / (s * 10**9) <= most), 0)
    if not step_ns:
        days = math.ceil(span_ns / _DAY_NS / most)
        step_ns = days * _DAY_NS
    if span_ns < 2 * 10**9:
        step_ns = max(1, int(nice(span_ns / most)))
    offset = datetime.fromtimestamp(begin_ns // 10**9, UTC).astimezone(zone).utcoffset()
    shift_ns = int(offset.total_seconds()) * 10**9 if offset is not None else 0
    at = -(-(begin_ns + shift_ns) // step_ns) * step_ns - shift_ns
    while at <= end_ns:
        text = moment(at, span_ns, zone)
        yield at, text if step_ns % 10**9 or span_ns >= 20 * 10**9 else text.partition(".")[0]
        at += step_ns


def marks_of_latency(first_ns: float, last_ns: float) -> Iterator[tuple[float, str]]:
    """Yield (ns, label) for powers of ten on a logarithmic axis."""
    power = math.ceil(math.log10(first_ns) - 1e-9)
    while 10**power <= last_ns * (1 + 1e-9):
        yield float(10**power), duration(float(10**power))
        power += 1


def nice(value: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if value <= power * step * (1 + 1e-9))
