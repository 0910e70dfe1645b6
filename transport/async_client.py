"""Async client: the client of a running system for programs on asyncio; one event loop, no background thread.

The event loop watches the link's descriptor, which is edge-triggered. So a turn reads until the link is empty, or, for
fairness, leaves the rest to the loop's next iteration. Everything requested in one iteration leaves at its end, as one frame
per peer. All of this runs in the loop's thread. Cancelling a task cancels its call.
"""

import asyncio
import heapq
import itertools
import os
import random
import sys
import time
from collections.abc import Mapping
from typing import Any, Self

from . import call_checks, client_spans, descriptors
from .argument_stream import take_stream
from .async_pending_call import AsyncPendingCall
from .async_sending import AsyncSendingCall, call_with_stream
from .async_stream import AsyncArrivedItems, AsyncItemStream
from .async_subscription import AsyncSubscription
from .call_spec import CallSpec
from .calling import CLOSE_TIMEOUT_S, CONNECT_TIMEOUT_S, FETCH_AGAIN_NS, FETCH_LIMIT_NS, LOOK_AGAIN_NS
from .dataflow import OperandSource
from .descriptors import Descriptors, opening
from .directory import Directory
from .errors import (
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    PeerDown,
    SystemNotRunning,
    Unavailable,
    UnknownRoute,
)
from .events import Credited, Ended, Events, Streamed
from .operand import Operand, refuse_operands, settle_operands
from .promise import Promise
from .retrying import RetryAccount, RetryBudget
from .session import FRAMES_MAX, ClientSession
from .topics import check_pattern
from .ways import Way, is_back_soon, is_remote, not_in_time, way_to

