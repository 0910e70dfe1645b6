"""Call stream: the items of a stream that an operation reads: `async for row in self.stream("query.rows")`.

The call is a `StreamRequest`, an instruction to the worker like any call (coroutines.py). It begins when the first item is
awaited. Awaiting it again waits for the next items; meanwhile the object is in the wait queue (law 6).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from appbackplane.transport.errors import BackplaneError, FailedPrecondition

from .coroutines import StreamRequest


class CallStream:
    """An async iterator over the items of one stream; it can be read once. Dropping it ends the call."""

    __slots__ = ("_at", "_drop", "_is_iterated", "_items", "_request")

    def __init__(self, request: StreamRequest, drop: Callable[[StreamRequest], None]) -> None:
        self._request = request
        self._drop = drop
        self._items: list[Any] = []
        self._at = 0
        self._is_iterated = False

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._is_iterated:
            raise FailedPrecondition(
                f"{self._request.spec.route}: a stream can be read once, and this one is being read; ask for a new one"
            )
        self._is_iterated = True
        return self

    async def __anext__(self) -> Any:
        if self._at == len(self._items):
            self._items, self._at = await self._next_items(), 0
        item, self._items[self._at] = self._items[self._at], None
        self._at += 1
        return item

    async def aclose(self) -> None:
        """End the stream: the callee's generator is closed at its next step. Closing twice is harmless."""
        self._items, self._at = [], 0
        self._end()

    def __del__(self) -> None:
        self._end()

    async def _next_items(self) -> list[Any]:
        buffer = self._request.buffer
        while True:
            has_ended = (
                buffer.has_ended
            )  # before `take`: another worker may bring the last items and the end between the two
            if (items := buffer.take()) is not None:
                return items
            if has_ended:
                if buffer.error is not None and self._request.action is not None:
                    self._request.action.received = buffer.error
                buffer.check_end()
                raise StopAsyncIteration
            try:
                await self._request
            except BackplaneError:  # refused, or this operation is cancelled
                self._end()
                raise

    def _end(self) -> None:
        if not self._request.buffer.has_ended:
            self._request.buffer.abandon()
            self._drop(self._request)
