"""Shared reads: reads of one property that arrive while it is being read share the next call.

As with group commit, a shared call begins after all of its reads have come, so none of them gets an older value than a call of
its own would bring. A read of a property that nobody reads is a call at once. Beside a computing action every call takes the
interpreter lock from that action, so with sixteen readers the thing's process is disturbed by one call instead of sixteen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

#: Most seconds that a read waits for the call before it, and so what sharing may cost it. A call takes 0.3 ms, and one to a
#: process that computes 1 to 3 ms: in the former case sharing ends with the call before, in the latter with this time.
SHARE_S: Final = 0.001

Call = Callable[[], Awaitable[bytes]]


class SharedReads:
    """The reads under way. Used by one event loop."""

    def __init__(self) -> None:
        #: By property, while it is being read: the reads that wait for the next call.
        self._next: dict[Hashable, _Batch] = {}

    async def read(self, key: Hashable, call: Call) -> bytes:
        """The value that `call` brings, or that of a reader with the same `key` whose call begins after this read has come.

        Raises what the call raises. A call ends when all of its readers have gone.
        """
        batch = self._next.get(key)
        if batch is None:
            batch = self._next[key] = _Batch()
            try:
                return await call()
            finally:
                self._begin(key, batch)
        loop = asyncio.get_running_loop()
        reader: asyncio.Future[bytes] = loop.create_future()
        if not batch.readers:
            batch.call = call
            batch.timer = loop.call_later(SHARE_S, self._begin, key, batch)
        batch.readers.append(reader)
        batch.waiting_count += 1
        try:
            return await reader
        finally:
            batch.leave()

    def _begin(self, key: Hashable, batch: _Batch) -> None:
        """The call before this batch has ended, or takes long: make the next, if anybody waits for it."""
        if self._next.get(key) is not batch:
            return  # it has begun
        if batch.timer is not None:
            batch.timer.cancel()
        if not batch.waiting_count or batch.call is None:
            del self._next[key]
            return
        following = self._next[key] = _Batch()
        task = batch.task = asyncio.ensure_future(batch.call())

        def ended(_: object) -> None:
            batch.tell(task)
            self._begin(key, following)

        task.add_done_callback(ended)


class _Batch:
    """Reads that share a call."""

    __slots__ = ("call", "readers", "task", "timer", "waiting_count")

    def __init__(self) -> None:
        self.call: Call | None = None
        #: Those that have gone are done.
        self.readers: list[asyncio.Future[bytes]] = []
        self.waiting_count = 0
        self.task: asyncio.Future[bytes] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def leave(self) -> None:
        """A reader has its value, or has gone. Without any, the call is taken back."""
        self.waiting_count -= 1
        if not self.waiting_count and self.task is not None:
            self.task.cancel()

    def tell(self, task: asyncio.Future[bytes]) -> None:
        """The call has ended."""
        for reader in self.readers:
            if reader.done():
                continue
            if task.cancelled():
                reader.cancel()
            elif (error := task.exception()) is not None:
                reader.set_exception(error)
            else:
                reader.set_result(task.result())
        if not task.cancelled():
            task.exception()  # retrieved, also if all readers have gone
