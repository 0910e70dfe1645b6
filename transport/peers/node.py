"""Node: one node's knowledge of all others, as the owner of the sockets uses it. Begin here.

Passes events to membership and to the route table, and connects the two: a peer that comes up is sent this node's routes, and
one that goes down takes its own along. Pure, as the whole package is: events and `now_ns` in, effects out.

    me = Identity("a", started_ns, "tcp://10.0.0.1:7400", key)
    membership = Membership(me, lambda: {"tcp://10.0.0.2:7400": key_of_b}, now_ns, random=…, unix_ns=…)
    node = PeerNode(membership, now_ns)
    for effect in node.tick(now_ns): …     # again at node.next_ns(), and whenever a socket has input
"""

from collections.abc import Callable, Collection, Mapping, Set
from typing import Final

from ..addressing import OF_NODE
from ..errors import MalformedFrame, NotFound, Unavailable, UnknownRoute
from ..resolver import home
from .effects import (
    DialFailed,
    Effect,
    NodeUnreachable,
    OfferRefused,
    PeerChanged,
    PeerState,
    PeerUp,
    Refused,
    RefusedBy,
    Send,
)
from .likeness import Likeness
from .membership import Membership
from .messages import Heartbeat, PeerMessage, Routes, RoutesWanted
from .offer import Offer
from .peer import Peer
from .route_table import WITHDRAWN_BEATS, RouteTable, everything
from .view import View

#: States in words, for error messages.
_IS: Final = {state: "has left" if state is PeerState.LEFT else f"is {state}" for state in PeerState}
#: A peer is sent this node's routes so often at most in this time. While a system comes up its versions follow each other
#: within milliseconds, and a peer without an answer asks again after three heartbeats.
ROUTES_NS: Final = 1_000_000_000
ROUTES_COUNT_MAX: Final = 10
#: When a caller may retry a node that is down: it is dialled more often than that.
RETRY_AFTER_S: Final = 0.25


