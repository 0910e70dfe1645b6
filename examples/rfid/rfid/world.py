"""World: tags that pass antennas, and a reader's reports of them, with repeated, missed and stray reads; from one seed (pure).

`passes` is the truth that the reports hide. Each pass has enough reads to be found, and each stray is a single read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from .epc import sgtin_96
from .messages import TagRead

#: 2026-01-01T00:00:00Z. The reader's clock has nothing to do with that of the host.
START_US: Final = 1_767_225_600_000_000
#: Between two reads of a tag; a report; a round of inventory.
READ_US, REPORT_US, ROUND_US = 50_000, 100_000, 500_000
#: How likely a read is missed, one after the other at most so many, and how likely one is reported again.
MISSED, MISSED_MAX, REPEATED = 0.3, 3, 0.1
#: Least time between two passes of a tag at one antenna, and between a stray read and anything else.
APART_US: Final = 3_000_000


@dataclass(frozen=True, slots=True)
class TagPass:
    """A tag was before an antenna, from its first read to its last."""

    antenna: int
    epc: str
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class ReportStep:
    """The report of one interval of `REPORT_US`. `is_round`: a round of inventory has ended."""

    time_us: int
    reads: tuple[TagRead, ...]
    is_round: bool


class TagWorld:
    """So many tags at so many antennas."""

    def __init__(self, seed: int, tags: int = 10, antennas: int = 2) -> None:
        self._random = Random(seed)
        self.passes: list[TagPass] = []
        self.stray_count = 0
        epcs = [sgtin_96("0614141", "812345", number + 1) for number in range(tags)]
        reads = [read for epc in epcs for read in self._walk(epc, tags, antennas)]
        reads += self._strays(antennas)
        self.steps = list(self._steps(reads))

    def _walk(self, epc: str, tags: int, antennas: int) -> Iterator[TagRead]:
        """A tag passes all antennas, one after the other, and perhaps once more."""
        random = self._random
        time_us = START_US + random.randrange(APART_US, APART_US + tags * 300_000)
        for _ in range(random.choice((1, 1, 2))):
            for antenna in range(1, antennas + 1):
                times = list(self._times(time_us, random.randrange(800_000, 2_500_000)))
                self.passes.append(TagPass(antenna, epc, times[0], times[-1]))
                for each in times:
                    yield TagRead(epc, antenna, random.randint(-65, -40), each, each, 1)
                time_us = times[-1] + random.randrange(300_000, 1_500_000)
            time_us += APART_US

    def _times(self, time_us: int, size_us: int) -> Iterator[int]:
        """When a tag is read during a pass."""
        missed = 0
        for each in range(time_us, time_us + size_us, READ_US):
            if missed < MISSED_MAX and self._random.random() < MISSED:
                missed += 1
            else:
                missed = 0
                yield each

    def _strays(self, antennas: int) -> Iterator[TagRead]:
        """Single reads by an antenna that the tag is far from; and of EPCs that no tag has: noise."""
        random = self._random
        busy: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for each in self.passes:
            busy[each.epc, each.antenna].append((each.first_us - APART_US, each.last_us + APART_US))
        for each in self.passes * 2:
            antenna, time_us = random.randint(1, antennas), random.randint(each.first_us, each.last_us)
            epc = each.epc if random.random() < 0.8 else f"{random.getrandbits(96):024x}"
            if not any(first < time_us < last for first, last in busy[epc, antenna]):
                busy[epc, antenna].append((time_us - APART_US, time_us + APART_US))
                self.stray_count += 1
                yield TagRead(epc, antenna, random.randint(-80, -70), time_us, time_us, 1)

    def _steps(self, reads: list[TagRead]) -> Iterator[ReportStep]:
        by_step: dict[int, list[TagRead]] = defaultdict(list)
        for read in reads:
            by_step[(read.last_us - START_US) // REPORT_US].append(read)
        end = max(by_step, default=0) + 2 * APART_US // REPORT_US
        repeated: list[TagRead] = []
        for number in range(end + 1):
            time_us = START_US + (number + 1) * REPORT_US
            found = _accumulated(by_step[number])
            yield ReportStep(time_us, (*found, *repeated), is_round=time_us % ROUND_US == 0)
            repeated = [read for read in found if read.rssi > -70 and self._random.random() < REPEATED]


def _accumulated(reads: list[TagRead]) -> list[TagRead]:
    """One TagReportData for each tag and antenna, as a reader makes it."""
    found: dict[tuple[str, int], TagRead] = {}
    for read in reads:
        place = read.epc, read.antenna
        earlier = found.get(place)
        if earlier is not None:
            read = TagRead(
                *place, max(earlier.rssi, read.rssi), min(earlier.first_us, read.first_us),
                max(earlier.last_us, read.last_us), earlier.count + read.count,
            )  # fmt: skip
        found[place] = read
    return list(found.values())
