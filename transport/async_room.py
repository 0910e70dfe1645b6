"""Async room: the calls of an async client that wait until fewer are outstanding, the most urgent first."""

import asyncio
import heapq
import itertools
from collections.abc import Callable

from .call_spec import CallSpec
from .session import ClientSession

#: Stands for an unknown priority, that of the operation, while a call waits for room: behind all calls that name theirs.
PRIORITY_UNKNOWN = 256


class AsyncRoom:
    """Part of an `AsyncClient`; runs in its event loop."""

    def __init__(self, session: ClientSession, loop: asyncio.AbstractEventLoop, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._session = session
        self._loop = loop
        #: Waiting calls: (priority, sequence number, future), most urgent first.
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._turns = itertools.count()
        self._is_closed = False

    async def wait(self, spec: CallSpec) -> None:
        """Wait until there is room for a call, or the client is closed. Raises `Busy` at the deadline of the call."""
        while self._session.core.is_full and not self._is_closed:
            room: asyncio.Future[None] = self._loop.create_future()
            urgency = PRIORITY_UNKNOWN if spec.priority is None else spec.priority
            heapq.heappush(self._queue, (urgency, next(self._turns), room))
            try:
                await asyncio.wait_for(room, max(0, spec.ends_ns - self._now_ns()) / 1e9)
            except TimeoutError:
                raise self._session.no_room(spec.route) from None
            finally:
                if not self._is_closed:
                    self._loop.call_soon(self.let_in)  # there may be more room, or this task has just been cancelled

    def let_in(self) -> None:
        """Wake the most urgent waiting call, if there is room."""
        while self._queue and not self._session.core.is_full:
            room = heapq.heappop(self._queue)[2]
            if not room.done():
                room.set_result(None)
                return

    def close(self) -> None:
        """Wake all waiting calls: the client is closed."""
        self._is_closed = True
        for _, _, room in self._queue:
            if not room.done():
                room.set_result(None)
