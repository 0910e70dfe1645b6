"""Refused here: a client whose callee is overloaded ends calls itself, as if the callee had. No sockets, no clock."""

from __future__ import annotations

import pytest

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.caller_throttle import INTERVAL_MAX_NS, INTERVAL_MIN_NS
from appbackplane.transport.codec import Encoder, batch, checked, decode
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import CALL, Envelope, credit, reply, status
from appbackplane.transport.errors import BackplaneError, Busy, MalformedFrame, Unavailable
from appbackplane.transport.events import Ended, Heard
from tests.transport.test_session import RUN, World, directory, only_error

SECOND_NS = 1_000_000_000
MS = 1_000_000


def overloaded(priority: int = 4) -> Busy:
    """The error in which overload control refuses."""
    error = Busy("query.search: it would queue for longer than the 20 ms aimed at", retry_after=0.02)
    error.overloaded_at = priority
    return error


def call(
    world: World, token: str, *, priority: int | None = 4, retry: bool = False, route: str = "query.search",
    timeout_ns: int = 10 * SECOND_NS, idempotency_key: str | None = None,
) -> int:  # fmt: skip
    spec = world.spec(
        {}, route, timeout_ns=timeout_ns, priority=priority, is_retried=retry, idempotency_key=idempotency_key
    )
    return world.session.call(token, spec, world.now_ns)


def calls(world: World, socket: str = "query-1") -> list[Envelope]:
    """Those that have come to it since the last time."""
    return [envelope for envelope in world.link.take(socket) if envelope.kind == CALL]


def answer(world: World, sent: list[Envelope], error: BackplaneError | None, socket: str = "query-1") -> None:
    """`socket` answers all of them: refused in `error`, or served."""
    said = [reply(one.id, "done") if error is None else status(one.id, error, is_refused=True) for one in sent]
    if said:
        world.link.feed(socket, *said)


def ends(events: list[Ended | Heard]) -> dict[str, BackplaneError | None]:
    """By token: the error of each call that ended; None: it was served."""
    return {event.token: event.error for event in events if isinstance(event, Ended)}


def meet_overload(world: World, *, priority: int | None = 4, told: int = 4, retry: bool = False) -> None:
    """`query` refuses all calls of a priority, until one leaves only now and then; the last of these just has."""
    number = is_sent = 0
    while number < 50 or not is_sent:
        number += 1
        call(world, f"before {number}", priority=priority, retry=retry)
        world.turn(10 * MS)
        sent = calls(world)
        answer(world, sent, overloaded(told))
        is_sent = len(sent)
        world.turn()


@pytest.fixture
def world() -> World:
    """Priority 4 of `query.search` is overloaded. The client's random number is 0.5."""
    world = World()
    meet_overload(world)
    return world


def test_a_call_ends_in_busy_and_nothing_is_sent(world: World) -> None:
    """It has the marks of a refusal by the service, and says where it was made."""
    id = call(world, "mine")
    error = ends(world.turn())["mine"]
    assert calls(world) == [] and id > 0
    assert isinstance(error, Busy) and "refused here" in error.message and error.attempts == 1
    assert error.is_refused and error.overloaded_at == 4 and error.retry_after == 0.02
    assert world.session.outstanding_count == 0
    assert world.session.core.throttle.refused_count > 0


def test_the_call_ends_at_the_next_turn_and_not_while_it_is_begun(world: World) -> None:
    """`submit` raises nothing that a callee's refusal would not raise there: both come by the returned handle."""
    call(world, "mine")
    assert world.session.has_more
    assert world.session.next_wake_ns(world.now_ns) == world.now_ns


@pytest.mark.parametrize(
    "error",
    [Busy("desk has 100 requests outstanding (max_requests = 100)", retry_after=0.02), Unavailable("starting")],
    ids=["max_requests", "state"],
)
def test_only_refusals_of_overload_control_count(error: BackplaneError) -> None:
    """A full component, or one that starts, says nothing about the next call."""
    world = World()
    for number in range(50):
        call(world, f"{number}")
        world.turn(10 * MS)
        answer(world, calls(world), error)
        world.turn()
    assert not world.session.core.throttle.is_used


def test_a_status_that_is_no_refusal_tells_nothing_of_overload() -> None:
    """The work may have met such an error at a service that it called."""
    assert status(7, overloaded(), is_refused=False).priority is None
    assert status(7, overloaded(), is_refused=True).priority == 4


def test_a_refusal_tells_how_idle_the_service_was() -> None:
    """In the fifth field, which older peers ignore. What is no number there tells nothing."""
    error = overloaded()
    error.idle = 250
    told = status(7, error, is_refused=True)
    (heard,) = decode(batch([Encoder().encode(told)]))
    assert heard == told and heard.number == 250
    assert status(7, error).number == 0
    row = [*told.row()]
    row[4] = "much"
    assert checked([row])[0].number == 0
    row[2] = "4"
    with pytest.raises(MalformedFrame, match="priority of a status"):
        checked([row])


def test_once_the_service_takes_calls_again_so_does_the_client(world: World) -> None:
    world.turn(INTERVAL_MAX_NS)
    for number in range(20):
        call(world, f"{number}")
        world.turn(MS)
        answer(world, calls(world), None)
        assert ends(world.turn()) == {f"{number}": None}
    assert not world.session.core.throttle.is_used


