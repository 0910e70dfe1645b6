"""Topics between nodes: messages published here go to the nodes that subscribe, and theirs to the subscribers here.

A topic crosses when both systems export it, and both keys may use it (`appbackplane keys trust --topic`). A message on such a
topic comes to this node's backplane (transport/directory.py). It leaves on the bulk connection, unless its publisher has
marked it urgent. It is numbered for each connection of each node, because one overtakes the other. It goes one hop: a message
of a node is sent to processes and clients of this system alone. A lost message is a gap in the numbers, which subscribers see
as `lost`. For a node that is down numbers run on, so that the loss is known after a partition. Nobody waits for a subscriber,
and nothing is kept for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from appbackplane.transport import codec
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import PUBLISH, Envelope
from appbackplane.transport.errors import BackplaneError
from appbackplane.transport.peers.messages import ROUTES_MAX
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.offer import ROUTE_LENGTH_MAX
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.session import ClientSession
from appbackplane.transport.topics import PAIRS_MAX, GapCounter, TopicTable, check_topic, overlap

from ..observation.span_ids import traceparent_of
from .hearers import Hearers
from .outward import is_bulk_at

_PATTERN: Final = True


class Topics:
    """Forwards messages of topics between this system and other nodes."""

    def __init__(
        self,
        node: PeerNode,
        session: ClientSession,
        *,
        holder_of: Callable[[str], Holder | None],
        say: Callable[[str, bytes, bool], bool],
        patterns: Callable[[], frozenset[str]],
        hearers: Hearers,
    ) -> None:
        """`holder_of`: the holder of the key at an address. `say`: sends a packed envelope to an address, as bulk or not;
        False: it does not take it. `patterns`: subscriptions of clients on this host; `hearers`: of those on others.
        """
        self._node, self._session = node, session
        self._holder_of, self._say, self._patterns = holder_of, say, patterns
        self.hearers = hearers
        self._encoder = codec.Encoder()
        self._directory: Directory | None = None
        self._exported: TopicTable[bool] = TopicTable()
        #: Number of the last message, by node, incarnation, connection and topic; the latest used last.
        self._numbers: dict[tuple[str, int, bool, str], int] = {}
        #: Counts messages of other nodes that were lost before they came here.
        self.gaps = GapCounter()
        #: Messages that were dropped before they came here, by topic.
        self._dropped: Counter[str] = Counter()
        #: Messages that a node did not get: its queue is full, or it is down.
        self.lost_count = 0
        #: Messages of a node that its key may not publish.
        self.refused_count = 0

    def update(self, directory: Directory) -> None:
        """Take over a new version of this system's routing table."""
        self._directory, self._exported = directory, TopicTable()
        for pattern in directory.exported_topics:
            self._exported.add(pattern, _PATTERN)

    def wanted(self) -> set[str]:
        """Topics to subscribe to at other nodes: those of objects here, and those of clients that may be exported."""
        if self._directory is None or not self._directory.exported_topics:
            return set()
        exported = self._directory.exported_topics
        clients = self._patterns() | self.hearers.patterns()
        asked = {each for each in clients if any(overlap(each, pattern) for pattern in exported)}
        wanted = asked.union(self._directory.wanted_topics)
        if len(wanted) <= ROUTES_MAX and all(len(each) <= ROUTE_LENGTH_MAX for each in asked):
            return wanted
        # More than a node can announce, so that peers would not hear of new operations either. The exported topics hold all.
        covering = {pattern for pattern in exported if any(overlap(each, pattern) for each in asked)}
        return covering.union(self._directory.wanted_topics)

    def drop(self, topic: str) -> None:
        """Count a message that was dropped before it came here. Called by workers."""
        self._dropped[topic] += 1

    def published(self, envelope: Envelope) -> None:
        """Forward a message of a process of this system to all nodes and remote clients that subscribe."""
        topic = envelope.route or ""
        step = 1 + (self._dropped.pop(topic, 0) if self._dropped else 0)
        try:
            self.hearers.tell(envelope, step - 1)
            self._to_nodes(envelope, step)
        except BackplaneError:  # packed again it is a few bytes longer, and beyond the bound of a frame
            self.lost_count += 1

    def came(self, name: str, incarnation: int, holder: Holder, envelope: Envelope) -> None:
        """Forward a message of a node to all subscribers of this system. Raises `InvalidArgument` for an invalid topic."""
        self._hear(name, f"{name}:{incarnation}:{_is_bulk(envelope):d}", holder, envelope)

    def said(self, client: str, holder: Holder, envelope: Envelope) -> None:
        """Forward a message of a remote client to this system, and to the nodes that subscribe. Raises as `came`."""
        if self._hear(client, client, holder, envelope):
            self._to_nodes(envelope, 1)

    def _hear(self, name: str, numbering: str, holder: Holder, envelope: Envelope) -> bool:
        topic = envelope.route or ""
        check_topic(topic)
        envelope.trace = traceparent_of(envelope.trace)
        if not self._permits(holder, topic):
            self.refused_count += 1
            return False
        lost = self.gaps.gap_before(numbering.encode(), topic, envelope.id)
        try:
            self._session.publish(topic, envelope.priority, envelope.body, node=name, trace=envelope.trace, lost=lost)
        except BackplaneError:  # a subscriber that does not read sees a gap; all others have got it
            self.lost_count += 1
        self.hearers.tell(envelope, lost)
        return True

    def _to_nodes(self, envelope: Envelope, step: int) -> None:
        topic = envelope.route or ""
        table, view = self._node.table, self._node.view
        is_bulk = _is_bulk(envelope)
        packed, packed_number, rest = b"", 0, b""
        for name in table.subscribers(topic):
            peer = view.get(name)
            holder = None if peer is None else self._holder_of(peer.address)
            if peer is None or holder is None or not self._permits(holder, topic):
                continue
            number = self._number((name, peer.incarnation, is_bulk, topic), step)
            if number != packed_number:  # most nodes are at the same number
                rest = rest or self._encoder.rest(envelope)
                packed, packed_number = codec.with_id(PUBLISH, number, rest), number
            if not self._say(peer.address, packed, is_bulk):
                self.lost_count += 1
        for name in table.absent_subscribers(topic):
            peer = view.get(name)
            if peer is not None and (name, peer.incarnation, is_bulk, topic) in self._numbers:
                self._number((name, peer.incarnation, is_bulk, topic), step)
                self.lost_count += 1

    def _permits(self, holder: Holder, topic: str) -> bool:
        return bool(self._exported.matching(topic)) and holder.topics.permits(topic, is_exported=True)

    def _number(self, whose: tuple[str, int, bool, str], step: int) -> int:
        number = self._numbers[whose] = self._numbers.pop(whose, 0) + step
        if len(self._numbers) > PAIRS_MAX:
            del self._numbers[next(iter(self._numbers))]
        return number


def _is_bulk(envelope: Envelope) -> bool:
    """Whether a message uses the bulk connection."""
    return envelope.priority is None or is_bulk_at(envelope.priority)
