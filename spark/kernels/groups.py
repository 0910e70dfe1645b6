"""Groups: dense numbers, from 0, for the combinations of component, operation and priority that occur.

Names are numbers, too, but each segment has its own; so tables lead from a segment's numbers to ours, and are made again
when the names change. Cost: 2 ns a record; a combination that was not seen before costs some microseconds, once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Priorities are a byte in a record.
_PRIORITIES = 256


class Groups:
    """`naming` says what the numbers of the records to come mean, `of` numbers records, `keys` tells what that means."""

    __slots__ = ("_components", "_numbers", "_operations", "_pairs", "_table", "keys")

    def __init__(self) -> None:
        #: (component, operation, priority) by number.
        self.keys: list[tuple[str, str, int]] = []
        self._numbers: dict[tuple[str, str, int], int] = {}
        self._components: Sequence[str] = ()
        self._operations: Sequence[str] = ()
        # Two tables, one behind the other: components x operations x priorities would be too many for one.
        self._pairs = np.zeros(0, dtype=np.int32)
        self._table = np.zeros(0, dtype=np.intp)

    def __len__(self) -> int:
        return len(self.keys)

    def naming(self, components: Sequence[str], operations: Sequence[str]) -> None:
        """Names by the numbers that records have."""
        if components is self._components and operations is self._operations:
            return
        if list(components) != list(self._components) or list(operations) != list(self._operations):
            self._pairs = np.full(len(components) * len(operations), -1, dtype=np.int32)
            self._table = np.zeros(0, dtype=np.intp)
        self._components, self._operations = components, operations

    def of(self, components: np.ndarray, operations: np.ndarray, priorities: np.ndarray) -> np.ndarray:  # hot
        """The group of each record, intp. Columns of any integer type. scripts/bench spark_stats."""
        keys = components.astype(np.int32)
        keys *= len(self._operations)
        keys += operations
        pairs = self._pairs.take(keys)
        if len(pairs) and pairs.min() < 0:
            self._meet(np.unique(keys[pairs < 0]))
            pairs = self._pairs.take(keys)
        pairs *= _PRIORITIES
        pairs += priorities
        found = self._table.take(pairs)
        if len(found) and found.min() < 0:
            for key in np.unique(pairs[found < 0]).tolist():
                self._table[key] = self._number(key)
            found = self._table.take(pairs)
        return found

    def number_of(self, key: tuple[str, str, int]) -> int:
        """The group of a combination, which is a new one if it was not seen before."""
        number = self._numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number

    def _meet(self, keys: np.ndarray) -> None:
        """Number pairs of component and operation that occur for the first time under these names."""
        known = len(self._table) // _PRIORITIES
        self._pairs[keys] = np.arange(known, known + len(keys), dtype=np.int32)
        self._table = np.concatenate([self._table, np.full(len(keys) * _PRIORITIES, -1, dtype=np.intp)])

    def _number(self, key: int) -> int:
        pair, priority = divmod(key, _PRIORITIES)
        component, operation = divmod(int(np.flatnonzero(self._pairs == pair)[0]), len(self._operations))
        return self.number_of((self._components[component], self._operations[operation], priority))
