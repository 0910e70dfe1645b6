"""Caller core: a session retries failed calls, with the same bytes, and each still ends once. No sockets, no clock."""

from typing import Any

import pytest

from appbackplane.transport.batching import PEER_BYTES_MAX, SendResult
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import (
    CANCEL,
    Envelope,
    argument_credit,
    argument_items,
    credit,
    reply,
    status,
)
from appbackplane.transport.errors import (
    Busy,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    PeerDown,
    Unavailable,
)
from appbackplane.transport.events import Credited, Ended, Heard
from appbackplane.transport.item_sender import ItemSender
from appbackplane.transport.retrying import BACKOFF_NS, SPREAD_NS
from tests.transport.test_session import World, directory, only_error

SECOND_NS = 1_000_000_000


def with_idempotent(*routes: str, version: int = 2, **generations: int | None) -> Directory:
    """The directory of the session's tests, some of its routes idempotent."""
    plain = directory(version, **generations)
    return Directory(plain.system, plain.version, plain.backplanes, plain.routes, plain.topics, routes)


@pytest.fixture
def world() -> World:
    """`query.search` may be called twice."""
    world = World()
    world.push(with_idempotent("query.search"))
    return world


def asked(world: World, socket: str = "query-1") -> Envelope:
    """The one thing that was said to it since the last time."""
    (envelope,) = world.link.take(socket)
    return envelope


def refuse(world: World, socket: str, call: Envelope, error: Any, *, is_refused: bool) -> list[Ended | Heard]:
    """It answers so."""
    world.link.feed(socket, status(call.id, error, is_refused=is_refused))
    return world.turn()


def test_what_is_refused_is_asked_again_in_the_same_words(world: World) -> None:
    """The body may have changed since; the deadline must not move, or a call that fails often would never end."""
    body = {"text": "x"}
    world.session.call(
        "one",
        world.spec(body, "index.stats", timeout_ns=10 * SECOND_NS, key="k", priority=3, idempotency_key="pay-1"),
        world.now_ns,
    )
    world.turn()
    first = asked(world, "index-1")
    body["text"] = "changed"
    assert refuse(world, "index-1", first, Busy("full", retry_after=0.25), is_refused=True) == []
    assert world.turn(250_000_000 - 1) == [] and world.link.take("index-1") == [], "not before it was asked to"
    assert world.turn(BACKOFF_NS) == []
    second = asked(world, "index-1")
    assert second.row()[2:] == first.row()[2:] and second.body == {"text": "x"} and second.idempotency_key == "pay-1"
    assert second.id != first.id
    world.link.feed("index-1", reply(first.id, "late"), reply(second.id, 42))
    assert world.turn() == [Ended("one", 42, None)]
    assert world.session.outstanding_count == 0 and world.session.core._outstanding_bytes == 0


@pytest.mark.parametrize(("route", "is_again"), [("query.search", True), ("index.stats", False)])
def test_a_death_is_tried_again_only_where_it_does_no_harm(world: World, route: str, is_again: bool) -> None:
    """Nobody knows whether the dead one had done it."""
    name = route.partition(".")[0]
    world.call("one", route)
    world.turn()
    ended = world.push(with_idempotent("query.search", version=3, **{name: 2}))
    if not is_again:
        assert isinstance(only_error(ended), PeerDown)
        return
    assert ended == []
    assert world.turn(BACKOFF_NS) == []
    world.link.feed("query-2", reply(asked(world, "query-2").id, "served"))
    assert world.turn() == [Ended("one", "served", None)]


def test_an_idempotency_key_makes_any_call_repeatable(world: World) -> None:
    """Whoever serves it does the work once."""
    world.session.call("one", world.spec({}, "index.stats", idempotency_key="k"), world.now_ns)
    world.turn()
    assert asked(world, "index-1").idempotency_key == "k"
    assert world.push(with_idempotent(version=3, index=2)) == []
    world.turn(BACKOFF_NS)
    assert asked(world, "index-2").idempotency_key == "k"


