"""Selection: the records that a caller selects by options of `load`: a time range and backplanes.

These are options because a reader must not remember a query. Spark keeps one reader for all queries of a DataFrame, so a
filter pushed into it by one query would also filter the next. Spark applies all other filters itself, to the rows.
"""

from __future__ import annotations

from typing import NamedTuple

from appbackplane.runtime.observation.segments import SegmentHeader

from ..frames import within
from ..records.messages import RecordedMessage
from ..records.segment_file import Keep


class Selection(NamedTuple):
    """Records that begin at `since_ns` or later and before `until_ns` (Unix time), of `backplanes`; None: of any."""

    since_ns: int | None = None
    until_ns: int | None = None
    backplanes: frozenset[str] | None = None

    @property
    def keep(self) -> Keep | None:
        """The time range as a filter for `records.pieces.read`."""
        return within(self.since_ns, self.until_ns)

    def has_segment(self, header: SegmentHeader | None) -> bool:
        """Whether the selection may include records of this segment, by its backplane."""
        return self.backplanes is None or header is None or header.backplane in self.backplanes

    def has_message(self, message: RecordedMessage) -> bool:
        """Whether this message was published in the time range."""
        return (self.since_ns is None or message.time_ns >= self.since_ns) and (
            self.until_ns is None or message.time_ns < self.until_ns
        )


#: Selection without any restriction.
ALL = Selection()
