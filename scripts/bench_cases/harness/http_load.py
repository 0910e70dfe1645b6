"""HTTP load: clients that each keep one request outstanding on a connection of their own. One thread, so that a core is left.

    python -m bench_cases.harness.http_load

Each line of its standard input describes one run as JSON: `port`, `seconds`, and `loads`, groups of `count` clients that
send `method` and `path`. Each line of its output has, of each group, answers a second and the p99 of their times in ms. Answers
other than 200 and 204 end it.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .timing import percentile


class _Client:
    def __init__(self, port: int, load: Mapping[str, Any], taken: list[float]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = json.dumps(load["body"]).encode() if "body" in load else b""
        head = (
            f"{load['method']} {load['path']} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body
        self._taken = taken
        self._began = 0.0

    def ask(self) -> None:
        self._began = time.perf_counter()
        self.socket.sendall(self._request)

    def heard(self) -> None:
        """The answer is there: they are short, and come in one piece."""
        answer = self.socket.recv(1 << 16)
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 204")):
            raise RuntimeError(f"the server answers {answer[:200]!r}")
        self._taken.append(time.perf_counter() - self._began)


def measured(port: int, seconds: float, loads: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """One run."""
    groups: list[list[float]] = [[] for _ in loads]
    clients = {}
    poll = select.epoll()
    for load, taken in zip(loads, groups, strict=True):
        for _ in range(load["count"]):
            client = _Client(load.get("port", port), load, taken)
            clients[client.socket.fileno()] = client
            poll.register(client.socket, select.EPOLLIN)
    began = time.perf_counter()
    for client in clients.values():
        client.ask()
    while time.perf_counter() - began < seconds:
        for fd, _ in poll.poll(1.0):
            clients[fd].heard()
            clients[fd].ask()
    passed = time.perf_counter() - began
    for client in clients.values():
        client.socket.close()
    poll.close()
    return [
        {"per_s": len(taken) / passed, "p50_ms": 1e3 * percentile(taken, 0.5), "p99_ms": 1e3 * percentile(taken, 0.99)}
        for taken in groups
    ]


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(measured(**json.loads(line))), flush=True)
