"""Raw HTTP: bytes to a gateway as they are, and the statuses that come back. Clients of the standard library mend too much."""

from __future__ import annotations

import re
import socket

from tests.waiting import LIMIT_S

#: Of each answer in what a connection brought. Bodies of the gateway hold no such line.
_STATUS = re.compile(rb"^HTTP/1\.[01] (\d{3}) ", re.MULTILINE)


def exchange(at: str, data: bytes, *, is_whole: bool = True) -> bytes:
    """Send these bytes, and return all that comes until the gateway closes the connection.

    `is_whole`: they end with a request that asks for that; else this side says that nothing more will come.
    """
    host, _, port = at.rpartition(":")
    answer = bytearray()
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
        try:
            connection.sendall(data)
            if not is_whole:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                answer += part
        except TimeoutError:
            raise
        except OSError:
            pass  # it closes connections on which it has heard enough
    return bytes(answer)


def statuses(answer: bytes) -> list[int]:
    """The statuses of the answers, but for `100 Continue`."""
    return [int(each) for each in _STATUS.findall(answer) if each != b"100"]


def request(method: str, path: str, *headers: str, body: bytes = b"", token: str = "") -> bytes:
    """A request after which the gateway closes the connection. `headers`: as they are, `Name: value`."""
    lines = [f"{method} {path} HTTP/1.1", "Connection: close", *headers]
    if not any(each.lower().startswith("host:") for each in headers):
        lines.append("Host: 127.0.0.1")
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body
