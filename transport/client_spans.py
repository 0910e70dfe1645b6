"""Client spans: in a program that uses OpenTelemetry, each call of a client is a span in the program's own trace.

The span is a child of the current one, and the parent of everything that the system does for the call: the call carries it as
its traceparent. The program's SDK samples and exports it. Without an SDK in the program, this costs one look into a dictionary.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from .call_spec import CallSpec
from .errors import BackplaneError, Cancelled, Status

if TYPE_CHECKING:
    import asyncio

    from opentelemetry.trace import SpanKind

_SDK: Final = "opentelemetry.sdk.trace"

log = logging.getLogger("appbackplane.transport")


def are_wanted() -> bool:
    """Whether this program has loaded an OpenTelemetry SDK."""
    return _SDK in sys.modules


class ClientSpan:
    """The span of one call, begun now, as a child of the current span. `spec` carries it from now on."""

    def __init__(self, spec: CallSpec, kind: "SpanKind | None" = None) -> None:
        from opentelemetry import trace  # loaded already, with the SDK

        attributes = {"rpc.system.name": "appbackplane", "rpc.method": spec.route}
        tracer = trace.get_tracer("appbackplane")
        self._span = tracer.start_span(spec.route, kind=kind or trace.SpanKind.CLIENT, attributes=attributes)
        context = self._span.get_span_context()
        if context.is_valid:
            spec.trace = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def end(self, error: BaseException | None) -> None:
        """The call has ended: now. Never raises, as it may be called with the client's lock held."""
        from opentelemetry.trace import StatusCode

        try:
            self._span.set_attribute("rpc.response.status_code", _status_of(error).name)
            if error is not None:
                self._span.set_attribute("error.type", type(error).__name__)
                self._span.set_status(StatusCode.ERROR, getattr(error, "message", type(error).__name__))
            self._span.end()
        except Exception:  # the edge: a processor of the program's SDK has failed
            log.exception("a client's span could not be ended")

    def end_with(self, future: "asyncio.Future[Any]") -> None:
        """The future of the call is done."""
        self.end(Cancelled("cancelled by the caller") if future.cancelled() else future.exception())


def _status_of(error: BaseException | None) -> Status:
    if error is None:
        return Status.OK
    if isinstance(error, BackplaneError):
        return error.status
    return Status.INTERNAL if isinstance(error, Exception) else Status.CANCELLED  # Ctrl-C, or a cancelled task


@contextmanager
def spanned(spec: CallSpec) -> Iterator[None]:
    """The span of the call that is made within."""
    span = ClientSpan(spec)
    try:
        yield
    except BaseException as error:
        span.end(error)
        raise
    span.end(None)


class Spanned(Protocol):
    """A call that ends its span when it ends."""

    _span: Any

    def end_span(self, error: BaseException | None) -> None: ...


@contextmanager
def begun(call: Spanned, spec: CallSpec) -> Iterator[None]:
    """Give a call its span; within, the call begins. One that cannot begin ends here."""
    call._span = ClientSpan(spec)
    try:
        yield
    except BaseException as error:
        call.end_span(error)
        raise


def sent(spec: CallSpec) -> None:
    """The span of a cast, which ends as it is sent: nobody answers."""
    from opentelemetry.trace import SpanKind

    ClientSpan(spec, SpanKind.PRODUCER).end(None)
