"""Pulling: a call waits at its caller until a replica has room, the most urgent first; urgent work never waits behind bulk."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.errors import Unavailable
from appbackplane.transport.pulling import _SWEEP_MIN, UNSENT, Group, Pulling
from appbackplane.transport.resolver import Resolver

WEB: Group = ("web-1", "web-2")
BULK, URGENT = 5, 0


def directory(version: int = 1, *, down: tuple[str, ...] = ()) -> Directory:
    """Two replicas that share the calls of `till.ring`; `other` takes its turns, and serves `any.one` with one of them."""
    places = {name: Place(1, f"/run/{name}.sock", name not in down, is_pulled=name in WEB) for name in (*WEB, "other")}
    routes = {"till.ring": WEB, "other.do": ("other",), "any.one": ("web-1", "other"), "till.count": WEB}
    return Directory("s", version, places, routes, priorities={"till.ring": BULK, "till.count": URGENT})


class Caller:
    """The owner of a table: what it sends, and to whom."""

    def __init__(self) -> None:
        self.pulling = Pulling(str.encode)
        self.pulling.adopt(Resolver(directory()))
        self.last_id = 0
        self.sent: dict[int, bytes] = {}

    def call(self, priority: int | None = BULK, route: str = "till.ring") -> int:
        """One more; its id."""
        spec = CallSpec(route, {})
        peer = self.pulling.find(spec, priority)
        assert peer is not None
        self.last_id += 1
        self.pulling.opened(peer, self.last_id, spec, priority, f"call {self.last_id}")
        if peer != UNSENT:
            self.sent[self.last_id] = peer
        return self.last_id

    def end(self, id: int) -> None:
        """By an answer, say."""
        self.pulling.ended(self.sent.pop(id, UNSENT), id)

    def grant(self, name: str, may_send: int) -> list[int]:
        """Credit of a replica; the ids of the calls that leave now."""
        self.pulling.credit(name.encode(), may_send)
        left = []
        for group in self.pulling.groups():
            for id, peer, unsent in self.pulling.ready(group):
                assert unsent == f"call {id}"
                self.sent[id] = peer
                left.append(id)
        return left


@pytest.fixture
def caller() -> Caller:
    """Of two replicas that are up."""
    return Caller()


def test_each_replica_gets_one_call_without_a_word_and_the_next_wait(caller: Caller) -> None:
    """The replica says when there is room, not the caller's guess."""
    ids = [caller.call() for _ in range(4)]
    assert sorted(caller.sent.values()) == [b"web-1", b"web-2"]
    assert caller.pulling.waiting(WEB) == ids[2:]
    assert caller.grant("web-2", 2) == [ids[2]], "the oldest"
    assert caller.sent[ids[2]] == b"web-2"
    assert caller.grant("web-1", 4) == [ids[3]]
    assert caller.pulling.groups() == []


def test_the_most_urgent_of_those_that_wait_goes_first(caller: Caller) -> None:
    """By the priority that its caller names, or else the operation declares."""
    for _ in range(2):
        caller.call(URGENT)
    late, bulk, urgent, declared = caller.call(6), caller.call(), caller.call(1), caller.call(None, "till.count")
    assert caller.grant("web-1", 5) == [declared, urgent, bulk, late]


def test_what_becomes_more_urgent_moves_up(caller: Caller) -> None:
    """As the caller of the caller does."""
    for _ in range(2):
        caller.call(URGENT)
    first, second = caller.call(), caller.call()
    caller.pulling.boost(second, 1)
    caller.pulling.boost(999, 1)
    assert caller.grant("web-1", 2) == [second]
    assert caller.grant("web-1", 3) == [first]


def test_an_urgent_call_does_not_wait_behind_less_urgent_ones(caller: Caller) -> None:
    """Their replica's own scheduler runs it first. Two alike wait for each other."""
    for _ in range(2):
        caller.call()
    urgent = caller.call(URGENT)
    assert urgent in caller.sent
    again = caller.call(URGENT)
    assert again in caller.sent and caller.sent[again] != caller.sent[urgent], "the other one has only bulk work"
    assert caller.call(URGENT) not in caller.sent
    assert caller.call() not in caller.sent


def test_room_is_used_where_fewest_of_our_calls_are(caller: Caller) -> None:
    """Until the replicas say otherwise all work is alike."""
    caller.call(), caller.call()
    caller.grant("web-1", 10)
    caller.grant("web-2", 10)
    for _ in range(8):
        caller.call()
    assert sorted(caller.sent.values()) == [b"web-1"] * 5 + [b"web-2"] * 5
    for id in [id for id, peer in caller.sent.items() if peer == b"web-2"][:4]:
        caller.end(id)
    caller.grant("web-2", 20)
    assert [caller.sent[caller.call()] for _ in range(4)] == [b"web-2"] * 4


def test_a_replica_that_was_lost_is_connected_anew(caller: Caller) -> None:
    """It could not be reached, though the routing table says that it is up."""
    caller.call(), caller.call()
    caller.pulling.lost(b"web-1")
    assert caller.sent[caller.call()] == b"web-1"


