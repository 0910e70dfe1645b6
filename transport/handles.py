"""Handles: the objects that a blocking client gives to users: a call under way, and a subscription.

They hold received results (waitables.py); their client, which alone has the lock and the link, does the rest (calling.py).
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from .errors import BackplaneError, Unavailable
from .inbox import Message
from .operand import Operand
from .waitables import CallOutcome, ItemIterator, Stream


class PendingCall(CallOutcome, Operand):
    """A submitted call: ask it for the result, or give it to another call as an argument (docs/concepts/dataflow.md)."""

    __slots__ = ()

    def __repr__(self) -> str:
        state = "outstanding" if not self.is_ready else "done" if self._error is None else type(self._error).__name__
        return f"<PendingCall {self.route}: {state}>"

    def _owner(self) -> Any:
        return self._client

    def _outcome(self) -> tuple[bool, Any, BackplaneError | None]:
        return self.is_ready, self._result, self._error

    def _source(self) -> tuple[Any, int, str]:
        return self, self._id, self.route

    def result(self, timeout: float | None = None) -> Any:  # hot: scripts/bench call_pipelined
        """Wait for the result; raises the error in which the call ended.

        `timeout`: seconds to wait here; then `TimeoutError`, and the call goes on. None: wait until its own deadline.
        """
        if not self.is_ready or self._error is not None:
            error = self.exception(timeout)
            if error is not None:
                raise error
        return self._result

    def exception(self, timeout: float | None = None) -> BackplaneError | None:
        """Wait for the end of the call, as `result` does, and return its error; None: it ended in a result."""
        if not self.is_ready:
            try:
                if not self._client.wait_for(self, timeout):
                    raise TimeoutError(f"{self.route}: still outstanding after {timeout} s")
            finally:
                self._client.ended_spans.end()
        return self._error

    def done(self) -> bool:
        """Whether the call has ended. Polls the link, never waits."""
        if not self.is_ready:
            self._client.look_once()
            self._client.ended_spans.end()
        return self.is_ready

    def cancel(self) -> bool:
        """Cancel the call; it ends in `Cancelled`. Returns False if it had already ended. Work that has begun may run on."""
        try:
            return self._client.cancel(self)
        finally:
            self._client.ended_spans.end()


class ItemStream(ItemIterator):
    """The items of a stream, as an iterator; it can be read once. Dropping it ends the call, as `close` does."""

    __slots__ = ()

    def close(self) -> None:
        """End the stream: the callee's generator is closed at its next step. Closing twice is harmless."""
        self._items, self._at = [], 0
        self._client.drop(self._arrived)
        self._client.ended_spans.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._arrived._buffer.has_ended:
            self._client.drop_later(self._arrived)

    def __repr__(self) -> str:
        state = "ended" if self._arrived._buffer.has_ended else "open"
        return f"<ItemStream {self._arrived.route}: {state}>"


class Subscription(Stream):
    """Messages of one topic, as an iterator; close it, or use it in a `with`.

    Messages wait here up to a bound (inbox.py). `Message.lost` counts those lost beyond it, or on the way.
    """

    __slots__ = ()

    def get(self, timeout: float | None = None) -> Message:
        """Wait for the next message: `timeout` seconds, then `TimeoutError`; None: without limit.

        Raises `PeerDown` when the system is gone (the next `get` reconnects if the system is back) and `Unavailable` when the
        subscription or its client has been closed.
        """
        return self._client.next_message(self, timeout)

    def try_get(self) -> Message | None:
        """The next message, or None if none has arrived. Raises the errors of `get`."""
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
            if self._closed:  # by another thread, while this one waited
                raise StopIteration from None
            raise

    @property
    def lost_count(self) -> int:
        """Messages lost on the way, or dropped here because they were not taken in time."""
        return self._inbox.lost_count

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """Backplanes that have not confirmed the subscription (yet): messages published there may be missing."""
        return self._client.unconfirmed(self.topic)

    def close(self) -> None:
        """End the subscription; messages already received can still be taken."""
        self._client.unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
