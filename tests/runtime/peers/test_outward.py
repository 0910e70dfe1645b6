"""Outward: each call to another node ends exactly once, at whoever made it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from appbackplane.runtime.peers.outward import BULK_FROM, Outward
from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS
from appbackplane.transport.envelope import (
    BOOST,
    CALL,
    CANCEL,
    CAST,
    REPLY,
    STATUS,
    Envelope,
    argument_credit,
    argument_items,
    cancel,
    status,
)
from appbackplane.transport.errors import Busy, Status, UnknownRoute
from appbackplane.transport.resolver import home

FIRST_ID = 7_000
S = 1_000_000_000
NOW = 100 * S
ANN, BOB = b"client/1", b"backplane/main/1"


class Around:
    """Everything about it: which node has what, a line that can be full, and those who asked."""

    def __init__(self) -> None:
        self.nodes = {"calc.add": ("b", "c"), "b/calc.add": ("b",), "c/calc.add": ("c",)}
        #: What the first of them announce; who among all is full.
        self.announced: tuple[float, ...] = (0.0,)
        self.full: set[str] = set()
        #: What may wait, and where.
        self.bulk: set[tuple[str, str]] = set()
        self.is_full = False
        self.said: list[tuple[str, Envelope, bool]] = []
        self.answers: list[tuple[bytes, Envelope]] = []
        self.outward = Outward(self, FIRST_ID, self._say, lambda *told: self.answers.append(told))

    def best(self, route: str, caller: str, key: str | None = None) -> tuple[str, ...]:
        """As a node says it."""
        if route not in self.nodes:
            raise UnknownRoute(route)
        return self.nodes[route] if key is None else (home(self.nodes[route], key),)

    def loads(self, _route: str, _caller: str) -> tuple[float, ...]:
        """As a node says it."""
        return self.announced

    def may_wait(self, name: str, route: str) -> bool:
        """As a node says it."""
        return (name, route) in self.bulk

    def ask(self, id: int = 1, route: str = "calc.add", *, by: bytes = ANN, kind: int = CALL, **fields: Any) -> None:
        """A local process does."""
        self.outward.take(by, Envelope(kind, id, route=route, **fields), NOW)

    def last(self) -> Envelope:
        """What was said last."""
        return self.said[-1][1]

    def told(self) -> list[tuple[bytes, int, object]]:
        """To whom which call has ended, and in what: a result, or a status."""
        ends = [(peer, end.id, Status(end.body[0]) if end.kind == STATUS else end.body) for peer, end in self.answers]
        self.answers.clear()
        return ends

    def _say(self, name: str, envelope: Envelope, is_bulk: bool) -> bool:
        if self.is_full or name in self.full:
            return False
        self.said.append((name, envelope, is_bulk))
        return True


@pytest.fixture
def around() -> Around:
    """With two nodes."""
    return Around()


def test_a_call_leaves_under_a_number_of_the_node_and_returns_under_its_own(around: Around) -> None:
    """Two processes count from one, both: their answers would be each other's."""
    around.ask(1, by=ANN, body={"x": 1})
    around.ask(1, by=BOB, body={"x": 2})
    assert [(name, said.id, said.body) for name, said, _ in around.said] == [
        ("b", FIRST_ID + 1, {"x": 1}),
        ("b", FIRST_ID + 2, {"x": 2}),
    ]
    around.outward.answered("b", Envelope(REPLY, FIRST_ID + 2, body="two"))
    around.outward.answered("b", Envelope(REPLY, FIRST_ID + 1, body="one"))
    assert around.told() == [(BOB, 1, "two"), (ANN, 1, "one")]
    assert (len(around.outward), around.outward.count_on("b")) == (0, 0)


def test_the_name_of_the_node_stays_here(around: Around) -> None:
    """There it is a route like any other; with it goes all that the caller said, and not who waits for whom here."""
    around.ask(
        route="b/calc.add", key="k", priority=2, trace="t", body={"x": 1}, chain=[["o", "r"]], idempotency_key="i"
    )
    said = around.last()
    assert (said.route, said.key, said.priority, said.trace) == ("calc.add", "k", 2, "t")
    assert (said.body, said.chain, said.idempotency_key) == ({"x": 1}, None, "i")


