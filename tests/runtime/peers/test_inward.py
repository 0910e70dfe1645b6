"""Inward: what other nodes may do here, and how it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest

from appbackplane.runtime.peers.inward import OUTSTANDING_BYTES_MAX, OUTSTANDING_MAX, Arrival, AskedHere, Inward, System
from appbackplane.runtime.peers.outward import BULK_FROM
from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import FRAME_BYTES_MAX
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import (
    ARGUMENT_ITEMS,
    BOOST,
    CALL,
    CANCEL,
    CAST,
    STATUS,
    Envelope,
    argument_credit,
    argument_items,
    forward,
    operand,
)
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    InternalError,
    MalformedFrame,
    Status,
    Unavailable,
)
from appbackplane.transport.events import Credited, Ended
from appbackplane.transport.item_sender import BYTES_AHEAD_MAX
from appbackplane.transport.security.grants import Grant
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder

S = 1_000_000_000
KEY = PublicKey(b"k" * 32)
PEER = Holder("a", KEY)


ROUTES = ("calc.add", "calc.sub", "calc.secret", "other.secret")


def exporting(*exported: str, routes: tuple[str, ...] = ROUTES, bulk: tuple[str, ...] = ()) -> Directory:
    """That of a system which serves `routes`."""
    return Directory("shop", routes=dict.fromkeys(routes, ("main",)), exported=exported, bulk=bulk)


class Session:
    """Stands for the session: notes what is begun and taken back."""

    def __init__(self) -> None:
        self.directory: Directory | None = exporting("calc.add", "calc.sub")
        self.error: BackplaneError | None = None
        self.calls: dict[int, tuple[Any, ...]] = {}
        self.tokens: dict[int, AskedHere] = {}
        self.casts: list[str] = []
        self.cancelled: list[int] = []
        self.traces: list[str | None] = []
        self.boosted: list[tuple[int, int]] = []
        self.items: list[tuple[int, Envelope]] = []

    def pass_items(self, id: int, envelope: Envelope) -> None:
        """Send."""
        if self.error is not None:
            raise self.error
        self.items.append((id, envelope))

    def call(self, token: AskedHere, spec: CallSpec, now_ns: int) -> int:
        """Begin."""
        self.traces.append(spec.trace)
        assert not spec.is_retried, "the caller on the other node retries, or does not"
        if self.error is not None:
            raise self.error
        id = len(self.calls) + 1
        self.calls[id], self.tokens[id] = spec, token
        return id

    def cast(self, spec: CallSpec, now_ns: int) -> None:
        """Send."""
        self.casts.append(spec.route)

    def boost(self, id: int, priority: int) -> None:
        """Hurry."""
        self.boosted.append((id, priority))

    def cancel(self, id: int) -> None:
        """Take back."""
        self.cancelled.append(id)


class Here:
    """A system that is asked by others."""

    def __init__(self, believed: tuple[str, ...] = ()) -> None:
        self.session = Session()
        self.is_full = False
        self.said: list[tuple[str, Envelope, bool]] = []
        self.inward = Inward(cast(System, self.session), self._say, believed)

    def hear(
        self, id: int = 1, route: str = "calc.add", *, kind: int = CALL, holder: Holder = PEER, **fields: Any
    ) -> None:
        """What a node says, in its first incarnation."""
        self.inward.take(holder.name, 1, holder, Envelope(kind, id, route=route, **fields), 5 * S)

    def end(self, id: int, result: object = None, error: BackplaneError | None = None) -> None:
        """A call of the session's has ended."""
        self.inward.ended(Ended(self.session.tokens[id], result, error))

    def told(self) -> list[tuple[str, int, object, bool]]:
        """Which node, which of its calls, in what it ended, and whether that had not begun."""
        ends = [
            (name, end.id, Status(end.body[0]) if end.kind == STATUS else end.body, end.is_refused)
            for name, end, _ in self.said
        ]
        self.said.clear()
        return ends

    def _say(self, name: str, envelope: Envelope, is_bulk: bool) -> bool:
        self.said.append((name, envelope, is_bulk))
        return not self.is_full


@pytest.fixture
def here() -> Here:
    """With two operations that are exported."""
    return Here()


