"""Publishing: one message to every subscriber of a topic: objects here, other backplanes, clients that asked.

Objects subscribe by declaration, so other backplanes are found in the directory; clients subscribe while running
(`backplane.NAME.subscribe`). Each subscriber's messages are numbered a topic, so that it sees what it lost. A subscriber
that does not keep up loses messages, never the publisher its pace; each loss is counted here and seen there as a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import PUBLISH, Envelope
from appbackplane.transport.errors import FailedPrecondition
from appbackplane.transport.topics import PAIRS_MAX, TopicTable

from ..objects.action import LOCAL

if TYPE_CHECKING:
    from .engine import Engine


#: Topics that one client may have asked this backplane for, about 300 bytes each: a mistake in a loop must not fill us.
PATTERNS_MAX = 1_000


class Publishing:
    """Who hears what this backplane publishes. Part of the engine: whoever holds the lead owns it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._clients: TopicTable[bytes] = TopicTable()
        self._backplanes: TopicTable[str] = TopicTable()
        self._patterns: dict[bytes, set[str]] = {}
        self._numbers: dict[tuple[bytes, str], int] = {}  # the latest used last; as many as a subscriber keeps
        #: Messages that a subscriber did not get, because it does not read or is down.
        self.lost_count = 0

    def publish(self, topic: str, body: Mapping[str, Any], trace: str | None, now_ns: int) -> None:
        """Tell all. Raises `InvalidArgument` for a body that cannot travel."""
        engine = self._engine
        envelope = Envelope(PUBLISH, 0, None, topic, None, None, trace, body)
        if engine.registry.hearers(topic):
            engine.intake.accept_topic(LOCAL, engine.as_received(envelope), now_ns)
        #: The number that was packed last, and what came of it: most subscribers have heard as much as the others.
        packed = (0, engine.encoder.encode(envelope))
        for name in self._backplanes.matching(topic):
            peer = engine.outgoing.peer_of(name)
            if peer is None:
                self.lost_count += 1
            else:
                packed = self._send(peer, envelope, packed)
        for peer in self._clients.matching(topic):
            packed = self._send(peer, envelope, packed)

    def subscribe(self, peer: bytes, pattern: str) -> None:
        """A client wants to hear `pattern`. Raises `FailedPrecondition` at the bound."""
        patterns = self._patterns.setdefault(peer, set())
        if len(patterns) >= PATTERNS_MAX and pattern not in patterns:
            raise FailedPrecondition(
                f"this client hears {PATTERNS_MAX} topics here already: subscribe to what they have in common ('files.*')"
            )
        patterns.add(pattern)
        self._clients.add(pattern, peer)

    def unsubscribe(self, peer: bytes, pattern: str) -> None:
        """A client has heard enough."""
        patterns = self._patterns.get(peer, set())
        patterns.discard(pattern)
        if not patterns:
            self._patterns.pop(peer, None)
        self._clients.remove(pattern, peer)
        for pair in [pair for pair in self._numbers if pair[0] == peer and peer not in self._clients.matching(pair[1])]:
            del self._numbers[pair]

    def forget(self, peer: bytes) -> None:
        """A peer has gone."""
        for pattern in self._patterns.pop(peer, ()):
            self._clients.remove(pattern, peer)
        for pair in [pair for pair in self._numbers if pair[0] == peer]:
            del self._numbers[pair]

    def update(self, directory: Directory) -> None:
        """A new version of the map."""
        self._backplanes = TopicTable()
        for pattern, names in directory.topics.items():
            for name in names:
                if name != self._engine.backplane:
                    self._backplanes.add(pattern, name)

    def _send(
        self, peer: bytes, envelope: Envelope, packed: tuple[int, bytes]
    ) -> tuple[int, bytes]:  # hot: scripts/bench pubsub
        assert envelope.route is not None
        pair = (peer, envelope.route)
        number = self._numbers[pair] = self._numbers.pop(pair, 0) + 1
        if len(self._numbers) > PAIRS_MAX:
            del self._numbers[next(iter(self._numbers))]
        if number != packed[0]:
            envelope.id = number
            packed = (number, self._engine.encoder.encode(envelope))
        if not self._engine.outbox.add(peer, packed[1]):
            self.lost_count += 1
        return packed