def test_room_that_was_not_used_is_taken_back(caller: Caller) -> None:
    """A burst of long calls would all go to one replica, which had told of room for short ones."""
    first = caller.call()
    name = caller.sent[first].decode()
    caller.grant(name, 100)
    caller.grant(name, 1)
    caller.call()
    assert caller.call() not in caller.sent


def test_what_has_ended_is_neither_sent_nor_counted(caller: Caller) -> None:
    """A cancelled call that waits; a call that expires at its replica leaves the way to urgent ones open."""
    first, second = caller.call(URGENT), caller.call(URGENT)
    waiting, last = caller.call(), caller.call()
    caller.end(waiting)
    assert caller.grant("web-1", 2) == [last]
    caller.end(first), caller.end(second), caller.end(last)
    assert caller.call() in caller.sent, "no call of ours is there: it never waits alone"


def test_what_is_cancelled_or_boosted_while_it_waits_takes_no_memory(caller: Caller) -> None:
    """For as long as no replica has room, a busy client may do either any number of times."""
    caller.call(URGENT), caller.call(URGENT)
    stays = caller.call()
    for number in range(10 * _SWEEP_MIN):
        caller.end(caller.call())
        caller.pulling.boost(stays, number % 2 + 1)
    assert len(caller.pulling._queues[WEB]) <= _SWEEP_MIN + 8
    assert caller.grant("web-1", 2) == [stays]


def test_a_replica_that_ends_leaves_the_waiting_calls_to_the_others(caller: Caller) -> None:
    """And the next generation is another peer, with room for one."""
    ids = [caller.call() for _ in range(3)]
    caller.pulling.lost(b"web-1")
    caller.pulling.adopt(Resolver(directory(2, down=("web-1",))))
    assert caller.grant("web-2", 2) == [ids[2]]
    assert caller.grant("web-1", 9) == [], "it is not known any more"


def test_nobody_waits_for_replicas_that_are_all_down(caller: Caller) -> None:
    """The owner fails the calls, as it does those that it cannot send."""
    ids = [caller.call() for _ in range(3)]
    caller.pulling.adopt(Resolver(directory(2, down=WEB)))
    with pytest.raises(Unavailable, match=r"'till\.ring' is served by web-1, web-2: down now"):
        caller.grant("web-2", 2)
    assert caller.pulling.waiting(WEB) == ids[2:]
    with pytest.raises(Unavailable):
        caller.call()


@pytest.mark.parametrize(
    "spec",
    [
        CallSpec("till.ring", {}, key="k"),
        CallSpec("till.ring", {}, idempotency_key="k"),
        CallSpec("other.do", {}),
        CallSpec("any.one", {}),
        CallSpec("backplane.web-1.threads", {}),
        CallSpec("no.such", {}),
    ],
)
def test_what_has_a_place_of_its_own_is_sent_there(caller: Caller, spec: CallSpec) -> None:
    """Nor does it count as a call that takes room, which its replica reckons with, too."""
    assert caller.pulling.find(spec, None) is None
    caller.call(), caller.call()
    for peer in (b"web-1", b"web-2"):
        if not spec.is_shared():
            caller.pulling.opened(peer, 99, spec, None, None)
    assert caller.grant("web-1", 2) == [] and caller.call() in caller.sent


@given(st.lists(st.tuples(st.sampled_from(["call", "end", "grant"]), st.integers(0, 7), st.booleans()), max_size=60))
def test_every_call_leaves_once_and_in_order_of_urgency(steps: list[tuple[str, int, bool]]) -> None:
    """Whatever happens in whatever order; and while there is room nothing waits."""
    caller = Caller()
    waiting: dict[int, int] = {}
    may_send = dict.fromkeys(WEB, 1)
    for step, number, is_first in steps:
        name = WEB[0 if is_first else 1]
        if step == "call":
            id = caller.call(number)
            if id not in caller.sent:
                waiting[id] = number
        elif step == "end" and (caller.sent or waiting):
            among = sorted(caller.sent) or sorted(waiting)
            id = among[number % len(among)]
            caller.end(id)
            waiting.pop(id, None)
        elif step == "grant":
            may_send[name] += number
            for id in caller.grant(name, may_send[name]):
                assert (waiting.pop(id), id) <= min(((one, id) for id, one in waiting.items()), default=(9, 0))
        assert caller.pulling.waiting(WEB) == sorted(waiting)
    for name in WEB:
        caller.grant(name, 1_000)
    assert caller.pulling.groups() == []


def test_a_table_without_such_replicas_has_none() -> None:
    """Directories of earlier versions have no such fields."""
    old = {key: value for key, value in directory().to_body().items() if key != "priorities"}
    for place in old["backplanes"].values():
        del place["is_pulled"]
    read = Directory.from_body(old)
    assert Resolver(read).shared("till.ring") == ()
    assert msgspec.structs.replace(read, priorities={}) == read