@pytest.mark.parametrize(
    ("deadline", "left_ns"), [(None, TIMEOUT_DEFAULT_NS), (3 * S, 3 * S), (-(NOW + 2 * S), 2 * S), (-(NOW - S), 0)]
)
def test_the_time_that_is_left_travels(around: Around, deadline: int | None, left_ns: int) -> None:
    """A time of this host's clock says nothing on another; and what is over does not begin anew."""
    around.ask(deadline=deadline)
    assert around.last().deadline == left_ns


@pytest.mark.parametrize(
    ("priority", "is_bulk"), [(None, False), (0, False), (BULK_FROM - 1, False), (BULK_FROM, True)]
)
def test_what_may_wait_travels_apart(around: Around, priority: int | None, is_bulk: bool) -> None:
    """And what is said of it later follows on the same line, or it would overtake it."""
    around.ask(priority=priority)
    around.ask(kind=BOOST, priority=0)
    around.ask(kind=CANCEL)
    assert [bulk for _, _, bulk in around.said] == [is_bulk] * 3


@pytest.mark.parametrize("route", ["calc.add", "b/calc.add"])
def test_what_has_no_priority_of_its_own_travels_as_its_operation_may(around: Around, route: str) -> None:
    """Who says nothing of it calls what indexes by the megabyte as he calls what answers at once."""
    around.bulk = {("b", "calc.add")}
    around.ask(1, route)
    around.ask(2, route, priority=0)
    around.ask(1, kind=CANCEL)
    around.ask(3, "c/calc.add")
    assert [(name, bulk) for name, _, bulk in around.said] == [("b", True), ("b", False), ("b", True), ("c", False)]


def test_what_nobody_serves_is_refused_at_once(around: Around) -> None:
    """So it has certainly not begun."""
    around.ask(5, "calc.sub")
    assert [(end.id, end.is_refused) for _, end in around.answers] == [(5, True)]
    assert around.told() == [(ANN, 5, Status.NOT_FOUND)]
    assert around.said == []


def test_a_full_line_refuses_and_keeps_nothing(around: Around) -> None:
    """Who is told to come back later must not find his first try answered then."""
    around.is_full = True
    around.ask(5)
    [(_, end)] = around.answers
    assert (end.is_refused, end.body[0], end.body[2]) == (True, Busy.status, 0.05)
    assert (len(around.outward), around.outward.count_on("b"), around.outward.next_ns()) == (0, 0, None)
    around.is_full = False
    around.answers.clear()
    around.outward.down("b", "it died")
    assert around.told() == []


def test_what_one_node_has_no_room_for_the_next_one_does(around: Around) -> None:
    """A line that is full, or just broke, is no reason to refuse what another serves as well."""
    around.full.add("b")
    around.ask(1)
    around.ask(0, kind=CAST)
    assert [(name, said.kind) for name, said, _ in around.said] == [("c", CALL), ("c", CAST)]
    assert (around.told(), around.outward.count_on("b"), around.outward.count_on("c")) == ([], 0, 1)
    around.ask(1, kind=CANCEL)
    assert (around.said[-1][0], len(around.outward)) == ("c", 0)
    around.ask(2, "b/calc.add")
    assert around.told() == [(ANN, 2, Status.RESOURCE_EXHAUSTED)], "who names one means it"
    around.full.add("c")
    around.ask(3)
    assert "'b'" in around.answers[0][1].body[1]
    assert around.told() == [(ANN, 3, Status.RESOURCE_EXHAUSTED)]