#: Sort key of a call without a priority of its own, while it waits for room: behind all calls that have one.
PRIORITY_UNKNOWN = 256


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
            await client._await_system(call_checks.duration_ns(timeout))
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
        #: The connection attempt and the fetch under way, for all tasks that wait for them.
        self._starting: asyncio.Future[None] | None = None
        self._fetching: asyncio.Future[None] | None = None
        #: When the routing table may be fetched again.
        self._fetch_again_ns = 0
        self._lifeline_fd = -1
        self._descriptors = Descriptors(f"async client of {way.system!r} {way.where}")
        #: Calls that wait until fewer are outstanding: (priority, sequence number, future), the most urgent first.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._turns = itertools.count()
        #: Of submitted calls that have not ended.
        self._spans: dict[asyncio.Future[Any], client_spans.ClientSpan] = {}
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._is_closed = False
        self._loop.add_reader(self._link.fileno(), self._turn)

    async def start(self, timeout: float = CONNECT_TIMEOUT_S) -> None:
        """Connect, unless connected. `connect_async` has done so, and calls reconnect by themselves when the system is back."""
        self._expect_open()
        limit_ns = call_checks.duration_ns(timeout)
        if self._session.directory is not None:
            return
        try:
            await asyncio.shield(self._starting or self._connect(limit_ns))  # concurrent callers share one attempt
        except DeadlineExceeded as error:
            raise not_in_time(self._way, error) from error

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
        if client_spans.SDK not in sys.modules:
            return await self.request(spec)
        with client_spans.spanned(spec):
            return await self.request(spec)

    async def request(self, spec: CallSpec) -> Any:  # hot: scripts/bench call_rtt
        """Make the call that a spec describes, and await its result. For gateways, which call on behalf of users: the spec's
        `principal` is believed if this process is a backplane of the system.
        """
        stream = take_stream(spec)
        if stream is not None:
            return await call_with_stream(self, spec, stream)
        future: asyncio.Future[Any] = self._loop.create_future()
        id = await self._begin_patiently(spec, future)
        try:
            return await future
        except asyncio.CancelledError:
            self._take_back(id)
            raise

    def stream(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        window: int = call_checks.WINDOW_DEFAULT, retry: bool = True, **keywords: Any,
    ) -> AsyncItemStream:  # fmt: skip
        """Call an operation that is a generator, and iterate over its items: `async for row in client.stream("query.rows")`.

        Parameters and errors are those of `Client.stream`. The call begins with the first item that is asked for.
        """
        spec = call_checks.asked(route, key, priority, timeout, arguments, keywords, None, retry)
        spec.window = call_checks.window_of(route, window)
        return AsyncItemStream(self, spec)

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
        future = AsyncPendingCall(self, self._loop, route)
        if client_spans.SDK in sys.modules:
            self._spans[future] = client_spans.ClientSpan(spec)
        try:
            id = self._begin(spec, future)
        except BaseException as error:
            self._end_span(future, error)
            raise
        future._call_id = id
        future.add_done_callback(lambda ended: self._taken_back(ended, id) if ended.cancelled() else None)
        return future

    def promise(self, name: str = "") -> Promise:
        """As `Client.promise`. It is used in the event loop's thread."""
        return Promise(self, name)

    async def cast(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        arguments: Mapping[str, Any] | None = None, **keywords: Any,
    ) -> None:  # fmt: skip
        """Send a request without a reply. Raises only errors known at once, such as `UnknownRoute`."""
        spec = call_checks.asked(route, key, priority, CONNECT_TIMEOUT_S, arguments, keywords)
        refuse_operands(spec, "cast()")
        if client_spans.SDK not in sys.modules:
            return await self._cast(spec)
        with client_spans.spanned(spec, is_cast=True):
            return await self._cast(spec)

    async def _cast(self, spec: CallSpec) -> None:
        await self.start()
        try:
            self._session.cast(spec, time.monotonic_ns())
        except UnknownRoute:
            await self._fetch(time.monotonic_ns() + spec.timeout_ns)
            self._expect_open()
            self._session.cast(spec, time.monotonic_ns())
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

    @property
    def refused_here_count(self) -> int:
        """As `Client.refused_here_count`."""
        return self._session.core.throttle.refused_count

    @property
    def known_directory(self) -> Directory | None:
        """The newest routing table that has come, without a look for a newer one; None: the system is not running."""
        return self._session.directory

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

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._way.system!r} {self._way.where}>"

    # -- connecting ---------------------------------------------------------------------------------------------------

    async def _await_system(self, limit_ns: int) -> None:
        """As `Calling.await_system`, without blocking the loop."""
        until_ns = time.monotonic_ns() + limit_ns
        while True:
            left_ns = max(1, until_ns - time.monotonic_ns())
            try:
                if self._way.is_remote:
                    await self._start_for_call(until_ns, is_patient=True)
                else:
                    await self.start(left_ns / 1e9)
                return
            except (SystemNotRunning, PeerDown):
                if time.monotonic_ns() + LOOK_AGAIN_NS >= until_ns:
                    raise
            await asyncio.sleep(LOOK_AGAIN_NS / 1e9)

    async def _start_for_call(self, until_ns: int, *, is_patient: bool) -> None:
        """Connect for a call, before its deadline. `is_patient`: as in `Calling._connect`."""
        while self._session.directory is None:
            left_s = max(1, until_ns - time.monotonic_ns()) / 1e9
            try:
                await asyncio.wait_for(self.start(left_s), left_s)
            except TimeoutError:  # the start belongs to other tasks, which have more time
                raise not_in_time(self._way, DeadlineExceeded("no connection before the deadline")) from None
            except (Unavailable, PeerDown) as error:
                if self._is_closed or not (is_patient and is_back_soon(self._way, error)):
                    raise

    async def _fetch(self, until_ns: int) -> None:
        """As `Calling._fetch`, then adopt the table, before `until_ns`."""
        if self._fetching is None:
            if time.monotonic_ns() < self._fetch_again_ns:
                return
            self._fetching = self._loop.create_future()
            self._fetching.add_done_callback(self._fetched)
            self._session.start(self._fetching, time.monotonic_ns(), FETCH_LIMIT_NS)
            self._soon()
        await asyncio.wait((self._fetching,), timeout=max(0, until_ns - time.monotonic_ns()) / 1e9)
        self._turn()

    def _connect(self, limit_ns: int) -> asyncio.Future[None]:
        """Begin to connect; the returned future ends when connected, or in an error."""
        self._watch(self._way.open())
        starting = self._starting = self._loop.create_future()
        starting.add_done_callback(self._started)
        self._session.start(starting, time.monotonic_ns(), limit_ns)
        self._soon()
        return starting

    def _started(self, starting: asyncio.Future[None]) -> None:
        if self._starting is starting:
            self._starting = None
        if not starting.cancelled():
            starting.exception()  # tasks that await it raise it; if none does any more, it need not be reported

    def _fetched(self, fetching: asyncio.Future[None]) -> None:
        self._fetching, self._fetch_again_ns = None, time.monotonic_ns() + FETCH_AGAIN_NS
        fetching.exception()  # a failed fetch is reported by the error for the route

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
        for _, _, room in self._waiting:
            if not room.done():
                room.set_result(None)
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

    async def _wait_for_room(self, spec: CallSpec) -> None:
        """Wait until there is room for a call, or the client is closed. Raises `Busy` at the deadline of the call."""
        while self._session.core.is_full and not self._is_closed:
            room: asyncio.Future[None] = self._loop.create_future()
            urgency = PRIORITY_UNKNOWN if spec.priority is None else spec.priority
            heapq.heappush(self._waiting, (urgency, next(self._turns), room))
            try:
                await asyncio.wait_for(room, max(0, spec.ends_ns - time.monotonic_ns()) / 1e9)
            except TimeoutError:
                raise self._session.no_room(spec.route) from None
            finally:
                if not self._is_closed:
                    self._loop.call_soon(self._let_in)  # there may be more room, or this task has just been cancelled

    def _let_in(self) -> None:
        """Wake the most urgent call that waits for room, if there is some."""
        while self._waiting and not self._session.core.is_full:
            room = heapq.heappop(self._waiting)[2]
            if not room.done():
                room.set_result(None)
                return

    async def _begin_patiently(self, spec: CallSpec, token: object) -> int:  # hot: scripts/bench call_rtt
        """Begin a call; wait for the system, and for room, if necessary. Returns its id."""
        spec.ends_ns = time.monotonic_ns() + spec.timeout_ns
        if self._session.directory is None:
            await self._start_for_call(spec.ends_ns, is_patient=spec.is_retried)
        if self._session.core.is_full:
            await self._wait_for_room(spec)
        try:
            return self._begin(spec, token)
        except UnknownRoute:
            await self._fetch(spec.ends_ns)
            return self._begin(spec, token)

    def _begin(self, spec: CallSpec, token: object) -> int:  # hot: scripts/bench call_rtt
        self._expect_open()
        if spec.operands is not None:
            self._deliver(self._session.events)  # one may have ended since the last turn
            settle_operands(spec, self)
        try:
            id = self._session.call(token, spec, time.monotonic_ns())
        except Unavailable as error:
            id = self._session.call_later(error, token, time.monotonic_ns(), spec)
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)
        return id

    # -- requests of promises (promise.py) ------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._is_closed

    def fill(self, promise: OperandSource, value: Any) -> None:
        """Assign a promise of this client."""
        self._expect_open()
        self._session.fill(promise, value, time.monotonic_ns())
        self._soon()

    def follow(self, promise: OperandSource, operand: Operand) -> None:
        """Let an operand assign a promise of this client."""
        self._expect_open()
        self._deliver(self._session.events)
        self._session.follow(promise, operand, self, time.monotonic_ns())
        self._soon()

    def drop_promise(self, promise: OperandSource) -> None:
        """A promise was dropped, perhaps by the garbage collector in another thread."""
        if not self._is_closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drop_promise, promise)

    def _drop_promise(self, promise: OperandSource) -> None:
        if not self._is_closed:
            self._session.drop_promise(promise)
            self._soon()

    async def _begin_stream(self, of: AsyncArrivedItems, spec: CallSpec) -> None:
        if client_spans.SDK in sys.modules:
            of.span = client_spans.ClientSpan(spec)
        try:
            of.id = await self._begin_patiently(spec, of)
        except BaseException as error:
            of.buffer.abandon()
            of.end_span(error)
            raise
        if of.buffer.has_ended:  # closed by another task meanwhile
            self._take_back(of.id)

    def _give_credit(self, id: int, credit: int) -> bool:
        self._soon()
        return not self._is_closed and self._session.give_credit(id, credit)

    def _drop_stream(self, of: AsyncArrivedItems) -> None:
        if not of.buffer.has_ended:
            self._take_back(of.id)
        of.buffer.abandon()
        of.arrived.set()

    def _taken_back(self, future: "asyncio.Future[Any]", id: int) -> None:
        self._end_span(future, Cancelled("cancelled by the caller"))
        self._take_back(id)

    def _end_span(self, future: "asyncio.Future[Any]", error: BaseException | None) -> None:
        span = self._spans.pop(future, None)
        if span is not None:
            span.end(error)

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
                    self._let_in()
                    if isinstance(event.token, AsyncArrivedItems):
                        if event.error is None:
                            event.token.buffer.end(event.result)
                        else:
                            event.token.buffer.end_in(event.error)
                        event.token.arrived.set()
                        event.token.end_span(event.error)
                        continue
                    if isinstance(event.token, AsyncSendingCall):
                        event.token.end(event.result, event.error)
                        continue
                    future: asyncio.Future[Any] = event.token
                    if future.done():
                        continue  # its task was cancelled
                    if self._spans:
                        self._end_span(future, event.error)
                    if event.error is None:
                        future.set_result(event.result)
                    else:
                        future.set_exception(event.error)
                elif isinstance(event, Streamed):
                    if not event.token.buffer.put(event.items, event.number, event.is_blocked):
                        self._take_back(event.token.id)
                    event.token.arrived.set()
                elif isinstance(event, Credited):
                    event.token.sender.receive_credit(event.credit)
                    event.token.changed.set()
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
            self._connect(call_checks.duration_ns(CONNECT_TIMEOUT_S))
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
