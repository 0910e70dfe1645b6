"""Item buffer: the caller's side of a call whose callee sends many items, one after the other.

The callee may run ahead of the reader by the window; then it waits, at no cost of memory or worker. The reader returns credit
whenever it has read half of the window. Credit is a total, not an increase, so an envelope that is lost or comes twice does
no harm (as MAX_STREAM_DATA of QUIC, RFC 9000 section 4.1). No locks and no clock: its owner has them.
"""

from collections import deque
from typing import Any

from .errors import BackplaneError


class ItemBuffer:
    """The items of one stream that have arrived and were not read yet, its credit, and its end."""

    __slots__ = ("_arrived", "_credit", "_is_blocked", "_taken_count", "_window", "error", "has_ended")

    def __init__(self, window: int) -> None:
        self._arrived: deque[list[Any]] = deque()
        self._window = window
        #: How many items the callee may have sent in all, as it was last told; and how many the reader has taken.
        self._credit = window
        self._taken_count = 0
        #: Whether the callee waits for credit.
        self._is_blocked = False
        self.has_ended = False
        #: The error in which it ended; given to the reader once, after the last item.
        self.error: BackplaneError | None = None

    @property
    def is_ready(self) -> bool:
        """Whether `take` or `ending` has something for the reader."""
        return self.has_ended or len(self._arrived) > 0

    @property
    def has_begun(self) -> bool:
        """Whether any item has arrived so far: from then on the call is not retried."""
        return self._taken_count > 0 or len(self._arrived) > 0

    def put(self, items: list[Any], is_blocked: bool) -> None:
        """Items have arrived. `is_blocked`: the callee waits for credit."""
        if items:
            self._arrived.append(items)
        self._is_blocked = is_blocked

    def end(self, error: BackplaneError | None) -> None:
        """The stream has ended; what has arrived can still be read. Only the first end counts."""
        if not self.has_ended:
            self.has_ended = True
            self.error = error

    def abandon(self) -> None:
        """Nobody reads it any more."""
        self._arrived.clear()
        self.has_ended = True
        self.error = None

    def take(self) -> list[Any] | None:
        """The oldest unread items; None: none are there now."""
        if not self._arrived:
            return None
        items = self._arrived.popleft()
        self._taken_count += len(items)
        return items

    def check_end(self) -> None:
        """Raises the error in which the stream ended, once."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def credit_due(self) -> int:
        """The credit to return now; 0: none is due yet. It is due once half of the window is read, and once all is read
        that a callee without credit has sent: that may be far less, as the callee bounds the bytes, too.
        """
        credit = self._taken_count + self._window
        gained = credit - self._credit
        if self.has_ended or not gained or (2 * gained < self._window and (self._arrived or not self._is_blocked)):
            return 0
        self._credit, self._is_blocked = credit, False
        return credit