def test_a_retried_call_waits_and_is_sent_when_there_is_room(world: World) -> None:
    """As one that the service has refused: after the wait that it asked for, within the budget."""
    taken = world.session.core.retries.account.taken_count
    call(world, "mine", retry=True)
    assert ends(world.turn()) == {} and calls(world) == []
    assert world.session.core.retries.account.taken_count == taken + 1
    assert world.session.outstanding_count == 1
    world.turn(INTERVAL_MAX_NS)
    answer(world, calls(world), None)
    assert ends(world.turn()) == {"mine": None}


def test_a_retried_call_that_never_finds_room_says_how_often_it_was_tried(world: World) -> None:
    """And its last error is a refusal, so an owner on another node learns it."""
    call(world, "mine", retry=True, timeout_ns=200 * MS)
    ended: dict[str, BackplaneError | None] = {}
    ends_ns = world.now_ns + 200 * MS
    while "mine" not in ended:
        ended |= ends(world.turn(5 * MS))
        call(world, "other")  # so that the throttle goes on
        answer(world, calls(world), overloaded())
    error = ended["mine"]
    assert isinstance(error, Busy) and error.attempts > 1 and error.is_refused and error.overloaded_at == 4
    assert world.now_ns <= ends_ns


def test_retries_of_refused_calls_stay_within_the_budget(world: World) -> None:
    """Unbounded, they would be the load that keeps the overload going."""
    before = world.session.core.retries.account.taken_count
    for number in range(2_000):
        call(world, f"mine {number}", retry=True)
        world.turn(MS)
        answer(world, calls(world), overloaded())
    assert world.session.core.retries.account.taken_count - before < 0.2 * 2_000 + 130


def test_a_call_with_a_key_that_may_be_done_already_asks_for_its_reply() -> None:
    """A callee that has the reply sends it without any queue; a first attempt is new work, like any other."""
    world = World()
    call(world, "paid", retry=True, idempotency_key="k")
    world.turn()
    (first,) = calls(world)
    meet_overload(world)
    world.link.feed("query-1", status(first.id, Unavailable("restarting", retry_after=0.001)))
    world.turn()
    call(world, "new", idempotency_key="another")
    assert "new" in ends(world.turn()) and calls(world) == []
    world.turn(30 * MS)
    (again,) = calls(world)
    assert again.idempotency_key == "k"


def test_a_call_without_a_priority_has_that_which_the_service_tells() -> None:
    """A client need not know what the operation declares."""
    world = World()
    meet_overload(world, priority=None, told=4)
    call(world, "mine", priority=None)
    assert isinstance(ends(world.turn())["mine"], Busy)
    call(world, "urgent", priority=1)
    world.turn()
    assert len(calls(world)) == 1


def test_a_cast_is_refused_at_once(world: World) -> None:
    """The service would drop it, and tell nobody; here its caller learns it."""
    with pytest.raises(Busy, match="refused here"):
        world.session.cast(CallSpec("query.search", {}, priority=4), world.now_ns)
    world.session.cast(CallSpec("query.search", {}, priority=0), world.now_ns)
    world.session.cast(CallSpec("index.stats", {}, priority=4), world.now_ns)


def test_topics_are_not_concerned(world: World) -> None:
    """Nobody waits for a message."""
    assert world.session.publish("files.changed", 4, {}) == 1


def test_the_next_generation_is_not_taken_for_overloaded(world: World) -> None:
    world.push(directory(2, query=2))
    assert not world.session.core.throttle.is_used
    call(world, "mine")
    world.turn()
    assert len(calls(world, "query-2")) == 1


def test_calls_that_wait_here_for_room_at_a_replica_are_never_refused_here() -> None:
    """With `balance = "pull"` a caller keeps its calls until a replica has capacity: there is no queue to be spared."""
    world = World()
    places = {name: Place(1, str(RUN / f"{name}-1.sock"), is_pulled=True) for name in ("web", "shop")}
    world.push(Directory("s", 2, places, {"till.ring": ("web", "shop")}, priorities={"till.ring": 4}))
    for name in ("web", "shop"):
        call(world, f"first {name}", route="till.ring")
    world.turn()
    for name in ("web", "shop"):
        sent = calls(world, f"{name}-1")
        answer(world, sent, overloaded(), f"{name}-1")
        world.link.feed(f"{name}-1", credit(0, 1_000))
    world.turn()
    assert not world.session.core.throttle.is_used
    for number in range(100):
        call(world, f"{number}", route="till.ring")
        world.turn(10 * MS)
        for name in ("web-1", "shop-1"):
            answer(world, calls(world, name), overloaded(), name)
        assert "refused here" not in str(only_error(world.turn()))


def test_a_shorter_overload_than_an_interval_changes_nothing() -> None:
    """A burst is what queues are for."""
    world = World()
    for number in range(10):
        call(world, f"{number}")
        world.turn(INTERVAL_MIN_NS // 20)
        answer(world, calls(world), overloaded() if number == 4 else None)
        ended = ends(world.turn())
        assert ended and all(error is None or "refused here" not in error.message for error in ended.values())
