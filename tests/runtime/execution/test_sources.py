"""Sources: an operation is told who called, by what the kernel and this node vouch for, and not by what a peer says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from appbackplane.runtime import (
    Action,
    AppObject,
    Component,
    Endpoint,
    Outcome,
    PermissionDenied,
    Request,
    current,
    every,
    operation,
)
from appbackplane.runtime.execution.actions.blocking import blocking_call
from appbackplane.runtime.execution.intake.sources import Sources
from appbackplane.runtime.execution.outgoing.routing import Routing
from appbackplane.runtime.objects.action import LOCAL
from appbackplane.runtime.objects.registry import Registry
from appbackplane.runtime.testing import MemoryLink, VirtualBackplane
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import cast
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
        self.priorities.append(current().priority)
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


class Gate(Endpoint):
    """Turns each request into an action that keeps the request."""

    def __init__(self, desk: Desk) -> None:
        super().__init__("ask", priority=3)
        self.desk = desk
        self.requests: list[Request] = []

    def create_action(self, request: Request) -> Action:
        self.requests.append(request)
        return Nothing(self.desk, request.route, request.priority, request.deadline_ns)


class Nothing(Action):
    def run(self) -> Outcome:
        return Outcome.DONE


class Desk(Component):
    def setup(self) -> None:
        self.gate = Gate(self)
        self.expose(self.gate)


def ask(
    backplane: VirtualBackplane, route: str, peer: bytes, *, source: str | None, principal: str | None, **arguments: str
) -> None:
    """A cast as `peer` sends it, for an object that waits for its end."""
    request = cast(CallSpec(route, arguments, source=source, principal=principal))
    request.chain = CHAIN
    backplane.hear(request, peer)
    backplane.run_until_idle()


def test_an_endpoint_is_told_who_asks() -> None:
    desk = Desk()
    backplane = VirtualBackplane(desk)
    backplane.call("desk.ask").result()
    (request,) = desk.gate.requests
    assert (request.source, request.principal) == ("client:test/0", None)


class Teller(AppObject):
    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []

    @operation()
    def pay(self) -> None:
        """Pay."""
        self.asked.append((current().source, current().principal))


def test_an_operation_is_told_who_asks_and_on_whose_behalf() -> None:
    """What a backplane says is believed; what a client says is not."""
    backplane = VirtualBackplane()
    teller = backplane.add(Teller())
    engine = backplane.backplane.engine
    backplane.link.processes |= {WEB: 4711, CLIENT: 77}
    known = engine.routing.directory
    places = {**known.backplanes, "web": Place(1, "/nowhere/web-1.sock", pid=4711)}
    engine.update(Directory("test", known.version + 1, places), backplane.clock.now_ns())
    ask(backplane, "bench.pay", WEB, source="node:b/1f2e", principal="alice")
    ask(backplane, "bench.pay", WEB, source=None, principal=None)
    ask(backplane, "bench.pay", CLIENT, source="node:b/1f2e", principal="alice")
    assert teller.asked == [("node:b/1f2e", "alice"), ("web/cart.7", None), ("client:client/77", None)]


class Clock(AppObject):
    def __init__(self) -> None:
        self.sources: list[str] = []

    @every(1.0)
    def tick(self) -> None:
        """Nobody has asked for it."""
        self.sources.append(current().source)


def test_a_timer_has_no_source() -> None:
    backplane = VirtualBackplane()
    clock = backplane.add(Clock())
    backplane.advance(1.0)
    assert clock.sources == [""]


def test_outside_an_action_there_is_none() -> None:
    with pytest.raises(RuntimeError, match="no action"):
        current()


class Relay(AppObject):
    @operation()
    async def pass_on(self) -> None:
        """Pay at the teller, with a call and a cast."""
        await self.call("bench.pay")
        self.cast("bench.pay")


def test_a_principal_goes_along_the_chain_and_a_source_is_of_one_link() -> None:
    """An object that calls does so on behalf of whoever its own caller acts for."""
    backplane = VirtualBackplane()
    teller, _ = backplane.add(Teller()), backplane.add(Relay(), key="relay")
    engine = backplane.backplane.engine
    backplane.link.processes[WEB] = 4711
    known = engine.routing.directory
    places = {**known.backplanes, "web": Place(1, "/nowhere/web-1.sock", pid=4711)}
    engine.update(Directory("test", known.version + 1, places), backplane.clock.now_ns())
    ask(backplane, "bench.pass_on", WEB, source="node:b/1f2e", principal="alice")
    assert teller.asked == [("virtual/bench.relay", "alice"), ("virtual", "alice")]


class Gateway(AppObject):
    @operation()
    async def serve(self, user: str) -> None:
        """Pay on behalf of a user, whom a gateway has authenticated."""
        await self.request("bench.pay", {}, principal=user)


def test_a_principal_is_text() -> None:
    """With the same error compiled and interpreted."""
    backplane = VirtualBackplane()
    backplane.add(Teller())
    backplane.add(Muddle(), key="muddle")
    error = backplane.call("bench.confuse").error()
    assert "bench.pay: principal must be a string, got 5" in error.message


class Muddle(AppObject):
    @operation()
    async def confuse(self) -> None:
        """Name a number."""
        await self.request("bench.pay", {}, principal=5)  # type: ignore[arg-type]


def test_an_object_says_on_whose_behalf_it_calls() -> None:
    backplane = VirtualBackplane()
    teller, _ = backplane.add(Teller()), backplane.add(Gateway(), key="gateway")
    backplane.call("bench.serve", user="bob").result()
    assert teller.asked == [("virtual/bench.gateway", "bob")]


class Ward(AppObject):
    @operation(digest="bed_of")
    def admit(self, name: str) -> str:
        """Who asks, by the operation."""
        return current().source


class Clinic(Component):
    def setup(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self.add(Ward(), key="bed")

    def bed_of(self, name: str) -> str:
        """Who asks, by the digest."""
        self.seen.append((current().source, current().principal))
        return "bed"


def test_a_digest_is_told_who_asks() -> None:
    clinic = Clinic()
    backplane = VirtualBackplane(clinic)
    assert backplane.call("clinic.admit", name="ada").result() == "client:test/0"
    assert clinic.seen == [("client:test/0", None)]
    ask(backplane, "clinic.admit", LOCAL, source=None, principal="alice", name="ada")
    assert clinic.seen[1:] == [("web/cart.7", "alice")]


class Clerk(AppObject):
    @operation()
    def file(self) -> None:
        """Pay, and block the thread meanwhile."""
        blocking_call(self, "bench.pay", {})


def test_a_principal_goes_along_a_call_that_blocks() -> None:
    backplane = VirtualBackplane()
    teller, _ = backplane.add(Teller()), backplane.add(Clerk(), key="clerk")
    ask(backplane, "bench.file", LOCAL, source=None, principal="alice")
    assert teller.asked == [("virtual/bench.clerk", "alice")]
