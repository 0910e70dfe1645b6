"""Item buffer: the reader's side of items that are sent one after the other, as the reply or as an argument of a call.

The sender may run ahead of the reader by the window; then it waits, at no cost of memory or worker. The reader returns credit
whenever it has read half of the window, or all that a sender without credit has sent. Credit is a total, not an increase, so
one that comes twice does no harm (as MAX_STREAM_DATA of QUIC, RFC 9000, 4.1). Items are numbered: one that comes twice is
ignored, and a stream with a hole ends in an error, as does one whose sender sends more than it may. No locks and no clock: its
owner has them.
"""

from collections import deque
from typing import Any

from .errors import BackplaneError, InternalError, InvalidArgument


class ItemBuffer:
    """The items of one stream that have arrived and were not read yet, its credit, and its end."""

    __slots__ = (
        "_arrived",
        "_credit",
        "_is_blocked",
        "_received_count",
        "_taken_count",
        "_window",
        "error",
        "has_ended",
        "route",
    )

    def __init__(self, route: Any, window: int, credit: int | None = None) -> None:
        """`credit`: how many items may be sent before credit is returned; None: the window."""
        self.route = route
        self._arrived: deque[list[Any]] = deque()
        self._window = window
        #: How many items the sender may have sent in all, as it was last told; how many came, and how many were taken.
        self._credit = window if credit is None else credit
        self._received_count = self._taken_count = 0
        #: Whether the sender waits for credit.
        self._is_blocked = False
        self.has_ended = False
        #: The error in which it ended; given to the reader once, after the last item.
        self.error: BackplaneError | None = None

    @property
    def is_ready(self) -> bool:
        """Whether `take` or `check_end` has something for the reader."""
        return self.has_ended or len(self._arrived) > 0

    @property
    def has_begun(self) -> bool:
        """Whether any item has arrived so far: from then on the call is not retried."""
        return self._received_count > 0

    def put(self, items: list[Any], first: int, is_blocked: bool) -> bool:
        """Items have arrived, the first of them with this number, from 0. `is_blocked`: the sender waits for credit.

        False: they are not those that are due, and the stream has ended in an error. The owner cancels the call.
        """
        if self.has_ended or first + len(items) < self._received_count or (items and first < self._received_count):
            return True  # nobody reads them, or they came before
        if first != self._received_count:
            lost = first - self._received_count
            self.end_in(InternalError(f"{self.route}: {lost} items of the stream were lost on the way"))
            return False
        self._received_count += len(items)
        if self._received_count > self._credit:
            self.end_in(InternalError(f"{self.route}: its sender sends more items than it was allowed to"))
            return False
        if items:
            self._arrived.append(items)
        self._is_blocked = is_blocked
        return True

    def end(self, result: Any) -> None:
        """The end has come, in a reply or with the last items: the number of items that were sent."""
        if type(result) is not int:
            self.end_in(InvalidArgument(f"{self.route} has one result, and no stream of items: call it"))
        elif result != self._received_count:
            lost = result - self._received_count
            self.end_in(InternalError(f"{self.route}: {lost} items of the stream were lost on the way"))
        else:
            self.has_ended = True

    def end_in(self, error: BackplaneError) -> None:
        """The stream has ended in an error; what has arrived can still be read. Only the first end counts."""
        if not self.has_ended:
            self.error = error  # first: another thread may look whether it has ended
            self.has_ended = True

    def abandon(self) -> None:
        """Nobody reads it any more."""
        self._arrived.clear()
        self.error = None
        self.has_ended = True

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
        """How many items the sender may send in all, if it is time to tell it (then call `gave`); else 0.

        It is time in two cases: the reader has read half of the window since the last credit; or it has read everything, and
        the sender said that it waits for credit. The second case is for large items: the sender also stops at
        `BYTES_AHEAD_MAX`, long before half of the window has come.
        """
        credit = self._taken_count + self._window
        gained = credit - self._credit
        if self.has_ended or not gained or (2 * gained < self._window and (self._arrived or not self._is_blocked)):
            return 0
        return credit

    def gave(self, credit: int) -> None:
        """This credit has been sent."""
        self._credit = credit
