"""Hearing: what a client subscribes to, and which backplanes have been asked for it.

A client subscribes at every backplane that is up, and again when a new generation appears; several subscriptions to one
topic ask once. Nobody can know a topic's publishers beforehand, so all are asked. A subscription stands when every place
has answered: what is published after that is heard. Pure; the session turns what this returns into calls.
"""

from .errors import BackplaneError, PeerDown
from .topics import TopicTable


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
        self._places: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._subscribers)

    def add(self, topic: str, subscriber: object) -> list[str]:
        """Subscribe; returns the places to ask."""
        subscribers = self._subscribers.setdefault(topic, set())
        is_first = not subscribers
        subscribers.add(subscriber)
        self.table.add(topic, subscriber)
        if not is_first:
            return []
        self._unanswered[topic] = set(self._places)
        return sorted(self._places)

    def wait(self, topic: str, waiter: object) -> bool:
        """Have `waiter` handed back once the topic stands. False: it does already."""
        if not self._unanswered.get(topic):
            return False
        self._waiting.setdefault(topic, []).append(waiter)
        return True

    def remove(self, topic: str, subscriber: object) -> list[str]:
        """Unsubscribe; returns the places to tell."""
        self.table.remove(topic, subscriber)
        subscribers = self._subscribers.get(topic, set())
        subscribers.discard(subscriber)
        if subscribers or topic not in self._subscribers:
            return []
        del self._subscribers[topic]
        self._unanswered.pop(topic, None)
        return sorted(self._places)

    def place_up(self, name: str) -> list[str]:
        """A place has appeared; returns the topics to ask it for."""
        self._places.add(name)
        for topic in self._subscribers:
            self._unanswered[topic].add(name)
        return list(self._subscribers)

    def place_down(self, name: str) -> list[object]:
        """A place has gone; returns those who waited for nobody else."""
        self._places.discard(name)
        return [waiter for topic in list(self._subscribers) for waiter in self.answered(name, topic)]

    def answered(self, name: str, topic: str) -> list[object]:
        """A place has subscribed us; returns those who waited for it alone."""
        unanswered = self._unanswered.get(topic)
        if unanswered is not None:
            unanswered.discard(name)
        return [] if unanswered else self._waiting.pop(topic, [])

    def refused(self, name: str, topic: str, error: BackplaneError) -> tuple[list[object], bool]:
        """A place did not subscribe us: (who waited and must be told, whether to ask it again)."""
        is_wanted = topic in self._subscribers and name in self._places and not isinstance(error, PeerDown)
        return self._waiting.pop(topic, []), is_wanted
