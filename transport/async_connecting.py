"""Async connecting: connects an async client and fetches its routing table; the twin of connecting.py, for an event loop."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from .connecting import FETCH_AGAIN_NS, FETCH_LIMIT_NS, LOOK_AGAIN_NS
from .errors import DeadlineExceeded, PeerDown, SystemNotRunning, Unavailable
from .session import ClientSession
from .ways import Way, is_back_soon, not_in_time

if TYPE_CHECKING:
    from .async_client import AsyncClient


class AsyncConnecting:
    """Part of an `AsyncClient`; runs in its event loop."""

    def __init__(self, client: "AsyncClient", way: Way, session: ClientSession, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._client = client
        self._way = way
        self._session = session
        #: The connection attempt and the fetch under way, for all tasks that wait for them.
        self._starting: asyncio.Future[None] | None = None
        self._fetching: asyncio.Future[None] | None = None
        #: When the routing table may be fetched again.
        self._fetch_again_ns = 0

    async def start(self, limit_ns: int) -> None:
        """Connect, unless connected; concurrent callers share one attempt."""
        if self._session.directory is not None:
            return
        try:
            await asyncio.shield(self._starting or self.open(limit_ns))
        except DeadlineExceeded as error:
            raise not_in_time(self._way, error) from error

    async def await_system(self, limit_ns: int) -> None:
        """As `Connecting.await_system`, without blocking the loop."""
        until_ns = self._now_ns() + limit_ns
        while True:
            left_ns = max(1, until_ns - self._now_ns())
            try:
                if self._way.is_remote:
                    await self.start_for_call(until_ns, is_patient=True)
                else:
                    await self._client.start(left_ns / 1e9)
                return
            except (SystemNotRunning, PeerDown):
                if self._now_ns() + LOOK_AGAIN_NS >= until_ns:
                    raise
            await asyncio.sleep(LOOK_AGAIN_NS / 1e9)

    async def start_for_call(self, until_ns: int, *, is_patient: bool) -> None:
        """Connect for a call, before its deadline. `is_patient`: as in `Connecting.start`."""
        while self._session.directory is None:
            left_s = max(1, until_ns - self._now_ns()) / 1e9
            try:
                await asyncio.wait_for(self._client.start(left_s), left_s)
            except TimeoutError:  # the start belongs to other tasks, which have more time
                raise not_in_time(self._way, DeadlineExceeded("no connection before the deadline")) from None
            except (Unavailable, PeerDown) as error:
                if self._client._is_closed or not (is_patient and is_back_soon(self._way, error)):
                    raise

    async def fetch(self, until_ns: int) -> None:
        """As `Connecting.fetch`, then adopt the table, before `until_ns`."""
        if self._fetching is None:
            if self._now_ns() < self._fetch_again_ns:
                return
            self._fetching = self._client._loop.create_future()
            self._fetching.add_done_callback(self._fetched)
            self._session.start(self._fetching, self._now_ns(), FETCH_LIMIT_NS)
            self._client._soon()
        await asyncio.wait((self._fetching,), timeout=max(0, until_ns - self._now_ns()) / 1e9)
        self._client._turn()

    def open(self, limit_ns: int) -> asyncio.Future[None]:
        """Begin to connect; the returned future ends when connected, or in an error."""
        self._client._watch(self._way.open())
        starting = self._starting = self._client._loop.create_future()
        starting.add_done_callback(self._started)
        self._session.start(starting, self._now_ns(), limit_ns)
        self._client._soon()
        return starting

    def _started(self, starting: asyncio.Future[None]) -> None:
        if self._starting is starting:
            self._starting = None
        if not starting.cancelled():
            starting.exception()  # tasks that await it raise it; if none does any more, it need not be reported

    def _fetched(self, fetching: asyncio.Future[None]) -> None:
        self._fetching, self._fetch_again_ns = None, self._now_ns() + FETCH_AGAIN_NS
        fetching.exception()  # a failed fetch is reported by the error for the route
