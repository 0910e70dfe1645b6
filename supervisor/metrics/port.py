"""Metrics port: the HTTP server for Prometheus. Its threads call the supervisor, in the same process, as any client does.

So a scrape never holds up the loop, and its figures are those of `status --stats`. A thread for each connection, so that a
client that sends half a request delays nobody; `CONNECTIONS_MAX` of them, beyond which the oldest is closed. Loopback
unless the configuration says otherwise (configuration/config.py). The text is prometheus-client's, an extra: `[metrics]`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from appbackplane.transport.errors import BackplaneError, FailedPrecondition

from ..configuration.metrics_address import host_and_port
from . import NEEDS
from .exposition import Counted, Exposition

PATH = "/metrics"
#: Longest silence of a client during its request, and longest time without reading during the response.
CLIENT_LIMIT_S = 5.0
#: Connections served side by side: two Prometheus servers and a person need three.
CONNECTIONS_MAX = 8


class MetricsPort:
    """Listens from its construction until `close`."""

    def __init__(self, address: str, look: Callable[[], Mapping[str, Any]]) -> None:
        """`look`: returns the reply to `supervisor.status` with `buckets`. Raises `FailedPrecondition`."""
        try:
            import prometheus_client  # an extra
        except ImportError:
            raise FailedPrecondition(f"[system] metrics {NEEDS}") from None
        self._prometheus = prometheus_client
        self._look, self._exposition = look, Exposition()
        #: Responses are made one at a time: the exposition remembers names, and several at once take no less time.
        self._making = threading.Lock()
        host, port = host_and_port(address)
        try:
            self._server = _server(host, port)
        except OSError as error:
            raise FailedPrecondition(f"[system] metrics: cannot listen at {address}: {error.strerror}") from error
        #: Host and actual port, which differs from the configured port 0.
        self.address = f"[{host}]:{self._server.server_port}" if ":" in host else f"{host}:{self._server.server_port}"
        self.url = f"http://{self.address}{PATH}"
        self._server.set_app(self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections, also those being served: no client keeps a system from going down."""
        self._server.shutdown()
        self._server.hang_up()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: Mapping[str, Any], start: Callable[..., Any]) -> list[bytes]:
        if environ["PATH_INFO"] != PATH:
            return _said(start, "404 Not Found", f"the metrics are at {PATH}\n")
        if environ["REQUEST_METHOD"] != "GET":
            return _said(start, "405 Method Not Allowed", "only GET\n")
        try:
            with self._making:
                text = self._text(self._look())
        except BackplaneError as error:
            return _said(start, "503 Service Unavailable", f"{error.message}\n")
        start("200 OK", [("Content-Type", self._prometheus.CONTENT_TYPE_LATEST)])
        return [text]

    def _text(self, answer: Mapping[str, Any]) -> bytes:
        registry = self._prometheus.CollectorRegistry(auto_describe=False)
        collector: Any = _Collected(list(self._families(answer)))
        registry.register(collector)
        return bytes(self._prometheus.generate_latest(registry))

    def _families(self, answer: Mapping[str, Any]) -> Iterator[Any]:
        from prometheus_client import metrics_core as core

        for metric, samples in self._exposition.samples(answer):
            labels = ("system", *metric.labels)
            if metric.kind == "histogram":
                histogram = core.HistogramMetricFamily(metric.name, metric.help, labels=labels)
                for values, value in samples:
                    assert isinstance(value, Counted)
                    buckets = [(str(bound), float(count)) for bound, count in value.buckets]
                    histogram.add_metric(values, [*buckets, ("+Inf", float(value.count))], value.sum_s)
                yield histogram
                continue
            kind = core.CounterMetricFamily if metric.kind == "counter" else core.GaugeMetricFamily
            family = kind(metric.name.removesuffix("_total"), metric.help, labels=labels)
            for values, value in samples:
                assert not isinstance(value, Counted)
                family.add_metric(values, value)
            yield family


class _Collected:
    """Metric families, in the form that prometheus-client takes."""

    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> Iterable[Any]:
        return self._families


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_LIMIT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: a scrape is not worth a line."""


class _Server(ThreadingMixIn, WSGIServer):
    """Serves without looking up names, which may take seconds; a client that disconnects is no error."""

    #: `server_close` waits for the threads: one that still calls the supervisor has sockets open.
    daemon_threads = False

    def __init__(self, address: tuple[str, int]) -> None:
        #: Connections being served, the oldest first, and those of them that were closed by us.
        self.served: list[socket.socket] = []
        self._hung_up: set[socket.socket] = set()
        self._serving = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._serving:
            waiting = [each for each in self.served if each not in self._hung_up]
            if len(waiting) >= CONNECTIONS_MAX:
                self._hang_up(waiting[0])
            # The thread of a closed connection may still wait for the supervisor: as many more, and threads have a bound, too.
            is_full = len(self.served) >= 2 * CONNECTIONS_MAX
            if not is_full:
                self.served.append(request)
        if is_full:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread could be started
            self._forget(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def hang_up(self) -> None:
        """Close all connections that are served."""
        with self._serving:
            for each in self.served:
                self._hang_up(each)

    def server_close(self) -> None:
        """Close the socket, then join the threads. RuntimeError comes from the last one, if it could not be started."""
        with suppress(RuntimeError):
            super().server_close()

    def _forget(self, request: socket.socket) -> None:
        with self._serving:
            self.served.remove(request)
            self._hung_up.discard(request)

    def _hang_up(self, served: socket.socket) -> None:
        self._hung_up.add(served)
        with suppress(OSError):  # it has just been served
            served.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: the next connection is served."""


class _ServerOf6(_Server):
    address_family = socket.AF_INET6


def _server(host: str, port: int) -> _Server:
    """A listening server, of IPv4 or IPv6. Raises OSError."""
    return (_ServerOf6 if ":" in host else _Server)((host, port))


def _said(start: Callable[..., Any], status: str, text: str) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode()]
