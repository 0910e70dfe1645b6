"""Hearers: clients of other hosts that subscribe to topics of this node, and the numbers of their messages.

They receive messages that cross to other nodes (topics.py), wherever published, under the grants of their keys. A client that
does not keep up loses messages, and sees it; half of its queue is reserved for replies. Nothing is kept for one that is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from appbackplane.transport import codec
from appbackplane.transport.envelope import PUBLISH, Envelope, message
from appbackplane.transport.errors import FailedPrecondition
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.topics import PAIRS_MAX, TopicTable, check_pattern

#: Subscriptions of one client: as many as at a backplane (execution/outgoing/publishing.py).
PATTERNS_MAX: Final = 1_000
#: Subscriptions of all clients of one key, which may have 64 connections (security/roll.py).
PATTERNS_OF_KEY_MAX: Final = 4_000


class Hearers:
    """Subscriptions, by the name of the client's connection."""

    def __init__(self, holder_of: Callable[[str], Holder | None], tell: Callable[[str, bytes], bool]) -> None:
        """`holder_of`: the holder of a connection's key; None: it has gone. `tell`: sends an envelope; False: no room."""
        self._holder_of, self._tell = holder_of, tell
        self._encoder = codec.Encoder()
        self._table: TopicTable[str] = TopicTable()
        self._patterns: dict[str, set[str]] = {}
        #: The holder of each client's key, by name; and how many patterns each key has.
        self._holders: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        #: Number of the last message, by client and topic; the latest used last.
        self._numbers: dict[tuple[str, str], int] = {}
        #: Messages that a client did not get.
        self.lost_count = 0

    def subscribe(self, name: str, pattern: Any) -> None:
        """Subscribe to `pattern`. Raises `InvalidArgument` for an invalid one, and `FailedPrecondition` at the bound."""
        check_pattern(pattern)
        patterns = self._patterns.get(name, set())
        if pattern in patterns:
            return
        holder = self._holder_of(name)
        if holder is None:
            return  # it has gone
        if len(patterns) >= PATTERNS_MAX:
            raise FailedPrecondition(
                f"this client already has {PATTERNS_MAX:,} subscriptions here: use a common pattern ('files.*')"
            )
        if self._counts[holder.name] >= PATTERNS_OF_KEY_MAX:
            raise FailedPrecondition(f"the clients of this key already have {PATTERNS_OF_KEY_MAX:,} subscriptions here")
        self._patterns[name] = patterns
        self._holders[name] = holder.name
        self._counts[holder.name] += 1
        patterns.add(pattern)
        self._table.add(pattern, name)

    def unsubscribe(self, name: str, pattern: Any) -> None:
        """End a subscription; an unknown one is ignored."""
        patterns = self._patterns.get(name, set())
        if isinstance(pattern, str) and pattern in patterns:
            patterns.discard(pattern)
            self._table.remove(pattern, name)
            self._counts[self._holders[name]] -= 1
            if not patterns:
                self.gone(name)

    def gone(self, name: str) -> None:
        """Drop the subscriptions and numbers of a client that has disconnected."""
        patterns, holder = self._patterns.pop(name, set()), self._holders.pop(name, "")
        for pattern in patterns:
            self._table.remove(pattern, name)
        self._counts[holder] -= len(patterns)
        if self._counts[holder] <= 0:
            del self._counts[holder]
        for whose in [whose for whose in self._numbers if whose[0] == name]:
            del self._numbers[whose]

    def patterns(self) -> set[str]:
        return {pattern for patterns in self._patterns.values() for pattern in patterns}

    def tell(self, envelope: Envelope, lost: int) -> None:
        """Send a message to all clients that subscribe and may receive it. `lost`: how many before it were lost."""
        topic = envelope.route or ""
        names = self._table.matching(topic)
        if not names:
            return
        rest = self._encoder.rest(message(0, topic, envelope.body, trace=envelope.trace))
        for name in names:
            holder = self._holder_of(name)
            if holder is None or not holder.topics.permits(topic, is_exported=True):
                continue
            number = self._numbers[name, topic] = self._numbers.pop((name, topic), 0) + 1 + lost
            if len(self._numbers) > PAIRS_MAX:
                del self._numbers[next(iter(self._numbers))]
            if not self._tell(name, codec.with_id(PUBLISH, number, rest)):
                self.lost_count += 1
