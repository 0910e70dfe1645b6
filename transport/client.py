"""Client: the blocking client of a running system, for any number of threads.

`connect("codesearch")` finds the system and fetches its routing table. From then on every call goes straight to the backplane
that serves it. There is no background thread: a waiting thread polls the link for all waiting threads (waiting.py), so
nothing runs while the program does something else. This file is the documented interface; calling.py, compiled, does the
work. A call costs about 20 us on top of the two processes' system calls (scripts/bench call_rtt).
"""

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Self

from . import call_checks, client_spans, descriptors
from .call_spec import CallSpec
from .calling import CONNECT_TIMEOUT_S, Calling
from .descriptors import opening
from .directory import Directory
from .handles import ItemStream, PendingCall, Subscription
from .promise import Promise, Promises
from .retrying import RetryBudget
from .waitables import ArrivedItems, CallOutcome
from .ways import Way, way_to


def connect(
    target: str | os.PathLike[str], *, timeout: float | None = None, retry_budget: RetryBudget | None = None,
    keys: str | os.PathLike[str] | None = None,
) -> "Client":  # fmt: skip
    """Connect to a running system by its name, its run directory or its TOML. A system on another host is addressed by its
    node: `tcp://NAME@HOST:PORT`, where NAME is the node's key in this host's key ring (docs/peers.md).

    timeout: seconds to wait for a system that is not up yet, and for its answer. None: raise at once if it is not up, and
    give a running one 5 s to answer.
    retry_budget: how many calls the client may retry (docs/concepts/retries.md). None: a fifth of its calls, plus ten a second.
    keys: the folder of this host's keys, for a system on another host. None: the user's.

    Raises `SystemNotRunning` if the system is not up, `DeadlineExceeded` if its supervisor does not answer in time, and
    `FailedPrecondition` if this process may open no more descriptors. For a system on another host: `Unavailable` if nobody
    listens there, and `FailedPrecondition` if a key is missing or not trusted.
    """
    with opening(descriptors.CLIENT):
        client = Client(way_to(target, keys, time.monotonic_ns), retry_budget)
    try:
        if timeout is None:
            client.start()
        else:
            client._calling.await_system(call_checks.duration_ns(timeout))
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A connection to a system, made by `connect`. Any thread may use it; after a fork, the child connects anew. Close it: it
    holds two threads and nine descriptors, plus one descriptor for each backplane that it calls.
    """

    def __init__(self, way: Way, retry_budget: RetryBudget | None = None) -> None:
        self._calling = Calling(way, retry_budget or RetryBudget())

    def start(self, timeout: float = CONNECT_TIMEOUT_S) -> None:
        """Connect, unless connected. `connect` has done so, and calls reconnect by themselves when the system is back."""
        self._calling.start(call_checks.duration_ns(timeout))

    def call(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None, retry: bool = True, **keywords: Any,
    ) -> Any:  # fmt: skip  # hot: scripts/bench call_rtt
        """Call an operation and wait for its result: `client.call("query.search", text="asyncio", priority=0)`.

        key: key of the object to call. None: any that serves the route; replicas take turns, each by its least busy object.
        priority: 0 is the highest. None: the priority that the operation declares.
        timeout: seconds until the call ends in `DeadlineExceeded`, here and at the callee.
        arguments: further arguments, for names that clash with these keywords.
        idempotency_key: names this piece of work. It is done once for all calls with the same key, and each gets its reply.
        retry: whether a failed call is retried, until `timeout`, if that is harmless: the operation is idempotent, the call
        has an idempotency key, or the work has certainly not begun (docs/concepts/retries.md).

        An argument may be a submitted call, or a promise: see `submit`. One argument may be `stream(rows)`: the operation reads
        it item by item, while this method iterates over `rows`.

        Raises the `BackplaneError` in which the call ended: `UnknownRoute`, `InvalidArgument`, `Busy` (with `retry_after`),
        `Unavailable`, `DeadlineExceeded`, `PeerDown`, or `InternalError` if the operation raised.
        """
        spec = call_checks.asked(route, key, priority, timeout, arguments, keywords, idempotency_key, retry)
        if client_spans.SDK not in sys.modules:
            return self._calling.call(spec)
        try:
            with client_spans.spanned(spec):
                return self._calling.call(spec)
        finally:
            self._calling.ended_spans.end()

    def submit(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None, retry: bool = True, **keywords: Any,
    ) -> PendingCall:  # fmt: skip  # hot: scripts/bench call_pipelined
        """Begin a call as `call` does, but do not wait: the returned `PendingCall` gives the result.

        Submitted calls reach their object in the order of submission. The exception is a retry (`retry`, see `call`): it may
        arrive after calls submitted later. With `retry=False` the call ends in its error instead.

        Backpressure: with 4096 calls of this client outstanding, or 64 MiB of them, `submit` waits for room, at most
        `timeout` seconds, then raises `Busy`. A program that submits faster than it is served is thus slowed. `call` never
        waits for room, so that another thread's urgent call passes.

        An argument may be a call that was submitted before, or a `promise`. The call then leaves at once, and begins when all
        such operands are there; their values travel straight to it (docs/concepts/dataflow.md). Its `timeout` runs from now on.
        If one fails, it ends in `OperandFailed`.

        A call leaves at once, except in an unbroken burst. From the 65th call of a burst on, or with more than 64
        outstanding, calls gather and leave 64 at a time, or when any thread waits or polls (`result`, `done`, `call`, …) or
        calls `flush()`.
        """
        spec = call_checks.asked(route, key, priority, timeout, arguments, keywords, idempotency_key, retry)
        pending = PendingCall(self._calling, route)
        if client_spans.SDK in sys.modules:
            self._begin_spanned(pending, spec)
        else:
            self._calling.submit(pending, spec)
        return pending

    def promise(self, name: str = "") -> Promise:
        """A value assigned once, later: an argument of `submit` or `call` before it is there (docs/concepts/dataflow.md).

        name: for messages about it.
        """
        return Promise(Promises(self._calling), name, self._calling)

    def stream(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        window: int = call_checks.WINDOW_DEFAULT, retry: bool = True, **keywords: Any,
    ) -> ItemStream:  # fmt: skip
        """Call an operation that is a generator, and iterate over its items: `for row in client.stream("query.rows"): ...`.

        key, priority, arguments: as in `call`. timeout: seconds until the whole stream ends in `DeadlineExceeded`.
        window: how many items the callee may run ahead of this reader, 1 to 65,536, and 1 MiB of them. A reader that pauses
        so holds the callee, which then waits at no cost.
        retry: whether it is retried as `call` is, as long as no item has come.

        The stream ends in its last item, or raises the `BackplaneError` in which it ended: a broken stream never looks like a
        short one. Leaving the loop, `close()` or dropping the stream ends the generator (`GeneratorExit`).
        """
        spec = call_checks.asked(route, key, priority, timeout, arguments, keywords, None, retry)
        spec.window = call_checks.window_of(route, window)
        arrived = ArrivedItems(self._calling, route, spec.window)
        if client_spans.SDK in sys.modules:
            self._begin_spanned(arrived, spec)
        else:
            self._calling.stream(arrived, spec)
        return ItemStream(self._calling, arrived)

    def cast(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        arguments: Mapping[str, Any] | None = None, **keywords: Any,
    ) -> None:  # fmt: skip
        """Send a request without a reply. Raises only errors known at once, such as `UnknownRoute`."""
        spec = call_checks.asked(route, key, priority, None, arguments, keywords)
        if client_spans.SDK not in sys.modules:
            return self._calling.cast(spec)
        with client_spans.spanned(spec, is_cast=True):
            self._calling.cast(spec)

    def publish(
        self, topic: str, /, *, priority: int | None = None, arguments: Mapping[str, Any] | None = None, **keywords: Any
    ) -> int:
        """Send a message to every object that subscribes to `topic`. Returns the number of backplanes it was sent to.

        Raises `Busy` if a backplane has no room for it. The others still get the message, and that backplane counts the gap.
        """
        call_checks.check(topic, None, priority)
        return self._calling.publish(topic, priority, call_checks.body_of(topic, arguments, keywords))

    def subscribe(self, topic: str, *, timeout: float = CONNECT_TIMEOUT_S) -> Subscription:
        """Subscribe to the messages that backplanes publish on `topic`, or on all topics below a prefix: `files.*`.

        Returns when all backplanes have confirmed, so that no later message is missed, or after `timeout` seconds.
        `Subscription.unconfirmed` names the backplanes that have not confirmed; they are asked again.
        """
        limit_ns = call_checks.duration_ns(timeout)
        subscription = Subscription(self._calling, topic)
        self._calling.subscribe(subscription, limit_ns)
        return subscription

    @property
    def refused_here_count(self) -> int:
        """Calls and casts that this client has refused itself, for overloaded services (docs/concepts/overload.md)."""
        return self._calling.session.core.throttle.refused_count

    def directory(self) -> Directory:
        """The newest routing table: routes, topics, and the address of each backplane."""
        return self._calling.directory()

    def flush(self) -> None:
        """Send gathered calls now: for a program that submits many calls and then computes for long."""
        self._calling.look_once()
        self._calling.ended_spans.end()

    def close(self) -> None:
        """Let casts and published messages arrive (at most a second), end all outstanding calls (`Cancelled`) and
        subscriptions, and close the link. Closing twice is harmless.
        """
        self._calling.close()
        self._calling.ended_spans.end()

    def _begin_spanned(self, pending: CallOutcome, spec: CallSpec) -> None:
        """Begin a call, or a stream, with a span that ends with it."""
        pending._span = span = client_spans.ClientSpan(spec)
        try:
            if isinstance(pending, ArrivedItems):
                self._calling.stream(pending, spec)
            else:
                self._calling.submit(pending, spec)
        except BaseException as error:
            pending._span = None
            span.end(error)
            raise
        finally:
            self._calling.ended_spans.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._calling.way.system!r} {self._calling.way.where}>"
