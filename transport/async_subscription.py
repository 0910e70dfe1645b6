"""Async subscription: an async client's handle of one subscription; the twin of `handles.Subscription`."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from .errors import BackplaneError, Unavailable
from .inbox import Inbox, Message

if TYPE_CHECKING:
    from .async_client import AsyncClient


class AsyncSubscription:
    """Messages of one topic: `async for message in subscription`; close it, or use it in an `async with`. Bounded, and losses
    are counted, as in `Subscription`.
    """

    def __init__(self, client: "AsyncClient", topic: str) -> None:
        self.topic = topic
        self._client = client
        self._inbox = Inbox()
        self._error: BackplaneError | None = None
        self._closed = False
        self._arrived: asyncio.Event = asyncio.Event()

    async def get(self, timeout: float | None = None) -> Message:
        """As `Subscription.get`."""
        self._client._expect_not_forked()
        async with asyncio.timeout(timeout):
            while True:
                message = self._inbox.take()
                if message is not None:
                    return message
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                if self._closed:
                    raise Unavailable(f"the subscription to {self.topic!r} is closed")
                await self._client.start()
                self._arrived.clear()
                await self._arrived.wait()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.get()
        except Unavailable:
            if self._closed:
                raise StopAsyncIteration from None
            raise

    @property
    def lost_count(self) -> int:
        """Messages lost on the way, or dropped here because they were not taken in time."""
        return self._inbox.lost_count

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """Backplanes that have not confirmed the subscription (yet): messages published there may be missing."""
        return self._client._unconfirmed(self.topic)

    async def close(self) -> None:
        """End the subscription; messages already received can still be taken."""
        self._client._drop(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
