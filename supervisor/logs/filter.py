"""Log filter: selects lines of the log. Pure.

A file is read faster than its lines are decoded: `may_match` searches a megabyte at once for bytes that every matching line
contains, and only lines that have them are decoded and judged.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from appbackplane.runtime.observation.log_line import LEVELS, LogLine

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Conditions on a line; it must meet all that are given."""

    backplane: str | None = None
    component: str | None = None
    #: Lines of this level and above.
    level: str | None = None
    since: datetime | None = None
    #: Replicas that share the name `backplane`.
    replicas: tuple[str, ...] = ()

    def matches(self, line: LogLine) -> bool:
        """Whether the line meets all conditions."""
        return (
            (self.backplane is None or line.backplane == self.backplane or line.backplane in self.replicas)
            and (self.component is None or line.component == self.component)
            and (self.level is None or line.level_number >= LEVELS[self.level])
            and (self.since is None or line.time >= self.since)
        )

    def marks(self) -> tuple[bytes, ...]:
        """Byte strings, one of which is in every matching line; none: there is no such set.

        They include JSON's quotation marks, which have a backslash before them inside a text.
        """
        for key, value in (("component", self.component), ("backplane", self.backplane)):
            if value is not None:
                alike = self.replicas if key == "backplane" else ()
                return tuple(f'"{key}":{json.dumps(each, ensure_ascii=False)}'.encode() for each in (value, *alike))
        if self.level is not None and LEVELS[self.level] > LEVELS["INFO"]:
            names = [name for name, number in LEVELS.items() if number >= LEVELS[self.level]]
            return (*(f'"level":"{name}"'.encode() for name in names), b'"severity":')
        return ()


def may_match(lines: bytes, marks: tuple[bytes, ...]) -> bool:
    """Whether any of these lines can match."""
    return not marks or any(mark in lines for mark in marks)


def since(text: str, now: datetime) -> datetime:
    """An instant: "10m" before `now` (s, m, h, d, w), or ISO 8601; without a zone it is in that of `now`.

    Raises ValueError with the expected form.
    """
    if match := _AGO.fullmatch(text.strip()):
        try:
            return now - timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f'expected a time such as "10m", "2h" or "2025-07-01T12:00", got {text!r}') from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=now.tzinfo)
