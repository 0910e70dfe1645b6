"""Schedule: times at which commands run by themselves: at intervals, or at times of day. Pure.

`"every 30s"` counts from when the kernel began to serve. A time of day is the machine's local time. At each check the caller
passes the wall-clock time, and gets the entries that fell due since the check before. If the clock is put forward or the
machine slept, a missed entry runs once, at the next check. If the clock is put back for winter, no entry runs twice. (seed
001, section 4: "timer driven automated commands".)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXPECTED: Final = 'expected "22:00", "mon-fri 22:00:30", or "every 30s" (ms, s, m, h, d)'
#: A clock put back by more was wrong before, so checks begin anew at the new time. A smaller step is the change to winter time
#: (an hour; three on one occasion): entries that ran do not run again.
PUT_BACK_MAX: Final = timedelta(hours=3)
#: Longest interval, seconds: nobody means more than a year, and timers count in ns.
EVERY_MAX_S: Final = 366 * 86_400
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WEEK: Final = frozenset(range(7))
_EVERY: Final = re.compile(r"every (\d+(?:\.\d+)?) ?(ms|s|m|h|d)")
_AT: Final = re.compile(r"(?:([a-z,-]+) )?(\d{1,2}):(\d\d)(?::(\d\d))?")


#: A schedule as it is written: times, each with one line or several.
Schedule = Mapping[str, str | list[str]]


class When(NamedTuple):
    """Every `every_ns`; or, if that is 0, at this second of the day on these weekdays, Monday being 0."""

    text: str
    every_ns: int
    second: int = 0
    days: frozenset[int] = _WEEK


def when_of(text: str) -> When:
    """Parse one time of a schedule. Raises ValueError that names the expected forms."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r}: {EXPECTED}")
    said = " ".join(text.lower().split())
    if found := _EVERY.fullmatch(said):
        seconds = float(found[1]) * _UNITS_S[found[2]]
        if not 0.001 <= seconds <= EVERY_MAX_S:
            raise ValueError(f"{text!r}: expected 1 ms to 366 days")
        return When(said, round(seconds * 1e9))
    found = _AT.fullmatch(said)
    if found is None:
        raise ValueError(f"{text!r}: {EXPECTED}")
    hour, minute, second = int(found[2]), int(found[3]), int(found[4] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r}: there is no such time of day; {EXPECTED}")
    return When(said, 0, (hour * 60 + minute) * 60 + second, _days(found[1], text))


def lines_of(schedule: Schedule) -> list[tuple[When, str]]:
    """The (time, line) pairs of a schedule. Raises ValueError for an invalid time; lines are for their handler to check."""
    found: list[tuple[When, str]] = []
    for text, said in schedule.items():
        when = when_of(text)
        lines = [said] if isinstance(said, str) else said
        if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
            raise ValueError(f"{text!r}: expected a command or a list of commands, got {said!r:.100}")
        found += [(when, line) for line in lines]
    return found


def next_at(when: When, now: datetime) -> datetime:
    """The first time after `now` that `when` matches, by the same wall clock."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for day in range(8):
        found = midnight + timedelta(days=day, seconds=when.second)
        if found > now and found.weekday() in when.days:
            return found
    raise AssertionError("a week has all the days there are")


class DayTimes:
    """Entries of a schedule by times of day; remembers when it was last checked."""

    def __init__(self, whens: Sequence[When], now: datetime) -> None:
        self._whens = whens
        self._looked = now

    def due(self, now: datetime) -> list[int]:
        """Indices of the entries that fell due since the last check, in the order of their times; each at most once."""
        before = self._looked
        if now <= before:
            if before - now > PUT_BACK_MAX:
                self._looked = now
            return []
        self._looked = now
        found = [(at, number) for number, when in enumerate(self._whens) if (at := next_at(when, before)) <= now]
        return [number for _, number in sorted(found)]


def _days(said: str | None, text: str) -> frozenset[int]:
    if said is None:
        return _WEEK
    days: set[int] = set()
    for part in said.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(
                f"{text!r}: {part!r} is not a list of days: expected {', '.join(DAYS)}, or from one to another"
            )
        begin, end = DAYS.index(first), DAYS.index(last if dash else first)
        days.update(day % 7 for day in range(begin, (end if end >= begin else end + 7) + 1))
    return frozenset(days)
