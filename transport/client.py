"""Client: a program's way into a running system, blocking and for any number of threads.

`connect("codesearch")` finds the system, fetches its directory and is ready; from then on every call goes straight to
the backplane that serves it. No background thread: whoever waits looks after the link for all (waiting.py), so nothing
runs in a program that is doing something else. What the session decides, this does. A call costs about 20 us on top of
the two processes' system calls (scripts/bench call_rtt).
"""

import os
import secrets
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from . import request
from .directory import Directory
from .discovery import Location, locate
from .errors import Busy, Cancelled, DeadlineExceeded, FailedPrecondition, PeerDown, Unavailable, UnknownRoute
from .handles import PendingCall, Subscription
from .inbox import Message
from .lifeline import open_lifeline
from .link import Link
from .session import ClientSession, Ended, Events
from .topics import check_pattern
from .waiting import Waitable, Waiting

#: How long `connect` waits for the directory, and `subscribe` for the backplanes.
CONNECT_TIMEOUT_S = 5.0
#: How long `close` waits for proof that what was cast and published has arrived: a living peer needs a millisecond.
CLOSE_TIMEOUT_S = 1.0
#: A client that has not looked for so long looks before it speaks: its directory may be old, or the system gone.
IDLE_NS = 20_000_000
#: In a burst of submits, each within so long of the one before, the first ones leave at once, as long as few are outstanding;
#: then the callees have work in hand, and further ones gather, up to so many a frame, or until anybody waits or looks.
BURST_GAP_NS, BURST_EAGER, GATHER_MAX = 20_000, 64, 64


