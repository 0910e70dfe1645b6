"""Call stream: the items of a stream that an operation reads: `async for row in self.stream("query.rows")`.

The call is a `StreamRequest`, an instruction to the worker like any call (coroutines.py). It begins when the first item is
awaited. Awaiting it again waits for the next items; meanwhile the object is in the wait queue (law 6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appbackplane.transport.async_items import AsyncItems
from appbackplane.transport.errors import BackplaneError

from ..actions.coroutines import StreamRequest


class CallStream(AsyncItems):
    """An async iterator over the items of one stream. Dropping it ends the call."""

    __slots__ = ("_drop", "_request")

    def __init__(self, request: StreamRequest, drop: Callable[[StreamRequest], None]) -> None:
        super().__init__(request.spec.route)
        self._request = request
        self._drop = drop

    def __del__(self) -> None:
        self._end()

    async def _next_items(self) -> list[Any]:
        buffer = self._request.buffer
        while True:
            # Before `take`: another worker may bring the last items and the end between the two.
            has_ended = buffer.has_ended
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
