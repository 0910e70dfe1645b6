"""Prediction: waits by operation and priority, throughput and utilisation, of what was recorded or of what was simulated.

Percentiles are exact: a window has at most some 100,000 actions, and a bucket of a histogram is as wide as what is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .load import Load
from .setting import Setting
from .simulation import Replayed

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Waits:
    """Of one operation at one priority. ns."""

    count: int
    mean: float
    p50: int
    p99: int
    max: int
    #: Those that were too late to begin; they are in none of the others.
    late: int = 0

    @classmethod
    def of(cls, waits: Iterable[int], late: int = 0) -> Waits:
        """Of these."""
        ordered = sorted(waits)
        count = len(ordered)
        if not count:
            return cls(0, 0.0, 0, 0, 0, late)
        return cls(
            count, sum(ordered) / count, ordered[_rank(0.5, count)], ordered[_rank(0.99, count)], ordered[-1], late
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a load does under a setting."""

    #: By (operation, priority).
    waits: dict[Key, Waits]
    #: The same, on average, with what they were held up when they ran: by others that computed, by a limit. More threads
    #: make fewer wait in queues; whether they are done any sooner is seen here. Where nothing was simulated, the waits.
    delays: dict[Key, float]
    #: Actions that ended a second, from the first arrival to the last end.
    per_s: float
    #: Of the time of all threads, the part with an action; above 1 where relief workers helped.
    busy: float
    #: CPU time a second.
    cpu: float

    @property
    def mean_ns(self) -> float:
        """Of all."""
        count = sum(waits.count for waits in self.waits.values())
        return sum(waits.mean * waits.count for waits in self.waits.values()) / max(1, count)

    @property
    def late(self) -> int:
        """Of all."""
        return sum(waits.late for waits in self.waits.values())


def predict(load: Load, replayed: Replayed, setting: Setting) -> Prediction:
    """What the simulation says."""
    delay = [wait + held if wait >= 0 else -1 for wait, held in zip(replayed.wait, replayed.held_up, strict=True)]
    delays = {key: waits.mean for key, waits in waits_of(load, delay).items()}
    return _told(load, replayed.wait, delays, setting, replayed.end_ns, replayed.busy_ns, replayed.cpu_ns)


def recorded(load: Load, setting: Setting) -> Prediction:
    """What was recorded, told the same way."""
    first_ns = min(load.arrival, default=0)
    ends_ns = max(map(sum, zip(load.arrival, load.wait, load.run, load.awaited, strict=True)), default=0)
    return _told(load, load.wait, None, setting, ends_ns - first_ns, sum(load.run), sum(load.cpu))


def waits_of(load: Load, wait: Sequence[int]) -> dict[Key, Waits]:
    """By operation and priority; below 0: too late."""
    found: dict[Key, list[int]] = {}
    late: dict[Key, int] = {}
    for operation, priority, waited in zip(load.operation, load.priority, wait, strict=True):
        key = (operation, priority)
        waits = found.setdefault(key, [])
        if waited >= 0:
            waits.append(waited)
        else:
            late[key] = late.get(key, 0) + 1
    return {key: Waits.of(waits, late.get(key, 0)) for key, waits in found.items()}


def _told(
    load: Load,
    wait: Sequence[int],
    delays: dict[Key, float] | None,
    setting: Setting,
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
    """Where the value stands below which this share lies."""
    return min(count - 1, max(0, -(-int(share * 1000) * count // 1000) - 1))
