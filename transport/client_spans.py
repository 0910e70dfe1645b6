"""Client spans: in a program that uses OpenTelemetry, each call of a client is a span in the program's own trace.

The span is a child of the current one, and the parent of everything that the system does for the call: the call carries it as
its traceparent. The program's SDK samples and exports it. Without an SDK in the program, this costs one look into a dictionary.
"""

import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .call_spec import CallSpec
from .errors import BackplaneError, Status, sound

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanKind

#: Is in `sys.modules` once the program has loaded an OpenTelemetry SDK: then its calls become spans. The clients look it up
#: in place, since a call of a function here cost each of their calls 1 % of its instructions.
SDK: Final = "opentelemetry.sdk.trace"

log = logging.getLogger("appbackplane.transport")


class ClientSpan:
    """The span of one call, begun now, as a child of the current span. `spec` carries it from now on.

    Never raises: a sampler or a processor of the program's SDK that fails costs the span, and not the call.
    """

    def __init__(self, spec: CallSpec, kind: "SpanKind | None" = None) -> None:
        from opentelemetry import trace  # loaded already, with the SDK

        #: None: it could not begin.
        self._span: Span | None = None
        try:
            attributes = {"rpc.system.name": "appbackplane", "rpc.method": spec.route}
            tracer = trace.get_tracer("appbackplane")
            span = tracer.start_span(spec.route, kind=kind or trace.SpanKind.CLIENT, attributes=attributes)
            context = span.get_span_context()
        except Exception:  # the edge
            log.exception("%s: the client's span could not begin", spec.route)
            return
        self._span = span
        if context.is_valid:
            spec.trace = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"

    def end(self, error: BaseException | None, ended_ns: int | None = None) -> None:
        """The call has ended, at this Unix time; None: now. Not with a lock held: it runs code of the program's SDK."""
        from opentelemetry.trace import StatusCode

        span, self._span = self._span, None
        if span is None:
            return
        try:
            span.set_attribute("rpc.response.status_code", _status_of(error).name)
            if error is not None:
                span.set_attribute("error.type", type(error).__name__)
                said = sound(error).message if isinstance(error, BackplaneError) else type(error).__name__
                span.set_status(StatusCode.ERROR, said)
            span.end(ended_ns)
        except Exception:  # the edge
            log.exception("a client's span could not be ended")


def _status_of(error: BaseException | None) -> Status:
    if error is None:
        return Status.OK
    if isinstance(error, BackplaneError):
        return sound(error).status
    return Status.INTERNAL if isinstance(error, Exception) else Status.CANCELLED  # Ctrl-C, or a cancelled task


@contextmanager
def spanned(spec: CallSpec, *, is_cast: bool = False) -> Iterator[None]:
    """The span of the call that is made within, or of the cast that is sent."""
    from opentelemetry.trace import SpanKind

    span = ClientSpan(spec, SpanKind.PRODUCER if is_cast else SpanKind.CLIENT)
    try:
        yield
    except BaseException as error:
        span.end(error)
        raise
    span.end(None)


class EndedSpans:
    """Spans of calls that have ended, until the client's lock is released: then `end` ends them."""

    def __init__(self) -> None:
        self._ended: deque[tuple[ClientSpan, BaseException | None, int]] = deque()

    def put(self, span: ClientSpan, error: BaseException | None) -> None:
        """The call of this span has ended now."""
        self._ended.append((span, error, time.time_ns()))

    def end(self) -> None:
        """End them, each as of when its call ended. From any thread, without the client's lock."""
        while self._ended:
            try:
                span, error, ended_ns = self._ended.popleft()
            except IndexError:  # another thread has taken it
                return
            span.end(error, ended_ns)

    def __bool__(self) -> bool:
        return bool(self._ended)
