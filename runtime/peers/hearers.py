"""Hearers: clients of other hosts that subscribe to topics of this node: who hears what, and under which numbers.

They hear what crosses to other nodes (topics.py), under the grants of their keys, wherever it was published. A client that does
not keep up loses messages, and sees it; half of what may wait for it is kept for answers. Nothing is kept for one that is gone.
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

#: Topics that one client may have asked for: as of a backplane (execution/publishing.py).
PATTERNS_MAX: Final = 1_000
#: And all clients of one key: it may have 64 connections (security/roll.py).
PATTERNS_OF_KEY_MAX: Final = 4_000


class Hearers:
    """By the names of their connections."""

    def __init__(self, holder_of: Callable[[str], Holder | None], tell: Callable[[str, bytes], bool]) -> None:
        """`holder_of`: whose connection it is, None: it has gone. `tell`: a packed envelope; False: there is no room for it."""
        self._holder_of, self._tell = holder_of, tell
        self._encoder = codec.Encoder()
        self._table: TopicTable[str] = TopicTable()
        self._patterns: dict[str, set[str]] = {}
        #: Whose key each has, by the holder's name, and the patterns of that key.
        self._holders: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        #: Of the last message, by hearer and topic; the latest used last.
        self._numbers: dict[tuple[str, str], int] = {}
        #: Messages that a client did not get.
        self.lost_count = 0

    def subscribe(self, name: str, pattern: Any) -> None:
        """Hear `pattern`. Raises `InvalidArgument` for what is none, and `FailedPrecondition` at the bound."""
        check_pattern(pattern)
        patterns = self._patterns.get(name, set())
        if pattern in patterns:
            return
        holder = self._holder_of(name)
        if holder is None:
            return  # it has gone
        if len(patterns) >= PATTERNS_MAX:
            raise FailedPrecondition(
                f"this client hears {PATTERNS_MAX:,} topics here already: subscribe to what they have in common ('files.*')"
            )
        if self._counts[holder.name] >= PATTERNS_OF_KEY_MAX:
            raise FailedPrecondition(f"the clients of this key hear {PATTERNS_OF_KEY_MAX:,} topics here already")
        self._patterns[name] = patterns
        self._holders[name] = holder.name
        self._counts[holder.name] += 1
        patterns.add(pattern)
        self._table.add(pattern, name)

    def unsubscribe(self, name: str, pattern: Any) -> None:
        """Hear it no longer; what was not heard is ignored."""
        patterns = self._patterns.get(name, set())
        if isinstance(pattern, str) and pattern in patterns:
            patterns.discard(pattern)
            self._table.remove(pattern, name)
            self._counts[self._holders[name]] -= 1
            if not patterns:
                self.gone(name)

    def gone(self, name: str) -> None:
        """It is not there any more."""
        patterns, holder = self._patterns.pop(name, set()), self._holders.pop(name, "")
        for pattern in patterns:
            self._table.remove(pattern, name)
        self._counts[holder] -= len(patterns)
        if self._counts[holder] <= 0:
            del self._counts[holder]
        for whose in [whose for whose in self._numbers if whose[0] == name]:
            del self._numbers[whose]

    def patterns(self) -> set[str]:
        """All that somebody has asked for."""
        return {pattern for patterns in self._patterns.values() for pattern in patterns}

    def tell(self, envelope: Envelope, lost: int) -> None:
        """A message of a topic that crosses nodes, and how many before it are lost: to all who hear it and may."""
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