def test_a_call_is_made_here_in_the_words_of_its_caller(here: Here) -> None:
    """And within the time that is left of it."""
    here.hear(9, key="k", priority=2, deadline=3 * S, body={"x": 1}, idempotency_key="i")
    here.hear(10)
    here.hear(11, deadline=-S)
    specs = here.session.calls
    one = specs[1]
    assert (one.ends_ns, one.route, one.key, one.priority) == (8 * S, "calc.add", "k", 2)
    assert (one.body, one.idempotency_key) == ({"x": 1}, "i")
    assert specs[2].ends_ns == 5 * S + TIMEOUT_DEFAULT_NS
    assert specs[3].ends_ns == 5 * S, "a time of another host's clock"
    assert here.inward.count_of("a") == len(here.inward) == 3


def test_a_route_that_names_this_node_is_one_of_this_system(here: Here) -> None:
    """As those of addresses do, by whoever they are called."""
    here.hear(1, route="shop/calc.add")
    here.hear(2, route="other/calc.add")
    assert [spec.route for spec in here.session.calls.values()] == ["calc.add"]
    assert here.told() == [("a", 2, Status.NOT_FOUND, True)]


def test_each_key_that_may_use_exports_may_wait_for_ends(here: Here) -> None:
    """The node's own route is offered to nobody, so that it is no route of users; other keys may not use it."""
    here.session.directory = exporting(routes=("node.watch", "node.peers"))
    here.hear(1, route="node.watch")
    here.hear(2, route="node.peers")
    here.hear(3, route="node.watch", holder=replace(PEER, name="c", routes=Grant(("calc.*",))))
    assert [spec.route for spec in here.session.calls.values()] == ["node.watch"]
    assert [(id, end) for _, id, end, _ in here.told()] == [(2, Status.NOT_FOUND), (3, Status.NOT_FOUND)]


def test_the_trace_of_a_call_goes_on_here(here: Here) -> None:
    """What several hosts have done for one request is found as one. What is no trace is nobody's: it is taken apart later."""
    trace = f"00-{7:032x}-{9:016x}-01"
    for said in (trace, "x" * len(trace), trace + "0", trace.replace("7", "\u0667"), None):
        here.hear(len(here.session.traces) + 1, trace=said)
    assert here.session.traces == [trace, None, None, None, None]


def test_the_source_of_a_call_is_its_key_whatever_the_node_says(here: Here) -> None:
    """And its principal stays there: this node does not know who may speak for whom."""
    here.hear(1, source="web/shop", principal="alice")
    spec = here.session.calls[1]
    assert (spec.source, spec.principal) == (f"node:{PEER.name}/{PEER.key.fingerprint}", None)


def test_answers_go_to_who_asked_under_their_numbers(here: Here) -> None:
    """Nodes count for themselves: two may have the same number outstanding here."""
    other = Holder("c", KEY)
    here.hear(9)
    here.hear(9, holder=other)
    here.end(2, "for c")
    here.end(1, "for a")
    assert here.told() == [("c", 9, "for c", False), ("a", 9, "for a", False)]
    assert (len(here.inward), here.inward.count_of("a"), here.inward.count_of("c")) == (0, 0, 0)


@pytest.mark.parametrize(("priority", "is_bulk"), [(None, False), (BULK_FROM - 1, False), (BULK_FROM, True)])
def test_answers_travel_as_their_calls_did(here: Here, priority: int | None, is_bulk: bool) -> None:
    """A refusal as well."""
    here.hear(1, priority=priority)
    here.end(1)
    here.hear(2, "calc.mul", priority=priority)
    assert [bulk for _, _, bulk in here.said] == [is_bulk, is_bulk]


def test_answers_at_no_priority_travel_as_their_operation_may(here: Here) -> None:
    """And those that have one by that."""
    here.session.directory = exporting("calc.add", "calc.sub", bulk=("calc.add",))
    for id, (route, priority) in enumerate([("calc.add", None), ("calc.add", 0), ("calc.sub", None)], 1):
        here.hear(id, route, priority=priority)
        here.end(id)
    assert [bulk for _, _, bulk in here.said] == [True, False, False]


def test_an_error_keeps_its_kind_and_whether_anything_has_begun(here: Here) -> None:
    """What was refused at the door may be asked again, whatever it is; what was not, may have been done."""
    refused, failed = Busy("full", retry_after=1.5), InternalError("it broke")
    refused.is_refused = True
    here.hear(1)
    here.hear(2)
    here.end(1, error=refused)
    here.end(2, error=failed)
    assert here.said[0][1].body == [Busy.status, "full", 1.5, None]
    assert here.told() == [("a", 1, Status.RESOURCE_EXHAUSTED, True), ("a", 2, Status.INTERNAL, False)]


