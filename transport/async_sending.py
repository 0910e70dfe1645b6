"""Async sending: an asyncio client's call with an argument that is sent item by item; the twin of `Calling.call_with_stream`.

The iterable is iterated in the task that awaits the call. When the call ends while an async iterable is awaited, this await is
cancelled, as by `asyncio.timeout`: the caller gets the answer, or the deadline, however long the next item would have taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from .argument_stream import ArgumentStream, close
from .call_spec import CallSpec
from .errors import BackplaneError
from .item_sender import ItemSender

if TYPE_CHECKING:
    from .async_client import AsyncClient

#: Items of an iterable that the event loop waits for together: packing them takes some 0.1 ms.
TOGETHER_MAX = 64


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
    items = aiter(stream.iterable) if stream.is_async else iter(stream.iterable)
    try:
        id = await client._begin_patiently(spec, sending)
        try:
            async with asyncio.timeout(None) as sending.scope:
                await _send(client, id, sending, items)
        except (
            BaseException
        ) as error:  # of the user's iterable, or the task is cancelled: nobody needs the answer any more
            if not sending.has_ended:
                client._take_back(id)
                raise
            if not isinstance(error, TimeoutError):  # else that of `end`
                raise
        finally:
            sending.scope = None
    finally:
        if not sending.sender.has_credit:
            pass  # it is untouched, and its user may use it for another call
        elif isinstance(items, AsyncGenerator):
            await items.aclose()
        elif not isinstance(items, AsyncIterator):
            close(items)
    if sending.error is not None:
        raise sending.error
    return sending.result


async def _send(
    client: AsyncClient, id: int, sending: AsyncSendingCall, items: Iterator[Any] | AsyncIterator[Any]
) -> None:
    sender, count = sending.sender, 0
    while await sending.has_room():
        if isinstance(items, AsyncIterator):
            try:
                packed, is_last = [sender.pack(await anext(items))], False
            except StopAsyncIteration:
                packed, is_last = [], True
        else:
            packed, is_last = sender.fetch(items, TOGETHER_MAX)
        if sending.has_ended:
            return
        sender.put(packed, is_last=is_last)
        client._session.send_items(id, sender)
        client._soon()
        count += len(packed)
        if count >= TOGETHER_MAX:
            count = 0
            await sending.give_way(client._loop)
