"""Pyro5: a daemon in another process. A proxy belongs to one thread and has one call outstanding.

So a window of calls is a window of threads, each with a proxy: eight of them, since a thousand would measure threads.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import Pyro5.api

from ..harness.bulk import compute
from ..harness.processes import hear, program

THREADS = 8


class Server:
    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()

    @Pyro5.api.expose
    def echo(self, text: str) -> str:
        return text

    @Pyro5.api.expose
    def work(self, seconds: float) -> None:
        with self._one_at_a_time:
            compute(seconds)


class Client:
    """A proxy a thread."""

    def __init__(self, uri: str) -> None:
        self._uri, self._own = uri, threading.local()
        self._bulk, self._urgent = ThreadPoolExecutor(THREADS), ThreadPoolExecutor(1)

    def submit(self, text: str) -> Future[Any]:
        return self._urgent.submit(lambda: self._proxy().echo(text))

    def submit_work(self, seconds: float) -> Future[Any]:
        return self._bulk.submit(lambda: self._proxy().work(seconds))

    def _proxy(self) -> Any:
        proxy = getattr(self._own, "proxy", None)
        if proxy is None:
            proxy = self._own.proxy = Pyro5.api.Proxy(self._uri)
        return proxy


@contextmanager
def serving() -> Iterator[Client]:
    """A daemon on a Unix socket."""
    with (
        tempfile.TemporaryDirectory(prefix="ab-") as folder,
        program("peers.pyro5_peer", f"{folder}/pyro.sock") as child,
    ):
        yield Client(hear(child))


def main(path: str) -> None:
    daemon = Pyro5.api.Daemon(unixsocket=path)
    print(daemon.register(Server(), "server"), flush=True)
    daemon.requestLoop()


if __name__ == "__main__":
    main(sys.argv[1])