@pytest.mark.parametrize("how", ["key", "idempotency_key"])
def test_what_a_key_names_is_at_one_node(around: Around, how: str) -> None:
    """Or two requests for one object would run beside each other, on two; and work be done twice. Full or not."""
    around.announced = (0.0, 0.0)
    for number in range(40):
        around.ask(number + 1, by=(ANN, BOB)[number // 20], **{how: f"key-{number % 20}"})
    asked = [name for name, _, _ in around.said]
    assert asked[:20] == asked[20:]
    assert 4 < asked.count("b") < 36
    around.full.add(asked[0])
    around.ask(41, **{how: "key-0"})
    assert (around.told(), len(around.said)) == ([(ANN, 41, Status.RESOURCE_EXHAUSTED)], 40)


def test_of_nodes_about_equally_busy_that_one_is_asked_that_has_fewest_calls_of_ours(around: Around) -> None:
    """What they say of their loads is a heartbeat old: a thousand calls would all go to one."""
    around.announced = (0.0, 0.0)
    for id in range(6):
        around.ask(id + 1)
    assert [name for name, _, _ in around.said] == ["b", "c"] * 3
    for id in (1, 3):
        around.outward.answered("b", Envelope(REPLY, FIRST_ID + id))
    around.ask(7)
    around.ask(8)
    assert [name for name, _, _ in around.said[6:]] == ["b", "b"]
    around.announced = (0.0,)
    around.ask(9)
    around.ask(10)
    assert [name for name, _, _ in around.said[8:]] == ["b", "b"], "the others are busier"


def test_a_load_that_a_node_announces_does_not_outrank_the_calls_that_it_holds(around: Around) -> None:
    """Who announces 0 and holds back what it was asked would be asked everything else, too."""
    around.announced = (0.0, 1.0)
    for id in range(9):
        around.ask(id + 1)
    assert Counter(name for name, _, _ in around.said) == {"b": 6, "c": 3}
    for id in range(1, 10):
        around.outward.answered("b", Envelope(REPLY, FIRST_ID + id))
    around.said.clear()
    around.ask(10)
    assert around.said[0][0] == "b", "at rest the least busy is asked"


def test_of_casts_nobody_is_told(around: Around) -> None:
    """They are counted, where they are lost."""
    around.ask(0, kind=CAST)
    assert (around.last().kind, around.last().id, around.last().deadline) == (CAST, 0, None)
    around.ask(0, "calc.sub", kind=CAST)
    around.is_full = True
    around.ask(0, kind=CAST)
    assert (around.outward.lost_casts_count, around.answers, len(around.outward)) == (2, [], 0)


def test_a_call_that_is_taken_back_is_taken_back_there(around: Around) -> None:
    """Under its number there; what comes of it afterwards is nobody's."""
    around.ask(1)
    around.ask(2)
    around.ask(1, kind=CANCEL)
    assert (around.last().kind, around.last().id) == (CANCEL, FIRST_ID + 1)
    around.outward.answered("b", Envelope(REPLY, FIRST_ID + 1, body="late"))
    around.ask(1, kind=CANCEL)
    assert (around.told(), len(around.said), len(around.outward)) == ([], 3, 1)


def test_a_boost_follows_its_call(around: Around) -> None:
    """To the node that has it; of a call of somebody else's with the same number nothing is said."""
    around.ask(1, "c/calc.add")
    around.ask(1, kind=BOOST, priority=0)
    assert around.said[-1][0] == "c"
    assert (around.last().kind, around.last().id, around.last().priority) == (BOOST, FIRST_ID + 1, 0)
    around.ask(1, by=BOB, kind=BOOST, priority=0)
    assert len(around.said) == 2
    around.outward.answered("c", Envelope(REPLY, FIRST_ID + 1, body=3))
    assert around.told() == [(ANN, 1, 3)]


def test_only_who_was_asked_can_answer_and_only_once(around: Around) -> None:
    """Another node could otherwise guess numbers, and a second answer would find the next call under that number."""
    around.ask(1)
    around.outward.answered("c", Envelope(REPLY, FIRST_ID + 1, body="forged"))
    assert around.told() == []
    around.outward.answered("b", Envelope(REPLY, FIRST_ID + 1, body="true"))
    around.outward.answered("b", Envelope(REPLY, FIRST_ID + 1, body="twice"))
    assert around.told() == [(ANN, 1, "true")]


def test_a_status_comes_back_as_it_was_said(around: Around) -> None:
    """With when to try again, and whether the work had begun."""
    around.ask(1)
    around.outward.answered("b", status(FIRST_ID + 1, Busy("full", retry_after=1.5), is_refused=True))
    [(_, end)] = around.answers
    assert (end.kind, end.id, end.is_refused, end.body) == (STATUS, 1, True, [Busy.status, "full", 1.5, None])


def test_what_a_node_held_ends_with_it_and_the_rest_goes_on(around: Around) -> None:
    """In PEER_DOWN, never as refused: whether it was done nobody knows."""
    around.ask(1, "b/calc.add")
    around.ask(2, "c/calc.add")
    around.ask(1, "b/calc.add", by=BOB)
    around.outward.down("b", "it died")
    assert [end.is_refused for _, end in around.answers] == [False, False]
    assert "b/calc.add: node 'b' is down (it died)" in around.answers[0][1].body[1]
    assert around.told() == [(ANN, 1, Status.PEER_DOWN), (BOB, 1, Status.PEER_DOWN)]
    assert (around.outward.count_on("b"), around.outward.count_on("c")) == (0, 1)
    around.outward.answered("b", Envelope(REPLY, FIRST_ID + 1, body="from the dead"))
    around.outward.down("b", "again")
    around.outward.answered("c", Envelope(REPLY, FIRST_ID + 2, body="alive"))
    assert around.told() == [(ANN, 2, "alive")]


def test_when_this_node_leaves_all_that_it_has_asked_ends(around: Around) -> None:
    """On whichever node: nobody will hear their answers."""
    around.ask(1, "b/calc.add")
    around.ask(2, "c/calc.add", by=BOB)
    around.outward.leave()
    assert {*around.told()} == {(ANN, 1, Status.PEER_DOWN), (BOB, 2, Status.PEER_DOWN)}
    assert (len(around.outward), around.outward.next_ns()) == (0, None)


def test_what_a_dead_process_has_asked_is_taken_back(around: Around) -> None:
    """And nobody else's, whatever its number."""
    around.ask(1, "b/calc.add")
    around.ask(1, "c/calc.add", by=BOB)
    around.ask(2, "c/calc.add")
    assert around.outward.callers() == {ANN, BOB}
    around.outward.gone(ANN)
    assert [(name, said.kind, said.id) for name, said, _ in around.said[3:]] == [
        ("b", CANCEL, FIRST_ID + 1),
        ("c", CANCEL, FIRST_ID + 3),
    ]
    assert (around.told(), around.outward.abandoned_count, len(around.outward)) == ([], 2, 1)
    assert around.outward.callers() == {BOB}


def test_what_is_over_is_forgotten(around: Around) -> None:
    """Its caller keeps the deadline himself; whoever answers later finds nothing, and no table grows."""
    around.ask(1, deadline=2 * S)
    around.ask(2, deadline=S)
    assert around.outward.next_ns() == NOW + S
    around.outward.expire(NOW + S)
    assert (len(around.outward), around.outward.count_on("b"), around.outward.next_ns()) == (1, 1, NOW + 2 * S)
    around.outward.expire(NOW + 2 * S)
    around.outward.answered("b", Envelope(REPLY, FIRST_ID + 1, body="late"))
    assert (len(around.outward), around.outward.count_on("b"), around.told()) == (0, 0, [])
    around.ask(1, kind=CANCEL)
    assert len(around.said) == 2


def test_what_no_node_offers_may_be_a_backplanes_here_that_has_yet_to_register(around: Around) -> None:
    """While a system starts, this node is asked for what is only not known yet."""
    for missing, said in ((("late",), Status.UNAVAILABLE), ((), Status.NOT_FOUND)):
        around.outward.missing = missing
        around.ask(1, "late.do")
        assert around.told() == [(ANN, 1, said)]
    around.outward.missing = ("late",)
    around.ask(2, "b/late.do")
    assert around.told() == [(ANN, 2, Status.NOT_FOUND)], "it names another node"


def test_items_of_an_argument_are_passed_on_and_their_credit_returned(around: Around) -> None:
    """Under the ids of either side, on the line of their call."""
    around.ask(1, body={"rows": 4}, streamed="rows")
    assert (around.last().streamed, around.last().body) == ("rows", {"rows": 4})
    around.outward.came("b", argument_credit(FIRST_ID + 1, 4))
    assert around.answers == [(ANN, argument_credit(1, 4))]
    around.outward.take(ANN, argument_items(1, [1, 2], 0, is_blocked=False, is_last=True), NOW)
    assert around.last() == argument_items(FIRST_ID + 1, [1, 2], 0, is_blocked=False, is_last=True)
    said = len(around.said)
    around.outward.take(BOB, argument_items(1, [1], 2, is_blocked=False, is_last=True), NOW)
    around.outward.take(ANN, argument_items(2, [1], 2, is_blocked=False, is_last=True), NOW)
    assert len(around.said) == said, "nobody has such a call"
    around.outward.came("c", argument_credit(FIRST_ID + 1, 4))
    assert around.last() == cancel(FIRST_ID + 1), "it does not hold this call"


def test_items_that_find_no_room_end_the_call(around: Around) -> None:
    """Once: a list with a hole is of no use."""
    around.ask(1, body={"rows": 4}, streamed="rows")
    around.is_full = True
    for number in range(2):
        around.outward.take(ANN, argument_items(1, [number], number, is_blocked=False, is_last=False), NOW)
    assert around.told() == [(ANN, 1, Status.RESOURCE_EXHAUSTED)]
    assert (len(around.outward), around.outward.count_on("b")) == (0, 0)
