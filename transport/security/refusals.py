"""Refusals: which refusals are written to the log, so that strangers cannot fill the disk.

One line an address and minute, and 60 lines a minute in all. After the minute, one more line says how many were left out, from
each of these addresses and from all others: below 20 MB of log a day, whatever comes. An IPv6 address counts as its /64,
because a host that has one has them all. All are counted, logged or not. Pure.
"""

from __future__ import annotations

import ipaddress

from .admission import RefusedConnection

INTERVAL_NS = 60_000_000_000
#: Lines in an interval. One line a second is enough to see what goes on, and can still be read by a person.
LINES_MAX = 60


class Refusals:
    """Counts refusals, and decides which are logged."""

    def __init__(self) -> None:
        self.count = 0
        self._begun_ns: int | None = None
        #: Refusals left out in this interval, by source: those that have had their line. LINES_MAX at most.
        self._left_out: dict[str, int] = {}
        self._others = 0

    def note(self, refusal: RefusedConnection, now_ns: int) -> list[str]:
        """Count a refusal. Returns the lines to log now: none, or this one, after the summary of the last interval."""
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
        """The summary of an interval that has ended, in one line: the refusals that were left out."""
        if self._begun_ns is None or now_ns - self._begun_ns < INTERVAL_NS:
            return []
        said = [f"{count:,} more from {source}" for source, count in self._left_out.items() if count]
        if self._others:
            said.append(f"{self._others:,} from elsewhere")
        self._begun_ns, self._left_out, self._others = None, {}, 0
        return [f"refused besides, within a minute: {'; '.join(said)}"] if said else []


def source_of(address: str) -> str:
    """The source to which a refusal counts: the address, or its /64."""
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((number, 64), strict=False)) if number.version == 6 else address