def test_what_the_session_refuses_is_told_as_refused(here: Here) -> None:
    """And is not outstanding."""
    here.session.error = Unavailable("down now")
    here.hear(1)
    assert here.told() == [("a", 1, Status.UNAVAILABLE, True)]
    assert (len(here.inward), here.inward.count_of("a")) == (0, 0)


GRANTS = [
    (Grant.of(["exported"]), "calc.add", True),
    (Grant.of(["exported"]), "calc.secret", False),
    (Grant.of(["calc.secret"]), "calc.secret", True),
    (Grant.of(["calc.secret"]), "calc.add", False),
    (Grant.of(["none"]), "calc.add", False),
    (Grant.of(["*"]), "calc.secret", True),
    (Grant.of(["*"]), "supervisor.stop", False),
]


@pytest.mark.parametrize(("grant", "route", "is_permitted"), GRANTS, ids=str)
def test_a_key_uses_what_it_may(here: Here, grant: Grant, route: str, is_permitted: bool) -> None:
    """Calls and casts alike. What it may not use is as good as not there."""
    holder = Holder("a", KEY, routes=grant)
    here.hear(1, route, holder=holder)
    here.hear(0, route, kind=CAST, holder=holder)
    assert here.told() == ([] if is_permitted else [("a", 1, Status.NOT_FOUND, True)])
    assert (len(here.session.calls), here.session.casts) == ((1, [route]) if is_permitted else (0, []))
    assert here.inward.refused_casts_count == (not is_permitted)


def test_what_a_key_may_not_use_reads_like_what_is_not_there(here: Here) -> None:
    """Who could tell them apart would learn what there is, name by name."""
    here.hear(1, "calc.secret")
    here.hear(1, "calc.nothing")
    secret, nothing = (end.body[1] for _, end, _ in here.said)
    assert secret.partition(" (")[0].replace("secret", "nothing") == nothing.partition(" (")[0]


def test_grants_are_read_anew_with_the_ring_and_with_the_directory(here: Here) -> None:
    """What was permitted once is remembered; not beyond the ring and the directory by which it was."""
    here.hear(1)
    here.hear(2, holder=Holder("a", KEY, routes=Grant.of(["none"])))
    here.session.directory = exporting("calc.sub")
    here.hear(3)
    here.hear(4, "calc.sub")
    assert [(id, refused) for _, id, _, refused in here.told()] == [(2, True), (3, True)]


def test_what_is_for_a_third_node_is_not_passed_on(here: Here) -> None:
    """It would go there under this node's key: whoever may do all here could do there what only this node may."""
    for number, route in enumerate(("c/calc.add", "supervisor/x", "index.of_another", "c/supervisor.stop")):
        here.hear(number + 1, route, holder=Holder("a", KEY, routes=Grant.of(["*"])))
    assert [(status, refused) for _, _, status, refused in here.told()] == [(Status.NOT_FOUND, True)] * 4
    assert not here.session.calls


def test_what_is_not_known_here_may_yet_be_registered(here: Here) -> None:
    """While this node's system starts, others must not take its routes for a mistake; what is not for them stays unknown."""
    here.session.directory = replace_missing(exporting("calc.add"), "late")
    for number, route in enumerate(("late.do", "calc.secret", "supervisor.stop", "c/late.do")):
        here.hear(number + 1, route)
    assert [(status, refused) for _, _, status, refused in here.told()] == [
        (Status.UNAVAILABLE, True),
        *[(Status.NOT_FOUND, True)] * 3,
    ]


def replace_missing(directory: Directory, *names: str) -> Directory:
    """As while these have yet to register."""
    return msgspec.structs.replace(directory, missing=names)


def test_without_a_directory_nothing_is_exported(here: Here) -> None:
    """Nobody is let in because it is not known yet what he may; and nobody is told that it is not there."""
    here.session.directory = None
    here.hear(1)
    assert here.told() == [("a", 1, Status.UNAVAILABLE, True)]


def test_a_call_is_taken_back_by_who_made_it_alone(here: Here) -> None:
    """Numbers of nodes are easily guessed."""
    here.hear(9)
    here.hear(9, kind=CANCEL, holder=Holder("c", KEY))
    here.inward.take("a", 2, PEER, Envelope(CANCEL, 9), 5 * S)
    assert here.session.cancelled == []
    here.hear(9, kind=CANCEL)
    assert here.session.cancelled == [1]
    here.end(1, error=Cancelled("taken back"))
    here.hear(9, kind=CANCEL)
    assert (here.session.cancelled, len(here.inward), here.inward.count_of("a")) == ([1], 0, 0)


