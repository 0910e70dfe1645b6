"""Collector: takes traces by OTLP over HTTP, as an OpenTelemetry collector does, and keeps them for a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.waiting import LIMIT_S


@dataclass(frozen=True)
class Span:
    """One span, as it arrived."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    kind: int
    started_ns: int
    ended_ns: int
    is_error: bool
    message: str
    attributes: dict[str, Any] = field(compare=False)


class Collector:
    """Listens on a free port of the loopback; answers with `answer`, an HTTP status."""

    def __init__(self, answer: int = 200) -> None:
        self.answer = answer
        self.spans: list[Span] = []
        self.requests_count = 0
        self._news = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector._take(self.path, body)
                self.send_response(collector.answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *words: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector", daemon=True)
        self._thread.start()

    def wait_for(self, enough: Callable[[list[Span]], bool]) -> list[Span]:
        """Until the spans that have come are enough."""
        with self._news:
            came = self._news.wait_for(lambda: enough(self.spans), LIMIT_S)
            assert came, [(span.service, span.name) for span in self.spans]
            return [*self.spans]

    def wait_requests(self, count: int) -> None:
        """Until it was asked so often."""
        with self._news:
            assert self._news.wait_for(lambda: self.requests_count >= count, LIMIT_S), self.requests_count

    def forget(self) -> None:
        """All spans so far."""
        with self._news:
            self.spans.clear()

    def close(self) -> None:
        """Refuse from now on."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(LIMIT_S)

    def _take(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._news:
            self.requests_count += 1
            if path == "/v1/traces" and self.answer == 200:
                self.spans += spans_of(request)
            self._news.notify_all()


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    """All spans of one request."""
    for of_resource in request.resource_spans:
        service = attributes_of(of_resource.resource.attributes)["service.name"]
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield Span(
                    service, span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.kind,
                    span.start_time_unix_nano, span.end_time_unix_nano, span.status.code == 2, span.status.message,
                    attributes_of(span.attributes),
                )  # fmt: skip


def attributes_of(pairs: Any) -> dict[str, Any]:
    """As a dictionary of plain values."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def collecting(answer: int = 200) -> Iterator[Collector]:
    """A collector for the time of a test."""
    collector = Collector(answer)
    try:
        yield collector
    finally:
        collector.close()
