"""Async client: the client of a running system for programs on asyncio; one event loop, no background thread.

The event loop watches the link's descriptor, which is edge-triggered. So a turn reads until the link is empty, or, for
fairness, leaves the rest to the loop's next iteration. Everything requested in one iteration leaves at its end, as one frame
per peer. All of this runs in the loop's thread. Cancelling a task cancels its call.
"""

import asyncio
import os
import random
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from . import call_checks, descriptors
from .async_connecting import AsyncConnecting
from .async_room import AsyncRoom
from .async_subscription import AsyncSubscription
from .call_spec import CallSpec
from .calling import CLOSE_TIMEOUT_S, CONNECT_TIMEOUT_S
from .descriptors import Descriptors, opening
from .directory import Directory
from .errors import Cancelled, FailedPrecondition, Unavailable, UnknownRoute
from .events import Ended, Events
from .retrying import RetryAccount, RetryBudget
from .session import FRAMES_MAX, ClientSession
from .topics import check_pattern
from .ways import Way, is_back_soon, is_remote, way_to


async def connect_async(
    target: str | os.PathLike[str], *, timeout: float | None = None, retry_budget: RetryBudget | None = None,
    keys: str | os.PathLike[str] | None = None,
) -> "AsyncClient":  # fmt: skip
    """Connect to a running system, on this host or another, from the running event loop.

    Parameters and errors are those of `connect`.
    """
    with opening(descriptors.CLIENT):
        if is_remote(target):  # a host name may have to be resolved
            way = await asyncio.to_thread(way_to, target, keys, time.monotonic_ns)
        else:
            way = way_to(target, keys, time.monotonic_ns)
    client = AsyncClient(way, retry_budget)
    try:
        if timeout is None:
            await client.start()
        else:
            await client._connecting.await_system(call_checks.duration_ns(timeout))
    except BaseException:
        await client.close()
        raise
    return client


