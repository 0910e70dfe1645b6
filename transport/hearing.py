"""Hearing: subscriptions of one client, and the backplanes that have confirmed them.

A client subscribes at every backplane that is up, and again at each new generation. Several subscriptions to one topic cause
one request. Publishers of a topic cannot be known beforehand, so all backplanes are asked. A topic stands when all have
answered: every later message is received. Pure; the session turns the returned `Ask`s into calls.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .topics import TopicTable


class Ask(NamedTuple):
    """A request to one generation of a backplane for one topic."""

    name: str
    generation: int
    topic: str


class Hearing:
    """Subscribers by topic, and the backplanes that have confirmed them."""

    def __init__(self) -> None:
        #: Subscribers in this process, by topic.
        self.table: TopicTable[object] = TopicTable()
        self._subscribers: dict[str, set[object]] = {}
        #: Topic to the backplanes that have not answered.
        self._unanswered: dict[str, set[str]] = {}
        #: Topic to the waiters for its last confirmation.
        self._waiting: dict[str, list[object]] = {}
        #: Backplanes that are up, with their generations.
        self._places: dict[str, int] = {}

    def add(self, topic: str, subscriber: object) -> list[Ask]:
        """Subscribe; returns the requests to send."""
        subscribers = self._subscribers.setdefault(topic, set())
        is_first = not subscribers
        subscribers.add(subscriber)
        self.table.add(topic, subscriber)
        if not is_first:
            return []
        self._unanswered[topic] = set(self._places)
        return [Ask(name, generation, topic) for name, generation in self._places.items()]

    def wait(self, topic: str, waiter: object) -> bool:
        """Have `waiter` returned once all backplanes have confirmed. False: they have already."""
        if not self._unanswered.get(topic):
            return False
        self._waiting.setdefault(topic, []).append(waiter)
        return True

    def remove(self, topic: str, subscriber: object) -> list[str]:
        """Unsubscribe; returns the backplanes to notify."""
        self.table.remove(topic, subscriber)
        subscribers = self._subscribers.get(topic)
        if subscribers is None:
            return []
        subscribers.discard(subscriber)
        if subscribers:
            return []
        del self._subscribers[topic]
        unanswered = self._unanswered.pop(topic, set())
        self._waiting.pop(topic, None)
        return [name for name in self._places if name not in unanswered]

    def subscribers(self) -> list[Any]:
        """The subscribers of all topics, of which each has subscribed to one."""
        return [subscriber for subscribers in self._subscribers.values() for subscriber in subscribers]

    def update(self, places: Mapping[str, int]) -> tuple[list[Ask], list[object]]:
        """Note the backplanes that are up, by generation. Returns the requests to send, and the waiters now satisfied."""
        gone = [name for name, generation in self._places.items() if places.get(name) != generation]
        new = [name for name, generation in places.items() if self._places.get(name) != generation]
        self._places = dict(places)
        for unanswered in self._unanswered.values():
            unanswered.difference_update(gone)
            unanswered.update(new)
        freed = [waiter for topic in list(self._waiting) for waiter in self._freed(topic)]
        return [Ask(name, places[name], topic) for name in new for topic in self._subscribers], freed

    def answered(self, ask: Ask) -> list[object]:
        """A backplane has confirmed. Returns the waiters for which it was the last."""
        if self.is_wanted(ask):
            self._unanswered[ask.topic].discard(ask.name)
        return self._freed(ask.topic)

    def refused(self, topic: str) -> list[object]:
        """A backplane has refused this topic for good. Returns the waiters to be told."""
        return self._waiting.pop(topic, [])

    def is_wanted(self, ask: Ask) -> bool:
        """Whether the topic still has subscribers, and that generation is still up."""
        return ask.topic in self._subscribers and self._places.get(ask.name) == ask.generation

    def unanswered(self, topic: str) -> list[str]:
        """Backplanes that are up and have not confirmed yet, by name; they are asked again."""
        return sorted(self._unanswered.get(topic, ()))

    def _freed(self, topic: str) -> list[object]:
        return [] if self._unanswered.get(topic) else self._waiting.pop(topic, [])
