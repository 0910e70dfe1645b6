"""Roster: the rows about a node, its peers and its clients that `node.peers` shows.

The endpoint's thread owns the data and publishes the rows as one tuple, replaced as a whole. It makes new ones when the state
of a peer changes, and with each heartbeat, within a 50th of its time (node_endpoint.py). Readers take the present tuple and
never wait; so counts are up to a heartbeat old. An address that is dialled and was not met yet has a row, too, with the last
failure. Names of routes are sorted when they change, and not otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, NotRequired, TypedDict

from appbackplane.transport.peers import effects as fx
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.peer import NEVER, Peer
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder

#: States beside those of membership: this node; and a node in `[peers]` that was not met since this node runs.
SELF: Final = "self"
UNMET: Final = "unmet"
#: Programs on other hosts that are not nodes: a row for each key, however many connections it has.
CLIENT: Final = "client"


class PeerInWords(TypedDict):
    """A row as `node.peers` returns it. Times in seconds."""

    name: str
    #: `SELF`, `UNMET`, `CLIENT`, or a state of transport/peers/effects.py.
    state: str
    #: For how long it has been in that state, and why it is.
    state_for: float
    because: str
    address: str
    #: Start time by its own clock (unix ns), and its age by this node's clock; None: not known.
    incarnation: int | None
    runs_for: float | None
    #: Since its last message to this node; None: none yet, or it is this node.
    heard: float | None
    fingerprint: str
    #: How many operations it offers to other nodes; their names, if requested.
    routes: int
    route_names: NotRequired[list[str]]
    #: Outstanding calls: of this node on that one, and of that one on this.
    calls_to: int
    calls_from: int


@dataclass(frozen=True, slots=True)
class Row:
    """A node at one moment. Times by this node's clock, monotonic, ns; `incarnation` 0: not known."""

    name: str
    state: str
    since_ns: int
    because: str
    address: str
    fingerprint: str
    incarnation: int = 0
    heard_ns: int = NEVER
    routes: tuple[str, ...] = ()
    calls_to: int = 0
    calls_from: int = 0

    def in_words(self, now_ns: int, unix_ns: int, *, has_names: bool) -> PeerInWords:
        """The row for a caller at this moment. `has_names`: with the names of routes."""
        told = PeerInWords(
            name=self.name,
            state=self.state,
            state_for=_seconds(now_ns - self.since_ns),
            because=self.because,
            address=self.address,
            incarnation=self.incarnation or None,
            runs_for=_seconds(unix_ns - self.incarnation) if self.incarnation else None,
            heard=None if self.heard_ns == NEVER else _seconds(now_ns - self.heard_ns),
            fingerprint=self.fingerprint,
            routes=len(self.routes),
            calls_to=self.calls_to,
            calls_from=self.calls_from,
        )
        if has_names:
            told["route_names"] = [*self.routes]
        return told


class Visitor(NamedTuple):
    """A connected client: the holder of its key, its address, since when, and its outstanding calls."""

    holder: Holder
    address: str
    since_ns: int
    calls: int


class _Judged(NamedTuple):
    since_ns: int
    because: str


