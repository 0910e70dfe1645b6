"""Call spec: everything that a caller asks for, as one value from the caller's method to the wire.

Every caller (a client, an object, a node on behalf of another) fills one in. Sessions, retries and the codec pass it on
without naming its fields. A new field of a call is added here, in `Envelope`, and in the codec.
"""

from __future__ import annotations

from typing import Any, Final

from .addressing import BACKPLANE

#: Prefix of the operations that each backplane serves itself.
OWN: Final = f"{BACKPLANE}."


class CallSpec:
    """A call or a cast before it has an id and a callee.

    A user's values may have any type until `call_checks.check_call` has checked them. `timeout` is in seconds, None: the
    default; the check sets `timeout_ns`. `ends_ns` is the deadline on this host's monotonic clock, 0 until the call begins.
    `is_retried`: whether the call may be retried where that is harmless.
    `source` and `principal`: who calls, and on whose behalf; believed from backplanes of this system alone. None: whoever the
    callee sees, and nobody. `window`: how many items the callee of a stream may run ahead; None: the call has one result.
    `streamed`: the argument that is sent item by item (argument_stream.py); None: there is none.
    `operands`: arguments that were given as promises or calls and have no value yet (operand.py); None: there are none.
    `is_plain`: whether all arguments are known to be values of Python's own types: none is a stream or an operand.
    `awaits`, `token`: what the call tells its callee of these (dataflow.py): names of the arguments, and names of the calls.
    """

    __slots__ = (
        "awaits", "body", "ends_ns", "idempotency_key", "is_plain", "is_retried", "key", "operands", "principal", "priority",
        "route", "source", "streamed", "timeout", "timeout_ns", "token", "trace", "window",
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
        source: str | None = None,
        principal: Any = None,
        window: int | None = None,
        streamed: str | None = None,
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
        self.source = source
        self.principal = principal
        self.window = window
        self.streamed = streamed
        self.operands: dict[str, Any] | None = None
        self.is_plain = False
        self.awaits: dict[str, str] | None = None
        self.token = 0

    def routing_key(self) -> str | None:
        """The key that selects one of several replicas: that of the object, else the idempotency key."""
        key: str | None = self.idempotency_key if self.key is None else self.key
        return key

    def is_shared(self) -> bool:
        """Whether a backplane that grants credit (pulling.py) counts this call: it has no place of its own. One that awaits
        operands takes no room until they are there.
        """
        return (
            self.key is None and self.idempotency_key is None and self.awaits is None and not self.route.startswith(OWN)
        )
