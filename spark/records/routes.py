"""Routes: a number for each pair of component and operation that occurs in a segment.

A segment numbers operations and objects only. The component comes from the object, not from the operation, but most readers
want just component and operation, and objects are many. Tables map the segment's numbers to route numbers, and are rebuilt
when the segment's names change. Cost: 1.5 ns a record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class RouteNumbers:
    """Route numbers for the records of one file, batch by batch; the meaning of a number never changes."""

    __slots__ = ("_components", "_names", "_numbers", "_pairs", "names")

    def __init__(self) -> None:
        #: (component, operation) by number. Replaced by a new list when a route is added.
        self.names: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._names: Sequence[tuple[str, str]] = ()
        #: Component number of each name; and the route of each component with each operation, -1 if it has not occurred.
        self._components = np.zeros(0, dtype=np.int32)
        self._pairs = np.zeros(0, dtype=np.int32)

    def of(self, operations: np.ndarray, objects: np.ndarray, names: Sequence[tuple[str, str]]) -> np.ndarray:
        """The route number of each record. `names`: (component, name), indexed by `operations` and `objects`."""
        if names is not self._names:
            self._renamed(names)
        keys = self._components.take(objects)
        keys *= len(names)
        keys += operations
        found = self._pairs.take(keys)
        if len(found) and found.min() < 0:
            for key in np.unique(keys[found < 0]).tolist():
                self._pairs[key] = self._number(key)
            found = self._pairs.take(keys)
        return found

    def _renamed(self, names: Sequence[tuple[str, str]]) -> None:
        components = {component: number for number, component in enumerate(dict.fromkeys(c for c, _ in names))}
        self._components = np.array([components[component] for component, _ in names], dtype=np.int32)
        self._pairs = np.full(len(components) * len(names), -1, dtype=np.int32)
        self._names = names

    def _number(self, key: int) -> int:
        component, operation = divmod(key, len(self._names))
        whose = self._names[int(np.flatnonzero(self._components == component)[0])][0]
        owner, name = self._names[operation]
        route = (whose or owner, name)
        if route not in self._numbers:
            self._numbers[route] = len(self.names)
            self.names = [*self.names, route]
        return self._numbers[route]
