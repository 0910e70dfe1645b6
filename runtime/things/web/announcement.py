"""Announcement: the directory by DNS-SD on the local network, as `_wot._tcp` and `_directory._sub._wot._tcp` (Discovery, 6.3).

It tells the address under which others reach the gateway, its `base`, since the gateway itself listens on a loopback address.
Needs zeroconf, which answers on the same event loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from zeroconf import InterfaceChoice, ServiceInfo
from zeroconf.asyncio import AsyncZeroconf

from .directory_description import WELL_KNOWN

#: A service of a subtype is found as one of its type, too.
SUBTYPE: Final = "_directory._sub._wot._tcp.local."
TYPE: Final = "_wot._tcp.local."
#: Most bytes of the name of an instance (RFC 6763, section 4.1.1).
_NAME_BYTES_MAX: Final = 63
log = logging.getLogger(__name__)


class AnnouncedAddress(NamedTuple):
    """Where the directory is. `text`: its TXT record. `host`: a name or an IP address."""

    host: str
    port: int
    text: dict[str, str]


def address_of(base: str) -> AnnouncedAddress:
    """What is announced for an address such as "https://things.example/". Raises ValueError if its port is none."""
    parts = urlsplit(base)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    td = f"{parts.path.rstrip('/')}{WELL_KNOWN}"
    return AnnouncedAddress(parts.hostname or "", port, {"td": td, "type": "Directory", "scheme": parts.scheme})


def instance_of(system: str, host: str) -> str:
    """The name that people see in a list of services. A dot would divide it."""
    name = f"{system} on {host}".replace(".", "-").encode()[:_NAME_BYTES_MAX]
    return name.decode("utf-8", "ignore")


class Announcement:
    """One directory, announced while it runs."""

    def __init__(self, base: str, instance: str, interfaces: Sequence[str] | None = None) -> None:
        """`base`: the address of the directory. `interfaces`: their IP addresses; None: all."""
        self._address = address_of(base)
        self._instance = instance
        self._interfaces: Any = InterfaceChoice.All if interfaces is None else interfaces

    async def run(self, stopping: asyncio.Event) -> None:
        """Announce it until the server stops, and then that it is gone."""
        try:
            service = await self._service()
            zeroconf = AsyncZeroconf(interfaces=self._interfaces)
        except OSError as error:
            log.warning("the directory is not announced: %s: is the name in `base` known, and the network up?", error)
            return
        try:
            await (await zeroconf.async_register_service(service, allow_name_change=True))
            await stopping.wait()
            await zeroconf.async_unregister_all_services()
        except Exception:  # the edge: the gateway serves without its announcement
            log.exception("the directory is not announced any more")
        finally:
            await zeroconf.async_close()

    async def _service(self) -> ServiceInfo:
        host, port, text = self._address
        server = f"{host}."
        with suppress(ValueError):
            ipaddress.ip_address(host)
            server = f"{self._instance.replace(' ', '-')}.local."  # a host must have a name
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = sorted({str(each[4][0]) for each in found})
        name = f"{self._instance}.{TYPE}"
        return ServiceInfo(SUBTYPE, name, port=port, server=server, properties=text, parsed_addresses=addresses)
