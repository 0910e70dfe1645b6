"""HTTP load: clients that each keep one request outstanding on a connection of their own. One thread, so that a core is left.

    python -m bench_cases.harness.http_load

Each line of its standard input describes one run as JSON: `port`, `seconds`, and `loads`, groups of `count` clients that
send `method` and `path`, to a `port` of their own if they have one. Each line of its output has, of each group, answers a
second and the p99 of their times in ms. Answers other than 200, 201 and 204 end it. An answer is short and comes in one piece,
but for one that `ends` with given bytes. A group with `per_s` keeps that pace: its clients take turns, and the time of a
request that was due while the one before was under way counts from then on.
"""

from __future__ import annotations

import heapq
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
        self._ends = load.get("ends", "").encode()
        self._parts = b""
        self._taken = taken
        self._began = 0.0
        self.every_s = load["count"] / load["per_s"] if "per_s" in load else 0.0
        #: When its next request is due; without a pace: now.
        self.due_s = 0.0

    def ask(self, began: float) -> None:
        """Send a request, whose time counts from `began`."""
        self._began = began
        self.socket.sendall(self._request)

    def heard(self, now: float) -> bool:
        """Whether the answer is whole."""
        answer = self.socket.recv(1 << 16)
        if self._ends:
            answer = self._parts + answer
            self._parts = b"" if answer.endswith(self._ends) or not answer else answer
            if self._parts:
                return False
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 204", b"HTTP/1.1 201")):
            raise RuntimeError(f"the server answers {answer[:200]!r}")
        self._taken.append(now - self._began)
        self.due_s = self.due_s + self.every_s if self.every_s else now
        return True


def measured(port: int, seconds: float, loads: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """One run."""
    groups: list[list[float]] = [[] for _ in loads]
    clients: dict[int, _Client] = {}
    poll = select.epoll()
    for load, taken in zip(loads, groups, strict=True):
        for _ in range(load["count"]):
            client = _Client(load.get("port", port), load, taken)
            clients[client.socket.fileno()] = client
            poll.register(client.socket, select.EPOLLIN)
    began = now = time.perf_counter()
    later: list[tuple[float, int]] = []
    for number, (fd, client) in enumerate(clients.items()):
        client.due_s = began + number / len(clients) * client.every_s  # evenly
        heapq.heappush(later, (client.due_s, fd))
    while now - began < seconds:
        wait_s = min(1.0, max(0.0, later[0][0] - now)) if later else 1.0
        events = poll.poll(wait_s)
        now = time.perf_counter()
        for fd, _ in events:
            client = clients[fd]
            if client.heard(now):
                if client.due_s <= now:
                    client.ask(client.due_s)
                else:
                    heapq.heappush(later, (client.due_s, fd))
            now = time.perf_counter()
        while later and later[0][0] <= now:
            clients[heapq.heappop(later)[1]].ask(now)
    passed = time.perf_counter() - began
    for client in clients.values():
        client.socket.close()
    poll.close()
    return [{"per_s": len(taken) / passed, "p99_ms": 1e3 * percentile(taken, 0.99)} for taken in groups]


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(measured(**json.loads(line))), flush=True)
