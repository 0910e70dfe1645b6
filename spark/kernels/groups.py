"""Groups: dense numbers, from 0, for the combinations of route (component and operation) and priority that occur.

Each file numbers its routes on its own, so a table maps a file's numbers to group numbers, and is rebuilt when the file
changes. Cost: 1 ns a record; a new combination costs some microseconds, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

#: Priorities are a byte in a record.
_PRIORITIES: Final = 256


class RouteGroups:
    """Call `naming` with the route names of the next records, then `of` for their groups. `keys` lists the groups' meanings."""

    __slots__ = ("_numbers", "_routes", "_table", "keys")

    def __init__(self) -> None:
        #: (component, operation, priority) by number.
        self.keys: list[tuple[str, str, int]] = []
        self._numbers: dict[tuple[str, str, int], int] = {}
        self._routes: Sequence[tuple[str, str]] = ()
        self._table = np.zeros(0, dtype=np.intp)

    def __len__(self) -> int:
        return len(self.keys)

    def naming(self, routes: Sequence[tuple[str, str]]) -> None:
        """Set the routes of the next records: (component, operation), indexed by the records' route number."""
        if routes != self._routes:
            self._table = np.full(len(routes) * _PRIORITIES, -1, dtype=np.intp)
        self._routes = routes

    def of(self, routes: np.ndarray, priorities: np.ndarray) -> np.ndarray:  # hot: scripts/bench spark_stats
        """The group of each record, intp. Columns may have any integer type."""
        keys = routes.astype(np.int32)
        keys *= _PRIORITIES
        keys += priorities
        found = self._table.take(keys)
        if len(found) and found.min() < 0:
            for key in np.unique(keys[found < 0]).tolist():
                route, priority = divmod(key, _PRIORITIES)
                self._table[key] = self.number_of((*self._routes[route], priority))
            found = self._table.take(keys)
        return found

    def number_of(self, key: tuple[str, str, int]) -> int:
        """The group of a combination; a new one is added if needed."""
        number = self._numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number
