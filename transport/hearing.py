"""Hearing: what a client subscribes to, and which backplanes have been asked for it.

A client subscribes at every backplane that is up, and again when a new generation appears; several subscriptions to
one topic ask once. Nobody can know a topic's publishers beforehand, so all are asked. A topic stands when every place
has answered: what is published after that is heard. Pure; the session turns what this returns into calls.
"""

from collections.abc import Mapping
from typing import NamedTuple

from .topics import TopicTable


class Ask(NamedTuple):
    """One generation of a backplane is to be asked for one topic."""

    name: str
    generation: int
    topic: str


class Hearing:
    """Subscribers by topic, and the places that know of them."""

    def __init__(self) -> None:
        #: Who hears what, here.
        self.table: TopicTable[object] = TopicTable()
        self._subscribers: dict[str, set[object]] = {}
        #: Topic to the places that have not answered.
        self._unanswered: dict[str, set[str]] = {}
        #: Topic to those who wait until it stands.
        self._waiting: dict[str, list[object]] = {}
        #: Places that are up, to their generations.
        self._places: dict[str, int] = {}

    def add(self, topic: str, subscriber: object) -> list[Ask]:
        """Subscribe; returns who is to be asked."""
        subscribers = self._subscribers.setdefault(topic, set())
        is_first = not subscribers
        subscribers.add(subscriber)
        self.table.add(topic, subscriber)
        if not is_first:
            return []
        self._unanswered[topic] = set(self._places)
        return [Ask(name, generation, topic) for name, generation in self._places.items()]

    def wait(self, topic: str, waiter: object) -> bool:
        """Have `waiter` handed back once the topic stands. False: it does already."""
        if not self._unanswered.get(topic):
            return False
        self._waiting.setdefault(topic, []).append(waiter)
        return True

    def remove(self, topic: str, subscriber: object) -> list[str]:
        """Unsubscribe; returns the places to tell."""
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

    def update(self, places: Mapping[str, int]) -> tuple[list[Ask], list[object]]:
        """The places that are up now, by generation: (who is to be asked, who has nobody left to wait for)."""
        gone = [name for name, generation in self._places.items() if places.get(name) != generation]
        new = [name for name, generation in places.items() if self._places.get(name) != generation]
        self._places = dict(places)
        for unanswered in self._unanswered.values():
            unanswered.difference_update(gone)
            unanswered.update(new)
        freed = [waiter for topic in list(self._waiting) for waiter in self._freed(topic)]
        return [Ask(name, places[name], topic) for name in new for topic in self._subscribers], freed

    def answered(self, ask: Ask) -> list[object]:
        """A place has subscribed us; returns those who waited for it alone."""
        if self.is_wanted(ask):
            self._unanswered[ask.topic].discard(ask.name)
        return self._freed(ask.topic)

    def refused(self, topic: str) -> list[object]:
        """A place will never subscribe us to this; returns those who must be told."""
        return self._waiting.pop(topic, [])

    def is_wanted(self, ask: Ask) -> bool:
        """Whether somebody still listens, and that generation is still up."""
        return ask.topic in self._subscribers and self._places.get(ask.name) == ask.generation

    def unanswered(self, topic: str) -> list[str]:
        """The places that are up and have not subscribed us yet."""
        return sorted(self._unanswered.get(topic, ()))

    def _freed(self, topic: str) -> list[object]:
        return [] if self._unanswered.get(topic) else self._waiting.pop(topic, [])
