"""SSE load: subscribers of one stream of server-sent events, in one thread, and how late the last one gets a message.

    python -m bench_cases.harness.sse_load

The first line of its standard input is JSON: `port`, `path`, `count` subscribers, and `mutes`, further ones that never read. It
answers `open` when all streams are. To each further line it answers with the moment at which the last subscriber had its next
message, in seconds of the monotonic clock, which the processes of a machine share.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import sys
import time

#: Connections opened before the answers are read: they stay below the backlog of a server.
BATCH = 500


class SseSubscribers:
    """The connections that read."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}

    def open(self, port: int, path: str, count: int) -> None:
        """Open so many more streams."""
        for begun in range(0, count, BATCH):
            new = [_subscribed(port, path) for _ in range(min(BATCH, count - begun))]
            for each in new:
                self._sockets[each.fileno()] = each
                self._poll.register(each, select.EPOLLIN)
            self.wait(b": open", {each.fileno() for each in new})

    def wait(self, text: bytes, numbers: set[int] | None = None) -> float:
        """Wait until each has read this text; the moment of the last one."""
        left = set(self._sockets) if numbers is None else numbers
        while left:
            for number, _ in self._poll.poll():
                part = self._sockets[number].recv(1 << 16)
                if not part:
                    raise RuntimeError("the gateway has closed a stream")
                if text in part:
                    left.discard(number)
        return time.monotonic()


def _subscribed(port: int, path: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return connection


def main() -> None:
    """Serve the lines."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run = json.loads(sys.stdin.readline())
    mutes = [_subscribed(run["port"], run["path"]) for _ in range(run["mutes"])]
    subscribers = SseSubscribers()
    subscribers.open(run["port"], run["path"], run["count"])
    print("open", flush=True)
    for _ in sys.stdin:
        print(subscribers.wait(b"data: "), flush=True)
    del mutes


if __name__ == "__main__":
    main()
