"""Working: runs the function of a stage on the items of a chunk, and makes dead letters of those that it cannot process."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import msgspec

from ..objects.operation_spec import converted
from .dead_letters import DeadLetters
from .stage import Stage


class Working:
    """The work of one lane. Used by one thread at a time."""

    def __init__(self, stage: Stage, letters: DeadLetters, unix_ns: Callable[[], int]) -> None:
        self._stage = stage
        self._letters = letters
        self._unix_ns = unix_ns
        self._kind: Any = None if stage.takes is Any else list[stage.takes]  # type: ignore[name-defined]
        self._is_sink = stage.kind == "sink"
        #: Totals of items: taken, made of them, dropped by the function.
        self.taken_count = 0
        self.made_count = 0
        self.dropped_count = 0

    def run(self, items: list[Any]) -> list[Any]:
        """What the function makes of the items, in their order; a sink makes nothing."""
        self.taken_count += len(items)
        items = self._converted(items)
        made = self._run_batches(items) if self._stage.batch is not None else self._run_each(items)
        self.made_count += len(made)
        return made

    def failed(self, item: Any, error: BaseException | str) -> None:
        """Make a dead letter of an item."""
        self._letters.add(item, error, self._unix_ns())

    def _run_each(self, items: list[Any]) -> list[Any]:
        function, made = self._stage.function, list[Any]()
        if self._is_sink:
            for item in items:
                try:
                    function(item)
                except Exception as error:  # the edge: a user's function
                    self.failed(item, error)
            return made
        add, expands = made.append, self._stage.expands
        for item in items:
            try:
                result = function(item)
                if result is None:
                    self.dropped_count += 1
                elif expands:
                    made += [each for each in result if each is not None]
                else:
                    add(result)
            except Exception as error:  # the edge: as above
                self.failed(item, error)
        return made

    def _run_batches(self, items: list[Any]) -> list[Any]:
        assert self._stage.batch is not None
        made, size = list[Any](), self._stage.batch.max
        for batch in [items] if len(items) <= size else [items[at : at + size] for at in range(0, len(items), size)]:
            try:
                made += self._made_of(batch)
            except Exception as error:  # the edge: as above
                if not self._stage.retries_singly or len(batch) == 1:
                    for item in batch:
                        self.failed(item, error)
                    continue
                for item in batch:
                    try:
                        made += self._made_of([item])
                    except Exception as own:
                        self.failed(item, own)
        return made

    def _made_of(self, batch: list[Any]) -> list[Any]:
        result = self._stage.function(batch)
        if self._is_sink or result is None:
            return []
        if not isinstance(result, (list, tuple)):
            raise TypeError(f"{self._stage.name} returned a {type(result).__name__} for a batch: expected a list")
        return [each for each in result if each is not None]

    def _converted(self, items: list[Any]) -> list[Any]:
        if self._kind is None:
            return items
        try:
            found: list[Any] = converted(self._kind, items)
            return found
        except msgspec.ValidationError:
            good = []
            for item in items:
                try:
                    good.append(converted(self._stage.takes, item))
                except msgspec.ValidationError as error:
                    self.failed(item, f"{self._stage.name} does not take it: {error}")
            return good


class Distribution:
    """Divides items among the lanes of the next stage, by their keys."""

    def __init__(self, stage: Stage) -> None:
        self._key_of = stage.key_of
        self.lanes: tuple[str | None, ...] = (None,)
        if stage.key_of is not None:
            assert stage.parallel is not None, "refused by the declaration"
            self.lanes = tuple(str(number) for number in range(stage.parallel))

    def parts(self, items: list[Any], failed: Callable[[Any, BaseException], None]) -> Iterable[tuple[int, list[Any]]]:
        """For each lane that gets some: its number and its items, in their order. `failed`: is told of items without a key."""
        key_of, count = self._key_of, len(self.lanes)
        if key_of is None:
            return [(0, items)] if items else []
        parts: dict[int, list[Any]] = {}
        for item in items:
            try:
                lane = lane_of(key_of(item), count)
            except Exception as error:  # the edge: a user's function, or a field that is not there
                failed(item, error)
            else:
                parts.setdefault(lane, []).append(item)
        return parts.items()


def lane_of(key: Hashable, count: int) -> int:
    """The number of the lane for a key: the same in every process, unlike Python's hash."""
    if type(key) is int:
        return key % count
    return zlib.crc32((key if type(key) is str else repr(key)).encode(errors="surrogatepass")) % count
