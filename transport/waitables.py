"""Waitables: the end of a call and the messages of a topic, and the threads that wait for them.

They hold received values and nothing else. Users are handed documented subclasses (handles.py), which stay interpreted. The
fields are here, so that compiled code makes and fills them like structs. All is changed with the client's lock held
(calling.py).
"""

import threading
from typing import Any, Protocol

from mypy_extensions import mypyc_attr

from .errors import BackplaneError
from .inbox import Inbox, Message


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

    def wait_for(self, pending: "CallOutcome", timeout: float | None) -> bool: ...
    def look_once(self) -> None: ...
    def cancel(self, pending: "CallOutcome") -> bool: ...
    def next_message(self, stream: "Stream", timeout: float | None) -> Message: ...
    def unsubscribe(self, stream: "Stream") -> None: ...
    def unconfirmed(self, topic: str) -> tuple[str, ...]: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class CallOutcome(Waitable):
    """The end of a call: a result or an error, once it is ready."""

    __slots__ = ("_client", "_ends_ns", "_error", "_id", "_result", "route")

    def __init__(self, client: WaitableOwner, route: Any) -> None:  # an invalid route is refused when the call begins
        super().__init__()
        self.route = route
        self._client = client
        self._id = 0
        #: Its deadline, at which it ends in any case; 0: it has not begun.
        self._ends_ns = 0
        self._result: Any = None
        self._error: BackplaneError | None = None


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
