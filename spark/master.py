"""Master: parse the name of a Spark master, and check that it accepts connections before Spark is started.

With an unreachable master Spark retries for a minute, and then leaves a session behind whose every use hangs or fails.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from appbackplane.transport.errors import InvalidArgument, Unavailable

#: Run on this machine, on all its cores.
LOCAL = "local[*]"
#: A master answers at once; over a poor network, it answers the third packet.
CONNECT_LIMIT_S = 5.0
_LOCAL = re.compile(r"local|local\[(\*|[1-9]\d*)(,\s*\d+)?\]|local-cluster\[\d+,\s*\d+,\s*\d+\]")
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:(?P<port>\d{1,5}))?")
_PORTS = {"spark": 7077, "https": 443, "http": 80}
_EXPECTED = "expected local[N], local[*], spark://HOST:PORT, k8s://https://HOST:PORT or yarn"


class NoMaster(Unavailable):
    """No master accepts connections at the address."""


@dataclass(frozen=True, slots=True)
class Master:
    """A Spark master: its name in Spark's notation, and its addresses."""

    text: str
    #: One of local, spark, k8s and yarn.
    kind: str
    #: One reachable address is enough; empty: Spark finds the master in another way.
    addresses: tuple[tuple[str, int], ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether master and workers are on this machine, so that no other machine has to reach this process."""
        return self.kind == "local" or (
            bool(self.addresses) and all(host in ("127.0.0.1", "localhost", "::1") for host, _ in self.addresses)
        )


def parsed(text: str) -> Master:
    """Parse Spark's notation of a master. Raises `InvalidArgument`."""
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
        raise InvalidArgument(f"{text!r} is not a master: {_EXPECTED}")
    addresses = tuple((each["host"].strip("[]"), int(each["port"] or _PORTS[scheme])) for each in found if each)
    if not all(0 < port < 65_536 for _, port in addresses):
        raise InvalidArgument(f"{text!r} is not a master: a port is a number from 1 to 65535")
    return Master(text, kind, addresses)


def check_answers(master: Master, limit_s: float = CONNECT_LIMIT_S) -> None:
    """Try to connect. Raises `NoMaster` if no address accepts a connection within `limit_s`."""
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
    """Build the one-line error from the reason for each address."""
    return NoMaster(f"no master answers at {master.text} ({'; '.join(because)}); omit --master to run on this machine")


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer for {CONNECT_LIMIT_S:g} s"
    return ((isinstance(error, OSError) and error.strerror) or str(error)).lower()
