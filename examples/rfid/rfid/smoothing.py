"""Smoothing: which tags are present, decided from reads that are duplicated, missed or stray (pure).

A reader reads a tag that is there 20 times a second, misses some of the reads, and now and then reads a tag that passes
elsewhere. So a tag is present after `reads_min` reads within `window_us`, and gone when it was not read for `gone_us`. A tag
that is never read so often was a stray. Time is the reader's own: it comes with the reads, so a delay on the network changes
nothing. Cost: a few microseconds a read, however many tags are present.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from .messages import TagRead

#: Tags of one antenna that are present, and as many that may be strays. A dock door sees some hundred at a time; beyond it new
#: tags are ignored and counted.
TAGS_MAX: Final = 10_000
#: A clock that jumps by more was set: what is present is gone, and time begins anew. Clocks of readers drift by seconds a day.
CLOCK_STEP_US: Final = 3_600_000_000


@dataclass(frozen=True, slots=True)
class SmoothingPolicy:
    """When a tag is present and when it is gone. Times in microseconds."""

    reads_min: int = 3
    window_us: int = 500_000
    gone_us: int = 1_500_000


@dataclass(frozen=True, slots=True)
class TagArrival:
    """A tag is present, since its first read at `first_us`."""

    epc: str
    first_us: int


@dataclass(frozen=True, slots=True)
class TagDeparture:
    """A tag is gone. `reads`: how often it was read until `last_us`."""

    epc: str
    last_us: int
    reads: int


@dataclass(slots=True)
class _Tag:
    """Reads of one tag. `recent`: time, count and first time of those within the window, until it is present."""

    last_us: int
    count: int = 0
    recent: deque[tuple[int, int, int]] = field(default_factory=deque)


class Smoother:
    """The tags of one antenna."""

    def __init__(self, policy: SmoothingPolicy) -> None:
        self._policy = policy
        self._now_us: int | None = None
        #: Tags that are present, and tags that may be strays, in the order of their last reads: the first one is gone first.
        self._present: dict[str, _Tag] = {}
        self._candidates: dict[str, _Tag] = {}
        #: Tags that were read too seldom.
        self.stray_count = 0
        #: Reads beyond `TAGS_MAX`, and reads that came so late that their tag would be gone already.
        self.ignored_count = 0

    def take(self, reads: Iterable[TagRead]) -> list[TagArrival | TagDeparture]:
        """Note the reads of one report; those of one tag count at the time of the last. Returns the changes, in order.

        A read that comes later than those of other tags counts as one of now.
        """
        changes: list[TagArrival | TagDeparture] = []
        for read in sorted(reads, key=lambda read: read.last_us):
            changes += self.pass_to(read.last_us)
            changes += self._note(read)
        return changes

    def pass_to(self, time_us: int) -> list[TagArrival | TagDeparture]:
        """The reader's clock shows `time_us`; earlier than before has no effect. Returns the tags that are gone."""
        before_us = time_us if self._now_us is None else self._now_us
        if abs(time_us - before_us) > CLOCK_STEP_US:
            self._now_us = time_us
            self._candidates.clear()
            return self._end(list(self._present))
        self._now_us = now_us = max(before_us, time_us)
        for epc in _unread_since(self._candidates, now_us - self._policy.window_us):
            del self._candidates[epc]
            self.stray_count += 1
        return self._end(_unread_since(self._present, now_us - self._policy.gone_us))

    def _end(self, gone: list[str]) -> list[TagArrival | TagDeparture]:
        tags = [(epc, self._present.pop(epc)) for epc in gone]
        return [TagDeparture(epc, tag.last_us, tag.count) for epc, tag in tags]

    def _note(self, read: TagRead) -> list[TagArrival | TagDeparture]:
        policy, now_us = self._policy, self._now_us
        assert now_us is not None
        known = self._present if read.epc in self._present else self._candidates
        if read.last_us <= now_us - policy.gone_us or (read.epc not in known and len(known) >= TAGS_MAX):
            self.ignored_count += 1
            return []
        tag = known.pop(read.epc) if read.epc in known else _Tag(now_us)
        known[read.epc] = tag  # the last in the order
        tag.last_us = now_us
        tag.count += max(1, read.count)
        if known is self._present:
            return []
        tag.recent.append((now_us, max(1, read.count), read.first_us))
        while tag.recent[0][0] <= now_us - policy.window_us:
            tag.recent.popleft()
        if sum(count for _, count, _ in tag.recent) < policy.reads_min:
            return []
        del self._candidates[read.epc]
        if len(self._present) >= TAGS_MAX:
            self.ignored_count += 1
            return []
        self._present[read.epc] = tag
        came = TagArrival(read.epc, tag.recent[0][2])
        tag.recent.clear()
        return [came]


def _unread_since(tags: dict[str, _Tag], time_us: int) -> list[str]:
    return [epc for epc, _ in takewhile(lambda each: each[1].last_us <= time_us, tags.items())]
