"""Client: a program's way into a running system, blocking and for any number of threads.

`connect("codesearch")` finds the system, fetches its directory and is ready; from then on every call goes straight to
the backplane that serves it. No background thread: whoever waits looks after the link for all (waiting.py), so nothing
runs in a program that is doing something else. This is what users read; what it does is in calling.py, compiled. A call
costs about 20 us on top of the two processes' system calls (scripts/bench call_rtt).
"""

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from . import descriptors, request
from .calling import CONNECT_TIMEOUT_S, Calling
from .descriptors import opening
from .directory import Directory
from .handles import PendingCall, Subscription
from .retrying import RetryBudget
from .ways import Way, way_to


def connect(
    target: str | os.PathLike[str], *, timeout: float | None = None, retry_budget: RetryBudget | None = None,
    keys: str | os.PathLike[str] | None = None,
) -> "Client":  # fmt: skip
    """A client of a running system, by its name, its run directory or its TOML; or of one on another host, by its node:
    `tcp://NAME@HOST:PORT`, with the name of the node's key in this host's ring (docs/peers.md).

    timeout: seconds to wait for a system that is not up yet, and for its answer; None: one that is not up is told at once,
    and one that is has 5 s to answer.
    retry_budget: how many calls it may make again (docs/concepts/retries.md); None: a fifth of them, and ten a second.
    keys: the folder of this host's keys, for a system on another; None: the user's.

    Raises `SystemNotRunning` when it is not up, `DeadlineExceeded` when its supervisor does not answer in time, and
    `FailedPrecondition` where this process may open no more descriptors. Of a system on another host: `Unavailable` where
    nobody listens, `FailedPrecondition` where a key is missing or not trusted.
    """
    with opening(descriptors.CLIENT):
        client = Client(way_to(target, keys, time.monotonic_ns), retry_budget)
    try:
        if timeout is None:
            client.start()
        else:
            client._calling.await_system(request.duration_ns(timeout))
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A connection to a system. Made by `connect`; any thread may use it; not to be used after a fork. To be closed: it takes
    two threads and nine descriptors, and one more for each backplane that it calls.
    """

    def __init__(self, way: Way, retry_budget: RetryBudget | None = None) -> None:
        self._calling = Calling(way, retry_budget or RetryBudget())

    def start(self, timeout: float = CONNECT_TIMEOUT_S) -> None:
        """Connect, unless connected: `connect` has done it, and a call does it when the system was gone and is back."""
        self._calling.start(request.duration_ns(timeout))

    def call(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = request.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None, retry: bool = True, **keywords: Any,
    ) -> Any:  # fmt: skip  # hot: scripts/bench call_rtt
        """Call an operation and wait for its result: `client.call("query.search", text="asyncio", priority=0)`.

        key: the object to ask, by its key; None: any that serves the route: replicas in turn, in each the least busy object.
        priority: 0 is highest; None: the one that the operation declares.
        timeout: seconds until the call ends in `DeadlineExceeded`, here and where it runs.
        arguments: more arguments, for names that clash with these keywords.
        idempotency_key: names this piece of work: of all calls with the same one, it is done once, and each gets its reply.
        retry: whether it is made again, until `timeout`, where that can do no harm: the operation is idempotent, the call
        has an idempotency key, or the work has certainly not begun (docs/concepts/retries.md).

        Raises the `BackplaneError` in which it ended: `UnknownRoute`, `InvalidArgument`, `Busy` (with `retry_after`),
        `Unavailable`, `DeadlineExceeded`, `PeerDown`, or `InternalError` when the operation raised.
        """
        return self._calling.call(
            request.asked(route, key, priority, timeout, arguments, keywords, idempotency_key, retry)
        )

    def submit(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = request.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None, retry: bool = True, **keywords: Any,
    ) -> PendingCall:  # fmt: skip  # hot: scripts/bench call_pipelined
        """Begin a call, as `call` does, and do not wait: ask what is returned for the result.

        What is submitted comes to its object in that order, but for what is made again (`retry`, as of `call`): that may come
        behind what was submitted later. With `retry=False` it ends in the error instead.

        With 4096 calls of this client outstanding, or 64 MiB of them, it waits until there is room, at most `timeout`
        seconds, and then raises `Busy`: a program that submits faster than it is served is slowed. `call` never waits for
        room, so that another thread's urgent call passes.

        It leaves at once; but in an unbroken burst, from the 65th on or with more than 64 outstanding, calls gather and leave
        together, 64 at a time, or as soon as anybody waits or looks (`result`, `done`, `call`, …), or by `flush()`.
        """
        spec = request.asked(route, key, priority, timeout, arguments, keywords, idempotency_key, retry)
        pending = PendingCall(self._calling, route)
        self._calling.submit(pending, spec)
        return pending

    def cast(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        arguments: Mapping[str, Any] | None = None, **keywords: Any,
    ) -> None:  # fmt: skip
        """Send an operation its arguments and expect nothing back. Raises what is known at once: `UnknownRoute`, …"""
        self._calling.cast(request.asked(route, key, priority, None, arguments, keywords))

    def publish(
        self, topic: str, /, *, priority: int | None = None, arguments: Mapping[str, Any] | None = None, **keywords: Any
    ) -> int:
        """Tell every object that subscribes to `topic`. Returns how many backplanes it went to.

        Raises `Busy` when one of them has no room; it will see the gap.
        """
        request.check(topic, None, priority)
        return self._calling.publish(topic, priority, request.body_of(topic, arguments, keywords))

    def subscribe(self, topic: str, *, timeout: float = CONNECT_TIMEOUT_S) -> Subscription:
        """Hear what the backplanes publish as `topic`, or below it: `files.*`.

        Returns when all of them have confirmed, so that nothing that is published afterwards is missed, or after
        `timeout` seconds; `Subscription.unconfirmed` names those that have not, and they are asked again.
        """
        limit_ns = request.duration_ns(timeout)
        subscription = Subscription(self._calling, topic)
        self._calling.subscribe(subscription, limit_ns)
        return subscription

    def directory(self) -> Directory:
        """The newest map of the system: routes, topics, and where the backplanes are."""
        return self._calling.directory()

    def flush(self) -> None:
        """Let what has gathered leave now: for a program that submits much and then computes for long."""
        self._calling.look_once()

    def close(self) -> None:
        """Let what was cast and published arrive (at most a second), end all outstanding calls (`Cancelled`) and
        subscriptions, and let go of the link. Once is enough.
        """
        self._calling.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._calling.way.system!r} {self._calling.way.where}>"
