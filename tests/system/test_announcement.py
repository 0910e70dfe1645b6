"""The directory on the local network, by DNS-SD, over the loopback interface."""

from __future__ import annotations

import asyncio
import queue
import socket
from typing import Any

import pytest
from zeroconf import ServiceBrowser, ServiceListener, Zeroconf

from appbackplane.runtime.things.web.announcement import SUBTYPE, TYPE, Announcement
from tests.waiting import LIMIT_S


class Neighbours(ServiceListener):
    """Those that come and go."""

    def __init__(self) -> None:
        self.news: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()

    def add_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self.news.put(("here", type_, name))

    def remove_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self.news.put(("gone", type_, name))

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
        announcement = Announcement("https://127.0.0.1:8443/house/", "home on desk", interfaces=["127.0.0.1"])
        running = asyncio.create_task(announcement.run(stopping))
        here = {await asyncio.to_thread(found.news.get, timeout=LIMIT_S) for _ in range(2)}
        service = await asyncio.to_thread(zeroconf.get_service_info, TYPE, f"home on desk.{TYPE}", 10_000)
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
    name = f"home on desk.{TYPE}"
    assert here == {("here", TYPE, name), ("here", SUBTYPE, name)}
    assert gone == {("gone", TYPE, name), ("gone", SUBTYPE, name)}
    assert (service.port, service.parsed_addresses()) == (8443, ["127.0.0.1"])
    text = {"td": "/house/.well-known/wot", "type": "Directory", "scheme": "https"}
    assert service.decoded_properties == text
