"""Found: counts of the data that a reading had to leave out, by file, so that nothing is left out silently.

Each task counts while reading, and the caller adds the counts up: `Found` adds to itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

#: At most so many unreadable files are named; all are counted.
NAMED_MAX = 20


@dataclass(slots=True)
class Found:
    """Counts of good and bad records, the bad ones by file path."""

    #: Number of good records read.
    records: int = 0
    #: Records with a wrong checksum, or missing from a sealed segment.
    damaged: dict[str, int] = field(default_factory=dict)
    #: A last record that is incomplete: the process was killed while writing it (or is writing it now).
    torn: dict[str, int] = field(default_factory=dict)
    #: Files that could not be read at all, with the reason.
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def skipped(self) -> int:
        """Number of records left out."""
        return sum(self.damaged.values()) + sum(self.torn.values())

    def add(self, other: Found) -> None:
        """Add the counts of another reading."""
        self.records += other.records
        for path, count in other.damaged.items():
            self.note_damaged(path, count)
        for path, count in other.torn.items():
            self.torn[path] = self.torn.get(path, 0) + count
        self.unreadable.update(other.unreadable)

    def note_damaged(self, path: str, count: int) -> None:
        """Count records that are left out as damaged."""
        if count:
            self.damaged[path] = self.damaged.get(path, 0) + count

    def lines(self) -> Iterator[str]:
        """Format for people: one line a file, none if all was good."""
        yield from _some(f"{path}: {_records(count)} damaged, left out" for path, count in sorted(self.damaged.items()))
        yield from _some(f"{path}: the last record is incomplete, left out" for path in sorted(self.torn))
        yield from _some(f"{path} {why}: left out" for path, why in sorted(self.unreadable.items()))


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _some(lines: Iterator[str]) -> Iterator[str]:
    told = list(lines)
    yield from told[:NAMED_MAX]
    if len(told) > NAMED_MAX:
        yield f"and {len(told) - NAMED_MAX} more files like these"
