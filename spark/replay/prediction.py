"""Prediction: waits by operation and priority, throughput and utilisation, of recorded or of simulated work.

Percentiles are exact: a window has at most some 100,000 actions, and histogram buckets are as wide as the differences sought.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .load import Load
from .setting import ReplaySetting
from .simulation import REFUSED, Replayed

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PredictedWaits:
    """Waits of one operation at one priority, in ns."""

    count: int
    mean: float
    p50: int
    p99: int
    max: int
    #: Actions that were too late to begin, and that a limit of queueing times refused; in none of the other figures.
    late: int = 0
    refused: int = 0

    @classmethod
    def of(cls, waits: Iterable[int], late: int = 0, refused: int = 0) -> PredictedWaits:
        """The statistics of these waits."""
        ordered = sorted(waits)
        count = len(ordered)
        if not count:
            return cls(0, 0.0, 0, 0, 0, late, refused)
        return cls(
            count, sum(ordered) / count, ordered[_rank(0.5, count)], ordered[_rank(0.99, count)], ordered[-1],
            late, refused,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prediction:
    """The figures of a load under a setting."""

    #: By (operation, priority).
    waits: dict[Key, PredictedWaits]
    #: Mean waits, plus the time by which running actions were held up: by others that computed, or by a limit. More threads
    #: shorten queues; only this shows whether actions are done any sooner. Where nothing was simulated: the mean waits.
    delays: dict[Key, float]
    #: Actions ended per second, from the first arrival to the last end.
    per_s: float
    #: Share of the time of all threads that had an action; above 1 where relief workers helped.
    busy: float
    #: CPU seconds per second.
    cpu: float

    @property
    def mean_ns(self) -> float:
        """Mean wait of all actions."""
        count = sum(waits.count for waits in self.waits.values())
        return sum(waits.mean * waits.count for waits in self.waits.values()) / max(1, count)

    @property
    def late(self) -> int:
        """Number of actions that were too late to begin."""
        return sum(waits.late for waits in self.waits.values())

    @property
    def refused(self) -> int:
        """Number of actions that a limit of queueing times refused."""
        return sum(waits.refused for waits in self.waits.values())


def predict(load: Load, replayed: Replayed, setting: ReplaySetting) -> Prediction:
    """The figures of a simulated load."""
    delay = [wait + held if wait >= 0 else -1 for wait, held in zip(replayed.wait, replayed.held_up, strict=True)]
    delays = {key: waits.mean for key, waits in waits_of(load, delay).items()}
    return _told(load, replayed.wait, delays, setting, replayed.end_ns, replayed.busy_ns, replayed.cpu_ns)


def recorded(load: Load, setting: ReplaySetting) -> Prediction:
    """The figures of the recording itself, in the same form."""
    first_ns = min(load.arrival, default=0)
    ends_ns = max(map(sum, zip(load.arrival, load.wait, load.run, load.awaited, strict=True)), default=0)
    return _told(load, load.wait, None, setting, ends_ns - first_ns, sum(load.run), sum(load.cpu))


def waits_of(load: Load, wait: Sequence[int]) -> dict[Key, PredictedWaits]:
    """Statistics by operation and priority. A wait below 0 marks an action that was too late, or refused."""
    found: dict[Key, list[int]] = {}
    late: dict[Key, int] = {}
    refused: dict[Key, int] = {}
    for operation, priority, waited in zip(load.operation, load.priority, wait, strict=True):
        key = (operation, priority)
        waits = found.setdefault(key, [])
        if waited >= 0:
            waits.append(waited)
        elif waited == REFUSED:
            refused[key] = refused.get(key, 0) + 1
        else:
            late[key] = late.get(key, 0) + 1
    return {key: PredictedWaits.of(waits, late.get(key, 0), refused.get(key, 0)) for key, waits in found.items()}


def _told(
    load: Load,
    wait: Sequence[int],
    delays: dict[Key, float] | None,
    setting: ReplaySetting,
    lasted_ns: int,
    busy_ns: int,
    cpu_ns: int,
) -> Prediction:
    waits = waits_of(load, wait)
    lasted_ns = max(1, lasted_ns)
    return Prediction(
        waits,
        {key: each.mean for key, each in waits.items()} if delays is None else delays,
        sum(each.count for each in waits.values()) * 1e9 / lasted_ns,
        busy_ns / lasted_ns / setting.threads,
        cpu_ns / lasted_ns,
    )


def _rank(share: float, count: int) -> int:
    """Index of the percentile `share` among `count` sorted values."""
    return min(count - 1, max(0, -(-int(share * 1000) * count // 1000) - 1))
