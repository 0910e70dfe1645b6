"""Callers that have died: what was queued for them is withdrawn, and what they only sent stays."""

from __future__ import annotations

from enum import Enum

import pytest

from appbackplane.runtime import AppObject, BackplaneError, Component, StateMachine, operation, pause
from appbackplane.runtime.execution.intake.caller_liveness import HEARD_MAX, PROBE_NS, WITHDRAWN_MAX
from appbackplane.runtime.execution.outgoing.publishing import SUBSCRIBERS_SWEEP
from appbackplane.runtime.execution.services.monitors import Monitors
from appbackplane.runtime.execution.services.node_services import EngineNodeServices
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import CALL, CAST, Envelope

SECOND_NS = 1_000_000_000
DEAD, LIVING = b"client/dead", b"client/living"


class Stage(Enum):
    """Of a gate."""

    CLOSED = "closed"
    OPEN = "open"


class Gate(StateMachine):
    """Stays closed."""

    initial = Stage.CLOSED

    @operation(accepted_in=(Stage.OPEN,), otherwise="defer")
    def walk(self) -> None:
        """Waits for it to open."""


class Desk(AppObject):
    """Does things, and remembers which."""

    def __init__(self) -> None:
        self.done: list[object] = []

    @operation()
    def note(self, what: int) -> None:
        """Quick."""
        self.done.append(what)

    @operation()
    async def wait(self, seconds: float) -> None:
        """For so long, or until nobody wants it any more."""
        try:
            await pause(seconds)
        except BackplaneError as error:
            self.done.append(type(error).__name__)
            raise

    @operation()
    async def ask(self) -> None:
        """Somebody outside."""
        await self.call("oracle.answer")

    @operation(digest="key_of")
    def dig(self) -> None:
        """Wherever that is."""
        self.done.append("dug")


class Office(Component):
    """A desk and a gate."""

    def __init__(self) -> None:
        self.looked_up = 0

    def setup(self) -> None:
        self.desk = Desk()
        self.add(self.desk, key="desk")
        self.add(Gate(), key="gate")

    def key_of(self) -> str:
        """Slow, in earnest."""
        self.looked_up += 1
        return "desk"


@pytest.fixture
def office() -> VirtualBackplane:
    """A backplane with an office."""
    return VirtualBackplane(Office(), outside=("oracle.answer",))


def desk(office: VirtualBackplane) -> Desk:
    """Its desk."""
    found = office.backplane.engine.registry.by_key("office", "desk")
    assert isinstance(found, Desk)
    return found


def call(office: VirtualBackplane, peer: bytes, id: int, route: str, key: str | None = "desk", **body: object) -> None:
    """As this client."""
    office.hear(Envelope(CALL, id, None, f"office.{route}", key, None, None, body), peer)


def outstanding(office: VirtualBackplane) -> int:
    """Requests that count."""
    return int(office.backplane.statistics()["components"]["office"]["outstanding"])


def answered_to(office: VirtualBackplane, peer: bytes) -> int:
    """Frames that were sent to it, and are not asking whether it is there."""
    return sum(to == peer and frame != b"\x90" for to, frame in office.link.sent)


def test_what_is_queued_for_a_caller_is_withdrawn_once_an_answer_does_not_reach_it(office: VirtualBackplane) -> None:
    """DESIGN 12.5. A thousand calls of a client that was killed would be run one after the other, for nobody."""
    for id in range(1, 1_001):
        call(office, DEAD, id, "note", what=id)
    office.link.gone.add(DEAD)
    office.hear(Envelope(CAST, 0, None, "office.note", "desk", None, None, {"what": -1}), DEAD)
    office.run_until_idle()
    done = desk(office).done
    assert len(done) < 20, "one a look at the link, in which 64 frames are read"
    assert done[-1] == -1, "a cast is not a call: nobody has ever waited for it"
    assert outstanding(office) == 0
    links = office.backplane.statistics()["links"]
    assert links["abandoned"] == 1_000 + 1 - len(done)
    assert office.backplane.statistics()["operations"]["office.note"]["cancelled"] == links["abandoned"]


def test_nobody_else_loses_anything_by_it(office: VirtualBackplane) -> None:
    """Those in between are served, in their order."""
    for id in range(1, 101):
        call(office, DEAD, id, "note", what=-id)
        office.call("office.note", key="desk", what=id)
    office.link.gone.add(DEAD)
    office.run_until_idle()
    assert [what for what in desk(office).done if int(str(what)) > 0] == list(range(1, 101))


