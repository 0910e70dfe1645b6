"""traces: calls of 50 us with tracing, against a system without it, and an urgent call beside them.

Four systems: without tracing, with a collector that takes all, with one that takes a connection and never answers, and with
an address where nobody listens. A surprise would be any loss with the last two: nothing but a thread of its own waits there.
With the first, the export takes its share of the core (runtime/execution/records/span_export.py).
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.transport import Client, PendingCall

from .harness.bulk import compute
from .harness.case import Case, Requirement, Sides
from .harness.systems import running

CALL_S = 0.00005
OUTSTANDING = 200
SLICE_S, QUICK_SLICE_S = 1.0, 0.4
FORMS = ("none", "dead", "mute", "live")


class Clerk(AppObject):
    @operation()
    def serve(self) -> None:
        compute(CALL_S)


class Guard(AppObject):
    @operation(priority=0)
    def urgent(self) -> None:
        """Overtakes all others."""


class Desk(Component):
    """One clerk, and one who is urgent."""

    def setup(self) -> None:
        self.add(Clerk())
        self.add(Guard())


class Taking(BaseHTTPRequestHandler):
    """Takes spans, and forgets them."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:
        """Say nothing."""


@contextmanager
def live() -> Iterator[int]:
    """Port of a collector."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def mute() -> Iterator[int]:
    """Port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def dead() -> Iterator[int]:
    """A port where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def all_four(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    desk = {"desk": f'components = ["{__name__}:Desk"]'}
    with ExitStack() as stack:
        ports = {form.__name__: stack.enter_context(form()) for form in (dead, mute, live)}
        clients = {form: stack.enter_context(running(desk, _table(ports.get(form)))).client for form in FORMS}

        def figures(form: str) -> dict[str, float]:
            per_s, urgent_us = served(clients[form], seconds)
            return {f"{form}_per_s": per_s, f"{form}_urgent_p50_us": urgent_us}

        def traced() -> dict[str, float]:
            return figures("dead") | figures("mute") | figures("live")

        yield Sides(traced, lambda: figures("none"))


def _table(port: int | None) -> str:
    return "" if port is None else f'[trace]\notlp = "http://127.0.0.1:{port}"'


def served(client: Client, seconds: float) -> tuple[float, float]:
    """(calls a second with so many outstanding; the median of urgent calls between them, in us)."""
    outstanding: deque[PendingCall] = deque()
    took_ns: list[int] = []
    count, end_ns = 0, time.monotonic_ns() + int(seconds * 1e9)
    began_ns = time.monotonic_ns()
    while time.monotonic_ns() < end_ns:
        while len(outstanding) < OUTSTANDING:
            outstanding.append(client.submit("desk.serve"))
        for _ in range(OUTSTANDING // 2):
            outstanding.popleft().result()
            count += 1
        since_ns = time.monotonic_ns()
        client.call("desk.urgent")
        took_ns.append(time.monotonic_ns() - since_ns)
    per_s = count / (time.monotonic_ns() - began_ns) * 1e9
    for pending in outstanding:
        pending.result()
    return per_s, sorted(took_ns)[len(took_ns) // 2] / 1e3


def rate(form: str, at_least: float) -> Requirement:
    return Requirement(
        f"rate, {form} collector / no tracing", lambda ours, theirs: ours[f"{form}_per_s"] / theirs["none_per_s"],
        at_least=at_least,
    )  # fmt: skip


CASE = Case(
    name="traces",
    what="calls of 50 us with every one traced; reference: without tracing",
    requirements=(rate("dead", 0.95), rate("mute", 0.95), rate("live", 0.7)),
    open=all_four,
    rounds=8,
    quick_rounds=3,
)