class PeerNode:
    """Membership and routes of one node.

    `may_offer`: given a key and routes, those that its holder may offer to this node. `expected`: addresses of the nodes that
    the configuration names, by name.
    """

    def __init__(
        self,
        membership: Membership,
        now_ns: int,
        may_offer: Callable[[str, Collection[str]], Set[str]] = everything,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        self.membership = membership
        me = membership.me.name
        self._expected = {name: address for name, address in (expected or {}).items() if name != me}
        #: Those of them whose exports are not known yet, and of which no dial has failed: their routes are not unknown, but
        #: not known yet, for as long as two nodes may take to meet.
        self._awaited = set(self._expected)
        self._may_offer = may_offer
        #: All nodes that this one knows, read-only. Held here because each call reads it, and membership is interpreted.
        self.view: View = membership.view
        self.table = RouteTable(self._granted)
        self._offer = Offer()
        self._likeness = Likeness()
        self._load = 0.0
        #: Operations that this node has withdrawn of late, and until when that is remembered; the time of its last tick.
        self._withdrawn: frozenset[str] = frozenset()
        self._withdrawn_until_ns = self._now_ns = now_ns
        self._awaited_until_ns = now_ns + self.membership.policy.heal_ns_max
        #: By peer: since when this node's routes are counted, and how often they were sent.
        self._told: dict[str, tuple[int, int]] = {}

    def export(self, operations: Collection[str], topics: Collection[str], bulk: Collection[str] = ()) -> None:
        """Offer these operations, subscribe to these topics: peers know a heartbeat later. Errors: those of `Offer.set`."""
        before, _, _ = self._offer.latest
        if self._offer.set(operations, topics, bulk):
            if gone := before.difference(operations):
                self._withdrawn = gone
                self._withdrawn_until_ns = self._now_ns + WITHDRAWN_BEATS * self.membership.policy.heartbeat_ns
            self.membership.announce(self._offer.version, self._load)

    def load(self, load: float) -> None:
        """Announce how busy this node is: 0 idle, 1 all its workers, above 1 work is queued."""
        self._load = min(max(load, 0.0), 1e9)
        self.membership.announce(self._offer.version, self._load)

    def next_ns(self) -> int:
        """When `tick` is to be called at the latest."""
        return self.membership.next_ns()

    def tick(self, now_ns: int) -> list[Effect]:
        """Do all that is due by now: judge peers, send heartbeats, dial."""
        self._now_ns = now_ns
        return self._seen(self.membership.tick(now_ns), now_ns)

    def connected(self, address: str, now_ns: int) -> list[Effect]:
        """A dialled connection is established."""
        return self._seen(self.membership.connected(address, now_ns), now_ns)

    def lost(self, address: str, why: str, now_ns: int) -> list[Effect]:
        """A dial was refused, or a connection has broken. Not to be called for a connection that was hung up on."""
        return self._seen(self.membership.lost(address, why, now_ns), now_ns)

    def received(self, key: str, message: PeerMessage, now_ns: int) -> list[Effect]:
        """A message of a peer has arrived, on a connection whose key is `key`."""
        effects = self._seen(self.membership.received(key, message, now_ns), now_ns)
        if not isinstance(message, Heartbeat | RoutesWanted | Routes):
            return effects
        peer = self.view.get(message.name)
        if peer is None or peer.key != key or peer.incarnation != message.incarnation or not peer.is_told_up:
            return effects
        if isinstance(message, Heartbeat):
            effects += self._ask(peer, self.table.heard(peer.name, message.routes, message.load), now_ns)
            self._told_by(peer.name)
            return effects
        if isinstance(message, RoutesWanted):
            return effects + self._routes(peer, message.since, now_ns)
        try:
            effects += self._ask(peer, self.table.learn(peer.name, message), now_ns)
            self._told_by(peer.name)
            refused = self.table.refused(peer.name)
            return [*effects, OfferRefused(peer.name, refused[0], len(refused))] if refused else effects
        except MalformedFrame as error:
            return [*effects, Refused(peer.name, peer.address, peer.key, error.message)]

    def recheck(self, now_ns: int) -> list[Effect]:
        """Check anew which key may bear which name and offer which routes, and which is expected at which seed."""
        effects = self._seen(self.membership.recheck(now_ns), now_ns)
        self.table.regrant()
        return effects

    def leave(self, now_ns: int) -> list[Effect]:
        """Leave gracefully. The node reacts to nothing afterwards."""
        return self.membership.leave(now_ns)

    def best(self, route: str, caller: str, key: str | None = None) -> tuple[str, ...]:
        """The nodes to ask, in order; `b/index.stats` means node b alone. Never this node itself.

        With a key it is one node, the same for all callers that know the same nodes, so that calls of a key keep their order.
        A node that is named decides itself whether a key may use more than its exports.

        Raises `UnknownRoute`, `NotFound` for an unknown node, `Unavailable` for one that is down.
        """
        name, is_named, _ = route.partition(OF_NODE)
        if not is_named:
            order = self.table.best(route, caller)
            if not order:
                former = [each for each in self.table.formerly(route) if self.view.get(each) is not None]
                if former:
                    raise Unavailable(
                        f"{route!r} is served by node {', '.join(former)}: down now", retry_after=RETRY_AFTER_S
                    )
                late = self.table.withdrawn(route)
                if route in self._withdrawn and self._now_ns < self._withdrawn_until_ns:
                    late.append(self.membership.me.name)
                if late:
                    raise Unavailable(
                        f"{route!r} was served by node {', '.join(late)} until recently: no node serves it now",
                        retry_after=RETRY_AFTER_S,
                    )
                if self._awaited and self._now_ns < self._awaited_until_ns:
                    raise Unavailable(
                        f"{route!r} is not known yet: node {', '.join(sorted(self._awaited))} has not been met yet",
                        retry_after=RETRY_AFTER_S,
                    )
                raise UnknownRoute(route, self._likeness.nearest(route, self.table.routes(), self._now_ns))
            return order if key is None else (home(order, key),)
        peer = self.view.get(name)
        if peer is None and name in self._expected:
            raise Unavailable(
                f"node {name!r} at {self._expected[name]} has not been met yet", retry_after=RETRY_AFTER_S
            )
        if peer is None:
            like = self._likeness.nearest(name, [each.name for each in self.view], self._now_ns)
            raise NotFound(f"no node {name!r} is known" + (f" (did you mean {like!r}?)" if like else ""))
        if not peer.is_told_up:
            raise Unavailable(f"node {name!r} at {peer.address} {_IS[peer.state]}", retry_after=RETRY_AFTER_S)
        return (name,)

    def may_wait(self, name: str, route: str) -> bool:
        """Whether an operation of this node may wait, as bulk; the first answer for one that it offers holds."""
        return self.table.may_wait(name, route)

    def loads(self, route: str, caller: str) -> tuple[float, ...]:
        """The loads that the first of `best` announce, up to the first suspect; about equal ones as the same figure."""
        return self.table.loads(route, caller)

    def _told_by(self, name: str) -> None:
        if name in self._awaited and not self.table.is_telling(name):
            self._awaited.discard(name)

    def _granted(self, name: str, routes: Collection[str]) -> Set[str]:
        peer = self.view.get(name)
        return frozenset() if peer is None else self._may_offer(peer.key, routes)

    def _ask(self, peer: Peer, since: int | None, now_ns: int) -> list[Effect]:
        if since is None:
            return []
        return [Send(peer.address, self.membership.say(RoutesWanted, peer, now_ns, since=since))]

    def _routes(self, peer: Peer, since: int, now_ns: int) -> list[Effect]:
        """A megabyte for a request of a hundred bytes. A healthy peer asks once a version; an unanswered one again."""
        self._told = {name: told for name, told in self._told.items() if now_ns - told[0] < ROUTES_NS}
        since_ns, count = self._told.get(peer.name, (now_ns, 0))
        if count >= ROUTES_COUNT_MAX:
            return []
        self._told[peer.name] = since_ns, count + 1
        since, operations, topics, bulk = self._offer.since(since)
        told = self.membership.say(
            Routes,
            peer,
            now_ns,
            since=since,
            version=self._offer.version,
            operations=operations,
            topics=topics,
            bulk=bulk,
        )
        return [Send(peer.address, told)]

    def _seen(self, effects: list[Effect], now_ns: int) -> list[Effect]:
        told: list[Effect] = []
        for effect in effects:
            if isinstance(effect, PeerUp):
                self.table.up(effect.name)
                peer = self.view.get(effect.name)
                if peer is not None and self._offer.version:
                    told += self._routes(peer, 0, now_ns)
            elif isinstance(effect, NodeUnreachable):
                self.table.down(effect.name)
                self._awaited.discard(effect.name)
            elif isinstance(effect, DialFailed | RefusedBy):
                if self._awaited:
                    self._awaited = {one for one in self._awaited if self._expected[one] != effect.address}
            elif isinstance(effect, PeerChanged):
                self.table.suspect(effect.name, is_suspect=effect.state is PeerState.SUSPECT)
        return effects + told
