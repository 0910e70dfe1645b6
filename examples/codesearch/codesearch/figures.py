"""Figures: what the live view shows, worked out from single latencies and running counters. Pure.

A run may last for days, so latencies are kept as counts, by their two leading digits: a percentile is right to within
5 %, and there are never more than ninety counts a power of ten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class Latencies:
    """How long calls took, as far as percentiles need to know."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ns = 0
        self._counts: Counter[int] = Counter()

    def record(self, ns: int) -> None:
        """One call."""
        self.count += 1
        self.max_ns = max(self.max_ns, ns)
        self._counts[_rounded(ns)] += 1

    def add(self, other: Latencies) -> None:
        """All calls of another."""
        self.count += other.count
        self.max_ns = max(self.max_ns, other.max_ns)
        self._counts += other._counts

    def percentile_ms(self, percent: float) -> float:
        """The time within which so many percent ended, in ms; 0 if there were none. Never rounded down."""
        left = -(-self.count * percent // 100)
        for ns in sorted(self._counts):
            left -= self._counts[ns]
            if left <= 0:
                return min(ns, self.max_ns) / 1e6
        return 0.0


def _rounded(ns: int) -> int:
    """Up to two leading digits: 1,234 becomes 1,300."""
    unit: int = 10 ** max(0, len(str(ns)) - 2)
    return -(-ns // unit) * unit


@dataclass(frozen=True, slots=True)
class Throughput:
    """What the bulk side did in some time."""

    files: int = 0
    bytes: int = 0
    entries: int = 0
    seconds: float = 0.0

    @property
    def files_s(self) -> float:
        """Files a second."""
        return self.files / self.seconds if self.seconds else 0.0

    @property
    def megabytes_s(self) -> float:
        """Megabytes a second."""
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0


class BulkMeter:
    """Rates from the counters of `index.progress`. One that has become smaller belongs to a new process: begin anew."""

    def __init__(self) -> None:
        self._last: tuple[Mapping[str, Any], int] | None = None
        self.total = Throughput()

    def update(self, progress: Mapping[str, Any], now_ns: int) -> Throughput:
        """What has been done since the last look."""
        last, self._last = self._last, (progress, now_ns)
        if last is None:
            return Throughput()
        before, then_ns = last
        is_anew = progress["files"] < before["files"]
        files, size, entries = (
            int(progress[name] - (0 if is_anew else before[name])) for name in ("files", "bytes", "entries")
        )
        seconds = (now_ns - then_ns) / 1e9
        total = self.total
        self.total = Throughput(
            total.files + files, total.bytes + size, total.entries + entries, total.seconds + seconds
        )
        return Throughput(files, size, entries, seconds)


@dataclass(frozen=True, slots=True)
class Second:
    """All that is shown of one second."""

    elapsed_s: int
    urgent: Latencies
    urgent_total: Latencies
    errors_count: int
    #: What the last search was for, and what it found.
    text: str
    hits: list[dict[str, Any]]
    bulk: Throughput
    progress: Mapping[str, Any]
    host: Mapping[str, Any]
    #: What the system has said last.
    said: str = ""


def line(second: Second) -> str:
    """One second as a line of text."""
    urgent, bulk, progress = second.urgent, second.bulk, second.progress
    errors = f", {second.errors_count} failed" if second.errors_count else ""
    return (
        f"{second.elapsed_s:4d} s | urgent p50 {urgent.percentile_ms(50):5.2f} ms, p99 {urgent.percentile_ms(99):6.2f} ms"
        f" ({urgent.count} searches{errors}) | bulk {bulk.files_s:5.0f} files/s, {bulk.megabytes_s:5.1f} MB/s"
        f" | round {progress['round']}: {progress['round_files_done']}/{progress['round_files']} files"
        f" | cpu {second.host.get('cpu_percent', 0):3.0f} %"
    )


def summary(urgent: Latencies, errors_count: int, bulk: Throughput, rounds: int) -> str:
    """What the whole run showed."""
    failed = f", {errors_count} failed" if errors_count else ""
    return (
        f"urgent: {urgent.count} searches{failed}, p50 {urgent.percentile_ms(50):.2f} ms, "
        f"p99 {urgent.percentile_ms(99):.2f} ms, slowest {urgent.max_ns / 1e6:.2f} ms\n"
        f"bulk:   {bulk.files} files, {bulk.bytes / 1e6:.1f} MB in {bulk.seconds:.0f} s and {rounds} rounds: "
        f"{bulk.files_s:.0f} files/s, {bulk.megabytes_s:.1f} MB/s"
    )
