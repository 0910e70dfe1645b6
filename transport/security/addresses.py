"""Addresses of TCP links: which may be bound or connected to, with keys and without.

Without CURVE any process that reaches a port is believed, so a plain port is on loopback, or there is none. Names are not
looked up, as a resolver's answer may change from day to day; `localhost` means 127.0.0.1. Pure.
"""

from __future__ import annotations

import ipaddress
import re

from ..errors import InvalidArgument
from .keys import shown

SCHEME = "tcp://"
_PORT_MAX = 65_535
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_NUMERIC = re.compile(r"[0-9.]+")


def check_address(address: str, *, is_secured: bool, is_bound: bool = True, is_numeric: bool = False) -> str:
    """The address in ZeroMQ's form. `is_secured`: with CURVE and a gatekeeper; else loopback alone, on both ends.

    Port 0 is for binding: any that is free. `is_numeric`: no name, as for binding. Raises `InvalidArgument` that describes the
    expected form.
    """
    host, port = _parts(address)
    if port == 0 and not is_bound:
        raise InvalidArgument(f"{shown(address)}: port 0 is for who listens; expected 1 to {_PORT_MAX}")
    number = _number(host)
    if number is None:
        is_any = host == "*" and is_bound
        if not is_any and (is_bound or is_numeric or not _HOST.fullmatch(host) or _NUMERIC.fullmatch(host)):
            what = "a numeric host or *" if is_bound else "a numeric host" if is_numeric else "a host"
            raise InvalidArgument(f"{shown(address)}: expected {SCHEME} and {what}, such as {SCHEME}127.0.0.1:7000")
    if not is_secured and (number is None or not is_loopback(number)):
        raise InvalidArgument(
            f"{shown(address)}: without keys others could read it and take part in it: expected a loopback address, such "
            f"as {SCHEME}127.0.0.1:{port or 7000}, or a key pair (appbackplane keys new)"
        )
    if number is None:
        return f"{SCHEME}{host}:{port}"
    return f"{SCHEME}[{number}]:{port}" if number.version == 6 else f"{SCHEME}{number}:{port}"


def is_loopback(number: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is 127.0.0.0/8 or ::1. An IPv4 address inside an IPv6 one is not: CPython agrees only up to 3.12."""
    return number.is_loopback and (isinstance(number, ipaddress.IPv4Address) or number.ipv4_mapped is None)


def is_for_all(address: str) -> bool:
    """Whether a checked address stands for all addresses of a host, so that no peer can be told to connect there."""
    host, _ = _parts(address)
    number = _number(host)
    return host == "*" or (number is not None and number.is_unspecified)


def _parts(address: str) -> tuple[str, int]:
    host, colon, port = address.removeprefix(SCHEME).rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= _PORT_MAX
    if not address.startswith(SCHEME) or not colon or not is_number:
        raise InvalidArgument(f"{shown(address)}: expected tcp://HOST:PORT, such as {SCHEME}127.0.0.1:7000")
    return "127.0.0.1" if host == "localhost" else host, int(port)


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        found = ipaddress.ip_address(host[1:-1] if is_bracketed else host)
    except ValueError:
        return None
    if is_bracketed != (found.version == 6) or getattr(found, "scope_id", None):
        return None
    return found
