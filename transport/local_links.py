"""Local links: which kind of link the processes of a system use on this host, and how a stranger finds out.

All processes of a system use one kind (`[system] local_link`). A client knows nothing of that setting: the kernel says of which
type the socket of the supervisor is.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, Union

from .link import Link

if TYPE_CHECKING:
    from .unix_link import UnixLink

Kind = Literal["zeromq", "unix"]
LocalLink: TypeAlias = Union[Link, "UnixLink"]
#: Types of the sockets that listen: ZeroMQ's first.
_TYPES: Final = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)


def local_link(kind: Kind, name: str, token: str = "") -> LocalLink:
    """A link of this kind. `name`, `token`: as `link.Link`."""
    if kind == "zeromq":
        return Link(name, token)
    from .unix_link import UnixLink  # most systems do not use it

    return UnixLink(name, token)


def kind_at(path: Path) -> Kind:
    """The kind of link that listens on `path`; ZeroMQ's if none does, or does yet."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(os.fspath(path))
        except BlockingIOError:  # its queue is full
            return "unix"
        except OSError:
            return "zeromq"
        return "unix"


def connected(path: Path, dial: Callable[[socket.socket], None]) -> socket.socket:
    """A socket that has connected to whichever link listens on `path`. `dial`: prepares it. Raises OSError."""
    for type in _TYPES:
        probe = socket.socket(socket.AF_UNIX, type)
        try:
            dial(probe)
            probe.connect(os.fspath(path))
        except OSError as error:
            probe.close()
            if error.errno != errno.EPROTOTYPE or type is _TYPES[-1]:
                raise
        else:
            return probe
    raise AssertionError("one of the types has raised")
