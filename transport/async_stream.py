"""Async stream: an async client's stream of items; the twin of `handles.ItemStream`."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .async_items import AsyncItems
from .call_spec import CallSpec
from .client_spans import ClientSpan
from .item_buffer import ItemBuffer

if TYPE_CHECKING:
    from .async_client import AsyncClient


class AsyncArrivedItems:
    """What the client keeps of a stream until it has ended. The user's iterator is another object: dropping it is noticed."""

    def __init__(self, route: str, window: int) -> None:
        self.buffer = ItemBuffer(route, window)
        self.arrived = asyncio.Event()
        #: The id of the call; 0 until it has begun.
        self.id = 0
        #: Its span in the trace of the program; None: the program has none.
        self.span: ClientSpan | None = None

    def end_span(self, error: BaseException | None) -> None:
        """The call has ended, or could not begin."""
        if self.span is not None:
            self.span.end(error)


class AsyncItemStream(AsyncItems):
    """The items of a stream: `async for row in client.stream("query.rows")`. It begins with the first item asked for.

    It can be read once. Dropping it, or leaving the loop, ends the call as `aclose` does.
    """

    def __init__(self, client: "AsyncClient", spec: CallSpec) -> None:
        assert spec.window is not None
        super().__init__(spec.route)
        self._client = client
        self._spec = spec
        self._of = AsyncArrivedItems(spec.route, spec.window)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._of.id and not self._of.buffer.has_ended:
            with suppress(RuntimeError):  # the loop is closed, and with it the client
                self._client._loop.call_soon_threadsafe(self._client._drop_stream, self._of)

    def __repr__(self) -> str:
        state = "ended" if self._of.buffer.has_ended else "open" if self._of.id else "not begun"
        return f"<AsyncItemStream {self._route}: {state}>"

    async def _next_items(self) -> list[Any]:
        of, buffer = self._of, self._of.buffer
        if not of.id and not buffer.has_ended:
            await self._client._begin_stream(of, self._spec)
        while True:
            self._client._expect_not_forked()
            if (credit := buffer.credit_due()) and self._client._give_credit(of.id, credit):
                buffer.gave(credit)
            if (items := buffer.take()) is not None:
                return items
            buffer.check_end()
            if buffer.has_ended:
                raise StopAsyncIteration
            of.arrived.clear()
            await of.arrived.wait()

    def _end(self) -> None:
        if self._of.id:
            self._client._drop_stream(self._of)
        else:
            self._of.buffer.abandon()