def test_an_idempotency_key_leads_to_one_place(world: World) -> None:
    """Another one would not know that it has been done. Calls without a key take turns."""
    homes = set()
    for number in range(20):
        for _ in range(3):
            world.session.call("x", world.spec({}, "any.one", idempotency_key=f"key-{number}"), world.now_ns)
        world.turn()
        here = {name for name in ("index-1", "query-1") if world.link.take(name)}
        assert len(here) == 1
        homes |= here
    assert homes == {"index-1", "query-1"}, "the keys are spread"


def test_what_is_wrong_or_unwanted_is_not_tried_again(world: World) -> None:
    """INTERNAL stays INTERNAL; and `retry=False` is for who wants to know at once."""
    world.call("one")
    world.turn()
    assert isinstance(
        only_error(refuse(world, "query-1", asked(world), InternalError("no"), is_refused=True)), InternalError
    )
    world.session.call("two", world.spec({}, is_retried=False), world.now_ns)
    world.turn()
    error = only_error(refuse(world, "query-1", asked(world), Busy("full"), is_refused=True))
    assert (str(error), error.attempts, error.is_refused) == ("full", 1, True)


def test_a_call_that_goes_on_failing_ends_before_its_deadline_and_says_how_often(world: World) -> None:
    """With the last error that it got, not with a deadline that explains nothing."""
    world.call("one", timeout_ns=SECOND_NS)
    ends_ns, count = world.now_ns + SECOND_NS, 0
    ended: list[Ended | Heard] = []
    while not ended:
        for call in world.link.take("query-1"):
            count += 1
            world.link.feed("query-1", status(call.id, Unavailable("stopping")))
        ended = world.turn(1_000_000)
    assert world.now_ns <= ends_ns
    error = only_error(ended)
    assert isinstance(error, Unavailable) and error.attempts == count > 3
    assert str(error) == f"stopping (after {count} attempts: the next would be too late)"
    assert world.turn(10 * SECOND_NS) == [] and world.session.outstanding_count == 0


