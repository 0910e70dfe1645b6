"""Found: what a reading came across beside good records, by file, so that nothing is left out in silence.

It is counted where it is seen, in a task, and added up by whoever asked: `Found` adds to itself and travels as a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: Of files that cannot be read at all as many are named; all are counted.
NAMED_MAX = 20


@dataclass(slots=True)
class Found:
    """Counts, each by the path of a file."""

    #: Good records that were read.
    records: int = 0
    #: Records that hold something else than what was written, or are missing from a sealed segment.
    damaged: dict[str, int] = field(default_factory=dict)
    #: A last record that was not written to its end: the process was killed at that moment (or is writing it now).
    torn: dict[str, int] = field(default_factory=dict)
    #: Files of which nothing could be read, and why.
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def skipped(self) -> int:
        """Records that were left out."""
        return sum(self.damaged.values()) + sum(self.torn.values())

    def add(self, other: Found) -> None:
        """What another reading found."""
        self.records += other.records
        for path, count in other.damaged.items():
            self.damaged[path] = self.damaged.get(path, 0) + count
        for path, count in other.torn.items():
            self.torn[path] = self.torn.get(path, 0) + count
        self.unreadable.update(other.unreadable)

    def note_damaged(self, path: str, count: int) -> None:
        """So many records are left out."""
        if count:
            self.damaged[path] = self.damaged.get(path, 0) + count

    def lines(self) -> Iterator[str]:
        """For people: one line a file, none if all was good."""
        yield from _some(f"{path}: {_records(count)} damaged, left out" for path, count in sorted(self.damaged.items()))
        yield from _some(f"{path}: the last record was not written to its end, left out" for path in sorted(self.torn))
        yield from _some(f"{path} {why}: left out" for path, why in sorted(self.unreadable.items()))

    def as_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {"records": self.records, "damaged": self.damaged, "torn": self.torn, "unreadable": self.unreadable}

    @classmethod
    def from_dict(cls, told: Mapping[str, object]) -> Found:
        """What `as_dict` has made."""
        return cls(**told)  # type: ignore[arg-type]


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _some(lines: Iterator[str]) -> Iterator[str]:
    told = list(lines)
    yield from told[:NAMED_MAX]
    if len(told) > NAMED_MAX:
        yield f"and {len(told) - NAMED_MAX} more files like these"
