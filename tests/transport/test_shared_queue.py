"""Shared queue: what a client does with calls that wait for room at a replica. No sockets, no clock."""

from __future__ import annotations

import pytest

from appbackplane.transport.batching import PEER_BYTES_MAX, SendResult
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import BOOST, CALL, CANCEL, CREDIT, Envelope, credit, reply, status
from appbackplane.transport.errors import Busy, Cancelled, DeadlineExceeded, PeerDown, Unavailable
from appbackplane.transport.events import Ended, Heard
from appbackplane.transport.retrying import BACKOFF_NS
from tests.transport.test_session import RUN, World, only_error

SECOND_NS = 1_000_000_000


def directory(version: int, **generations: int | None) -> Directory:
    """Two replicas that share the calls of `till.ring`. A generation of None is down."""
    places = {
        name: Place(number or 1, str(RUN / f"{name}-{number or 1}.sock"), number is not None, is_pulled=True)
        for name, number in ({"web": 1, "shop": 1} | generations).items()
    }
    return Directory("s", version, places, {"till.ring": ("web", "shop")}, priorities={"till.ring": 4})


@pytest.fixture
def world() -> World:
    """Both replicas have one call, and `third` and `fourth` wait."""
    world = World()
    world.push(directory(2))
    for token in ("first", "second", "third", "fourth"):
        call(world, token)
    assert world.turn() == []
    return world


def call(
    world: World, token: str, *, priority: int | None = None, timeout_ns: int = 10 * SECOND_NS, retry: bool = True
) -> int:
    """Begin one."""
    spec = world.spec({"of": token}, "till.ring", timeout_ns=timeout_ns, priority=priority, is_retried=retry)
    return world.session.call(token, spec, world.now_ns)


def calls_at(world: World) -> dict[str, list[Envelope]]:
    """What has come to each replica since the last time, but for farewells."""
    return {name: [one for one in world.link.take(name) if one.route == "till.ring"] for name in ("web-1", "shop-1")}


def names(envelopes: list[Envelope]) -> list[str]:
    """Whose calls they are."""
    return [one.body["of"] for one in envelopes]


def grant(world: World, name: str, may_send: int) -> list[Ended | Heard]:
    """A replica has room for more."""
    world.link.feed(name, credit(0, may_send))
    return world.turn()


def test_what_waits_is_sent_where_there_is_room(world: World) -> None:
    """With the id that its caller knows, and the bytes that it had then."""
    at = calls_at(world)
    assert sorted(names(at["web-1"] + at["shop-1"])) == ["first", "second"]
    assert world.session.outstanding_count == 4
    world.link.feed("web-1", reply(at["web-1"][0].id, "done"), credit(0, 2))
    (ended,) = world.turn()
    assert isinstance(ended, Ended) and ended.result == "done"
    (third,) = calls_at(world)["web-1"]
    assert third.body == {"of": "third"} and third.kind == CALL
    world.link.feed("web-1", reply(third.id, 3))
    assert world.turn() == [Ended("third", 3, None)]


def test_what_waits_can_be_cancelled_and_boosted(world: World) -> None:
    """Nothing is said of it, since nobody has it."""
    calls_at(world)
    urgent = call(world, "fifth")
    world.session.boost(urgent, 1)
    world.session.cancel(urgent - 2)
    (event,) = world.turn()
    assert isinstance(event, Ended) and event.token == "third" and isinstance(event.error, Cancelled)
    assert calls_at(world) == {"web-1": [], "shop-1": []}
    assert grant(world, "shop-1", 3) == []
    assert names(calls_at(world)["shop-1"]) == ["fifth", "fourth"]
    world.session.boost(urgent, 0)
    world.turn()
    assert [one.kind for one in world.link.take("shop-1")] == [BOOST], "it has left"
    world.session.cancel(urgent)
    world.turn()
    assert [one.kind for one in world.link.take("shop-1")] == [CANCEL]


def test_what_waits_too_long_ends_by_its_deadline(world: World) -> None:
    """And is sent nowhere then."""
    call(world, "hasty", timeout_ns=SECOND_NS)
    error = only_error(world.turn(SECOND_NS))
    assert type(error) is DeadlineExceeded
    assert error.message == "till.ring: no replica had room for it before the deadline"
    calls_at(world)
    grant(world, "web-1", 9)
    assert names(calls_at(world)["web-1"]) == ["third", "fourth"]


