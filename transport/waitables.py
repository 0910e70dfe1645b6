"""Waitables: what threads wait for, the end of a call and the messages of a topic, and who waits for it.

They hold what has come and nothing else. What users are handed are their subclasses with the documentation
(handles.py), which stay interpreted; the fields are here, so that compiled code makes and fills them like structs. All is
changed with the client's lock held (calling.py).
"""

import threading
from typing import Any, Protocol

from mypy_extensions import mypyc_attr

from .errors import BackplaneError
from .inbox import Inbox, Message


class Waiter:
    """One thread that waits."""

    __slots__ = ("gate", "is_woken")

    def __init__(self) -> None:
        self.is_woken = False
        #: Held while it follows; whoever wakes it lets go.
        self.gate: threading.Lock | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Waitable:
    """Something that threads wait for."""

    __slots__ = ("is_ready", "waiters")

    def __init__(self) -> None:
        self.is_ready = False
        #: None while nobody waits, which is what most calls of a burst see.
        self.waiters: list[Waiter] | None = None


class Owner(Protocol):
    """What these ask of their client, on behalf of the user who holds them."""

    def wait_for(self, pending: "Outcome", timeout: float | None) -> bool: ...
    def look_once(self) -> None: ...
    def cancel(self, pending: "Outcome") -> bool: ...
    def next_message(self, stream: "Stream", timeout: float | None) -> Message: ...
    def unsubscribe(self, stream: "Stream") -> None: ...
    def unconfirmed(self, topic: str) -> tuple[str, ...]: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Outcome(Waitable):
    """How a call ends: in a result or in an error, once it is ready."""

    __slots__ = ("_client", "_ends_ns", "_error", "_id", "_result", "route")

    def __init__(self, client: Owner, route: Any) -> None:  # a route that is none is refused by who begins the call
        super().__init__()
        self.route = route
        self._client = client
        self._id = 0
        #: Its deadline, by which it ends whatever happens; 0: none, it has not begun.
        self._ends_ns = 0
        self._result: Any = None
        self._error: BackplaneError | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Stream(Waitable):
    """What has come of a topic and has not been taken; ready while there is something to take, or to be told."""

    __slots__ = ("_client", "_closed", "_error", "_inbox", "topic")

    def __init__(self, client: Owner, topic: Any) -> None:
        super().__init__()
        self.topic = topic
        self._client = client
        self._inbox = Inbox()
        self._closed = False
        self._error: BackplaneError | None = None