@pytest.mark.parametrize("route", ["wait", "ask", "walk"])
def test_a_dead_caller_of_work_that_takes_its_time_is_noticed(office: VirtualBackplane, route: str) -> None:
    """No answer is due that could fail to arrive: it is asked whether it is there. Running, awaiting a callee, put off."""
    body = {"seconds": 25.0} if route == "wait" else {}
    call(office, DEAD, 1, route, "gate" if route == "walk" else "desk", **body)
    office.run_until_idle()
    assert outstanding(office) == 1
    office.link.gone.add(DEAD)
    office.advance(2 * PROBE_NS / SECOND_NS)
    assert outstanding(office) == 0
    assert office.backplane.statistics()["operations"][f"office.{route}"]["cancelled"] == 1
    if route == "wait":
        assert desk(office).done == ["Cancelled"]
    if route == "ask":
        assert office.outside_calls()[0].is_cancelled


def test_a_call_with_a_digester_is_withdrawn_too(office: VirtualBackplane) -> None:
    """Its key need not be found."""
    for id in range(1, 11):
        call(office, DEAD, id, "dig", key=None)
    engine = office.backplane.engine
    engine.drain(office.clock.now_ns())
    assert outstanding(office) == 10
    office.link.gone.add(DEAD)
    engine.callers.gone(DEAD)
    office.run_until_idle()
    assert outstanding(office) == 0
    assert desk(office).done == []
    assert engine.callers.abandoned_count == 10


def test_whoever_lives_is_asked_now_and_then_and_keeps_its_calls(office: VirtualBackplane) -> None:
    """An empty batch, which says nothing: one a second is nothing to either side, and a client that is full is alive."""
    call(office, LIVING, 1, "wait", seconds=10.0)
    office.link.full.add(b"client/full")
    call(office, b"client/full", 1, "walk", "gate")
    office.run_until_idle()
    office.link.sent.clear()
    asked = 0
    end_ns = office.clock.now_ns() + 5 * SECOND_NS
    engine = office.backplane.engine
    while (wake_ns := engine.next_wake_ns()) is not None and wake_ns <= end_ns:
        office.clock.move(wake_ns)
        engine.drain(wake_ns)
        asked += sum(frame == (LIVING, b"\x90") for frame in office.link.sent)
        office.link.sent.clear()
    assert 4 <= asked <= 6
    assert outstanding(office) == 2
    assert desk(office).done == []


def test_an_idle_backplane_has_no_reason_to_wake(office: VirtualBackplane) -> None:
    """Nobody waits for anything: there is nobody to ask about."""
    office.call("office.note", key="desk", what=1).result()
    office.advance(2.0)
    assert office.backplane.engine.next_wake_ns() is None


def test_a_backplane_that_has_died_is_a_caller_that_has_died(office: VirtualBackplane) -> None:
    """The supervisor says so at once: nobody has to ask."""
    engine = office.backplane.engine
    places = {**engine.routing.directory.backplanes, "caller": Place(3, "/nowhere/caller-3.sock")}
    version = engine.routing.directory.version
    engine.update(Directory("test", version + 1, places), office.clock.now_ns())
    call(office, b"caller-3-5eed", 1, "wait", seconds=25.0)
    office.run_until_idle()
    office.link.gone.add(b"caller-3-5eed")
    places = {**places, "caller": Place(4, "/nowhere/caller-4.sock")}
    engine.update(Directory("test", version + 2, places), office.clock.now_ns())
    office.run_until_idle()
    assert desk(office).done == ["Cancelled"]
    assert outstanding(office) == 0


def test_a_backplane_whose_name_begins_like_that_of_a_dead_one_lives(office: VirtualBackplane) -> None:
    """The seventh generation of `caller-3`, when the third of `caller` has died."""
    engine = office.backplane.engine
    places = {"caller": Place(3, "/nowhere/caller-3.sock"), "caller-3": Place(7, "/nowhere/caller-3-7.sock")}
    version = engine.routing.directory.version
    engine.update(Directory("test", version + 1, places), office.clock.now_ns())
    call(office, b"caller-3-7-5eed", 1, "wait", seconds=25.0)
    office.run_until_idle()
    engine.update(Directory("test", version + 2, {"caller-3": places["caller-3"]}), office.clock.now_ns())
    office.run_until_idle()
    assert outstanding(office) == 1


