"""Route table: which peers offer which route, and in which order they are asked.

Holds peers that are up: one that goes down takes its routes along at once. The least busy peer comes first, by the smoothed
load that it announces with each heartbeat. Loads within an eighth are equal, or all callers would run after the smallest
figure, which is old when it is read. Equals are ordered by a hash with the caller's name (highest random weight: Thaler and
Ravishankar, 1996), so that callers spread and each keeps its own order. An operation is entered only if its peer's key may
offer it; both lists are kept, so that a change of grants needs no new message. Bounded by a node's exports: 4,096 routes and
as many topics a peer. Pure.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from hashlib import blake2b
from typing import Final

from ..errors import MalformedFrame
from ..topics import TopicTable
from .messages import ROUTES_MAX, ListChange, Routes

#: Weight of the newest announcement: one of a second ago (five heartbeats) counts for a quarter.
LOAD_WEIGHT: Final = 0.25
#: A node that is busier than the least busy by no more than this is its equal. (Fixed steps would make two of 0.49 and 0.51.)
#: Above a load of 1 it is a share of that: where work waits everywhere, one call more or less says nothing.
LOAD_STEP: Final = 0.125
#: A load that has moved by less (likewise) changes no order: 63 peers announce theirs five times a second.
LOAD_MOVE: Final = LOAD_STEP / 4
#: A request is repeated after so many heartbeats without an answer.
PATIENCE_BEATS: Final = 3
#: Cached orders, and cached weights, at most: beyond that all are dropped.
_ORDERS_MAX: Final = 4_096
#: Nodes whose exports are remembered after they went down.
FORMER_MAX: Final = 64
#: Heartbeats of a peer for which its withdrawal of a route is remembered. Another node may be about to offer the route, as
#: where a cluster's primary node changes, so callers are told to retry. 30 s: most callers wait for no longer.
WITHDRAWN_BEATS: Final = 150


class _Offered:
    """The exports and the load of one peer."""

    __slots__ = (
        "announced", "asked", "bulk", "granted", "is_suspect", "load", "load_ranked", "operations", "patience", "topics",
        "version", "withdrawn",
    )  # fmt: skip

    def __init__(self) -> None:
        self.version = 0
        #: Latest version that the peer has announced.
        self.announced = 0
        self.operations: set[str] = set()
        #: The operations that its key may offer.
        self.granted: set[str] = set()
        self.topics: set[str] = set()
        #: Operations that may wait; and the answers that `may_wait` has given for operations that it offers.
        self.bulk: set[str] = set()
        self.asked: dict[str, bool] = {}
        #: Smoothed load (-1: none yet), and its value when an order was last computed from it.
        self.load, self.load_ranked = -1.0, 0.0
        self.is_suspect = False
        #: Heartbeats until its exports are requested (again). A peer that comes up sends them unasked, right behind its first.
        self.patience = 2
        #: Routes that it has withdrawn of late, and for how many more heartbeats that is remembered.
        self.withdrawn: dict[str, int] = {}


def everything(_name: str, routes: Collection[str]) -> Set[str]:
    """Grants a peer all routes that it offers."""
    return frozenset(routes)


class RouteTable:
    """The routes and topics of all peers that are up."""

    def __init__(self, granted: Callable[[str, Collection[str]], Set[str]] = everything) -> None:
        """`granted`: given a peer's name and routes, those of them that it may offer."""
        self._granted = granted
        self._peers: dict[str, _Offered] = {}
        self._operations: dict[str, set[str]] = {}
        self._topics: TopicTable[str] = TopicTable()
        #: Routes of the peers that have gone down: their callers are told to retry.
        self._former: dict[str, frozenset[str]] = {}
        #: And the subscriptions of these peers.
        self._absent: TopicTable[str] = TopicTable()
        #: By route and caller: the nodes in order, and the loads of the first of them.
        self._orders: dict[tuple[str, str], tuple[tuple[str, ...], tuple[float, ...]]] = {}
        self._weights: dict[tuple[str, str], bytes] = {}

    def up(self, name: str) -> None:
        """Add a peer that came up; its exports are not known yet."""
        self.down(name)
        self._peers[name] = _Offered()

    def down(self, name: str) -> None:
        """Remove a peer that went down, with its routes and subscriptions; they are remembered as former ones."""
        offered = self._peers.pop(name, None)
        if offered is not None:
            if offered.version or name not in self._former:
                self._former.pop(name, None)
                self._former[name] = frozenset(offered.granted)
                self._absent.remove_all(name)
                for topic in offered.topics:
                    self._absent.add(topic, name)
            if len(self._former) > FORMER_MAX:
                oldest = next(iter(self._former))
                del self._former[oldest]
                self._absent.remove_all(oldest)
            self._withdraw(name, offered.granted)
            self._unsubscribe(name, offered.topics)
            self._orders.clear()
            self._weights.clear()

    def suspect(self, name: str, *, is_suspect: bool) -> None:
        """A peer is silent for the moment, or no longer: other peers are preferred to a suspect."""
        offered = self._peers.get(name)
        if offered is not None and offered.is_suspect != is_suspect:
            offered.is_suspect = is_suspect
            self._orders.clear()

    def heard(self, name: str, version: int, load: float) -> int | None:
        """Take in a heartbeat. Returns the version from which to request its routes; None: they are known, or requested."""
        offered = self._peers.get(name)
        if offered is None:
            return None
        before = offered.load
        offered.load = load if before < 0 else before + LOAD_WEIGHT * (load - before)
        if abs(offered.load - offered.load_ranked) >= LOAD_MOVE * max(1.0, offered.load_ranked):
            offered.load_ranked = offered.load
            self._orders.clear()
        if offered.withdrawn:
            offered.withdrawn = {route: beats - 1 for route, beats in offered.withdrawn.items() if beats > 1}
        offered.announced = max(offered.announced, version)
        if offered.announced <= offered.version:
            return None
        offered.patience -= 1
        if offered.patience > 0:
            return None
        offered.patience = PATIENCE_BEATS
        return offered.version

    def learn(self, name: str, routes: Routes) -> int | None:
        """Take in the exports of a peer. Returns the version from which to request more; None: all is known.

        Raises `MalformedFrame` if it offers more than a node may; then nothing is taken from it until its next version.
        """
        offered = self._peers.get(name)
        if offered is None or routes.version <= offered.version:
            return None  # repeated, or overtaken
        if routes.since not in (0, offered.version):
            return offered.version  # a version between was lost
        offered.version, offered.patience = routes.version, 0
        if self._former.pop(name, None) is not None:
            self._absent.remove_all(name)
        is_whole = routes.since == 0
        gone = _changed(offered.operations, routes.operations, is_whole=is_whole).intersection(offered.granted)
        offered.granted -= gone
        self._withdraw(name, gone)
        offered.withdrawn |= dict.fromkeys(gone, WITHDRAWN_BEATS)
        if len(offered.withdrawn) > ROUTES_MAX:
            offered.withdrawn.clear()
        self._grant(name, offered, self._granted(name, routes.operations.added))
        self._unsubscribe(name, _changed(offered.topics, routes.topics, is_whole=is_whole))
        for topic in routes.topics.added:
            self._topics.add(topic, name)
        _changed(offered.bulk, routes.bulk, is_whole=is_whole)
        self._orders.clear()
        if max(len(offered.operations), len(offered.topics), len(offered.bulk)) > ROUTES_MAX:
            version = offered.version
            self.up(name)
            self._peers[name].version = version
            raise MalformedFrame(
                f"node {name!r} offers more than {ROUTES_MAX:,} routes or topics: none is accepted from it"
            )
        return offered.version if offered.announced > offered.version else None

    def regrant(self) -> None:
        """Apply the grants anew, after keys or grants may have changed."""
        for name, offered in self._peers.items():
            granted = self._granted(name, offered.operations)
            lost = offered.granted - granted
            offered.granted -= lost
            self._withdraw(name, lost)
            self._grant(name, offered, granted)
        self._orders.clear()

    def refused(self, name: str) -> list[str]:
        """Operations that a peer offers although its key may not, sorted."""
        offered = self._peers.get(name)
        return [] if offered is None else sorted(offered.operations - offered.granted)

    def best(self, route: str, caller: str) -> tuple[str, ...]:
        """The nodes that offer this operation, in the order in which they are to be asked; () if none does."""
        return self._order(route, caller)[0]

    def loads(self, route: str, caller: str) -> tuple[float, ...]:
        """Announced loads of the nodes of `best`, without suspects unless all are; about equal loads as the same figure."""
        return self._order(route, caller)[1]

    def may_wait(self, name: str, route: str) -> bool:
        """Whether an operation of this node may wait, as bulk. False for one that it is not known to offer.

        The answer for an operation that it offers holds until the node is down: calls of one caller to one object must not be
        on two connections, or the later may overtake the earlier.
        """
        offered = self._peers.get(name)
        if offered is None:
            return False
        found = offered.asked.get(route)
        if found is None:
            found = route in offered.bulk
            # A node is called by its name before its exports have arrived: a "no" of that moment must not hold for ever.
            if route in offered.operations and len(offered.asked) < 2 * ROUTES_MAX:
                offered.asked[route] = found
        return found

    def offered(self, name: str) -> tuple[int, Set[str]]:
        """(version, operations) that a node offers and may offer. Do not modify the set.

        (0, empty) if it is not up, or has not sent its exports yet.
        """
        offered = self._peers.get(name)
        return (0, frozenset()) if offered is None else (offered.version, offered.granted)

    def is_telling(self, name: str) -> bool:
        """Whether a peer that is up has not sent all its exports yet."""
        offered = self._peers.get(name)
        return offered is not None and (offered.load < 0 or offered.announced > offered.version)

    def formerly(self, route: str) -> list[str]:
        """Nodes that offered it until they went down, and have not come back with new exports."""
        return [
            name
            for name, operations in self._former.items()
            if route in operations and (name not in self._peers or self.is_telling(name))
        ]

    def withdrawn(self, route: str) -> list[str]:
        """Nodes that are up, and have withdrawn it of late."""
        return [name for name, offered in self._peers.items() if route in offered.withdrawn]

    def routes(self) -> list[str]:
        """All operations that some peer offers, sorted."""
        return sorted(self._operations)

    def subscribers(self, topic: str) -> list[str]:
        """The nodes subscribed to this topic, by its name or by a pattern. Do not modify the list."""
        return self._topics.matching(topic)

    def absent_subscribers(self, topic: str) -> list[str]:
        """The nodes that were subscribed when they went down, and have not come back with new exports."""
        return self._absent.matching(topic)

    def _grant(self, name: str, offered: _Offered, granted: Set[str]) -> None:
        for route in granted:
            offered.granted.add(route)
            self._operations.setdefault(route, set()).add(name)

    def _order(self, route: str, caller: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
        order = self._orders.get((route, caller))
        if order is None:
            if len(self._orders) >= _ORDERS_MAX:
                self._orders.clear()
            groups = [*self._ordered(self._operations.get(route, ()), caller)]
            names = tuple(name for group in groups for name in group)
            order = self._orders[route, caller] = names, self._loads(groups)
        return order

    def _ordered(self, names: Iterable[str], caller: str) -> Iterator[list[str]]:
        """Groups of about the same load, by suspicion, then by load; within a group in the caller's own order."""
        peers = self._peers
        left = sorted(names, key=lambda name: (peers[name].is_suspect, peers[name].load_ranked, name))
        while left:
            first = peers[left[0]]
            most = first.load_ranked + LOAD_STEP * max(1.0, first.load_ranked)
            equals = [
                name for name in left if peers[name].is_suspect == first.is_suspect and peers[name].load_ranked <= most
            ]
            yield sorted(equals, key=lambda name: self._weight(name, caller))
            left = left[len(equals) :]

    def _loads(self, groups: list[list[str]]) -> tuple[float, ...]:
        peers = self._peers
        loads: list[float] = []
        for group in groups:
            if peers[group[0]].is_suspect != peers[groups[0][0]].is_suspect:
                break
            loads += [min(peers[name].load_ranked for name in group)] * len(group)
        return tuple(loads)

    def _weight(self, name: str, caller: str) -> bytes:
        weight = self._weights.get((caller, name))
        if weight is None:
            if len(self._weights) >= _ORDERS_MAX:
                self._weights.clear()
            hashed = blake2b(f"{caller}\0{name}".encode(errors="surrogatepass"), digest_size=8)
            weight = self._weights[caller, name] = hashed.digest()
        return weight

    def _withdraw(self, name: str, routes: Iterable[str]) -> None:
        for route in routes:
            names = self._operations[route]
            names.discard(name)
            if not names:
                del self._operations[route]

    def _unsubscribe(self, name: str, topics: Iterable[str]) -> None:
        for topic in topics:
            self._topics.remove(topic, name)


def _changed(own: set[str], change: ListChange, *, is_whole: bool) -> set[str]:
    """Apply a change to a set; returns the names that were removed."""
    gone = own - set(change.added) if is_whole else own.intersection(change.removed)
    own -= gone
    own.update(change.added)
    return gone
