"""Clients: programs on other hosts that are connected to this node, and are not nodes.

Each is greeted (transport/remote/greeting.py), and sent a routing table that it follows as on its own host. The table has all
routes that the client's key may use, served by this node, and no others. Its calls are treated as those of peers (inward.py),
under the same grants and bounds, and cancelled when it has gone. A table is made for each key of a connected client, when the
system's table or the grants of the key change. Pure: the owner of the sockets hands in messages, and gets those to be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from appbackplane.transport.addressing import backplane_route
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import CALL, PUBLISH, Envelope, message, reply, status
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    FailedPrecondition,
    InvalidArgument,
    MalformedFrame,
    Unavailable,
)
from appbackplane.transport.remote.greeting import ClientClock, ClientHello, Welcome, answer, heard, said
from appbackplane.transport.remote.visitors import Visitors
from appbackplane.transport.security.grants import NONE
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.session import DIRECTORY_TOPIC, ClientSession

from .inward import Arrival, Inward
from .roster import Visitor
from .topics import Topics

#: Route by which a client requests the routing table of its system.
DIRECTORY: Final = "supervisor.directory"
#: The clients of one key are sent their table so often at most in this time: twice as many as may be connected
#: (security/roll.py). One of 4,096 routes takes milliseconds, and a frame has room for as many requests.
TOLD_MAX: Final = 128
TOLD_NS: Final = 1_000_000_000
_NO_TOPICS: Final = "this key may use no topics: allow them with `appbackplane keys trust` on the node's host"


@dataclass(slots=True)
class _Client:
    """A client that was greeted."""

    #: Name by which it knows this node.
    node: str
    #: This node's clock less the client's; and when it was greeted, by this node's.
    ahead_ns: int
    greeted_ns: int
    #: Whether it has requested a table, and is sent new ones; the version last sent, and how many were pushed.
    is_told: bool = False
    version: int = 0
    numbers: int = 0


class _Offer(NamedTuple):
    """The routes and topics that a key may use, by one routing table of the system."""

    directory: Directory
    holder: Holder
    version: int
    routes: tuple[str, ...]
    idempotent: tuple[str, ...]
    #: Topics on which it may publish; the node refuses each message on one that the key may not use.
    topics: tuple[str, ...]


class Clients:
    """Connected clients, by the name of their connection (transport/remote/visitors.py)."""

    def __init__(
        self, session: ClientSession, inward: Inward, topics: Topics, say: Callable[[str, Envelope], bool]
    ) -> None:
        """`say`: sends to a client, by the name of its connection."""
        self._session, self._inward, self._topics, self._say = session, inward, topics, say
        self._clients: dict[str, _Client] = {}
        #: By the name of the key's holder.
        self._offers: dict[str, _Offer] = {}
        #: Likewise: since when tables are counted, and how many were sent.
        self._told: dict[str, tuple[int, int]] = {}
        self._version = 0

    def __len__(self) -> int:
        return len(self._clients)

    def take(self, name: str, holder: Holder, envelope: Envelope, now_ns: int, arrival: Arrival | None = None) -> None:
        """A message of a client has arrived, in the frame `arrival`. Raises `MalformedFrame` for a wrong greeting."""
        word = heard(envelope)
        client = self._clients.get(name)
        if isinstance(word, ClientHello):
            told = answer(word)
            if isinstance(told, Welcome):
                self._clients[name] = _Client(word.node, now_ns - word.clock_ns, now_ns)
            self._say(name, said(told))
        elif client is None:
            if envelope.kind == CALL:
                error = FailedPrecondition("no hello was received on this connection: send one before calls")
                self._say(name, status(envelope.id, error, is_refused=True))
        elif isinstance(word, ClientClock):
            client.ahead_ns = now_ns - word.clock_ns
        elif envelope.kind == PUBLISH:
            self._topics.said(name, holder, envelope)
        elif word is not None:
            raise MalformedFrame(f"{envelope.route!r} is not a message that a client of another host may send")
        elif envelope.kind != CALL or not self._is_of_its_own(name, client, holder, envelope, now_ns):
            self._inward.take(name, 0, holder, _by_this_clock(envelope, client.ahead_ns, now_ns), now_ns, arrival)

    def look(self, holder_of: Callable[[str], Holder | None]) -> None:
        """Send new routing tables. Called a few times a second: grants change without notice."""
        holders: set[str] = set()
        for name, client in self._clients.items():
            holder = holder_of(name)
            if holder is None:
                continue
            holders.add(holder.name)
            offer = self._offer(holder) if client.is_told else None
            if offer is not None and offer.version != client.version:
                client.numbers += 1
                client.version = offer.version
                body = _directory(client.node, offer).to_body()
                with suppress(InvalidArgument):  # no frame holds so many routes: whoever asks for it is told
                    self._say(name, message(client.numbers, DIRECTORY_TOPIC, body))
        for holder_name in self._offers.keys() - holders:
            del self._offers[holder_name]
            self._told.pop(holder_name, None)

    def connected(self, visitors: Visitors) -> Iterator[Visitor]:
        """The clients that are connected, for the roster."""
        for name, client in self._clients.items():
            holder = visitors.holder(name)
            if holder is not None:
                yield Visitor(holder, visitors.address(name), client.greeted_ns, self._inward.count_of(name))

    def gone(self, names: Collection[str]) -> None:
        """Clients have disconnected: cancel their calls, and drop their subscriptions."""
        for name in names:
            if self._clients.pop(name, None) is not None:
                self._inward.down(name)
                self._topics.hearers.gone(name)

    def _is_of_its_own(self, name: str, client: _Client, holder: Holder, envelope: Envelope, now_ns: int) -> bool:
        """Answer a request to the system itself: for its routing table, or about a subscription. False: it is none."""
        try:
            result = self._own(name, client, holder, envelope, now_ns)
        except BackplaneError as error:
            self._say(name, status(envelope.id, error, is_refused=True))
            return True
        if result is not None:
            self._say(name, reply(envelope.id, result))
        return result is not None

    def _own(self, name: str, client: _Client, holder: Holder, envelope: Envelope, now_ns: int) -> Any:
        route, hearers = envelope.route or "", self._topics.hearers
        if route == DIRECTORY:
            offer = self._offer(holder)
            if offer is None:
                raise Unavailable("this node has not received its system's directory yet", retry_after=0.25)
            since_ns, count = self._told.get(holder.name, (now_ns, 0))
            if now_ns - since_ns >= TOLD_NS:
                since_ns, count = now_ns, 0
            if count >= TOLD_MAX:
                raise Busy(
                    f"the clients of this key asked for the directory {TOLD_MAX} times within a second, which is the limit",
                    retry_after=1.0,
                )
            self._told[holder.name] = since_ns, count + 1
            client.is_told, client.version = True, offer.version
            return _directory(client.node, offer).to_body()
        if route == backplane_route(client.node, "unsubscribe"):  # its reply proves that earlier messages have come
            hearers.unsubscribe(name, envelope.body.get("topic"))
            return False
        if route == backplane_route(client.node, "subscribe"):
            if NONE in holder.topics.patterns:
                raise FailedPrecondition(_NO_TOPICS)
            hearers.subscribe(name, envelope.body.get("topic"))
            return True
        return None

    def _offer(self, holder: Holder) -> _Offer | None:
        directory = self._session.directory
        if directory is None:
            return None
        known = self._offers.get(holder.name)
        if known is not None and known.directory is directory and known.holder == holder:
            return known
        exported = frozenset(directory.exported)
        routes = tuple(one for one in directory.routes if holder.routes.permits(one, is_exported=one in exported))
        permitted = frozenset(routes)
        idempotent = tuple(one for one in directory.idempotent if one in permitted)
        topics = () if NONE in holder.topics.patterns else directory.exported_topics
        if known is None or (known.routes, known.idempotent, known.topics) != (routes, idempotent, topics):
            self._version += 1
            version = self._version
        else:
            version = known.version  # no change that concerns this key
        offer = self._offers[holder.name] = _Offer(directory, holder, version, routes, idempotent, topics)
        return offer


def _directory(node: str, offer: _Offer) -> Directory:
    """The routing table for a client. Calls beyond it are refused by the node, which can suggest the nearest name."""
    return Directory(
        system=node,
        version=offer.version,
        backplanes={node: Place(1, "")},
        routes=dict.fromkeys(offer.routes, (node,)),
        topics=dict.fromkeys(offer.topics, (node,)),
        idempotent=offer.idempotent,
        node=node,
    )


def _by_this_clock(envelope: Envelope, ahead_ns: int, now_ns: int) -> Envelope:
    """Turn a deadline by the caller's clock (negative) into the time that is left."""
    if envelope.deadline is not None and envelope.deadline < 0:
        envelope.deadline = max(0, ahead_ns - envelope.deadline - now_ns)
    return envelope