def test_a_call_is_hurried_by_who_made_it_alone(here: Here) -> None:
    """Law 10 across nodes: what something urgent waits for there must not queue here behind bulk."""
    here.hear(9, priority=7)
    here.hear(9, kind=BOOST, priority=0, holder=Holder("c", KEY))
    here.hear(8, kind=BOOST, priority=0)
    for priority in (None, -1):
        here.hear(9, kind=BOOST, priority=priority)
    assert here.session.boosted == []
    here.hear(9, kind=BOOST, priority=1)
    assert here.session.boosted == [(1, 1)]


def test_what_a_node_asked_for_is_taken_back_when_it_is_down(here: Here) -> None:
    """It is told so: where only one of two has given up the other, that one would wait to its deadline."""
    here.hear(1)
    here.hear(1, holder=Holder("c", KEY))
    here.inward.down("a")
    assert here.session.cancelled == [1]
    assert here.told() == [("a", 1, Status.PEER_DOWN, False)]
    assert (here.inward.count_of("a"), here.inward.count_of("c")) == (0, 1)
    here.inward.take("a", 2, PEER, Envelope(CALL, 1, route="calc.add"), 5 * S)
    here.end(1, "for the dead")
    assert here.told() == []
    here.end(3, "for its successor")
    assert here.told() == [("a", 1, "for its successor", False)]
    assert here.inward.count_of("a") == 0


def test_when_this_node_leaves_nothing_goes_on_for_others(here: Here) -> None:
    """They have been told, and have ended it."""
    here.hear(1)
    here.hear(1, holder=Holder("c", KEY))
    here.inward.leave()
    assert here.session.cancelled == [1, 2]
    here.end(1, error=Cancelled("taken back"))
    assert (here.told(), len(here.inward)) == ([], 0)


def test_a_node_has_so_many_outstanding_and_no_more(here: Here) -> None:
    """Beyond that one is refused, until one has ended; the others are not."""
    for id in range(OUTSTANDING_MAX):
        here.hear(id + 1)
    here.hear(OUTSTANDING_MAX + 1)
    here.hear(1, holder=Holder("c", KEY))
    assert here.told() == [("a", OUTSTANDING_MAX + 1, Status.RESOURCE_EXHAUSTED, True)]
    here.end(1)
    here.said.clear()
    here.hear(OUTSTANDING_MAX + 2)
    assert here.told() == []


def test_a_key_has_so_many_outstanding_by_all_its_connections_together(here: Here) -> None:
    """Or it would have 64 times as many, each of its 64 clients as much as a node."""
    clients = [f"client/{number:032x}" for number in range(4)]
    for number in range(OUTSTANDING_MAX):
        here.inward.take(clients[number % 3], 0, PEER, Envelope(CALL, number + 1, route="calc.add"), 5 * S)
    here.inward.take(clients[3], 0, PEER, Envelope(CALL, 1, route="calc.add"), 5 * S)
    here.hear(1)
    assert [(name, said) for name, _, said, _ in here.told()] == [
        (clients[3], Status.RESOURCE_EXHAUSTED), ("a", Status.RESOURCE_EXHAUSTED)
    ]  # fmt: skip
    here.hear(1, holder=Holder("c", PublicKey(b"c" * 32)))
    assert here.told() == [], "another key has its own"
    for name in clients[:3]:
        here.inward.down(name)
    here.said.clear()
    here.hear(2)
    assert here.told() == []


def test_a_key_has_so_many_bytes_outstanding_and_no_more(here: Here) -> None:
    """A few calls can be long: a frame counts from its first call to the end of its last."""
    size = OUTSTANDING_BYTES_MAX // 4
    frames = [Arrival(size) for _ in range(5)]

    def hear(id: int, frame: Arrival, name: str = "a") -> list[object]:
        here.inward.take(name, 1, PEER, Envelope(CALL, id, route="calc.add"), 5 * S, frame)
        return [said for _, _, said, _ in here.told()]

    for number, frame in enumerate(frames[:4]):
        assert hear(2 * number + 1, frame) == hear(2 * number + 2, frame, f"client/{number:032x}") == []
    assert hear(9, frames[4]) == [Status.RESOURCE_EXHAUSTED]
    assert hear(10, Arrival()) == hear(11, frames[0]) == [], (
        "what came with others that are outstanding is there anyway"
    )
    here.end(1, None)
    here.told()
    assert hear(12, frames[4]) == [Status.RESOURCE_EXHAUSTED], "the frame is still there for the others that it brought"
    here.inward.down(f"client/{0:032x}")
    here.inward.down("a")
    here.said.clear()
    assert hear(13, frames[4]) == []
    for number in range(1, 4):
        here.inward.down(f"client/{number:032x}")
    here.inward.down("a")
    assert here.inward._usage == {}


