"""Offer: the operations and topics that this node exports to its peers, and which operations may wait (as bulk).

The version grows by one with each change. Peers see it in every heartbeat and request the changes that they lack. So a hundred
changes in a moment cost each peer one answer, and a lost answer is requested again. The last versions are kept whole: a
difference is then that of two sets, and cannot be wrong; a peer that is further behind gets everything. Costs a pointer a
route and version kept.
"""

from collections.abc import Collection
from typing import Final

from ..errors import InvalidArgument
from .messages import ROUTES_MAX, ListChange

#: Versions kept: some seconds' worth for a peer that asks five times a second.
VERSIONS_MAX: Final = 16
ROUTE_LENGTH_MAX: Final = 256

#: Operations, topics, and the operations that may wait.
_Version = tuple[frozenset[str], frozenset[str], frozenset[str]]
_NOTHING: Final[_Version] = (frozenset(), frozenset(), frozenset())


class Offer:
    """The present exports, and their latest former versions."""

    def __init__(self) -> None:
        #: 0: nothing has been offered yet, and no peer asks.
        self.version = 0
        self._versions: dict[int, _Version] = {0: _NOTHING}

    @property
    def latest(self) -> _Version:
        """Operations, topics, and operations that may wait."""
        return self._versions[self.version]

    def set(self, operations: Collection[str], topics: Collection[str], bulk: Collection[str] = ()) -> bool:
        """Export these from now on; returns whether that is a change. `bulk`: the operations that may wait.

        Raises `InvalidArgument` beyond `ROUTES_MAX` names or `ROUTE_LENGTH_MAX` characters.
        """
        for what, names in (("operations", operations), ("topics", topics)):
            if len(names) > ROUTES_MAX:
                raise InvalidArgument(f"{len(names):,} {what} exported, limit {ROUTES_MAX:,} a node: export fewer")
            for name in names:
                if not 0 < len(name) <= ROUTE_LENGTH_MAX:
                    raise InvalidArgument(
                        f"{name[:64]!r} cannot be exported: 1 to {ROUTE_LENGTH_MAX} characters expected"
                    )
        exported = frozenset(operations), frozenset(topics), frozenset(bulk).intersection(operations)
        if exported == self._versions[self.version]:
            return False
        self.version += 1
        self._versions[self.version] = exported
        self._versions.pop(self.version - VERSIONS_MAX, None)
        return True

    def since(self, version: int) -> tuple[int, ListChange, ListChange, ListChange]:
        """(base version, changes of operations, of topics, of operations that may wait); base 0: `version` is not kept any
        more.
        """
        before = self._versions.get(version)
        if before is None or version > self.version:
            version, before = 0, _NOTHING
        operations, topics, bulk = map(_change, before, self._versions[self.version])
        return version, operations, topics, bulk


def _change(before: frozenset[str], after: frozenset[str]) -> ListChange:
    return ListChange(tuple(sorted(after - before)), tuple(sorted(before - after)))
