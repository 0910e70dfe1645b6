"""Raw: the floor under anything that speaks msgpack over ZeroMQ. A DEALER, a ROUTER in another process, an echo.

Not crippled: blocking calls in a plain loop, one frame a call, no limit at which it would lose anything, memory handed
over without copying where that is faster (above 64 KiB), reused packers.

    python -m bench_cases.harness.raw ENDPOINT [PUBLIC SECRET]      with keys: CURVE
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgpack
import zmq

from .processes import hear, program

#: Above it, handing memory over beats copying it (measured: TRAPS 12).
COPY_BYTES_MAX = 65_536


class Raw:
    """The client's end."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._pack = msgpack.Packer().pack
        self._number = 0

    def call(self, **body: Any) -> Any:
        self.send(body)
        return self.receive()

    def send(self, body: dict[str, Any]) -> None:
        """A request: number, route and body, as little as a call can be."""
        self._number += 1
        self._socket.send(self._pack((self._number, "echo.echo", body)))

    def send_large(self, body: dict[str, Any]) -> None:
        """The same without copying."""
        self._number += 1
        self._socket.send(self._pack((self._number, "echo.echo", body)), copy=False)

    def receive(self) -> Any:
        return msgpack.unpackb(self._socket.recv())[1]

    def receive_large(self) -> Any:
        """The same without copying."""
        return msgpack.unpackb(self._socket.recv(copy=False).buffer)[1]


@contextmanager
def raw_echo() -> Iterator[Raw]:
    """A client of an echo in another process."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        endpoint = f"ipc://{folder}/echo.sock"
        with program("harness.raw", endpoint), _connected(endpoint) as raw:
            yield raw


@contextmanager
def raw_echo_by_curve() -> Iterator[Raw]:
    """The same over TCP on loopback, encrypted: what crosses hosts."""
    public, secret = zmq.curve_keypair()
    keys = (public.decode(), secret.decode())
    with program("harness.raw", "tcp://127.0.0.1:*", *keys) as far_end, _connected(hear(far_end), public) as raw:
        yield raw


@contextmanager
def _connected(endpoint: str, server_key: bytes | None = None) -> Iterator[Raw]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.set_hwm(0)
    if server_key is not None:
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_serverkey = server_key
    socket.connect(endpoint)
    raw = Raw(socket)
    raw.call(text="are you there?")
    yield raw
    context.destroy(linger=0)


def start_s(count: int) -> float:
    """How long so many of them take, started together, until each has answered: the least that a start can cost."""
    began = time.perf_counter()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ab-"))
        endpoints = [f"ipc://{folder}/{number}.sock" for number in range(count)]
        for endpoint in endpoints:
            stack.enter_context(program("harness.raw", endpoint))
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        for endpoint in endpoints:
            socket = context.socket(zmq.DEALER)
            socket.reconnect_ivl = 1
            socket.connect(endpoint)
            Raw(socket).call(text="are you there?")
        spent = time.perf_counter() - began
        context.destroy(linger=0)
    return spent


def serve(endpoint: str, *keys: str) -> None:
    """The far end, until killed. `keys`: public and secret, for CURVE."""
    socket: zmq.Socket[bytes] = zmq.Context().socket(zmq.ROUTER)
    socket.set_hwm(0)  # at its default a ROUTER drops what a long window sends too much
    if keys:
        socket.curve_publickey, socket.curve_secretkey = (key.encode() for key in keys)
        socket.curve_server = True
    socket.bind(endpoint)
    print(socket.get_string(zmq.LAST_ENDPOINT), flush=True)
    pack = msgpack.Packer().pack
    while True:
        peer = socket.recv()
        frame = socket.recv(copy=False)
        number, _route, body = msgpack.unpackb(frame.buffer if len(frame) > COPY_BYTES_MAX else frame.bytes)
        reply = pack((number, next(iter(body.values()))))
        socket.send(peer, zmq.SNDMORE)
        socket.send(reply, copy=len(reply) <= COPY_BYTES_MAX)


if __name__ == "__main__":
    serve(*sys.argv[1:])
