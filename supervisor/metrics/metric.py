"""Metric: one line of the table of metrics (exposition.py): name, kind, labels, and its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Labels = tuple[str, ...]
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Counted:
    """A histogram: (upper bound, count of values up to it), growing, without +Inf; count of all; their sum in seconds."""

    buckets: tuple[tuple[float, int], ...]
    count: int
    sum_s: float


Value = float | Counted
Read = Callable[[Answer], Iterable[tuple[Labels, Value]]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table of metrics."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    #: Labels besides `system`, which all metrics have.
    labels: Labels
    read: Read
