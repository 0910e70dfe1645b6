"""Refusals: which of those who were refused are written to the log, so that knocking cannot fill the disk.

One line an address and minute, with how many were left out since the line before; and 60 lines a minute in all, with how
many and from how many addresses the rest were: below 20 MB of log a day, whatever comes. An IPv6 address counts as its /64,
because who has one has them all. All are counted, logged or not. Pure.
"""

from __future__ import annotations

import ipaddress

from .admission import Refusal

INTERVAL_NS = 60_000_000_000
#: Lines in an interval. One line a second is enough to see what goes on, and can still be read by a person.
LINES_MAX = 60


class Refusals:
    """Counts, and says what is to be logged."""

    def __init__(self) -> None:
        self.count = 0
        self._begun_ns: int | None = None
        #: Left out in this interval, by source: those that have had their line. LINES_MAX at most.
        self._left_out: dict[str, int] = {}
        self._others = 0

    def note(self, refusal: Refusal, now_ns: int) -> list[str]:
        """The lines to log now: none, or this one, after what the last interval left out."""
        self.count += 1
        lines = self.due(now_ns)
        if self._begun_ns is None:
            self._begun_ns = now_ns
        source = source_of(refusal.address)
        if source in self._left_out:
            self._left_out[source] += 1
        elif len(self._left_out) < LINES_MAX:
            self._left_out[source] = 0
            lines.append(refusal.sentence())
        else:
            self._others += 1
        return lines

    def due(self, now_ns: int) -> list[str]:
        """What is to be said at the end of an interval about those left out in it; in one line."""
        if self._begun_ns is None or now_ns - self._begun_ns < INTERVAL_NS:
            return []
        said = [f"{count:,} more from {source}" for source, count in self._left_out.items() if count]
        if self._others:
            said.append(f"{self._others:,} from elsewhere")
        self._begun_ns, self._left_out, self._others = None, {}, 0
        return [f"refused besides, within a minute: {'; '.join(said)}"] if said else []


def source_of(address: str) -> str:
    """Whom to count it to."""
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((number, 64), strict=False)) if number.version == 6 else address