def connect(target: str | os.PathLike[str], *, timeout: float = CONNECT_TIMEOUT_S) -> "Client":
    """A client of a running system, by its name, its run directory or its TOML.

    Raises `SystemNotRunning` at once, `DeadlineExceeded` when its supervisor does not answer within `timeout` seconds.
    """
    client = Client(locate(target))
    try:
        client.start(timeout)
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A connection to a system. Made by `connect`; any thread may use it; not to be used after a fork."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._pid = os.getpid()
        self._link = Link(f"client/{self._pid}-{secrets.token_hex(8)}")
        self._session = ClientSession(self._link, location.supervisor)
        self._waiting = Waiting(self._link.fileno(), self._look, self._system_gone)
        self._subscriptions: set[Subscription] = set()
        self._room = Waitable()
        self._looked_ns = 0
        self._submitted_ns = 0
        self._burst_count = 0
        self._is_closed = False

    def start(self, timeout: float = CONNECT_TIMEOUT_S) -> None:
        """Connect, unless connected: `connect` has done it, and a call does it when the system was gone and is back."""
        limit_ns = request.duration_ns(timeout)
        with self._waiting.lock:
            self._expect_open()
            if self._session.directory is None:
                self._start(limit_ns)

    def call(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = request.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None, **keywords: Any,
    ) -> Any:  # fmt: skip  # hot: scripts/bench call_rtt
        """Call an operation and wait for its result: `client.call("query.search", text="asyncio", priority=0)`.

        key: the object to ask, by its key; None: the least busy one that serves the route.
        priority: 0 is highest; None: the one that the operation declares.
        timeout: seconds until the call ends in `DeadlineExceeded`, here and where it runs.
        arguments: more arguments, for names that clash with these keywords.

        Raises the `BackplaneError` in which it ended: `UnknownRoute`, `InvalidArgument`, `Busy` (with `retry_after`),
        `Unavailable`, `DeadlineExceeded`, `PeerDown`, or `InternalError` when the operation raised.
        """
        pending = PendingCall(self, route)
        with self._waiting.lock:
            self._begin(pending, key, priority, timeout, arguments, keywords)
            try:
                if not self._waiting.wait(pending, pending._ends_ns):
                    self._end_lost(pending)
            except BaseException:  # Ctrl-C: nobody wants the answer any more
                self._session.cancel(pending._id)
                self._look(time.monotonic_ns())
                raise
        if pending._error is not None:
            raise pending._error
        return pending._result

    def submit(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = request.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None, **keywords: Any,
    ) -> PendingCall:  # fmt: skip  # hot: scripts/bench call_pipelined
        """Begin a call, as `call` does, and do not wait: ask what is returned for the result.

        With 4096 calls of this client outstanding, or 64 MiB of them, it waits until there is room, at most `timeout`
        seconds, and then raises `Busy`: a program that submits faster than it is served is slowed. `call` never waits for
        room, so that another thread's urgent call passes.

        It leaves at once; but in an unbroken burst, from the 65th on or with more than 64 outstanding, calls gather and leave
        together, 64 at a time, or as soon as anybody waits or looks (`result`, `done`, `call`, …), or by `flush()`.
        """
        pending = PendingCall(self, route)
        with self._waiting.lock:
            if self._session.is_full:
                self._wait_for_room(route, request.duration_ns(timeout))
            self._begin(pending, key, priority, timeout, arguments, keywords)
            session, now_ns = self._session, time.monotonic_ns()
            is_burst = now_ns - self._submitted_ns < BURST_GAP_NS
            self._burst_count = self._burst_count + 1 if is_burst else 1
            if (
                not is_burst
                or (self._burst_count <= BURST_EAGER and session.outstanding_count <= BURST_EAGER)
                or session.gathered_count >= GATHER_MAX
                or session.has_more
                or self._waiting.is_led
            ):
                self._look(now_ns)
                now_ns = time.monotonic_ns()
            self._submitted_ns = now_ns
        return pending

    def cast(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        arguments: Mapping[str, Any] | None = None, **keywords: Any,
    ) -> None:  # fmt: skip
        """Send an operation its arguments and expect nothing back. Raises what is known at once: `UnknownRoute`, …"""
        request.check(route, key, priority)
        body = request.body_of(route, arguments, keywords)
        with self._waiting.lock:
            self._ready_to_speak(request.duration_ns(CONNECT_TIMEOUT_S))
            self._session.cast(route, key, priority, body)
            self._look(time.monotonic_ns())

    def publish(
        self, topic: str, /, *, priority: int | None = None, arguments: Mapping[str, Any] | None = None, **keywords: Any
    ) -> int:
        """Tell every object that subscribes to `topic`. Returns how many backplanes it went to.

        Raises `Busy` when one of them has no room; it will see the gap.
        """
        request.check(topic, None, priority)
        body = request.body_of(topic, arguments, keywords)
        with self._waiting.lock:
            self._ready_to_speak(request.duration_ns(CONNECT_TIMEOUT_S))
            try:
                return self._session.publish(topic, priority, body)
            finally:
                self._look(time.monotonic_ns())

    def subscribe(self, topic: str, *, timeout: float = CONNECT_TIMEOUT_S) -> Subscription:
        """Hear what the backplanes publish as `topic`, or below it: `files.*`.

        Returns when all of them have confirmed, so that nothing that is published afterwards is missed, or after
        `timeout` seconds; `Subscription.unconfirmed` names those that have not, and they are asked again.
        """
        check_pattern(topic)
        limit_ns = request.duration_ns(timeout)
        subscription, confirmed = Subscription(self, topic), PendingCall(self, topic)
        with self._waiting.lock:
            self._ready_to_speak(limit_ns)
            now_ns = time.monotonic_ns()
            self._subscriptions.add(subscription)
            try:
                if self._session.subscribe(topic, subscription, confirmed, now_ns):
                    self._waiting.wait(confirmed, now_ns + limit_ns)
                if confirmed._error is not None:
                    raise confirmed._error
            except BaseException:
                self._drop(subscription)
                raise
        return subscription

    def directory(self) -> Directory:
        """The newest map of the system: routes, topics, and where the backplanes are."""
        with self._waiting.lock:
            self._ready_to_speak(request.duration_ns(CONNECT_TIMEOUT_S))
            self._look(time.monotonic_ns())
            directory = self._session.directory
        if directory is None:
            raise self._location.not_running()
        return directory

    def flush(self) -> None:
        """Let what has gathered leave now: for a program that submits much and then computes for long."""
        self._look_once()

    def close(self) -> None:
        """Let what was cast and published arrive (at most a second), end all outstanding calls (`Cancelled`) and
        subscriptions, and let go of the link. Once is enough.
        """
        if self._pid != os.getpid():
            return  # a fork's copy: the link is the parent's
        with self._waiting.lock:
            if self._is_closed:
                return
            try:
                self._settle()
            finally:
                self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._location.system!r} in {self._location.run_dir}>"

    # -- with the lock held -------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        settled, now_ns = PendingCall(self, "close"), time.monotonic_ns()
        limit_ns = request.duration_ns(CLOSE_TIMEOUT_S)
        if self._session.settle(settled, now_ns, limit_ns):
            self._waiting.wait(settled, now_ns + limit_ns)

    def _close(self) -> None:
        if self._is_closed:
            return  # by another thread, while this one waited
        self._is_closed = True
        self._deliver(self._session.end_all(Cancelled("the client was closed")))
        for subscription in list(self._subscriptions):
            subscription._closed = True
            self._waiting.ready(subscription)
        self._subscriptions.clear()
        self._waiting.close()
        self._link.close()

    def _expect_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the client is closed")
        if self._pid != os.getpid():
            raise FailedPrecondition("a client does not survive a fork: connect again in the child")

    def _ready_to_speak(self, limit_ns: int) -> None:
        """Connected, and not by a directory from long ago."""
        self._expect_open()
        now_ns = time.monotonic_ns()
        if now_ns - self._looked_ns > IDLE_NS:
            self._waiting.check_lifeline()
            self._look(now_ns)
        if self._session.directory is None:
            self._start(limit_ns)

    def _start(self, limit_ns: int) -> None:
        lifeline_fd = open_lifeline(self._location)
        if lifeline_fd is not None:
            self._waiting.watch(lifeline_fd)
        started = PendingCall(self, "supervisor.directory")
        self._session.start(started, time.monotonic_ns(), limit_ns)
        if not self._waiting.wait(started, time.monotonic_ns() + limit_ns):
            self._end_lost(started)
        if started._error is not None:
            raise started._error

    def _begin(
        self, pending: PendingCall, key: str | None, priority: int | None, timeout: float | None,
        arguments: Mapping[str, Any] | None, keywords: dict[str, Any],
    ) -> None:  # fmt: skip  # hot: scripts/bench call_rtt
        route = pending.route
        request.check(route, key, priority)
        timeout_ns = request.duration_ns(timeout)
        body = keywords if arguments is None else request.body_of(route, arguments, keywords)
        self._ready_to_speak(timeout_ns)
        now_ns = time.monotonic_ns()
        try:
            pending._id = self._session.call(pending, now_ns, timeout_ns, route, key, priority, body)
        except (Unavailable, UnknownRoute):  # by a directory that may be old: the new one may be lying in the link
            self._look(time.monotonic_ns())
            now_ns = time.monotonic_ns()
            pending._id = self._session.call(pending, now_ns, timeout_ns, route, key, priority, body)
        pending._ends_ns = now_ns + timeout_ns

    def _end_lost(self, pending: PendingCall) -> None:
        """Its deadline has passed, and the session knows nothing of it any more: a signal's exception has struck the thread
        that was about to end it.
        """
        pending._error = DeadlineExceeded(f"{pending.route}: no answer before the deadline")
        self._waiting.ready(pending)

    def _wait_for_room(self, route: str, limit_ns: int) -> None:
        until_ns = time.monotonic_ns() + limit_ns
        while self._session.is_full:
            self._room.is_ready = False
            if not self._waiting.wait(self._room, until_ns):
                count = self._session.outstanding_count
                raise Busy(f"{route}: {count} calls of this client are outstanding", retry_after=0.1)

    def _look(self, now_ns: int) -> int | None:  # hot: scripts/bench call_rtt
        if self._is_closed:
            return None
        self._looked_ns = now_ns
        self._deliver(self._session.turn(now_ns))
        return self._session.next_wake_ns(now_ns)

    def _deliver(self, events: Events) -> None:  # hot: scripts/bench call_rtt
        while events:
            event = events[0]
            if type(event) is Ended:
                pending = event.token
                pending._result, pending._error = event.result, event.error
                self._waiting.ready(pending)
                if self._room.waiters:
                    self._waiting.ready(self._room)
            else:
                event.subscriber._inbox.put(event.message, event.size)
                self._waiting.ready(event.subscriber)
            events.popleft()

    def _system_gone(self) -> None:
        self._look(time.monotonic_ns())  # what it said last
        because = f"system {self._location.system!r} is gone: its supervisor has ended"
        self._session.system_gone(because)
        self._look(time.monotonic_ns())
        for subscription in self._subscriptions:
            subscription._error = PeerDown(because)
            self._waiting.ready(subscription)

    def _drop(self, subscription: Subscription) -> None:
        subscription._closed = True
        self._waiting.ready(subscription)
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._session.unsubscribe(subscription.topic, subscription, time.monotonic_ns())
            self._look(time.monotonic_ns())

    # -- what pending calls and subscriptions ask for -----------------------------------------------------------------

    def _wait_for(self, pending: PendingCall, timeout: float | None) -> bool:
        limit_ns = None if timeout is None else request.duration_ns(timeout)
        with self._waiting.lock:
            until_ns, ends_ns = None if limit_ns is None else time.monotonic_ns() + limit_ns, pending._ends_ns
            if until_ns is None or (ends_ns is not None and ends_ns < until_ns):
                until_ns = ends_ns
            if self._waiting.wait(pending, until_ns):
                return True
            if until_ns == ends_ns:
                self._end_lost(pending)
            return pending.is_ready

    def _look_once(self) -> None:
        with self._waiting.lock:
            if not self._is_closed:
                self._waiting.check_lifeline()
                self._look(time.monotonic_ns())

    def _cancel(self, pending: PendingCall) -> bool:
        with self._waiting.lock:
            if pending.is_ready:
                return False
            self._session.cancel(pending._id)
            self._look(time.monotonic_ns())
        return isinstance(pending._error, Cancelled)

    def _next_message(self, subscription: Subscription, timeout: float | None) -> Message:
        limit_ns = None if timeout is None else request.duration_ns(timeout)
        with self._waiting.lock:
            message = subscription._inbox.take()
            if message is None:
                if subscription._error is None and not subscription._closed:
                    self._ready_to_speak(request.duration_ns(CONNECT_TIMEOUT_S))
                    until_ns = None if limit_ns is None else time.monotonic_ns() + limit_ns
                    if not self._waiting.wait(subscription, until_ns):
                        raise TimeoutError(f"no message of {subscription.topic!r} in {timeout} s")
                message = subscription._inbox.take()
            subscription.is_ready = bool(subscription._inbox) or subscription._closed
            if message is not None:
                return message
            error, subscription._error = subscription._error, None
        if error is not None:
            raise error
        raise Unavailable(f"the subscription to {subscription.topic!r} is closed")

    def _unsubscribe(self, subscription: Subscription) -> None:
        with self._waiting.lock:
            if not self._is_closed:
                self._drop(subscription)

    def _unconfirmed(self, topic: str) -> tuple[str, ...]:
        with self._waiting.lock:
            return tuple(self._session.unconfirmed(topic))
