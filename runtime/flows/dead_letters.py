"""Dead letters: the items of a stage whose function raised, the newest ones kept with their errors, all counted.

An item that cannot be processed must neither stop the flow nor vanish. Those that are kept are bounded by their number, and lie
in the memory of the process: a restart forgets them. Thread-safe: a stage has lanes in several threads.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from appbackplane.transport.codec import Encoder
from appbackplane.transport.envelope import reply
from appbackplane.transport.errors import BackplaneError, text_of

#: Characters shown of an item that cannot be sent.
_SHOWN_MAX = 1_000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One item that could not be processed."""

    item: Any
    error: str
    unix_ns: int


class DeadLetters:
    """Those of one stage in one backplane."""

    def __init__(self, kept_max: int) -> None:
        self._mutex = threading.Lock()
        self._kept: deque[DeadLetter] = deque(maxlen=kept_max)
        #: How many there were in all, kept or not.
        self.count = 0

    def add(self, item: Any, error: BaseException | str, unix_ns: int) -> None:
        """Keep an item with the error that it caused; the oldest one makes room."""
        said = error if isinstance(error, str) else _told(error)
        with self._mutex:
            self.count += 1
            self._kept.append(DeadLetter(item, said, unix_ns))

    def newest(self, count: int) -> list[dict[str, Any]]:
        """At most `count` of those that are kept, the newest first, as data that can be sent."""
        with self._mutex:
            found = list(self._kept)[::-1][:count]
        return [{"item": _sendable(each.item), "error": each.error, "unix_ns": each.unix_ns} for each in found]


def _told(error: BaseException) -> str:
    words = text_of(str(error))
    return f"{type(error).__name__}{': ' if words else ''}{words}"


def _sendable(item: Any) -> Any:
    try:
        Encoder(has_signals=False).encode(reply(0, item))
    except BackplaneError:  # that may be the very reason why it is here
        return text_of(repr(item), _SHOWN_MAX)
    return item
