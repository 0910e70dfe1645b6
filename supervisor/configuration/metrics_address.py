"""Metrics address: "HOST:PORT" of the configuration, and whether strangers could reach it. Pure."""

from __future__ import annotations

import ipaddress
from contextlib import suppress

from appbackplane.transport.security.addresses import is_loopback

_PORT_END = 1 << 16


def host_and_port(address: str) -> tuple[str, int]:
    """(host, port) of "127.0.0.1:9464", "localhost:9464" or "[::1]:9464". Raises ValueError with the expected form."""
    host, _, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    with suppress(ValueError):
        ipaddress.ip_address(host)
        if port.isascii() and port.isdigit() and int(port) < _PORT_END:
            return host, int(port)
    raise ValueError(f'expected "HOST:PORT" with a numeric host, such as "127.0.0.1:9464", got {address[:60]!r}')


def problem_of(address: str | None, *, is_public: bool) -> str | None:
    """Why the address cannot be used; None: it can, or there is none. `is_public`: others may reach it."""
    if address is None:
        return None
    try:
        host, _ = host_and_port(address)
    except ValueError as error:
        return str(error)
    if is_public or is_loopback(ipaddress.ip_address(host)):
        return None
    return f"others could read {address}: expected a loopback address, or metrics_public = true beside it"
