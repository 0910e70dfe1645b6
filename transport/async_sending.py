"""Async sending: an asyncio client's call with an argument that is sent item by item; the twin of `Calling.call_with_stream`.

The iterable is iterated in the task that awaits the call. When the call ends while an async iterable is awaited, this await is
cancelled, as by `asyncio.timeout`: the caller gets the answer, or the deadline, however long the next item would have taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from .argument_stream import ArgumentStream, close, log_late
from .call_spec import CallSpec
from .errors import BackplaneError
from .item_sender import ItemSender

if TYPE_CHECKING:
    from .async_client import AsyncClient

#: Items of an iterable that the event loop waits for together: packing them takes some 0.1 ms.
TOGETHER_MAX = 64
#: No step of an iterator begins later than this after the first: other tasks, and the items fetched so far, wait meanwhile.
FETCH_S = 0.001


class AsyncSendingCall:
    """What the client keeps of such a call until it has ended."""

    def __init__(self, sender: ItemSender) -> None:
        self.sender = sender
        #: Set when there is room for more items, and at the end.
        self.changed = asyncio.Event()
        self.has_ended = False
        self.result: Any = None
        self.error: BackplaneError | None = None
        #: Around the iteration, which must not outlast the call.
        self.scope: asyncio.Timeout | None = None

    def end(self, result: Any, error: BackplaneError | None) -> None:
        """The call has ended."""
        self.has_ended, self.result, self.error = True, result, error
        self.changed.set()
        if self.scope is not None:
            self.scope.reschedule(asyncio.get_running_loop().time())

    async def has_room(self) -> bool:
        """Wait until one more item may be sent. False: the call has ended."""
        while not self.has_ended and not self.sender.has_room():
            self.changed.clear()
            await self.changed.wait()
        return not self.has_ended

    async def give_way(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let other tasks run, and the client send."""
        self.changed.clear()
        loop.call_soon(self.changed.set)
        await self.changed.wait()


async def call_with_stream(client: AsyncClient, spec: CallSpec, stream: ArgumentStream) -> Any:
    """Call, and iterate over the stream meanwhile, as far as there is room."""
    sending = AsyncSendingCall(ItemSender(spec, stream.window))
    iteration = _Iteration(spec, stream)
    try:
        id = await client._begin_patiently(spec, sending)
        try:
            async with asyncio.timeout(None) as sending.scope:
                await _send(client, id, sending, iteration)
        except BaseException as error:  # of the user's iterable, or of `end`, or the task is cancelled
            if not sending.has_ended:
                client._take_back(id)  # nobody needs the answer any more
                raise
            iteration.raised_late(error, is_expected=isinstance(error, TimeoutError))
        finally:
            sending.scope = None
    finally:
        await iteration.close()
    if sending.error is not None:
        raise sending.error
    return sending.result


class _Iteration:
    """The user's iterable, iterated over in the task that awaits the call."""

    def __init__(self, spec: CallSpec, stream: ArgumentStream) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        #: How often the task has been asked to cancel. If that grows, somebody beside this call wants it to end.
        self._cancelling_count = task.cancelling()
        self._spec = spec
        self._stream = stream
        #: None: it is untouched, and its user may use it for another call.
        self._items: Any = None

    def begin(self) -> None:
        """The operation has asked for items."""
        if self._items is None:
            iterable = self._stream.iterable
            self._items = aiter(iterable) if self._stream.is_async else iter(iterable)

    async def fetch(self, sender: ItemSender, is_late: Callable[[], bool]) -> tuple[list[bytes], bool]:
        """As `ItemSender.fetch`: one item of an async iterable; or several, for which the event loop stands still."""
        if not self._stream.is_async:
            return sender.fetch(self._items, TOGETHER_MAX, is_late)
        try:
            return [sender.pack(await anext(self._items))], False
        except StopAsyncIteration:
            return [], True

    async def close(self) -> None:
        """Close a generator that was not read to its end."""
        if not isinstance(self._items, AsyncGenerator):
            close(self._items, self._spec)
            return
        try:
            await self._items.aclose()
        except Exception as error:  # the edge: user code
            self.raised_late(error)

    def raised_late(self, error: BaseException, *, is_expected: bool = False) -> None:
        """Log an exception that came after the end of the call, whose answer its caller gets. A cancellation of the task, even
        if the iterable has turned it into something else, and the end of the program are raised.
        """
        if not isinstance(error, Exception):
            raise error
        if self._task.cancelling() > self._cancelling_count:
            raise asyncio.CancelledError from error
        if not is_expected:
            log_late(self._spec, error)


async def _send(client: AsyncClient, id: int, sending: AsyncSendingCall, iteration: _Iteration) -> None:
    sender, loop, count = sending.sender, client._loop, 0
    until_s = 0.0

    def is_late() -> bool:
        return loop.time() >= until_s

    while await sending.has_room():
        iteration.begin()
        if not count:
            until_s = loop.time() + FETCH_S
        packed, is_last = await iteration.fetch(sender, is_late)
        if sending.has_ended:
            return
        sender.put(packed, is_last=is_last)
        client._session.send_items(id, sender)
        client._soon()
        count += len(packed)
        if count >= TOGETHER_MAX or is_late():
            count = 0
            await sending.give_way(loop)
