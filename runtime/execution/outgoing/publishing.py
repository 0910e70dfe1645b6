"""Publishing: sends each message to every subscriber of its topic: objects here, other backplanes, subscribed clients.

Objects subscribe by declaration, so other backplanes are found in the directory. Clients subscribe at run time
(`backplane.NAME.subscribe`). Messages are numbered per subscriber and topic, so that a subscriber detects losses. A slow
subscriber loses messages and never slows the publisher; each loss is counted here and appears there as a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from appbackplane.transport import codec
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import PUBLISH, Envelope, message
from appbackplane.transport.errors import FailedPrecondition
from appbackplane.transport.topics import FOUND_MAX, PAIRS_MAX, GapCounter, TopicTable

from ...objects.action import LOCAL
from ...objects.registry import Registry
from ...observation.message_log import MessageLog
from ..intake.caller_liveness import CallerLiveness
from ..intake.intake import Intake
from ..intake.remote_routes import RemoteRoutes
from .routing import Routing
from .sender import Sender

#: Subscriptions of one client at this backplane, about 300 bytes each: a loop by mistake must not exhaust memory.
PATTERNS_MAX = 1_000


#: After so many new subscribers all of them are probed. Nothing else detects a dead subscriber while its topics have no
#: messages. A probe costs 4 us.
SUBSCRIBERS_SWEEP: Final = 256


class _Line:
    """The sequence number of one topic's messages to one subscriber."""

    __slots__ = ("number", "peer")

    def __init__(self, peer: bytes) -> None:
        self.peer = peer
        #: Number of the last message sent, from 1.
        self.number = 0


