"""Fan-out: send a client's messages to every backplane whose objects subscribe to the topic.

The routing table names them, since objects subscribe by declaration. Messages to each backplane are numbered per topic, so
that it can count its losses. A backplane without room loses the message, and the publisher gets `Busy`.
"""

from typing import Any

from .caller_core import CallerCore
from .directory import Directory
from .envelope import message
from .errors import Busy
from .topics import PAIRS_MAX, TopicTable, check_topic


class FanOut:
    """Subscribed backplanes by topic, by one routing table at a time."""

    def __init__(self, core: CallerCore) -> None:
        self._core = core
        self._hearers: TopicTable[str] = TopicTable()
        self._numbers: dict[tuple[bytes, str], int] = {}  # most recently used last; as many as a subscriber keeps

    def update(self, directory: Directory | None) -> None:
        """Use a new routing table; None: there is no system now."""
        self._hearers = TopicTable()
        if directory is not None:
            for topic, names in directory.topics.items():
                for name in names:
                    self._hearers.add(topic, name)

    def forget(self, peer: bytes) -> None:
        """A peer is dead: its next generation counts from one."""
        for pair in [pair for pair in self._numbers if pair[0] == peer]:
            del self._numbers[pair]

    def publish(
        self, directory: Directory, topic: str, priority: int | None, body: dict[str, Any],
        *, node: str | None = None, trace: str | None = None, lost: int = 0,
    ) -> list[bytes]:  # fmt: skip
        """Queue a message for all subscribed backplanes, as `ClientSession.publish` says; returns their peers."""
        check_topic(topic)
        peers, full = [], []
        packed = (0, b"")  # a number, and the message packed with it: most subscribers are at the same number
        for name in self._hearers.matching(topic):
            place = directory.backplanes.get(name)
            if place is None or not place.is_up or place.is_draining:
                continue
            peer = self._core.connected(name, place)
            number = self._numbers.get((peer, topic), 0) + 1 + lost
            if number != packed[0]:
                packed = (number, self._core.pack(message(number, topic, body, priority, trace, node)))
            try:
                self._core.put_packed(peer, packed[1])
                peers.append(peer)
            except Busy:
                full.append(name)
            self._numbers.pop((peer, topic), None)
            self._numbers[peer, topic] = number  # a message without room is a gap, which its reader sees
            if len(self._numbers) > PAIRS_MAX:
                del self._numbers[next(iter(self._numbers))]
        if full:
            raise Busy(f"{', '.join(full)} did not take {topic!r}: it does not read its messages", retry_after=0.1)
        return peers