class AsyncClient:
    """A connection to a system, made by `connect_async`. It belongs to its event loop, which keeps it alive until it is
    closed. After a fork, the child connects anew.
    """

    def __init__(self, way: Way, retry_budget: RetryBudget | None = None) -> None:
        self._way = way
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._link = way.link
        account = RetryAccount(retry_budget or RetryBudget(), time.monotonic_ns())
        self._session = ClientSession(self._link, way.place, account, random.random, way.home)
        self._connecting = AsyncConnecting(self, way, self._session, time.monotonic_ns)
        self._lifeline_fd = -1
        self._descriptors = Descriptors(f"async client of {way.system!r} {way.where}")
        self._room = AsyncRoom(self._session, self._loop, time.monotonic_ns)
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._is_closed = False
        self._loop.add_reader(self._link.fileno(), self._turn)

    async def start(self, timeout: float = CONNECT_TIMEOUT_S) -> None:
        """Connect, unless connected. `connect_async` has done so, and calls reconnect by themselves when the system is back."""
        self._expect_open()
        await self._connecting.start(call_checks.duration_ns(timeout))

    async def call(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None, retry: bool = True, **keywords: Any,
    ) -> Any:  # fmt: skip  # hot: scripts/bench call_rtt
        """Call an operation and await its result: `await client.call("query.search", text="asyncio", priority=0)`.

        Parameters and errors are those of `Client.call`. Cancelling the task cancels the call. Backpressure: with 4096 calls
        of this client outstanding, or 64 MiB of them, the call waits for room, at most `timeout` seconds, then raises `Busy`.
        The most urgent waiting call goes first, calls without a `priority` last.
        """
        self._expect_not_forked()
        spec = call_checks.asked(route, key, priority, timeout, arguments, keywords, idempotency_key, retry)
        spec.ends_ns = time.monotonic_ns() + spec.timeout_ns
        if self._session.directory is None:
            await self._connecting.start_for_call(spec.ends_ns, is_patient=spec.is_retried)
        if self._session.core.is_full:
            await self._room.wait(spec)
        try:
            id, future = self._begin(spec)
        except UnknownRoute:
            await self._connecting.fetch(spec.ends_ns)
            id, future = self._begin(spec)
        try:
            return await future
        except asyncio.CancelledError:
            self._take_back(id)
            raise

    def submit(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None, retry: bool = True, **keywords: Any,
    ) -> asyncio.Future[Any]:  # fmt: skip
        """Begin a call without awaiting it. The future ends in the result or the error; cancelling it cancels the call.

        `retry`: see `Client.submit`. Raises at once where `call` would wait: `Unavailable` while the system is gone, `Busy`
        if there is no room, `UnknownRoute` without fetching the routing table first.
        """
        self._expect_not_forked()
        spec = call_checks.asked(route, key, priority, timeout, arguments, keywords, idempotency_key, retry)
        spec.ends_ns = time.monotonic_ns() + spec.timeout_ns
        if self._session.core.is_full:
            raise self._session.no_room(route)
        id, future = self._begin(spec)
        future.add_done_callback(lambda ended: self._take_back(id) if ended.cancelled() else None)
        return future

    async def cast(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        arguments: Mapping[str, Any] | None = None, **keywords: Any,
    ) -> None:  # fmt: skip
        """Send a request without a reply. Raises only errors known at once, such as `UnknownRoute`."""
        spec = call_checks.asked(route, key, priority, CONNECT_TIMEOUT_S, arguments, keywords)
        await self.start()
        try:
            self._session.cast(spec)
        except UnknownRoute:
            await self._connecting.fetch(time.monotonic_ns() + spec.timeout_ns)
            self._expect_open()
            self._session.cast(spec)
        self._soon()

    async def publish(
        self, topic: str, /, *, priority: int | None = None, arguments: Mapping[str, Any] | None = None, **keywords: Any
    ) -> int:
        """As `Client.publish`."""
        call_checks.check(topic, None, priority)
        body = call_checks.body_of(topic, arguments, keywords)
        await self.start()
        self._soon()
        return self._session.publish(topic, priority, body)

    async def subscribe(self, topic: str, *, timeout: float = CONNECT_TIMEOUT_S) -> AsyncSubscription:
        """As `Client.subscribe`. `AsyncSubscription.unconfirmed` names the backplanes that have not confirmed in time."""
        check_pattern(topic)
        limit_ns = call_checks.duration_ns(timeout)
        await self.start(timeout)
        subscription = AsyncSubscription(self, topic)
        confirmed: asyncio.Future[None] = self._loop.create_future()
        try:
            if self._session.subscribe(topic, subscription, confirmed, time.monotonic_ns()):
                self._soon()
                await asyncio.wait((confirmed,), timeout=limit_ns / 1e9)
                if not confirmed.cancel():  # already done
                    confirmed.result()
        except BaseException:
            self._drop(subscription)
            raise
        return subscription

    async def directory(self) -> Directory:
        """The newest routing table: routes, topics, and the address of each backplane."""
        await self.start()
        self._turn()
        if self._session.directory is None:
            raise self._way.not_running()
        return self._session.directory

    async def close(self) -> None:
        """As `Client.close`."""
        if self._is_closed or self._pid != os.getpid():
            return  # in a forked copy, the link belongs to the parent
        try:
            await self._settle()
        finally:
            await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._way.system!r} {self._way.where}>"

    # -- steps --------------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        settled: asyncio.Future[None] = self._loop.create_future()
        if self._session.settle(settled, time.monotonic_ns(), call_checks.duration_ns(CLOSE_TIMEOUT_S)):
            self._soon()
            await asyncio.wait((settled,), timeout=CLOSE_TIMEOUT_S)

    async def _close(self) -> None:
        if self._is_closed:
            return  # by another task, while this one waited
        self._deliver(self._session.end_all(Cancelled("the client was closed")))
        self._is_closed = True
        self._room.close()
        self._loop.remove_reader(self._link.fileno())
        self._watch(None)
        self._descriptors.end()
        if self._timer is not None:
            self._timer.cancel()
        for subscription in self._session.hearing.subscribers():
            subscription._closed = True
            subscription._arrived.set()
        # Closing waits for sent frames to leave, which must not block the loop. Nothing else uses the link any more.
        await asyncio.shield(asyncio.to_thread(self._link.close))

    def _expect_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the client is closed")
        self._expect_not_forked()

    def _expect_not_forked(self) -> None:
        if self._pid != os.getpid():
            raise FailedPrecondition("a client does not survive a fork: connect again in the child")

    def _begin(self, spec: CallSpec) -> tuple[int, asyncio.Future[Any]]:  # hot: scripts/bench call_rtt
        self._expect_open()
        future: asyncio.Future[Any] = self._loop.create_future()
        try:
            id = self._session.call(future, spec)
        except Unavailable as error:
            id = self._session.call_later(error, future, time.monotonic_ns(), spec)
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)
        return id, future

    def _take_back(self, id: int) -> None:
        if not self._is_closed:
            self._session.cancel(id)
            self._soon()

    def _soon(self) -> None:
        """Run a turn at the end of this iteration of the event loop."""
        if not self._is_turn_due and not self._is_closed:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self, frames_max: int = FRAMES_MAX) -> None:  # hot: scripts/bench call_rtt
        self._is_turn_due = False
        if self._is_closed:
            return
        now_ns = time.monotonic_ns()
        self._deliver(self._session.turn(now_ns, frames_max))
        wake_ns = self._session.next_wake_ns(now_ns)
        if wake_ns is None:
            return
        if wake_ns <= now_ns:
            self._soon()
        elif self._timer is None or wake_ns < self._timer_ns:
            # One timer, for the nearest wake-up: setting one costs 2 us.
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ns = wake_ns
            # Measured from now, not from the start of the turn, which may have taken long (waiting.py).
            pause_ns = wake_ns - time.monotonic_ns()
            self._timer = self._loop.call_later(pause_ns / 1e9, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._turn()

    def _deliver(self, events: Events) -> None:  # hot: scripts/bench call_rtt
        done = 0
        try:
            for event in events:
                done += 1
                if isinstance(event, Ended):
                    self._room.let_in()
                    future: asyncio.Future[Any] = event.token
                    if future.done():
                        continue  # its task was cancelled
                    if event.error is None:
                        future.set_result(event.result)
                    else:
                        future.set_exception(event.error)
                else:
                    event.subscriber._inbox.put(event.message, event.size)
                    event.subscriber._arrived.set()
        finally:
            del events[:done]

    def _watch(self, lifeline_fd: int | None) -> None:
        if self._lifeline_fd >= 0:
            self._loop.remove_reader(self._lifeline_fd)
            self._descriptors.close(self._lifeline_fd)
        self._lifeline_fd = -1 if lifeline_fd is None else self._descriptors.note(lifeline_fd)
        if self._lifeline_fd >= 0:
            self._loop.add_reader(self._lifeline_fd, self._system_gone)

    def _system_gone(self) -> None:
        self._watch(None)
        self._turn(self._session.ahead_frames_max)  # its last frames
        error = self._way.gone()
        if self._session.system_gone(error, is_back_soon=is_back_soon(self._way, error)):
            self._connecting.open(call_checks.duration_ns(CONNECT_TIMEOUT_S))
        self._turn()
        for subscription in self._session.hearing.subscribers():
            subscription._error = error
            subscription._arrived.set()

    def _drop(self, subscription: AsyncSubscription) -> None:
        self._expect_not_forked()
        subscription._closed = True
        subscription._arrived.set()
        if not self._is_closed:
            self._session.unsubscribe(subscription.topic, subscription, time.monotonic_ns())
            self._soon()

    def _unconfirmed(self, topic: str) -> tuple[str, ...]:
        self._expect_not_forked()
        return tuple(self._session.hearing.unanswered(topic))
