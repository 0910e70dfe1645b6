"""Summing: an answer from sums that each task makes of its own pieces, and that a second, small step adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..frames import actions_of
from ..records.batch import Actions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PartialSums(Protocol):
    """Sums of one task, or of all."""

    def add(self, actions: Actions) -> None:
        """Count records, which have the fields that `summed` was called with."""

    def add_partial(self, batch: Any) -> None:
        """Add the sums of another task, as its `partial` returned them."""

    def partial(self) -> Any:
        """The sums so far, as a batch that travels."""

    def result(self) -> Any:
        """The answer, as a batch."""


def summed(
    pieces: DataFrame, fields: Sequence[str], make: Callable[[], PartialSums], partial: str, schema: str
) -> DataFrame:
    """The `result` of all records in `pieces`, which has this `schema`; `partial`: the schema of the batches that travel."""

    def tally(batches: Iterator[Any]) -> Iterator[Any]:
        sums = make()
        for actions in actions_of(batches, fields):
            sums.add(actions)
        yield sums.partial()

    return added_up(pieces.mapInArrow(tally, partial), make, schema)


def added_up(partials: DataFrame, make: Callable[[], Any], schema: str) -> DataFrame:
    """The `result` of what the tasks have found, by `add_partial` of what `make` returns."""

    def add_up(batches: Iterator[Any]) -> Iterator[Any]:
        sums = make()
        for batch in batches:
            sums.add_partial(batch)
        yield sums.result()

    return partials.repartition(1).mapInArrow(add_up, schema)