def test_a_number_that_is_outstanding_already_is_not_begun_again(here: Here) -> None:
    """It would be done twice and answered twice; and a node that repeats itself must not use up its places for good."""
    here.hear(1)
    here.hear(1)
    assert (len(here.session.calls), here.inward.repeated_count) == (1, 1)
    here.end(1, "answer")
    assert here.told() == [("a", 1, "answer", False)]
    assert (len(here.inward), here.inward.count_of("a")) == (0, 0)
    here.hear(1)
    assert len(here.session.calls) == 2, "its number is free again"


def test_what_is_not_served_here_any_more_may_be_asked_elsewhere() -> None:
    """Another node may be about to serve it: who asks here has not heard of that yet. Who may not use it hears nothing new."""
    here = Here()
    here.hear(1)
    here.session.directory = exporting("calc.sub", routes=("calc.sub",))
    here.hear(2)
    here.hear(3, holder=replace(PEER, routes=Grant(("calc.sub",))))
    assert here.told() == [("a", 2, Status.UNAVAILABLE, True), ("a", 3, Status.NOT_FOUND, True)]
    here.session.directory = exporting("calc.add")
    here.hear(4)
    assert here.told() == []


def test_what_a_peer_may_have_meant_is_looked_for_within_bounds(here: Here) -> None:
    """20 ms for each of the 4,096 calls of one frame: the thread of all lines did nothing else for a minute."""
    here.session.directory = exporting(*(f"calc.add_{number}" for number in range(200)))
    for id in range(1, 51):
        here.hear(id, "calc.ad_7")
    hints = ["did you mean" in end.body[1] for _, end, _ in here.said]
    assert (len(hints), hints[0], hints[-1]) == (50, True, False)
    assert 0 < sum(hints) < 10


def test_items_of_an_argument_are_passed_on_and_their_credit_returned(here: Here) -> None:
    """Under the ids of either side. Items of a call that has ended crossed with its end."""
    here.hear(7, body={"rows": 4}, streamed="rows")
    assert here.session.calls[1].streamed == "rows"
    here.inward.credited(Credited(here.session.tokens[1], 4))
    assert here.said == [("a", argument_credit(7, 4), False)]
    sent = argument_items(7, [1, 2], 0, is_blocked=False, is_last=True)
    here.inward.take("a", 1, PEER, sent, 5 * S)
    here.inward.take("a", 1, PEER, argument_items(8, [1], 0, is_blocked=False, is_last=True), 5 * S)
    assert here.session.items == [(1, sent)]
    here.said.clear()
    here.end(1, 3)
    assert here.told() == [("a", 7, 3, False)]
    here.inward.credited(Credited(AskedHere("a", 1, 7), 8))
    here.inward.take("a", 1, PEER, sent, 5 * S)
    assert (here.said, len(here.session.items), here.session.cancelled) == ([], 1, [])


def test_operands_do_not_travel_between_hosts(here: Here) -> None:
    """No caller of ours sends any there: what does come is refused, and not passed over in silence."""
    here.hear(7, body={"x": 1}, awaits={"y": "calc.add"}, token=5)
    assert here.told() == [("a", 7, Status.INVALID_ARGUMENT, True)]
    for stray in (operand(5, "y", 1), forward(7, "y", "main", 1, 5)):
        with pytest.raises(MalformedFrame, match="operands do not travel between hosts"):
            here.inward.take("a", 1, PEER, stray, 5 * S)


def test_items_that_find_no_room_end_the_call(here: Here) -> None:
    """A list with a hole is of no use: the node that sends is told, and the operation is cancelled."""
    here.hear(7, body={"rows": 4}, streamed="rows")
    here.session.error = Busy("main does not read its messages")
    here.hear(7, kind=ARGUMENT_ITEMS, body=[1])
    assert here.told() == [("a", 7, Status.RESOURCE_EXHAUSTED, False)]
    assert (here.session.cancelled, len(here.inward)) == ([1], 0)


