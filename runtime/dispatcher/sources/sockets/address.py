"""SocketAddress: where a socket listens or connects to, checked before an operation is begun.

Host names are not resolved: that may take seconds, and nothing here waits. `localhost` is 127.0.0.1.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from contextlib import suppress
from typing import Any

from appbackplane.transport.errors import InvalidArgument

#: sockaddr_un.sun_path has 108 bytes, with the final NUL.
UNIX_PATH_BYTES_MAX = 107
#: TCP keep-alive: when a silent peer is first probed, and how often then. The system's default is two hours, and until then a
#: vanished peer counts in `connections_max`.
KEEP_IDLE_S = 60
KEEP_EVERY_S = 10


class SocketAddress:
    """("192.0.2.7", 9000), ("::1", 9000), or the path of a Unix socket ("\\0name": an abstract one)."""

    __slots__ = ("family", "place")

    def __init__(self, given: Any) -> None:
        """Check an address given by a user. Raises `InvalidArgument`."""
        self.place: Any = given
        if isinstance(given, str) and 0 < len(given.encode(errors="surrogateescape")) <= UNIX_PATH_BYTES_MAX:
            self.family = socket.AF_UNIX
            return
        try:
            host, port = given
            number = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
            if isinstance(given, str) or not (type(port) is int and 0 <= port < 1 << 16):
                raise ValueError(port)
        except (TypeError, ValueError):
            raise InvalidArgument(
                f"address {given!r}: expected (IP address, port), or the path of a Unix socket; names are not looked up here, "
                "since that may take its time"
            ) from None
        self.family = socket.AF_INET if number.version == 4 else socket.AF_INET6
        self.place = (str(number), port)

    @property
    def is_abstract(self) -> bool:
        """Whether it is a Unix socket without a file."""
        return isinstance(self.place, str) and self.place.startswith("\0")

    def is_left_over(self) -> bool:
        """Whether it is the file of a Unix socket at which no process listens any more."""
        if self.family != socket.AF_UNIX or self.is_abstract:
            return False
        with self.socket() as probe, suppress(OSError):
            return stat.S_ISSOCK(os.stat(self.place).st_mode) and probe.connect_ex(self.place) == errno.ECONNREFUSED
        return False

    def socket(self) -> socket.socket:
        """A new non-blocking socket of its family. Raises OSError."""
        made = socket.socket(self.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        if self.family != socket.AF_UNIX:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A device that lost its power closes no connection. Accepted sockets inherit this option.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_IDLE_S)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_EVERY_S)
        return made

    def of_name(self, name: Any) -> str:
        """The kernel's name of a local or remote end, as text."""
        if isinstance(name, bytes):
            return name.decode(errors="backslashreplace")
        if isinstance(name, str):
            return name
        host, port = name[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def __str__(self) -> str:
        return self.of_name(self.place)
