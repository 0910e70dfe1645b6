"""Inbox: messages heard and not yet taken by one subscriber.

Bounded, because a subscriber may be slower than what it listens to: when it is full the oldest message goes, and the
one after it says how many are missing before it, exactly as a gap on the way would. The newest is what a slow listener
needs most.
"""

from collections import deque
from typing import Any, NamedTuple

#: Messages kept for one subscriber. At 1 KiB each 10 MiB, and about a second of the fastest publisher: enough to bridge
#: a pause of the reader, not enough to hide that it is too slow.
MESSAGES_MAX = 10_000


class Message(NamedTuple):
    """One message of a topic."""

    topic: str
    body: dict[str, Any]
    #: Messages that went missing just before this one.
    lost: int = 0


class Inbox:
    """First in, first out, up to a bound."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        assert messages_max > 1
        self._messages: deque[Message] = deque()
        self._messages_max = messages_max
        #: Messages that were lost, on the way or here.
        self.lost_count = 0

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: Message) -> None:
        """One more; when there is no room, the oldest goes and its follower tells."""
        messages = self._messages
        self.lost_count += message.lost
        messages.append(message)
        if len(messages) > self._messages_max:
            oldest = messages.popleft()
            messages[0] = messages[0]._replace(lost=messages[0].lost + oldest.lost + 1)
            self.lost_count += 1

    def take(self) -> Message | None:
        """The oldest, or None."""
        return self._messages.popleft() if self._messages else None
