"""Cache: the last published values of observable properties, so that a read does not wait behind an action of the same thing.

A value is the state after the last action that has ended, since changes are published before the action's reply. It is valid
only while its publishing process lives, so each read compares that process with the thing's current one.
"""

from __future__ import annotations

from typing import Final

#: Values kept. Beyond it the value that was added first is dropped, and read from its thing again.
VALUES_MAX: Final = 1_000_000


class PropertyCache:
    """The values as JSON, by thing and property."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], tuple[str, bytes]] = {}
        #: The things that were asked to publish all their values, with their processes.
        self._asked: set[tuple[str, str]] = set()

    def put(self, id: str, name: str, process: str, data: bytes) -> None:
        """Keep a value that `process` has published."""
        if len(self._values) >= VALUES_MAX and (id, name) not in self._values:
            del self._values[next(iter(self._values))]
        self._values[id, name] = process, data

    def drop(self, id: str, name: str) -> None:
        """The value is not known any more."""
        self._values.pop((id, name), None)

    def get(self, id: str, name: str, process: str) -> bytes | None:
        """The value, if the process of the thing has published it."""
        found = self._values.get((id, name))
        return found[1] if found is not None and found[0] == process else None

    def is_to_ask(self, id: str, process: str) -> bool:
        """Whether the thing has not been asked for its values yet; it counts as asked from now on."""
        if (id, process) in self._asked:
            return False
        if len(self._asked) >= VALUES_MAX:
            self._asked.clear()
        self._asked.add((id, process))
        return True

    def ask_again(self, id: str, process: str) -> None:
        """The thing could not be asked."""
        self._asked.discard((id, process))

    def clear(self) -> None:
        """Messages were lost, so any value may be an old one."""
        self._values.clear()
        self._asked.clear()
