"""Sources: an operation is told who called, by what the kernel and this node vouch for, and not by what a peer says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from appbackplane.runtime import AppObject, PermissionDenied, operation
from appbackplane.runtime.execution.current import current
from appbackplane.runtime.execution.routing import Routing
from appbackplane.runtime.execution.sources import Sources
from appbackplane.runtime.objects.action import LOCAL
from appbackplane.runtime.objects.registry import Registry
from appbackplane.runtime.testing import MemoryLink, VirtualBackplane
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.link import Link
from tests.waiting import wait_until

WEB = b"web-1-abcd"
CLIENT = b"client/77-abcd"
CHAIN = [["web/shop", "shop.buy"], ["web/cart.7", "cart.pay"]]


@pytest.fixture
def routing() -> Routing:
    """The routing table knows one other backplane, whose process is 4711."""
    routing = Routing("till", Registry("till", 8), MemoryLink())
    routing.adopt(Directory("test", 1, {"web": Place(1, "/nowhere/web-1.sock", pid=4711)}))
    return routing


@pytest.fixture
def sources(routing: Routing) -> Sources:
    sources = Sources("till", routing, {})
    sources.note(WEB, 4711)
    sources.note(CLIENT, 77)
    return sources


def test_a_client_is_named_by_its_process(sources: Sources) -> None:
    assert sources.of(CLIENT, None, None) == "client:client/77"
    assert not sources.may_say(CLIENT)


def test_an_object_of_a_backplane_is_named(sources: Sources) -> None:
    assert sources.of(WEB, CHAIN, None) == "web/cart.7"
    assert sources.of(WEB, None, None) == "web", "a cast has no chain"
    assert sources.of(LOCAL, CHAIN, None) == "web/cart.7"
    assert sources.may_say(WEB) and sources.may_say(LOCAL)


def test_a_backplane_may_say_on_whose_behalf_it_calls(sources: Sources) -> None:
    assert sources.of(WEB, None, "node:b/1f2e") == "node:b/1f2e"


def test_a_client_cannot_pose_as_another(sources: Sources) -> None:
    """Neither by what it says, nor by its chain, nor by an identity like that of a backplane."""
    assert sources.of(CLIENT, CHAIN, "node:b/1f2e") == "client:client/77"
    sources.note(b"web-1-efgh", 78)
    assert sources.of(b"web-1-efgh", CHAIN, "web/cart.7") == "client:web-1-efgh/78"


def test_who_registers_later_is_a_backplane_from_then_on(sources: Sources, routing: Routing) -> None:
    sources.note(b"new-1-abcd", 5000)
    assert sources.of(b"new-1-abcd", CHAIN, None) == "client:new-1-abcd/5000"
    routing.adopt(Directory("test", 2, {"new": Place(1, "/nowhere/new-1.sock", pid=5000)}))
    sources.refresh()
    assert sources.of(b"new-1-abcd", CHAIN, None) == "web/cart.7"


def test_who_is_gone_is_forgotten(sources: Sources) -> None:
    """A process id is used again."""
    sources.forget(CLIENT)
    assert sources.of(CLIENT, None, None) == "client:client/0"
    sources.keep({})
    assert sources.of(WEB, CHAIN, None) == f"client:{WEB.decode()}/0"


def test_the_kernel_tells_the_process_behind_a_connection(tmp_path: Path) -> None:
    server, client = Link("till-1"), Link("client/1")
    try:
        server.bind(tmp_path / "till.sock")
        peer = client.connect(tmp_path / "till.sock")
        wait_until(lambda: client.send(peer, b"hello").name == "SENT", "it has connected")
        received = None

        def has_come() -> bool:
            nonlocal received
            received = server.receive()
            return received is not None

        wait_until(has_come, "it has come")
        assert server.process() == os.getpid(), "not 1, as its identity says"
    finally:
        client.close()
        server.close()


class Till(AppObject):
    def __init__(self) -> None:
        self.priorities: list[int] = []

    @operation(priority=3)
    def pay(self, cents: int) -> int:
        """Pay."""
        action = current.action
        assert action is not None
        self.priorities.append(action.priority)
        return cents


def shop(**rules: int | Literal["refuse"]) -> tuple[VirtualBackplane, Till]:
    """A backplane with rules, and a client of it, `test`, that has the process 1."""
    backplane = VirtualBackplane(sources={pattern.replace("_", ":"): rule for pattern, rule in rules.items()})
    till = backplane.add(Till())
    backplane.link.processes[b"test"] = 1
    return backplane, till


def test_a_source_is_given_a_priority() -> None:
    """Also where its caller asks for another one (seed 002)."""
    backplane, till = shop(**{"client_test/*": 6, "client_*": 1})
    backplane.call("bench.pay", cents=5, priority=0).result()
    backplane.call("bench.pay", cents=5).result()
    assert till.priorities == [6, 6], "the first rule that fits"


def test_a_source_is_refused() -> None:
    backplane, till = shop(**{"client_test/1": "refuse"})
    error = backplane.call("bench.pay", cents=5).error()
    assert isinstance(error, PermissionDenied)
    assert "client:test/1" in error.message and "sources" in error.message
    assert till.priorities == []


def test_what_no_rule_fits_is_as_without_any() -> None:
    backplane, till = shop(**{"node_*": "refuse"})
    assert backplane.call("bench.pay", cents=5).result() == 5
    assert till.priorities == [3]
