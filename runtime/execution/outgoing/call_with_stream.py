"""Call with stream: a call of an operation with a streamed argument: `await self.call("index.load", rows=stream(rows))`.

The iterable is iterated in the action that awaits the call, as far as there is room. Between two slices the action awaits its
`SendingRequest` (coroutines.py): the items leave, and other work may run first. Without room the object is in the wait queue
(law 6). An async iterable may await calls of its own, such as the items of `self.stream(...)`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final

from appbackplane.transport.argument_stream import ArgumentStream, close, log_late
from appbackplane.transport.errors import Cancelled, DeadlineExceeded, FailedPrecondition

from ..actions.coroutines import SendingRequest
from ..actions.method_action import MethodAction
from ..workers.current import current

#: Causes of an exception that are looked at: users can make a circle of them (`raise error from error`).
CAUSES_MAX: Final = 32


class CallWithStream(Awaitable[Any]):
    """One such call; it begins when it is awaited."""

    __slots__ = ("_drop", "_is_awaited", "_items", "_request", "_stream")

    def __init__(self, request: SendingRequest, stream: ArgumentStream, drop: Callable[[SendingRequest], None]) -> None:
        """`drop`: cancels the call (`OutgoingCalls.leave`)."""
        self._request = request
        self._stream = stream
        self._drop = drop
        self._is_awaited = False
        #: The iterator; None: the operation that is called has not asked for items.
        self._items: Any = None

    @property
    def where(self) -> str:
        """The argument, for errors."""
        return f"{self._request.spec.route}: argument {self._request.spec.streamed!r}"

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._call().__await__()

    async def _call(self) -> Any:
        if self._is_awaited:
            raise FailedPrecondition(f"{self.where}: a call with a stream can be awaited once; make a new one")
        self._is_awaited = True
        request = self._request
        try:
            await self._send()
        except BaseException as error:  # of the iterable, or this operation is cancelled
            if not request.is_over:
                self._drop(request)  # nobody needs the answer any more
                raise
            self._raised_late(error)
        finally:
            await self._close()
        if request.error is not None:
            if request.action is not None:
                request.action.received = request.error
            raise request.error
        return request.result

    async def _send(self) -> None:
        """Iterate, as far as there is room, until the call has ended."""
        request, stream = self._request, self._stream
        await request
        if request.is_over:
            return  # the iterable is untouched, and its user may use it for another call
        self._items = items = aiter(stream.iterable) if stream.is_async else iter(stream.iterable)
        while not request.is_over:
            if stream.is_async:
                request.fetched, request.is_complete = await _next_of(items, request)
            else:
                request.fetched, request.is_complete = request.sender.fetch(items, stream.together_max)
            await request

    async def _close(self) -> None:
        """Close a generator that was not read to its end."""
        if not isinstance(self._items, AsyncGenerator):
            close(self._items, self._request.spec)
            return
        try:
            await self._items.aclose()
        except Exception as error:  # the edge: user code
            self._raised_late(error)

    def _raised_late(self, error: BaseException) -> None:
        """Log an exception of the iterable that came after the end of the call, whose answer its caller gets. The caller's own
        cancellation or deadline is raised, even if the iterable has turned it into something else.
        """
        if not isinstance(error, Exception):
            raise error
        action = current.action
        received = action.received if isinstance(action, MethodAction) else None
        cause: BaseException | None = error
        for _ in range(CAUSES_MAX):
            if cause is None:
                break
            is_own = (
                isinstance(cause, (Cancelled, DeadlineExceeded)) and cause is not received
            )  # else of a call that it made
            if is_own or (action is not None and cause is action.error):
                raise error
            cause = cause.__cause__ or cause.__context__
        log_late(self._request.spec, error)


async def _next_of(items: Any, request: SendingRequest) -> tuple[list[bytes], bool]:
    """As `ItemSender.fetch`, from an async iterator."""
    try:
        item = await anext(items)
    except StopAsyncIteration:
        return [], True
    return [request.sender.pack(item)], False