def test_an_urgent_call_is_sent_at_once(world: World) -> None:
    """It waits for nobody's room."""
    calls_at(world)
    call(world, "urgent", priority=0)
    world.turn()
    at = calls_at(world)
    assert names(at["web-1"] + at["shop-1"]) == ["urgent"]


def test_a_replica_that_dies_takes_only_its_own_calls_along(world: World) -> None:
    """Those that wait are done by the other, or by the next generation."""
    at = calls_at(world)
    lost = names(at["web-1"])
    (ended,) = world.push(directory(3, web=None))
    assert isinstance(ended, Ended) and [ended.token] == lost and isinstance(ended.error, PeerDown)
    assert calls_at(world)["shop-1"] == []
    assert world.push(directory(4, web=2)) == []
    assert names(world.link.take("web-2")) == ["third"], "a new one has room for one"


@pytest.mark.parametrize("retry", [True, False])
def test_what_waits_when_all_replicas_are_down_is_retried_or_told(world: World, retry: bool) -> None:
    """As a call that is made then."""
    calls_at(world)
    call(world, "impatient", retry=False)
    ended = {one.token: one.error for one in world.push(directory(3, web=None, shop=None)) if isinstance(one, Ended)}
    assert {token: type(error) for token, error in ended.items()} == {
        "first": PeerDown, "second": PeerDown, "impatient": Unavailable,
    }  # fmt: skip
    assert world.push(directory(4, web=2, shop=2)) == []
    world.turn(BACKOFF_NS)
    assert sorted(names(world.link.take("web-2") + world.link.take("shop-2"))) == ["fourth", "third"]


def test_what_was_refused_waits_for_room_again(world: World) -> None:
    """A retry is a call like others."""
    at = calls_at(world)
    world.link.feed("web-1", status(at["web-1"][0].id, Busy("full"), is_refused=True), credit(0, 2))
    assert world.turn() == []
    assert names(calls_at(world)["web-1"]) == ["third"]
    assert world.turn(BACKOFF_NS) == []
    assert calls_at(world) == {"web-1": [], "shop-1": []}
    assert grant(world, "web-1", 4) == []
    assert sorted(names(calls_at(world)["web-1"])) == sorted(["fourth", *names(at["web-1"])])


def test_what_does_not_fit_the_queue_of_a_replica_is_told(world: World) -> None:
    """It does not read."""
    call(world, "impatient", retry=False)
    calls_at(world)
    peer = next(peer for peer, name in world.link.peers.items() if name == "web-1")
    world.link.answers["web-1"] = SendResult.FULL
    while world.session.core._outbox.add(peer, bytes(PEER_BYTES_MAX // 4)):
        pass
    error = only_error(grant(world, "web-1", 9))
    assert type(error) is Busy and "web does not read its messages" in error.message


def test_a_client_that_closes_or_loses_the_system_ends_what_waits(world: World) -> None:
    """Each caller waits for an end."""
    gone = World()
    gone.push(directory(2))
    for token in ("first", "second", "third"):
        call(gone, token)
    gone.turn()
    gone.session.system_gone(PeerDown("the supervisor is gone"))
    ended = [event for event in gone.turn() if isinstance(event, Ended)]
    assert sorted(event.token for event in ended) == ["first", "second", "third"]
    assert gone.session.outstanding_count == 0
    closed = [event for event in world.session.end_all(Cancelled("closed")) if isinstance(event, Ended)]
    assert sorted(event.token for event in closed) == ["first", "fourth", "second", "third"]
    assert world.session.core._outstanding_bytes == 0


def test_credit_of_strangers_and_strange_credit_is_dropped(world: World) -> None:
    """Any peer may send anything."""
    calls_at(world)
    world.link.feed("web-1", credit(0, 99), peer=b"stranger")
    world.link.feed("supervisor", credit(0, 99))
    world.link.feed("web-1", Envelope(CREDIT, 0, body="many"))
    assert world.turn() == []
    assert calls_at(world) == {"web-1": [], "shop-1": []}
    assert world.session.reader.malformed_count == 1
