"""Inbox: messages received for one subscriber and not taken yet.

Bounded, because a subscriber may be slower than its publishers. When it is full, the oldest message is dropped, and the one
after it reports how many are missing before it, exactly as after a gap on the way. A slow subscriber needs the newest most.
"""

from collections import deque
from typing import Any, NamedTuple

#: Messages kept for one subscriber, and their bytes. At 1 KiB each 10 MiB, and about a second of the fastest publisher:
#: enough to bridge a pause of the reader, not enough to hide that it is too slow.
MESSAGES_MAX, BYTES_MAX = 10_000, 32 << 20


class Message(NamedTuple):
    """One message of a topic."""

    topic: str
    body: dict[str, Any]
    #: Messages that went missing just before this one.
    lost: int = 0


class Inbox:
    """A first-in, first-out queue with a bound."""

    def __init__(self, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        assert messages_max > 1
        #: Each message with its size, so that one call adds or removes both: a signal's exception strikes between two.
        self._messages: deque[tuple[Message, int]] = deque()
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self._bytes = 0
        #: Messages that were lost, on the way or here.
        self.lost_count = 0

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: Message, size: int = 0) -> None:
        """Add a message of about `size` bytes. Without room, the oldest are dropped, and their successor counts them.

        The newest is kept, however large.
        """
        messages = self._messages
        self.lost_count += message.lost
        self._bytes += size
        messages.append((message, size))
        while len(messages) > self._messages_max or (self._bytes > self._bytes_max and len(messages) > 1):
            oldest, oldest_size = messages.popleft()
            self._bytes -= oldest_size
            following, following_size = messages[0]
            messages[0] = (following._replace(lost=following.lost + oldest.lost + 1), following_size)
            self.lost_count += 1

    def take(self) -> Message | None:
        """Remove and return the oldest message; None: there is none."""
        if not self._messages:
            return None
        message, size = self._messages.popleft()
        self._bytes -= size
        return message
