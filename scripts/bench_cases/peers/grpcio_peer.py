"""grpcio: a server with one thread in another process, on a Unix socket, msgpack for bodies."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import msgpack

from ..harness.bulk import compute
from ..harness.processes import hear, program


class Client:
    def __init__(self, channel: grpc.Channel) -> None:
        self._echo = channel.unary_unary("/bench/echo", msgpack.packb, msgpack.unpackb)
        self._work = channel.unary_unary("/bench/work", msgpack.packb, msgpack.unpackb)

    def submit(self, text: str) -> Any:
        return self._echo.future(text)

    def submit_work(self, seconds: float) -> Any:
        return self._work.future(seconds)


@contextmanager
def serving() -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        address = f"unix:{folder}/grpc.sock"
        with program("peers.grpcio_peer", address) as child, grpc.insecure_channel(address) as channel:
            hear(child)
            yield Client(channel)


def work(seconds: float) -> bool:
    """Says True: a reply that unpacks to None counts as broken here."""
    compute(seconds)
    return True


def main(address: str) -> None:
    def handler(function: Any) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda body, _: function(body), msgpack.unpackb, msgpack.packb)

    server = grpc.server(ThreadPoolExecutor(1))
    methods = {"echo": handler(lambda text: text), "work": handler(work)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", methods),))
    server.add_insecure_port(address)
    server.start()
    print("serving", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