def test_credit_that_finds_no_room_ends_the_call(here: Here) -> None:
    """Its caller has been told by a status in its place (answers.py)."""
    here.hear(7, body={"rows": 4}, streamed="rows")
    here.is_full = True
    here.inward.credited(Credited(here.session.tokens[1], 4))
    assert here.session.cancelled == [1]


def test_items_that_are_not_read_are_bounded_in_bytes(here: Here) -> None:
    """An honest caller runs ahead by 1 MiB. One that does not keep to it would fill the memory of the callee: its call ends."""
    here.hear(7, body={"rows": 1_000}, streamed="rows")
    here.inward.credited(Credited(here.session.tokens[1], 1_000))
    here.said.clear()

    def send(number: int, bytes: int) -> None:
        items = argument_items(7, [1], number, is_blocked=False, is_last=False)
        here.inward.take("a", 1, PEER, items, 5 * S, Arrival(bytes))

    send(0, FRAME_BYTES_MAX)
    send(1, BYTES_AHEAD_MAX)
    here.inward.credited(Credited(here.session.tokens[1], 1_001))
    here.said.clear()
    send(2, FRAME_BYTES_MAX)
    assert (len(here.session.items), here.said) == (3, [])
    send(3, 1)
    assert here.told() == [("a", 7, Status.RESOURCE_EXHAUSTED, False)]
    assert (len(here.session.items), here.session.cancelled, here.inward._usage) == (3, [1], {})


def test_items_of_several_calls_in_one_frame_are_counted_for_each(here: Here) -> None:
    """A small item of one call must not hide 16 MiB of another's; and honest calls that share a frame pay for their own."""
    for id in (7, 8):
        here.hear(id, body={"rows": 1_000}, streamed="rows")
    tokens = here.session.tokens
    large = bytes(FRAME_BYTES_MAX - 100)

    def send(number: int, item: Any) -> None:
        frame = Arrival(FRAME_BYTES_MAX, envelopes_count=2)
        for id, body in ((7, [1]), (8, [item])):
            sent = argument_items(id, body, number, is_blocked=False, is_last=False)
            here.inward.take("a", 1, PEER, sent, 5 * S, frame)
        here.inward.credited(Credited(tokens[1], number + 1 + 1_000))  # only the operation of call 7 reads

    send(0, large)
    here.said.clear()
    for number in range(1, 50):
        send(number, 2)
    assert STATUS not in {envelope.kind for _, envelope, _ in here.said}
    here.said.clear()
    send(50, large)
    here.said = [said for said in here.said if said[1].kind == STATUS]
    assert here.told() == [("a", 8, Status.RESOURCE_EXHAUSTED, False)]
    assert here.session.cancelled == [2]
    here.inward.down("a")
    assert here.inward._usage == {}


def test_items_that_are_not_read_are_bounded_for_a_key(here: Here) -> None:
    """By all its calls together; and what has ended counts no more."""
    for id in range(20):
        here.hear(id, body={"rows": 1_000}, streamed="rows")
        items = argument_items(id, [1], 0, is_blocked=False, is_last=False)
        here.inward.take("a", 1, PEER, items, 5 * S, Arrival(FRAME_BYTES_MAX))
    assert [id for _, id, _, _ in here.told()] == [16, 17, 18, 19]
    here.end(1, "read")
    here.said.clear()
    here.hear(20, body={"rows": 1_000}, streamed="rows")
    here.inward.take("a", 1, PEER, argument_items(20, [1], 0, is_blocked=False, is_last=False), 5 * S, Arrival(9))
    assert here.said == []


@pytest.mark.parametrize(
    ("believed", "said", "principal"),
    [
        (("a",), "ben", "ben"),
        (("a",), "link:7", "link:7"),
        (("a",), None, None),
        (("a",), "local", None),
        (("a",), "", None),
        (("a",), "group:family", None),
        (("a",), "node:c/1f2e", None),
        (("a",), "client:sh/7", None),
        (("a",), "backplane:web", None),
        (("b",), "ben", None),
        ((), "ben", None),
    ],
)
def test_a_node_speaks_for_users_if_its_key_is_believed(
    believed: tuple[str, ...], said: str | None, principal: str | None
) -> None:
    """Never for what has that name on its own host alone: those calls are the node's own."""
    here = Here(believed)
    here.hear(principal=said)
    assert cast(CallSpec, here.session.calls[1]).principal == principal
