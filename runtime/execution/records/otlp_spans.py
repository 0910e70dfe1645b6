"""OTLP spans: turns ended actions and waits into OpenTelemetry's spans, and sends them to a collector.

It needs the extra `[otel]`, and takes a third of a second to import: only the export thread does (span_export.py). Names follow
OpenTelemetry's conventions for RPC and resources. An action is one span, with a child for its time in the queue and one for its
run; waits are children of the run. Calls that it makes have the action itself as their parent, as in the records.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from appbackplane.transport.errors import Status as BackplaneStatus

from ...observation.span_buffer import EndedAction, EndedWait
from ...observation.span_ids import TRACEPARENT_LENGTH
from ...process_config import ProcessConfig

#: Set in the ids of an action's two children: ids that are counted are below 2**61.
QUEUE_BIT: Final = 1 << 62
RUN_BIT: Final = 1 << 63
#: Where a collector takes traces, unless the address has a path of its own.
PATH: Final = "/v1/traces"
#: Characters of a name.
_NAME_MAX: Final = 256
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_SCOPE: Final = InstrumentationScope("appbackplane")
_OK: Final = Status(StatusCode.UNSET)


class OtlpSpans:
    """Sends the spans of one backplane to one collector. For one thread, but for `close`."""

    def __init__(self, config: ProcessConfig, otlp: str, timeout_s: float) -> None:
        """`otlp`: address of the collector, with or without a path. `timeout_s`: of one `send`, repeated attempts included."""
        session = requests.Session()
        session.hooks["response"].append(_refuse_redirect)
        self._exporter = OTLPSpanExporter(endpoint=endpoint_of(otlp), timeout=timeout_s, session=session)
        #: A user's seeds do not bear on it, nor it on theirs.
        self._random = random.Random()
        self._resource = resource_of(config)

    def send(self, ended: Sequence[EndedAction | EndedWait], unix_offset_ns: int) -> int:
        """Send the spans of these; returns how many, 0: the collector has not taken them. Waits for it."""
        spans: list[ReadableSpan] = []
        for each in ended:
            if isinstance(each, EndedAction):
                spans += self._of_action(each, unix_offset_ns)
            else:
                spans.append(self._of_wait(each, unix_offset_ns))
        has_taken = self._exporter.export(spans) is SpanExportResult.SUCCESS
        return len(spans) if has_taken else 0

    def close(self) -> None:
        """End the attempts of a `send` under way. From any thread."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _of_action(self, ended: EndedAction, offset_ns: int) -> Iterator[ReadableSpan]:
        trace_id, parent = _parents(ended.trace, ended.span)
        outcome = BackplaneStatus(ended.outcome).name
        # An action that awaited was in queues again afterwards. That is in `queue.duration`, but not in the span of the queue.
        queued_ns, begun_ns = ended.queued_ns + offset_ns, ended.started_ns + offset_ns
        status = Status(StatusCode.ERROR, f"{outcome}: {ended.message}") if ended.outcome else _OK
        attributes = {
            "rpc.system.name": "appbackplane",
            "rpc.method": _sound(ended.route),
            "rpc.response.status_code": outcome,
            "appbackplane.object": _sound(ended.object),
            "appbackplane.component": ended.component,
            "appbackplane.priority": ended.priority,
            "appbackplane.priority.requested": ended.priority_asked,
            "appbackplane.queue.duration": ended.wait_ns / 1e9,
            "appbackplane.run.duration": ended.run_ns / 1e9,
            "appbackplane.cpu.time": ended.cpu_ns / 1e9,
        }
        if ended.source:
            attributes["appbackplane.source"] = ended.source
        if ended.outcome:
            attributes["error.type"] = outcome
        kind = SpanKind.SERVER if ended.is_called else SpanKind.INTERNAL
        ended_ns = ended.ended_ns + offset_ns
        whole = _context(trace_id, ended.span)
        yield self._span(ended.route, whole, parent, attributes, kind, status, queued_ns, ended_ns)
        queue, run = _context(trace_id, ended.span | QUEUE_BIT), _context(trace_id, ended.span | RUN_BIT)
        yield self._span("queue", queue, whole, {}, SpanKind.INTERNAL, _OK, queued_ns, begun_ns)
        if ended.run_ns:
            yield self._span("run", run, whole, {}, SpanKind.INTERNAL, _OK, begun_ns, ended_ns)

    def _of_wait(self, ended: EndedWait, offset_ns: int) -> ReadableSpan:
        trace_id, _ = _parents(ended.trace, ended.span)
        outcome = BackplaneStatus(ended.outcome).name
        status = Status(StatusCode.ERROR, f"{outcome}: {ended.message}") if ended.outcome else _OK
        own, parent = _context(trace_id, self._random.getrandbits(64) or 1), _context(trace_id, ended.span | RUN_BIT)
        times = ended.started_ns + offset_ns, ended.ended_ns + offset_ns
        return self._span(f"await {ended.what}", own, parent, {}, SpanKind.INTERNAL, status, *times)

    def _span(
        self, name: str, context: SpanContext, parent: SpanContext | None, attributes: dict[str, Any], kind: SpanKind,
        status: Status, started_ns: int, ended_ns: int,
    ) -> ReadableSpan:  # fmt: skip
        return ReadableSpan(
            _sound(name), context, parent, self._resource, attributes, kind=kind, status=status, start_time=started_ns,
            end_time=max(started_ns, ended_ns), instrumentation_scope=_SCOPE,
        )  # fmt: skip


def endpoint_of(otlp: str) -> str:
    """The address that traces are sent to: a base address gets OTLP's path for them."""
    scheme, _, rest = otlp.partition("://")
    host, slash, path = rest.partition("/")
    return otlp if slash and path else f"{scheme}://{host}{PATH}"


def resource_of(config: ProcessConfig) -> Resource:
    """Who the spans are of: the backplane is the service, the system its namespace. OTEL_RESOURCE_ATTRIBUTES adds to it."""
    return Resource.create({
        "service.name": config.backplane,
        "service.namespace": config.system,
        "service.instance.id": f"{os.uname().nodename}/{config.system}/{config.backplane}/{config.generation}",
        "host.name": os.uname().nodename,
        "process.pid": os.getpid(),
    })  # fmt: skip


def _sound(text: str) -> str:
    """A name of a user's code as it can be encoded: one that cannot would lose all spans that are sent with it."""
    return text[:_NAME_MAX].encode("utf-8", "replace").decode()


def _refuse_redirect(response: requests.Response, **_: Any) -> None:
    """The exporter takes a redirect for success, and nothing has arrived."""
    if 300 <= response.status_code < 400:
        where = response.headers.get("Location", "nowhere")
        raise requests.TooManyRedirects(f"it answers {response.status_code}, to {where[:200]}: give that address")


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def _parents(trace: str | None, span: int) -> tuple[int, SpanContext | None]:
    """The trace id of an action's span, and its parent; None: it is the root."""
    if trace is None or len(trace) != TRACEPARENT_LENGTH:
        return span, None
    trace_id = int(trace[3:35], 16)
    return trace_id, _context(trace_id, int(trace[36:52], 16))
