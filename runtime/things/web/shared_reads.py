"""Shared reads: reads of one property that arrive while it is being read share the next call.

As with group commit, a shared call begins after all of its reads have come, so none of them gets an older value than a call of
its own would bring. A read of a property that nobody reads is a call at once. Beside an action that computes, each call takes
the interpreter lock from that action; so of many readers of one property, only some calls a second reach the thing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

#: Most seconds after an answer in which its readers may ask again, before the next call; it begins sooner if as many wait as
#: there were. Without it the first of them would be a call by itself, and sixteen readers two calls a round.
GAP_S: Final = 0.0015
#: Most seconds between the beginnings of two calls while reads wait: a thing that is busy for longer answers with a later one.
STALLED_S: Final = 0.005

Call = Callable[[], Awaitable[bytes]]


class SharedReads:
    """The reads under way. Used by one event loop."""

    def __init__(self) -> None:
        #: By property, while it is being read: the reads that wait for the next call. Bounded by the connections.
        self._next: dict[Hashable, _Batch] = {}

    async def read(self, key: Hashable, call: Call) -> bytes:
        """The value that `call` brings, or that of a reader with the same `key` whose call begins after this read has come.

        Raises what the call raises. A call ends when all of its readers have gone. Sharing delays a read by `STALLED_S`.
        """
        loop = asyncio.get_running_loop()
        batch = self._next.get(key)
        if batch is None:
            batch = self._next[key] = _Batch(loop.time() + STALLED_S)
            try:
                return await call()
            finally:
                self._ended(key, batch, readers_count=1)
        reader: asyncio.Future[bytes] = loop.create_future()
        batch.call = batch.call or call
        if batch.timer is None:
            batch.timer = loop.call_at(batch.latest_s, self._begin, key, batch)
        batch.readers.append(reader)
        batch.waiting_count += 1
        if batch.waiting_count == batch.enough:
            self._begin(key, batch)
        try:
            return await reader
        finally:
            batch.leave()

    def _ended(self, key: Hashable, batch: _Batch, *, readers_count: int) -> None:
        """The call before this batch has ended, of so many readers."""
        if self._next.get(key) is not batch:
            return  # that call took long, and the batch has begun
        if batch.timer is not None:
            batch.timer.cancel()
        if readers_count == 1 and not batch.waiting_count:
            del self._next[key]  # the next read is a call at once
            return
        batch.enough = readers_count + batch.waiting_count
        batch.timer = asyncio.get_running_loop().call_later(GAP_S, self._begin, key, batch)

    def _begin(self, key: Hashable, batch: _Batch) -> None:
        """Make the call of a batch, if anybody waits for it."""
        if batch.timer is not None:
            batch.timer.cancel()
        if not batch.waiting_count or batch.call is None:
            del self._next[key]
            return
        following = self._next[key] = _Batch(asyncio.get_running_loop().time() + STALLED_S)
        task = batch.task = asyncio.ensure_future(batch.call())

        def ended(_: object) -> None:
            batch.tell(task)
            self._ended(key, following, readers_count=len(batch.readers))

        task.add_done_callback(ended)


class _Batch:
    """Reads that share a call, which begins at `latest_s` of the loop's clock, or before."""

    __slots__ = ("call", "enough", "latest_s", "readers", "task", "timer", "waiting_count")

    def __init__(self, latest_s: float) -> None:
        self.latest_s = latest_s
        self.timer: asyncio.TimerHandle | None = None
        self.call: Call | None = None
        #: Those that have gone are done.
        self.readers: list[asyncio.Future[bytes]] = []
        self.waiting_count = 0
        #: How many readers there were when the call before ended; 0: it has not.
        self.enough = 0
        self.task: asyncio.Future[bytes] | None = None

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