def test_a_thousand_calls_are_not_withdrawn_at_one_go(office: VirtualBackplane) -> None:
    """Each is looked for in a queue: whoever is urgent must not wait for all of them."""
    for id in range(1, 1_001):
        call(office, DEAD, id, "walk", "gate")
    office.run_until_idle()
    assert outstanding(office) == 1_000
    office.link.gone.add(DEAD)
    engine = office.backplane.engine
    engine.callers.gone(DEAD)
    engine.drain(office.clock.now_ns())
    assert outstanding(office) == 1_000 - WITHDRAWN_MAX
    assert engine.next_wake_ns() <= office.clock.now_ns()
    office.advance(0.001)
    assert outstanding(office) == 0


def test_subscribers_that_have_died_are_found_though_nothing_is_published(office: VirtualBackplane) -> None:
    """A program that listens and is killed leaves its subscription; where nothing is ever said on that topic, no message
    tells of it, and a thousand a day would fill us."""
    engine = office.backplane.engine
    office.link.full.add(LIVING)
    engine.publishing.subscribe(LIVING, "quiet.*")
    for number in range(10 * SUBSCRIBERS_SWEEP):
        peer = b"client/%d" % number
        engine.publishing.subscribe(peer, "quiet.*")
        office.link.gone.add(peer)
        engine.drain(office.clock.now_ns())
    office.advance(0.001)
    assert len(engine.publishing._clients.matching("quiet.x")) <= 2 * SUBSCRIBERS_SWEEP
    assert LIVING in engine.publishing._clients.matching("quiet.x")


def test_whoever_takes_calls_for_elsewhere_is_told_too(office: VirtualBackplane) -> None:
    """What another node does for one who is dead, nobody here knows of: it asks who is there, and hears who is not."""
    gone: list[bytes] = []
    taken: list[bytes] = []
    host = EngineNodeServices(office.backplane.engine, Monitors(office.backplane.engine))
    host.take_foreign(lambda peer, _envelope, _now_ns: taken.append(peer), gone.append)
    for peer in (DEAD, LIVING):
        office.hear(Envelope(CALL, 1, None, "elsewhere.note", None, None, None, {}), peer)
    office.run_until_idle()
    assert (taken, gone) == ([DEAD, LIVING], [])
    office.link.gone.add(DEAD)
    host.look_for([DEAD, LIVING])
    office.run_until_idle()
    assert gone == [DEAD]
    host.take_foreign(None)
    host.look_for([DEAD])
    office.run_until_idle()
    assert gone == [DEAD]


def test_what_waits_while_nobody_reads_the_link_is_counted() -> None:
    """`preempt = false`. A call that came while the only worker ran for 0.4 s was reported with a wait of 95 us."""
    backplane = VirtualBackplane(Office())
    engine = backplane.backplane.engine
    backplane.run_until_idle()
    engine.see_unread(backplane.clock.now_ns())
    assert engine.intake.unread_since_ns == 0, "nothing has come"
    backplane.call("office.note", key="desk", what=1)
    for _ in range(2):  # the first look at it counts
        engine.see_unread(backplane.clock.now_ns())
        backplane.clock.sleep(0.2)
    backplane.run_until_idle()
    account = engine.statistics.of("office.note")
    assert account.wait.total_ns == 400_000_000
    backplane.clock.sleep(1)
    backplane.call("office.note", key="desk", what=2)
    backplane.run_until_idle()
    assert account.wait.total_ns == 400_000_000, "it was taken in at once"


def test_farewells_of_peers_that_are_gone_are_forgotten(office: VirtualBackplane) -> None:
    """Clients come and go under a new identity each: a set of all that ever said farewell grows without end."""
    callers = office.backplane.engine.callers
    farewell = Envelope(CAST, 0, None, f"backplane.{office.backplane.engine.backplane}.farewell", body={})
    office.hear(farewell, DEAD)
    office.run_until_idle()
    assert callers.farewells == {DEAD}
    callers.gone(DEAD)
    assert not callers.farewells
    for number in range(HEARD_MAX + 1):
        office.hear(farewell, b"client/%d" % number)
    office.run_until_idle()
    office.clock.sleep(2 * PROBE_NS / SECOND_NS)
    office.hear(farewell, LIVING)
    office.run_until_idle()
    assert len(callers.farewells) <= 2