class Roster:
    """The rows of a node. `rows` may be read by any thread, all else is the endpoint's."""

    def __init__(self, node: PeerNode, seeds: Mapping[str, str], now_ns: int) -> None:
        """`seeds`: the first addresses, each with the name of the key there."""
        self._node = node
        self._seeds = {name: address for address, name in seeds.items()}
        self._began_ns = now_ns
        self._judged: dict[str, _Judged] = {}
        #: By address: why the last dial failed.
        self._troubles: dict[str, str] = {}
        self._offered: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._own_routes: tuple[str, ...] = ()
        self._fingerprints: dict[str, str] = {}
        #: This node, then its peers by name, then clients.
        self.rows: tuple[Row, ...] = ()

    def exports(self, routes: Collection[str]) -> None:
        """Set the operations that this node offers."""
        self._own_routes = tuple(sorted(routes))

    def note(self, effect: fx.Effect, now_ns: int) -> bool:
        """Record an effect of membership. Returns whether observers are to see it at once."""
        if isinstance(effect, fx.PeerChanged):
            self._judged[effect.name] = _Judged(now_ns, effect.because)
        elif isinstance(effect, fx.PeerUp):
            self._troubles.pop(effect.address, None)
            self._offered.pop(effect.name, None)
        elif isinstance(effect, fx.NodeUnreachable):
            self._offered.pop(effect.name, None)
        elif isinstance(effect, fx.DialFailed):
            self._troubles[effect.address] = effect.because
        elif isinstance(effect, fx.RefusedBy):
            self._troubles[effect.address] = f"it refuses this node: {effect.reason}"
        else:
            return False
        return True

    def look(
        self, calls_to: Callable[[str], int], calls_from: Callable[[str], int], visitors: Iterable[Visitor] = ()
    ) -> None:
        """Make the rows anew. `calls_to`, `calls_from`: the number of outstanding calls, by the node's name."""
        view = self._node.view
        me = view.me
        own = Row(
            me.name, SELF, self._began_ns, "this node", me.address, self._fingerprint(me.key), me.incarnation,
            routes=self._own_routes,
        )  # fmt: skip
        known = {peer.name: peer for peer in view}
        self._forget(known)
        rows = [self._row(peer, calls_to(peer.name), calls_from(peer.name)) for peer in known.values()]
        rows += [
            Row(name, UNMET, self._began_ns, self._troubles.get(address, "it is being dialled"), address, "")
            for name, address in self._seeds.items()
            if name not in known and name != me.name and address != me.address
        ]
        self.rows = (own, *sorted(rows, key=lambda row: row.name), *_of_clients(visitors))

    def _row(self, peer: Peer, calls_to: int, calls_from: int) -> Row:
        judged = self._judged.get(peer.name) or _Judged(peer.met_ns, "")
        because, trouble = judged.because, self._troubles.get(peer.address, "")
        if trouble not in ("", because) and peer.state not in (
            fx.PeerState.UP,
            fx.PeerState.LEFT,
            fx.PeerState.REVOKED,
        ):
            because = f"{because}; dialled, {trouble}"
        return Row(
            peer.name,
            str(peer.state),
            judged.since_ns if peer.is_living else peer.ended_ns,
            because,
            peer.address,
            self._fingerprint(peer.key),
            peer.incarnation,
            peer.heard_ns,
            self._routes_of(peer.name),
            calls_to,
            calls_from,
        )

    def _routes_of(self, name: str) -> tuple[str, ...]:
        version, routes = self._node.table.offered(name)
        found = self._offered.get(name)
        if found is None or found[0] != version:
            found = self._offered[name] = version, tuple(sorted(routes))
        return found[1]

    def _fingerprint(self, key: str) -> str:
        found = self._fingerprints.get(key)
        if found is None:
            found = self._fingerprints[key] = PublicKey.parse(key).fingerprint
        return found

    def _forget(self, known: Mapping[str, Peer]) -> None:
        """Drop the data of nodes that are not known any more: so all of it has the bounds of the view."""
        for kept in (self._judged, self._offered):
            for name in kept.keys() - known.keys():
                del kept[name]
        addresses = {peer.address for peer in known.values()} | set(self._seeds.values())
        for address in self._troubles.keys() - addresses:
            del self._troubles[address]
        keys = {peer.key for peer in known.values()} | {self._node.membership.me.key}
        for key in self._fingerprints.keys() - keys:
            del self._fingerprints[key]


def _of_clients(visitors: Iterable[Visitor]) -> Iterator[Row]:
    found: dict[str, list[Visitor]] = {}
    for visitor in visitors:
        found.setdefault(visitor.holder.user_id, []).append(visitor)
    for _, those in sorted(found.items()):
        holder, first = those[0].holder, min(those, key=lambda one: one.since_ns)
        count = f"{len(those)} connections, this is the first" if len(those) > 1 else ""
        yield Row(
            holder.name, CLIENT, first.since_ns, count, first.address, holder.key.fingerprint,
            calls_from=sum(one.calls for one in those),
        )  # fmt: skip


def _seconds(ns: int) -> float:
    """Never negative, as two hosts' clocks may differ."""
    return max(0, ns) / 1e9
