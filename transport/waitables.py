"""Waitables: the end of a call, the items of a stream and the messages of a topic, and the threads that wait for them.

They hold received values and nothing else. Users are handed documented subclasses (handles.py), which stay interpreted. The
fields are here, so that compiled code makes and fills them like structs. All is changed with the client's lock held
(calling.py).
"""

import threading
from collections.abc import Iterator
from typing import Any, Protocol

from mypy_extensions import mypyc_attr

from .client_spans import EndedSpans
from .errors import BackplaneError, FailedPrecondition
from .inbox import Inbox, Message
from .item_buffer import ItemBuffer
from .item_sender import ItemSender


class Waiter:
    """One waiting thread, as leader or as follower."""

    __slots__ = ("gate", "is_woken")

    def __init__(self) -> None:
        self.is_woken = False
        #: Held while the thread follows; released to wake it.
        self.gate: threading.Lock | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Waitable:
    """Base of everything that threads wait for."""

    __slots__ = ("is_ready", "waiters")

    def __init__(self) -> None:
        self.is_ready = False
        #: None while nobody waits, as for most calls of a burst.
        self.waiters: list[Waiter] | None = None


class WaitableOwner(Protocol):
    """The client, as its pending calls and subscriptions use it for the user."""

    #: Spans to end when its lock is released (client_spans.py).
    ended_spans: EndedSpans

    def wait_for(self, pending: "CallOutcome", timeout: float | None) -> bool: ...
    def look_once(self) -> None: ...
    def cancel(self, pending: "CallOutcome") -> bool: ...
    def next_message(self, stream: "Stream", timeout: float | None) -> Message: ...
    def unsubscribe(self, stream: "Stream") -> None: ...
    def unconfirmed(self, topic: str) -> tuple[str, ...]: ...
    def next_items(self, arrived: "ArrivedItems") -> list[Any] | None: ...
    def drop(self, arrived: "ArrivedItems") -> None: ...
    def drop_later(self, arrived: "ArrivedItems") -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class CallOutcome(Waitable):
    """The end of a call: a result or an error, once it is ready."""

    __slots__ = ("_client", "_ends_ns", "_error", "_id", "_result", "_span", "route")

    def __init__(self, client: WaitableOwner, route: Any) -> None:  # an invalid route is refused when the call begins
        super().__init__()
        self.route = route
        self._client = client
        self._id = 0
        #: Its deadline, at which it ends in any case; 0: it has not begun.
        self._ends_ns = 0
        self._result: Any = None
        self._error: BackplaneError | None = None
        #: Its span in the trace of the program (client_spans.py); None: the program has none, or it has ended.
        self._span: Any = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Stream(Waitable):
    """Messages of a topic that were not taken yet; ready while there is a message or an error to take."""

    __slots__ = ("_client", "_closed", "_error", "_inbox", "topic")

    def __init__(self, client: WaitableOwner, topic: Any) -> None:
        super().__init__()
        self.topic = topic
        self._client = client
        self._inbox = Inbox()
        self._closed = False
        self._error: BackplaneError | None = None


class ArrivedItems(CallOutcome):
    """The stream of a blocking client, ready while there are items, or its end, to read.

    The client keeps it until the stream has ended; the user's iterator is another object, so that dropping it is noticed.
    """

    __slots__ = ("_buffer", "_is_being_read")

    def __init__(self, client: WaitableOwner, route: Any, window: int) -> None:
        super().__init__(client, route)
        self._buffer = ItemBuffer(route, window)
        #: Whether a thread reads now.
        self._is_being_read = False

    def take(self) -> list[Any] | None:
        """The oldest unread items; None: none are there now, or the stream has ended. Raises the error of that, once."""
        items = self._buffer.take()
        self.is_ready = self._buffer.is_ready
        if items is None:
            self._buffer.check_end()
        return items


class SendingCall(CallOutcome):
    """A call whose caller sends one argument item by item; ready while there is room for more items, and once it has ended."""

    __slots__ = ("has_ended", "sender")

    def __init__(self, client: WaitableOwner, route: Any, sender: ItemSender) -> None:
        super().__init__(client, route)
        self.sender = sender
        self.has_ended = False

    def end(self, result: Any, error: BackplaneError | None) -> None:
        """It has ended. Only the first end counts."""
        if not self.has_ended:
            self._result, self._error = result, error
            self.has_ended = True


@mypyc_attr(allow_interpreted_subclasses=True)
class ItemIterator:
    """Iterates over the items of a stream. Compiled, because each item passes here."""

    __slots__ = ("_arrived", "_at", "_client", "_is_iterated", "_items")

    def __init__(self, client: WaitableOwner, arrived: ArrivedItems) -> None:
        self._client = client
        self._arrived = arrived
        self._items: list[Any] = []
        self._at = 0
        self._is_iterated = False

    def __iter__(self) -> Iterator[Any]:
        if self._is_iterated:
            raise FailedPrecondition(
                f"{self._arrived.route}: a stream can be read once, and this one is being read; ask for a new one"
            )
        self._is_iterated = True
        return self

    def __next__(self) -> Any:  # hot: scripts/bench streams
        at = self._at
        items = self._items
        if at == len(items):
            found = self._client.next_items(self._arrived)
            if found is None:
                raise StopIteration
            self._items = items = found
            at = 0
        self._at = at + 1
        item = items[at]
        items[at] = None
        return item
