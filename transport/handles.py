"""Handles: what a blocking client hands out, a call that is under way and a subscription.

What has come for them is in their bases (waitables.py); for everything else they ask their client, which alone has the
lock and the link (calling.py).
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from .errors import BackplaneError, Unavailable
from .inbox import Message
from .waitables import Outcome, Stream


class PendingCall(Outcome):
    """A call that has been submitted: ask it for the result."""

    __slots__ = ()

    def __repr__(self) -> str:
        state = "outstanding" if not self.is_ready else "done" if self._error is None else type(self._error).__name__
        return f"<PendingCall {self.route}: {state}>"

    def result(self, timeout: float | None = None) -> Any:  # hot: scripts/bench call_pipelined
        """Wait for the result, or raise the error in which the call ended.

        `timeout`: seconds to wait here, then `TimeoutError`, and the call goes on; None: until its own deadline.
        """
        if not self.is_ready or self._error is not None:
            error = self.exception(timeout)
            if error is not None:
                raise error
        return self._result

    def exception(self, timeout: float | None = None) -> BackplaneError | None:
        """Wait for the end of the call; None: it ended in a result."""
        if not self.is_ready and not self._client.wait_for(self, timeout):
            raise TimeoutError(f"{self.route}: still outstanding after {timeout} s")
        return self._error

    def done(self) -> bool:
        """Whether it has ended. Looks at the link, never waits."""
        if not self.is_ready:
            self._client.look_once()
        return self.is_ready

    def cancel(self) -> bool:
        """Take it back; it ends in `Cancelled`. False: it had ended before. Work that has begun may run on."""
        return self._client.cancel(self)


class Subscription(Stream):
    """Messages of one topic, as an iterator; close it, or use it in a `with`.

    Messages wait here up to a bound (inbox.py); what is lost beyond it, or on the way, is told by `Message.lost`.
    """

    __slots__ = ()

    def get(self, timeout: float | None = None) -> Message:
        """The next message. Waits `timeout` seconds, then `TimeoutError`; None: until there is one.

        Raises `PeerDown` when the system is gone (the next `get` connects again, if it is back) and `Unavailable` when
        the subscription or its client has been closed.
        """
        return self._client.next_message(self, timeout)

    def try_get(self) -> Message | None:
        """The next message, or None if there is none now. Raises what `get` raises."""
        self._client.look_once()
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
        return self._client.unconfirmed(self.topic)

    def close(self) -> None:
        """Hear no more; what is already here can still be taken."""
        self._client.unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
