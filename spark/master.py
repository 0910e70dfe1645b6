"""Master: who runs Spark's tasks, by the name that Spark has for it; and whether anybody is there. Found out before Spark is.

Spark asks a master that is not there for a minute, and then leaves behind a session whose every use hangs or fails.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from appbackplane.transport.errors import InvalidArgument, Unavailable

#: This machine, all its cores.
LOCAL = "local[*]"
#: A master answers at once; over a poor network the third packet does.
CONNECT_LIMIT_S = 5.0
_LOCAL = re.compile(r"local|local\[(\*|[1-9]\d*)(,\s*\d+)?\]|local-cluster\[\d+,\s*\d+,\s*\d+\]")
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:(?P<port>\d{1,5}))?")
_PORTS = {"spark": 7077, "https": 443, "http": 80}
_EXPECTED = "expected local[N], local[*], spark://HOST:PORT, k8s://https://HOST:PORT or yarn"


class NoMaster(Unavailable):
    """Nobody answers there, or nobody who is a master."""


@dataclass(frozen=True, slots=True)
class Master:
    """As Spark names it, and where it is looked for first."""

    text: str
    #: local, spark, k8s or yarn.
    kind: str
    #: Any of them is enough; none: it is found in another way.
    addresses: tuple[tuple[str, int], ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether all of it is on this machine, so that nobody else need reach this process."""
        return self.kind == "local" or (
            bool(self.addresses) and all(host in ("127.0.0.1", "localhost", "::1") for host, _ in self.addresses)
        )


def parsed(text: str) -> Master:
    """Raises `InvalidArgument`."""
    if _LOCAL.fullmatch(text):
        return Master(text, "local")
    if text == "yarn":
        return Master(text, "yarn")
    if text.startswith("sc://"):
        raise InvalidArgument(f"{text!r} is a Spark Connect server, not a master: {_EXPECTED}")
    kind, separator, rest = text.partition("://")
    scheme = kind
    if kind == "k8s":
        first, has_scheme, after = rest.partition("://")
        scheme, rest = (first, after) if has_scheme else ("https", rest)
    found = [_ADDRESS.fullmatch(each) for each in rest.removesuffix("/").split(",")]
    if not separator or kind not in ("spark", "k8s") or scheme not in _PORTS or None in found:
        raise InvalidArgument(f"{text!r} is no master: {_EXPECTED}")
    addresses = tuple((each["host"].strip("[]"), int(each["port"] or _PORTS[scheme])) for each in found if each)
    if not all(0 < port < 65_536 for _, port in addresses):
        raise InvalidArgument(f"{text!r} is no master: a port is a number from 1 to 65535")
    return Master(text, kind, addresses)


def check_answers(master: Master, limit_s: float = CONNECT_LIMIT_S) -> None:
    """Raises `NoMaster` where none of its addresses takes a connection."""
    refused: list[str] = []
    for address in master.addresses:
        try:
            socket.create_connection(address, limit_s).close()
        except (OSError, UnicodeError) as error:  # UnicodeError: a part of a host's name is too long
            refused.append(f"{address[0]}:{address[1]}: {_said(error)}")
        else:
            return
    if refused:
        raise no_master(master, refused)


def no_master(master: Master, because: Sequence[str]) -> NoMaster:
    """The one line."""
    return NoMaster(
        f"no master answers at {master.text} ({'; '.join(because)}); without --master this machine's cores do"
    )


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer for {CONNECT_LIMIT_S:g} s"
    return ((isinstance(error, OSError) and error.strerror) or str(error)).lower()
