"""The directory on the local network, by DNS-SD, over the loopback interface."""

from __future__ import annotations

import asyncio
import os
import queue
import socket
from typing import Any

import pytest
from zeroconf import ServiceBrowser, ServiceListener, Zeroconf

from appbackplane.runtime.things.web.announcement import SUBTYPE, TYPE, Announcement
from tests.waiting import LIMIT_S

#: Of this process alone, as others may run the same test.
INSTANCE = f"home on desk {os.getpid()}"
NAME = f"{INSTANCE}.{TYPE}"


class Neighbours(ServiceListener):
    """Those that come and go."""

    def __init__(self) -> None:
        self.news: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()

    def add_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self._note("here", type_, name)

    def remove_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self._note("gone", type_, name)

    def _note(self, what: str, type_: str, name: str) -> None:
        if name == NAME:  # the network is shared with whatever else runs on this machine
            self.news.put((what, type_, name))

    def update_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        pass


def has_multicast() -> bool:
    """Whether messages to the group of DNS-SD can be sent on the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            sender.sendto(b"", ("224.0.0.251", 5353))
        except OSError:
            return False
    return True


@pytest.mark.skipif(not has_multicast(), reason="no multicast on the loopback interface")
def test_the_directory_is_found_on_the_network_and_leaves_it() -> None:
    """As a directory and as a thing, with the path of its description."""

    async def main(found: Neighbours) -> tuple[set[Any], Any, set[Any]]:
        stopping = asyncio.Event()
        announcement = Announcement("https://127.0.0.1:8443/house/", INSTANCE, interfaces=["127.0.0.1"])
        running = asyncio.create_task(announcement.run(stopping))
        here = {await asyncio.to_thread(found.news.get, timeout=LIMIT_S) for _ in range(2)}
        service = await asyncio.to_thread(zeroconf.get_service_info, TYPE, NAME, int(LIMIT_S * 1e3))
        stopping.set()
        await running
        return here, service, {await asyncio.to_thread(found.news.get, timeout=LIMIT_S) for _ in range(2)}

    found = Neighbours()
    zeroconf = Zeroconf(interfaces=["127.0.0.1"])
    try:
        for each in (TYPE, SUBTYPE):
            ServiceBrowser(zeroconf, each, found)
        here, service, gone = asyncio.run(main(found))
    finally:
        zeroconf.close()
    assert here == {("here", TYPE, NAME), ("here", SUBTYPE, NAME)}
    assert gone == {("gone", TYPE, NAME), ("gone", SUBTYPE, NAME)}
    assert (service.port, service.parsed_addresses()) == (8443, ["127.0.0.1"])
    text = {"td": "/house/.well-known/wot", "type": "Directory", "scheme": "https"}
    assert service.decoded_properties == text