class Publishing:
    """The subscribers of this backplane's messages. Used under the lead."""

    def __init__(
        self, backplane: str, *, registry: Registry, sender: Sender, routing: Routing, intake: Intake, remote: RemoteRoutes,
        callers: CallerLiveness,
    ) -> None:  # fmt: skip
        self._backplane = backplane
        self._registry = registry
        self._sender = sender
        self._routing = routing
        self._intake = intake
        self._remote = remote
        self._callers = callers
        #: Numbers missing among the messages that other backplanes send to this one.
        self.gaps = GapCounter()
        self._clients: TopicTable[bytes] = TopicTable()
        self._backplanes: TopicTable[str] = TopicTable()
        self._patterns: dict[bytes, set[str]] = {}
        #: By subscriber and topic, the most recently looked up last; at most `PAIRS_MAX`, as many as a subscriber keeps.
        self._lines: dict[tuple[bytes, str], _Line] = {}
        #: Cache by topic: its lines, and how many of its subscribers are down. Cleared when any subscriber changes.
        self._known: dict[str, tuple[list[_Line], int]] = {}
        self._subscribed_count = 0
        #: The logs of the topics recorded here, by topic.
        self.records: dict[str, MessageLog] = {}
        #: Messages lost to subscribers that do not read or are down, counted once for each subscriber.
        self.lost_count = 0

    def publish(self, topic: str, body: Mapping[str, Any], trace: str | None, now_ns: int) -> None:
        """Record a message, if its topic is recorded, and send it to all subscribers. Raises `InvalidArgument` as `tell`."""
        if self.records and topic in self.records:
            self.records[topic].append(self._sender.encoder.pack(body), now_ns)
        self.tell(topic, body, trace, now_ns)

    def tell(self, topic: str, body: Mapping[str, Any], trace: str | None, now_ns: int) -> None:
        """Send a message to all subscribers, unrecorded. Raises `InvalidArgument` for a body that cannot be packed."""
        sender = self._sender
        envelope = message(0, topic, body, trace=trace)
        if self._registry.hearers(topic):
            self._intake.accept_topic(LOCAL, sender.as_received(envelope), now_ns)
        lines, down_count = self._lines_of(topic)
        self.lost_count += down_count
        self._send(lines, sender.encoder.rest(envelope))

    def receive(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """A message from another backplane: count what was lost before it, and pass it to the objects and clients here."""
        topic = envelope.route
        assert topic is not None
        lost = self.gaps.gap_before(peer, topic, envelope.id)
        if self._remote.take is None:
            self._intake.accept_topic(peer, envelope, now_ns)
        elif envelope.node is None:
            self._remote.take(peer, envelope, now_ns)
        else:
            self.pass_on(envelope, lost)

    def pass_on(self, envelope: Envelope, lost: int) -> None:
        """Send a message of another node to the subscribed clients. `lost`: number of messages lost before it.

        Objects in all backplanes get the message from the node's endpoint instead.
        """
        topic = envelope.route or ""
        lines = [self._line(peer, topic) for peer in self._clients.matching(topic)]
        if lines:
            self._send(lines, self._sender.encoder.rest(envelope), lost)

    def patterns(self) -> frozenset[str]:
        return frozenset(pattern for patterns in self._patterns.values() for pattern in patterns)

    def subscribe(self, peer: bytes, pattern: str) -> None:
        """Subscribe a client to `pattern`. Raises `FailedPrecondition` at `PATTERNS_MAX`."""
        if peer not in self._patterns:
            self._subscribed_count += 1
            if self._subscribed_count % SUBSCRIBERS_SWEEP == 0:
                self._callers.ask(self._patterns)
        patterns = self._patterns.setdefault(peer, set())
        if len(patterns) >= PATTERNS_MAX and pattern not in patterns:
            raise FailedPrecondition(
                f"this client already has {PATTERNS_MAX} subscriptions here: use a common pattern ('files.*')"
            )
        patterns.add(pattern)
        self._known.clear()
        self._clients.add(pattern, peer)

    def unsubscribe(self, peer: bytes, pattern: str) -> None:
        """End a client's subscription to `pattern`, if it has one."""
        patterns = self._patterns.get(peer, set())
        patterns.discard(pattern)
        if not patterns:
            self._patterns.pop(peer, None)
        self._known.clear()
        self._clients.remove(pattern, peer)
        for pair in [pair for pair in self._lines if pair[0] == peer and peer not in self._clients.matching(pair[1])]:
            del self._lines[pair]

    def forget(self, peer: bytes) -> None:
        """Drop all subscriptions and sequence numbers of a peer that is gone."""
        self._known.clear()
        for pattern in self._patterns.pop(peer, ()):
            self._clients.remove(pattern, peer)
        for pair in [pair for pair in self._lines if pair[0] == peer]:
            del self._lines[pair]

    def update(self, directory: Directory) -> None:
        """Take the subscriptions of other backplanes from a new directory."""
        self._known.clear()
        self._backplanes = TopicTable()
        for pattern, names in directory.topics.items():
            for name in names:
                if name != self._backplane:
                    self._backplanes.add(pattern, name)

    def _send(self, lines: list[_Line], rest: bytes, lost: int = 0) -> None:  # hot: scripts/bench pubsub
        packed, packed_number = b"", 0  # most subscribers have the same number: pack it once
        for line in lines:
            line.number += 1 + lost
            if line.number != packed_number:
                packed_number = line.number
                packed = codec.with_id(PUBLISH, packed_number, rest)
            if not self._sender.outbox.add(line.peer, packed):
                self.lost_count += 1

    def _lines_of(self, topic: str) -> tuple[list[_Line], int]:  # hot: scripts/bench pubsub
        known = self._known.get(topic)
        if known is not None:
            return known
        lines: list[_Line] = []
        down_count = 0
        for name in self._backplanes.matching(topic):
            peer = self._routing.peer_of(name)
            if peer is None or self._routing.is_draining(name):
                down_count += 1
            else:
                lines.append(self._line(peer, topic))
        lines += [self._line(peer, topic) for peer in self._clients.matching(topic)]
        if len(self._known) >= FOUND_MAX:
            self._known.clear()
        known = self._known[topic] = (lines, down_count)
        return known

    def _line(self, peer: bytes, topic: str) -> _Line:
        pair = (peer, topic)
        line = self._lines.pop(pair) if pair in self._lines else _Line(peer)
        self._lines[pair] = line
        if len(self._lines) > PAIRS_MAX:
            del self._lines[next(iter(self._lines))]
            self._known.clear()
        return line