def test_its_deadline_ends_an_attempt_like_any_call(world: World) -> None:
    """And it is told to the callee."""
    world.call("one", timeout_ns=SECOND_NS)
    world.turn()
    refuse(world, "query-1", asked(world), Busy("full"), is_refused=True)
    world.turn(BACKOFF_NS)
    second = asked(world)
    error = only_error(world.turn(SECOND_NS))
    assert isinstance(error, DeadlineExceeded) and error.attempts == 2
    assert [e.id for e in world.link.take("query-1") if e.kind == CANCEL] == [second.id]


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_call_is_taken_back_between_two_attempts_and_in_one(world: World, is_waiting: bool) -> None:
    """By the id that its caller knows, though it has another one by now."""
    id = world.call("one")
    world.turn()
    refuse(world, "query-1", asked(world), Busy("full"), is_refused=True)
    if not is_waiting:
        world.turn(BACKOFF_NS)
        second = asked(world)
    world.session.cancel(id)
    assert isinstance(only_error(world.turn(SECOND_NS // 2)), Cancelled)
    said = world.link.take("query-1")
    assert [e.kind for e in said] == ([] if is_waiting else [CANCEL])
    assert is_waiting or said[0].id == second.id
    assert world.session.outstanding_count == 0 and world.turn(SECOND_NS) == []


def test_what_finds_no_place_waits_for_one(world: World) -> None:
    """Nothing has been sent, so it does no harm, whatever it is; and it looks again as soon as there is news."""
    world.push(with_idempotent(version=3, index=None))
    with pytest.raises(Unavailable) as down:
        world.call("one", "index.stats")
    id = world.session.call_later(
        down.value, "one", world.now_ns, world.spec({"a": 1}, "index.stats", timeout_ns=30 * SECOND_NS)
    )
    for _ in range(10):
        assert world.turn(SECOND_NS) == []
    assert world.session.outstanding_count == 1
    assert world.push(with_idempotent(version=4, index=2)) == []
    assert world.turn(SPREAD_NS) == []
    call = asked(world, "index-2")
    assert call.body == {"a": 1}
    world.link.feed("index-2", reply(call.id, "up"))
    assert world.turn() == [Ended("one", "up", None)]
    assert world.session.core.retries.account.taken_count == 0
    world.session.cancel(id)
    assert world.turn() == []


def test_calls_that_find_no_instance_keep_their_order(world: World) -> None:
    """The first had its second try before the table came, and would now be behind those that have waited once."""
    world.push(with_idempotent(version=3, index=None))
    for number in range(3):
        spec = world.spec({"n": number}, "index.stats", timeout_ns=30 * SECOND_NS)
        world.session.call_later(Unavailable("down"), number, world.now_ns, spec)
        assert world.turn(BACKOFF_NS // 4) == []
    assert world.push(with_idempotent(version=4, index=2)) == []
    assert world.turn(SPREAD_NS) == []
    assert [call.body["n"] for call in world.link.take("index-2")] == [0, 1, 2]


def test_what_no_place_comes_up_for_ends_before_its_deadline(world: World) -> None:
    """With what it would have been told at once."""
    world.push(with_idempotent(version=3, index=None))
    down = Unavailable("down now")
    world.session.call_later(down, "one", world.now_ns, world.spec({}, "index.stats"))
    ended: list[Ended | Heard] = []
    while not ended:
        ended = world.turn(10_000_000)
    error = only_error(ended)
    assert isinstance(error, Unavailable) and error.attempts > 3 and "the next would be too late" in str(error)
    assert not world.session.core.retries._unplaced, "or an outage would fill the memory"


def test_a_retry_that_finds_no_room_waits_again(world: World) -> None:
    """The callee has not seen it: it costs nothing of the budget."""
    world.call("one", timeout_ns=10 * SECOND_NS)
    world.turn()
    refuse(world, "query-1", asked(world), Busy("full"), is_refused=True)
    world.link.answers["query-1"] = SendResult.FULL
    left = PEER_BYTES_MAX - 100
    while left > 0:
        size = min(left, 5_000_000)
        world.session.call("large", world.spec({"x": b"." * (size - 80)}, timeout_ns=20 * SECOND_NS), world.now_ns)
        left -= size
    for _ in range(10):
        assert world.turn(BACKOFF_NS) == []
    world.link.answers.clear()
    while not (said := world.link.take("query-1")) or said[-1].body != {"text": "x"}:
        assert world.turn(10_000_000) == []
    assert world.session.core.retries.account.taken_count == 1


def test_the_end_of_the_system_ends_what_waits(world: World) -> None:
    """There is nobody to ask again."""
    for token in ("waits", "is out"):
        world.call(token)
    world.turn()
    first, _ = world.link.take("query-1")
    refuse(world, "query-1", first, Busy("full"), is_refused=True)
    world.session.system_gone(PeerDown("gone"))
    assert {(e.token, type(e.error)) for e in world.turn() if isinstance(e, Ended)} == {
        ("waits", PeerDown), ("is out", PeerDown)
    }  # fmt: skip
    assert world.session.outstanding_count == 0 and world.session.core._outstanding_bytes == 0


def test_a_client_that_closes_ends_what_waits(world: World) -> None:
    """Its caller waits for an end."""
    world.call("one")
    world.turn()
    refuse(world, "query-1", asked(world), Busy("full"), is_refused=True)
    (ended,) = world.session.end_all(Cancelled("closed"))
    assert isinstance(ended, Ended) and ended.token == "one" and isinstance(ended.error, Cancelled)
    assert world.session.core._outstanding_bytes == 0


def test_an_outage_is_not_multiplied(world: World) -> None:
    """A callee that refuses everything gets a fifth more than it would have got, and ten a second: no more."""
    sent = ended = 0
    for _ in range(2_000):
        world.call("x", timeout_ns=3 * SECOND_NS)
        ended += len(world.turn(1_000_000))
        for call in world.link.take("query-1"):
            sent += call.kind != CANCEL
            world.link.feed("query-1", status(call.id, Busy("full"), is_refused=True))
    assert 2_100 < sent <= 2_000 * 1.2 + 10 * (10 + 2)
    while world.session.outstanding_count:
        ended += len(world.turn(10_000_000))
        for call in world.link.take("query-1"):
            world.link.feed("query-1", status(call.id, Busy("full"), is_refused=True))
    assert ended + len(world.turn()) == 2_000


def test_a_call_with_a_stream_is_tried_again_until_its_operation_asks_for_items(world: World) -> None:
    """Until then its iterable is untouched. Later another attempt would lack the items that this one has got."""
    spec = world.spec({"rows": 4}, streamed="rows")
    sender = ItemSender(spec, 4)
    id = world.session.call("mine", spec, world.now_ns)
    world.turn()
    first = asked(world)
    assert (first.streamed, first.body) == ("rows", {"rows": 4})
    assert refuse(world, "query-1", first, Busy("full"), is_refused=True) == []
    world.session.send_items(id, sender)
    assert world.turn(BACKOFF_NS + SPREAD_NS) == []
    second = asked(world)
    assert second.row()[2:] == first.row()[2:] and second.id != first.id
    world.link.feed("query-1", argument_credit(first.id, 4), argument_credit(second.id, 4))
    (credited,) = world.turn()
    assert isinstance(credited, Credited)
    assert (credited.token, credited.credit) == ("mine", 4), "once: the first attempt has ended"
    sender.receive_credit(credited.credit)
    sender.put([b"\x07", b"\x08"], is_last=True)
    world.session.send_items(id, sender)
    world.turn()
    assert asked(world) == argument_items(second.id, [7, 8], 0, is_blocked=False, is_last=True)
    (ended,) = refuse(world, "query-1", second, PeerDown("it died"), is_refused=False)
    assert isinstance(ended, Ended) and isinstance(ended.error, PeerDown), "though its route is idempotent"
    world.session.send_items(id, sender)
    assert world.turn() == [] and world.link.take("query-1") == []


def test_credit_for_another_call_is_dropped(world: World) -> None:
    """From who does not hold the call, and for one without a stream; a call under the same id may be anybody's."""
    plain = world.call("plain", "index.stats")
    id = world.session.call("mine", world.spec({"rows": 4}, streamed="rows"), world.now_ns)
    world.turn()
    world.link.feed("index-1", argument_credit(id, 4))
    world.link.feed("index-1", argument_credit(plain, 4), argument_credit(99, 4))
    world.link.feed("query-1", argument_credit(plain, 4), credit(id, 4))
    assert world.turn() == []
    world.link.feed("index-1", reply(plain, 1))
    world.link.feed("query-1", reply(id, 2))
    assert world.turn() == [Ended("plain", 1, None), Ended("mine", 2, None)]


def test_items_from_elsewhere_are_passed_on_as_they_are(world: World) -> None:
    """A node does not keep them; the callee counts them."""
    id = world.session.call("mine", world.spec({"rows": 4}, streamed="rows"), world.now_ns)
    world.turn()
    world.link.take("query-1")
    world.session.pass_items(id, argument_items(5, [1, 2], 3, is_blocked=True, is_last=False))
    world.turn()
    assert asked(world) == argument_items(id, [1, 2], 3, is_blocked=True, is_last=False)
    world.session.cancel(id)
    world.session.pass_items(id, argument_items(5, [9], 5, is_blocked=False, is_last=True))
    world.turn()
    assert asked(world).kind == CANCEL


def test_streams_are_cancelled_where_their_answers_may_be_lost(world: World) -> None:
    """Their callee lives: it would wait for credit, or for items, until the deadline. A call there just ends."""
    plain = world.session.call("plain", world.spec({}, "index.stats"), world.now_ns)
    replies = world.session.call("replies", world.spec({}, "index.stats", window=4), world.now_ns)
    argument = world.session.call("argument", world.spec({"rows": 4}, "index.stats", streamed="rows"), world.now_ns)
    world.turn()
    world.link.take("index-1")
    peer = world.session.core.calls.peer_of(plain)
    assert peer is not None
    world.session.reader.lost_from.append(peer)
    ended = {one.token for one in world.turn() if isinstance(one, Ended) and isinstance(one.error, PeerDown)}
    assert ended == {"plain", "replies", "argument"}
    cancelled = [envelope.id for envelope in world.link.take("index-1") if envelope.kind == CANCEL]
    assert cancelled == [replies, argument]
