"""Handles: what a blocking client hands out, a call that is under way and a subscription.

They hold what has come for them, and ask their client for everything else: it alone has the lock and the link. What is
marked as the client's business (a leading underscore) is changed by the client, with its lock held.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol, Self

from .errors import BackplaneError, Unavailable
from .inbox import Inbox, Message
from .waiting import Waitable


class Owner(Protocol):
    """What handles need of their client."""

    def _wait_for(self, pending: "PendingCall", timeout: float | None) -> bool: ...
    def _look_once(self) -> None: ...
    def _cancel(self, pending: "PendingCall") -> bool: ...
    def _next_message(self, subscription: "Subscription", timeout: float | None) -> Message: ...
    def _unsubscribe(self, subscription: "Subscription") -> None: ...
    def _unconfirmed(self, topic: str) -> tuple[str, ...]: ...


class PendingCall(Waitable):
    """A call that has been submitted: ask it for the result."""

    __slots__ = ("_client", "_ends_ns", "_error", "_id", "_result", "route")

    def __init__(self, client: Owner, route: str) -> None:
        super().__init__()
        self.route = route
        self._client = client
        self._id = 0
        #: Its deadline, by which it ends whatever happens.
        self._ends_ns: int | None = None
        self._result: Any = None
        self._error: BackplaneError | None = None

    def __repr__(self) -> str:
        state = "outstanding" if not self.is_ready else "done" if self._error is None else type(self._error).__name__
        return f"<PendingCall {self.route}: {state}>"

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result, or raise the error in which the call ended.

        `timeout`: seconds to wait here, then `TimeoutError`, and the call goes on; None: until its own deadline.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._result

    def exception(self, timeout: float | None = None) -> BackplaneError | None:
        """Wait for the end of the call; None: it ended in a result."""
        if not self.is_ready and not self._client._wait_for(self, timeout):
            raise TimeoutError(f"{self.route}: still outstanding after {timeout} s")
        return self._error

    def done(self) -> bool:
        """Whether it has ended. Looks at the link, never waits."""
        if not self.is_ready:
            self._client._look_once()
        return self.is_ready

    def cancel(self) -> bool:
        """Take it back; it ends in `Cancelled`. False: it had ended before. Work that has begun may run on."""
        return self._client._cancel(self)


class Subscription(Waitable):
    """Messages of one topic, as an iterator; close it, or use it in a `with`.

    Messages wait here up to a bound (inbox.py); what is lost beyond it, or on the way, is told by `Message.lost`.
    """

    __slots__ = ("_client", "_closed", "_error", "_inbox", "topic")

    def __init__(self, client: Owner, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self._client = client
        self._inbox = Inbox()
        self._closed = False
        self._error: BackplaneError | None = None

    def get(self, timeout: float | None = None) -> Message:
        """The next message. Waits `timeout` seconds, then `TimeoutError`; None: until there is one.

        Raises `PeerDown` when the system is gone (the next `get` connects again, if it is back) and `Unavailable` when
        the subscription or its client has been closed.
        """
        return self._client._next_message(self, timeout)

    def try_get(self) -> Message | None:
        """The next message, or None if there is none now. Raises what `get` raises."""
        self._client._look_once()
        return self.get() if self.is_ready else None

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if self._closed and not self._inbox:
            raise StopIteration
        try:
            return self.get()
        except Unavailable:
            if self._closed:  # by another thread, while we waited
                raise StopIteration from None
            raise

    @property
    def lost_count(self) -> int:
        """Messages that were lost, on the way or because they were not taken in time."""
        return self._inbox.lost_count

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """Backplanes that have not confirmed the subscription (yet): what they publish may be missing."""
        return self._client._unconfirmed(self.topic)

    def close(self) -> None:
        """Hear no more; what is already here can still be taken."""
        self._client._unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
