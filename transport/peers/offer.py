"""Offer: the routes and topics that this node exports to its peers, with a version that grows by one with each change.

Of the operations it is told which may wait.

Peers see the version in every heartbeat and ask for what they lack, so a hundred changes in a moment cost each peer one
answer, and one that is lost is asked for again. The last versions are kept whole: a difference is then that of two sets, and
cannot be wrong; who is further behind gets everything. Costs a pointer a route and version kept.
"""

from collections.abc import Collection
from typing import Final

from ..errors import InvalidArgument
from .messages import ROUTES_MAX, Change

#: Versions kept: some seconds' worth for who asks five times a second.
VERSIONS_MAX: Final = 16
ROUTE_LENGTH_MAX: Final = 256

#: Operations, topics, and those of the operations that may wait.
_Version = tuple[frozenset[str], frozenset[str], frozenset[str]]
_NOTHING: Final[_Version] = (frozenset(), frozenset(), frozenset())


class Offer:
    """What is exported now, and was a moment ago."""

    def __init__(self) -> None:
        #: 0: nothing has been offered yet, and nobody asks.
        self.version = 0
        self._versions: dict[int, _Version] = {0: _NOTHING}

    @property
    def latest(self) -> _Version:
        """What is exported now."""
        return self._versions[self.version]

    def set(self, operations: Collection[str], topics: Collection[str], bulk: Collection[str] = ()) -> bool:
        """Export these from now on; whether that is a change. `bulk`: those of the operations that may wait.

        Raises `InvalidArgument` beyond the bounds.
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

    def since(self, version: int) -> tuple[int, Change, Change, Change]:
        """(since which version, what changed of operations, of topics, of what may wait); since 0, if `version` is no longer
        known.
        """
        before = self._versions.get(version)
        if before is None or version > self.version:
            version, before = 0, _NOTHING
        operations, topics, bulk = map(_change, before, self._versions[self.version])
        return version, operations, topics, bulk


def _change(before: frozenset[str], after: frozenset[str]) -> Change:
    return Change(tuple(sorted(after - before)), tuple(sorted(before - after)))
