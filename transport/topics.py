"""Topics: subscribers by topic, and detection of lost messages.

A topic is words joined by dots. `files` matches `files` alone; `files.*` matches everything below it. There are no other
wildcards, so a publisher looks its subscribers up instead of matching patterns. Messages to one subscriber are numbered per
topic, so a gap is seen and counted instead of guessed at (ZeroMQ's PUB drops silently: TRAPS 10).
"""

import re
import reprlib
from typing import Final, Generic, TypeGuard, TypeVar

from .errors import InvalidArgument

Subscriber = TypeVar("Subscriber")


_TOPIC = re.compile(r"[^.*\s]+(\.[^.*\s]+)*")
#: Longest topic, and longest pattern, characters. Topics are remembered by the thousand, by publishers and subscribers; and a
#: search for subscribers takes a look-up of the text before each dot: a topic of 16 MiB would have kept a node for hours.
TOPIC_LENGTH_MAX: Final = 1_024


def check_topic(topic: object) -> None:
    """Raises `InvalidArgument` for a value that is not a topic."""
    if not _is_short(topic) or not _TOPIC.fullmatch(topic):
        raise InvalidArgument(f"a topic is words joined by dots, such as 'files.changed', got {_shown(topic)}")


def check_pattern(pattern: object) -> None:
    """Raises `InvalidArgument` for a pattern that cannot be subscribed to."""
    if not _is_short(pattern) or not _TOPIC.fullmatch(pattern.removesuffix(".*")):
        raise InvalidArgument(f"subscribe to a topic such as 'files.changed', or to 'files.*', got {_shown(pattern)}")


def _is_short(topic: object) -> TypeGuard[str]:
    return type(topic) is str and len(topic) <= TOPIC_LENGTH_MAX


def _shown(topic: object) -> str:
    """A value for an error message. It may be of another host: text of megabytes, or a list of millions."""
    if type(topic) is not str:
        return reprlib.repr(topic)
    if len(topic) > TOPIC_LENGTH_MAX:
        return f"{len(topic):,} characters (limit {TOPIC_LENGTH_MAX:,})"
    return repr(topic)


def overlap(pattern: str, other: str) -> bool:
    """Whether there is a topic that matches both patterns."""
    one, another = pattern.removesuffix("*"), other.removesuffix("*")  # "files." of "files.*"
    return (
        pattern == other
        or (one != pattern and another.startswith(one))
        or (another != other and one.startswith(another))
    )


#: Topics whose subscribers are cached: a publisher that invents a topic for each message gains and loses nothing by it.
FOUND_MAX: Final = 1_000


class TopicTable(Generic[Subscriber]):
    """Subscribers by topic: hashable, in dictionaries for their order. Lists took 3 s for 20,000 objects on one topic, and
    over a minute for 100,000.
    """

    def __init__(self) -> None:
        self._exact: dict[str, dict[Subscriber, None]] = {}
        self._below: dict[str, dict[Subscriber, None]] = {}  # "files" for the pattern "files.*"
        #: Subscribers found lately, by topic: messages of few topics come by the thousand.
        self._found: dict[str, list[Subscriber]] = {}

    def add(self, pattern: str, subscriber: Subscriber) -> None:
        """Subscribe; a repetition has no effect."""
        self._found.clear()
        table, name = self._place(pattern)
        table.setdefault(name, {})[subscriber] = None

    def remove(self, pattern: str, subscriber: Subscriber) -> None:
        """Unsubscribe; unknown subscribers are ignored."""
        self._found.clear()
        table, name = self._place(pattern)
        subscribers = table.get(name)
        if subscribers is not None:
            subscribers.pop(subscriber, None)
            if not subscribers:
                del table[name]

    def remove_all(self, subscriber: Subscriber) -> None:
        """Unsubscribe from all patterns; the cost grows with the number of patterns."""
        for pattern in [*self._exact, *(f"{name}.*" for name in self._below)]:
            self.remove(pattern, subscriber)

    def matching(self, topic: str) -> list[Subscriber]:
        """The subscribers of `topic`, each once, exact subscriptions first. The list is cached: do not change it."""
        known = self._found.get(topic)
        if known is not None:
            return known
        if len(self._found) >= FOUND_MAX:
            self._found.clear()
        known = self._found[topic] = self._search(topic)
        return known

    def _search(self, topic: str) -> list[Subscriber]:
        found = dict(self._exact.get(topic, {}))
        end = topic.rfind(".")
        while end > 0:
            found.update(self._below.get(topic[:end], {}))
            end = topic.rfind(".", 0, end)
        return list(found)

    def _place(self, pattern: str) -> tuple[dict[str, dict[Subscriber, None]], str]:
        return (self._below, pattern[:-2]) if pattern.endswith(".*") else (self._exact, pattern)


#: Pairs of publisher and topic whose numbers are kept, about 200 bytes each. Clients publish and leave without notice. The
#: pairs silent for longest are forgotten, and their next message counts as a first one.
PAIRS_MAX = 10_000


#: Largest gap that is counted. Numbers advance by the lost count (`Publishing._send`) and travel in 64 bits: a publisher
#: with numbers of its own choice exhausted them with two messages, for all others, too.
GAP_MAX = 1 << 32


class _Last:
    """The latest message of one pair: its number, and how many messages of all pairs had been received by then."""

    __slots__ = ("number", "turn")

    def __init__(self, number: int, turn: int) -> None:
        self.number = number
        self.turn = turn


class GapCounter:
    """Sequence numbers per (publisher, topic): counts the messages lost before each one."""

    def __init__(self) -> None:
        self._last: dict[tuple[bytes, str], _Last] = {}
        self._turn = 0
        self.lost_count = 0

    def gap_before(self, publisher: bytes, topic: str, number: int) -> int:
        """Messages missing between the last one and `number`, `GAP_MAX` at most; 0 for the first, or if numbers go back."""
        self._turn += 1
        last = self._last.get((publisher, topic))
        if last is None:
            if len(self._last) >= PAIRS_MAX:
                self._forget_some()
            self._last[publisher, topic] = _Last(number, self._turn)
            return 0
        gap = min(max(0, number - last.number - 1), GAP_MAX)
        last.number, last.turn = number, self._turn
        self.lost_count += gap
        return gap

    def forget(self, publisher: bytes) -> None:
        """Forget a publisher, whose numbers start again."""
        for pair in [pair for pair in self._last if pair[0] == publisher]:
            del self._last[pair]

    def _forget_some(self) -> None:
        """Forget the quarter of the pairs silent for longest; one at a time, each new pair would cost a scan of all."""
        oldest = sorted(self._last, key=lambda pair: self._last[pair].turn)
        for pair in oldest[: max(1, len(oldest) // 4)]:
            del self._last[pair]
