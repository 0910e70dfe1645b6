"""Call spec: everything that a caller asks for, as one value from the caller's method to the wire.

Whoever makes a call (a client, an object, a node on behalf of another) fills one in; sessions, retries and the codec hand it on
without naming its fields. A new field of a call is added here, in `Envelope`, and in the codec.
"""

from __future__ import annotations

from typing import Any


class CallSpec:
    """A call or a cast before it has an id and a callee.

    What a user gave is of any type until `request.check_call` has seen it. `timeout` is in seconds, None: the default;
    `timeout_ns` is set by the check. `ends_ns` is the deadline on the monotonic clock of this host, 0 until the call begins.
    `is_retried`: whether the call may be made again where that does no harm.
    """

    __slots__ = (
        "body", "ends_ns", "idempotency_key", "is_retried", "key", "priority", "route", "timeout", "timeout_ns", "trace",
    )  # fmt: skip

    def __init__(
        self,
        route: Any,
        body: Any,
        *,
        key: Any = None,
        priority: Any = None,
        timeout: Any = None,
        ends_ns: int = 0,
        trace: str | None = None,
        idempotency_key: Any = None,
        is_retried: Any = False,
    ) -> None:
        self.route = route
        self.body = body
        self.key = key
        self.priority = priority
        self.timeout = timeout
        self.timeout_ns = 0
        self.ends_ns = ends_ns
        self.trace = trace
        self.idempotency_key = idempotency_key
        self.is_retried = is_retried

    def routing_key(self) -> str | None:
        """The key that selects one of several instances: that of the object, else the idempotency key."""
        key: str | None = self.idempotency_key if self.key is None else self.key
        return key
