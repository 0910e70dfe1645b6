"""Call with stream: a call of an operation with a streamed argument: `await self.call("index.load", rows=stream(rows))`.

The iterable is iterated in the action that awaits the call, as far as there is room. Between two slices the action awaits its
`SendingRequest` (coroutines.py): the items leave, and other work may run first. Without room the object is in the wait queue
(law 6). An async iterable may await calls of its own, such as the items of `self.stream(...)`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from typing import Any

from appbackplane.transport.argument_stream import ArgumentStream, close

from ..actions.coroutines import SendingRequest


class CallWithStream(Awaitable[Any]):
    """One such call; it begins when it is awaited."""

    __slots__ = ("_drop", "_request", "_stream")

    def __init__(self, request: SendingRequest, stream: ArgumentStream, drop: Callable[[SendingRequest], None]) -> None:
        """`drop`: cancels the call (`OutgoingCalls.leave`)."""
        self._request = request
        self._stream = stream
        self._drop = drop

    @property
    def where(self) -> str:
        """The argument, for errors."""
        return f"{self._request.spec.route}: argument {self._request.spec.streamed!r}"

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._call().__await__()

    async def _call(self) -> Any:
        request, stream = self._request, self._stream
        sender = request.sender
        items = aiter(stream.iterable) if stream.is_async else iter(stream.iterable)
        try:
            await request
            while not request.is_over:
                if isinstance(items, AsyncIterator):
                    request.fetched, request.is_complete = await _next_of(items, request)
                else:
                    request.fetched, request.is_complete = sender.fetch(items, stream.together_max)
                await request
        except BaseException:  # of the iterable, or this operation is cancelled: nobody needs the answer any more
            if not request.is_over:
                self._drop(request)
            raise
        finally:
            if not sender.has_credit:
                pass  # it is untouched, and its user may use it for another call
            elif isinstance(items, AsyncGenerator):
                await items.aclose()
            elif not isinstance(items, AsyncIterator):
                close(items, request.spec)
        if request.error is not None:
            if request.action is not None:
                request.action.received = request.error
            raise request.error
        return request.result


async def _next_of(items: AsyncIterator[Any], request: SendingRequest) -> tuple[list[bytes], bool]:
    """As `ItemSender.fetch`, from an async iterator."""
    try:
        item = await anext(items)
    except StopAsyncIteration:
        return [], True
    return [request.sender.pack(item)], False
