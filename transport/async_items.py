"""Async items: the async iterator over the items of a stream, of an asyncio client (async_stream.py) and of an operation
(runtime/execution/outgoing/call_stream.py). It can be read once, and by one reader at a time.
"""

from collections.abc import AsyncIterator
from typing import Any

from .errors import FailedPrecondition


class AsyncItems:
    """Hands out items one by one. A subclass brings the next ones, and raises StopAsyncIteration at the end."""

    __slots__ = ("__weakref__", "_at", "_is_being_read", "_is_iterated", "_items", "_route")

    def __init__(self, route: str) -> None:
        self._route = route
        self._items: list[Any] = []
        self._at = 0
        self._is_iterated = self._is_being_read = False

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._is_iterated:
            raise FailedPrecondition(
                f"{self._route}: a stream can be read once, and this one is being read; ask for a new one"
            )
        self._is_iterated = True
        return self

    async def __anext__(self) -> Any:
        if self._at == len(self._items):
            if self._is_being_read:
                raise FailedPrecondition(f"{self._route}: the next item of this stream is awaited already")
            self._is_being_read = True
            try:
                self._items, self._at = await self._next_items(), 0
            finally:
                self._is_being_read = False
        item, self._items[self._at] = self._items[self._at], None
        self._at += 1
        return item

    async def aclose(self) -> None:
        """End the stream: the callee's generator is closed at its next step. Closing twice is harmless."""
        self._items, self._at = [], 0
        self._end()

    async def _next_items(self) -> list[Any]:
        """Wait for the next items."""
        raise NotImplementedError

    def _end(self) -> None:
        """Cancel the call, unless it has ended."""
        raise NotImplementedError
