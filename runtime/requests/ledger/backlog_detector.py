"""Backlog detector: notices that posters have waited long because ended requests fill the rejoin pool, and nobody rejoins them.

A thread that posts everything before it joins anything waits for itself if there are more requests than the pool has entries.
To the kernel it looks like an owner that is late, so this is no stall (stall.py): it is logged once, with remedies.
"""

from __future__ import annotations

from typing import Final

from .ledger import Ledger

#: Time without any rejoin after which a backlog is reported: an owner that is only slow rejoins something meanwhile.
LONG_NS: Final = 5_000_000_000


class BacklogDetector:
    """The backlog detector of one kernel. The watchdog runs it, with the kernel's mutex."""

    __slots__ = ("_is_said", "_joined_total", "_since_ns")

    def __init__(self) -> None:
        self._since_ns = self._joined_total = -1
        self._is_said = False

    def check(self, ledger: Ledger, now_ns: int) -> str:
        """The warning, one sentence; "": there is no backlog, or it has been reported."""
        poster = next(iter(ledger.posters), None)
        if poster is None or not ledger.is_rejoin_full(poster.lane) or ledger.joined_total != self._joined_total:
            self._joined_total, self._since_ns, self._is_said = ledger.joined_total, now_ns, False
            return ""
        if self._is_said or now_ns - self._since_ns < LONG_NS:
            return ""
        self._is_said = True
        return (
            f"posts wait for room ({ledger.posters.count} now), and for {LONG_NS // 10**9} s no request has been rejoined: "
            f"{ledger.why_full(poster.lane)}: rejoin between posts (map_unordered does), post with rejoin=False where nobody "
            f"needs the result, or have a larger pool (rejoin = {ledger.policy.rejoin})"
        )
