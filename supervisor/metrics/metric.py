"""Metric: one line of the table of what Prometheus is told (exposition.py): name, kind, labels, and where it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Labels = tuple[str, ...]
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Counted:
    """A histogram: (upper bound, how many are not above it), growing, without +Inf; all; their sum in seconds."""

    buckets: tuple[tuple[float, int], ...]
    count: int
    sum_s: float


Value = float | Counted
Read = Callable[[Answer], Iterable[tuple[Labels, Value]]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    #: Besides `system`, which all have.
    labels: Labels
    read: Read
