"""Edges: how the stages of flows keep up with each other, from two samples. Pure.

One row for each edge, of all replicas of its producer together. The stage that holds an edge up is found by the ages: an item
counts on every edge from its source to where it is, so that the oldest item of an edge is in the last stage before which it is
about as old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from .sample import BackplaneSample, FlowPartAccount

#: Items that are younger are on their way: nobody holds them up.
HELD_UP_MS = 100.0
#: The share of an edge's oldest age from which the next edge has its oldest item, too.
AS_OLD = 0.5


class EdgeFigures(msgspec.Struct, frozen=True):
    """One edge of a flow. None is unknown."""

    flow: str
    producer: str
    consumer: str
    #: Items that have ended, a second.
    rate: float | None
    credits: int
    used: int
    #: Items that wait for credits.
    waiting: int
    #: Age of the oldest item on the edge; None: there is none.
    oldest_ms: float | None
    #: The stage that has the oldest item; None: all are on their way.
    held_up_by: str | None
    lost: int
    #: Dead letters of the consumer.
    dead_letters: int
    #: Increase of these totals in the interval.
    lost_new: int
    dead_letters_new: int


class _Sums:
    """Totals of one edge."""

    def __init__(self) -> None:
        self.credits = self.used = self.waiting = self.lost = self.ended = 0
        self.oldest_ms: float | None = None
        self.consumer = ""

    def add(self, part: FlowPartAccount) -> None:
        edge = part.edge
        assert edge is not None
        self.consumer = edge.to
        self.credits += edge.credits
        self.used += edge.used
        self.waiting += edge.waiting
        self.lost += edge.lost
        self.ended += edge.ended
        if edge.oldest_ms is not None:
            self.oldest_ms = max(self.oldest_ms or 0.0, edge.oldest_ms)


def edges(
    before: Mapping[str, BackplaneSample], now: Iterable[BackplaneSample], seconds: float | None
) -> tuple[EdgeFigures, ...]:
    """All edges, in the order of their flows. `before`: the samples before, by backplane. `seconds`: the interval."""
    sums, letters = _sums(now)
    earlier, earlier_letters = _sums(before.values())
    found = []
    for (flow, producer), edge in sums.items():
        was = earlier.get((flow, producer))
        ended = 0 if was is None else edge.ended - was.ended
        dead = letters.get((flow, edge.consumer), 0)
        found.append(
            EdgeFigures(
                flow=flow,
                producer=producer,
                consumer=edge.consumer,
                rate=None if was is None or not seconds or ended < 0 else ended / seconds,
                credits=edge.credits,
                used=edge.used,
                waiting=edge.waiting,
                oldest_ms=edge.oldest_ms,
                held_up_by=_held_up_by(flow, edge, sums),
                lost=edge.lost,
                dead_letters=dead,
                lost_new=0 if was is None else max(0, edge.lost - was.lost),
                dead_letters_new=max(0, dead - earlier_letters.get((flow, edge.consumer), dead)),
            )
        )
    return tuple(_in_order(found))


def _sums(samples: Iterable[BackplaneSample]) -> tuple[dict[tuple[str, str], _Sums], dict[tuple[str, str], int]]:
    sums: dict[tuple[str, str], _Sums] = {}
    letters: dict[tuple[str, str], int] = {}
    for sample in samples:
        for part in sample.statistics.flows if sample.statistics is not None else ():
            name = part.flow, part.stage
            letters[name] = letters.get(name, 0) + part.dead_letters
            if part.edge is not None:
                sums.setdefault(name, _Sums()).add(part)
    return sums, letters


def _held_up_by(flow: str, edge: _Sums, sums: Mapping[tuple[str, str], _Sums]) -> str | None:
    if edge.oldest_ms is None or edge.oldest_ms < HELD_UP_MS:
        return None
    while True:
        further = sums.get((flow, edge.consumer))
        if further is None or further.oldest_ms is None or further.oldest_ms < AS_OLD * (edge.oldest_ms or 0.0):
            return edge.consumer
        edge = further


def _in_order(found: list[EdgeFigures]) -> list[EdgeFigures]:
    """By flow, and from the source to the sink."""
    by_consumer = {(each.flow, each.consumer): each for each in found}

    def distance(edge: EdgeFigures) -> int:
        steps, here = 0, by_consumer.get((edge.flow, edge.producer))
        while here is not None:
            steps, here = steps + 1, by_consumer.get((here.flow, here.producer))
        return steps

    return sorted(found, key=lambda edge: (edge.flow, distance(edge)))
