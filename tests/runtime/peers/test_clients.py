"""Clients: who was greeted, what he is told that there is, and what he says by which clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from appbackplane.runtime.peers.clients import DIRECTORY, TOLD_MAX, TOLD_NS, Clients
from appbackplane.runtime.peers.hearers import Hearers
from appbackplane.runtime.peers.inward import Arrival, Inward
from appbackplane.runtime.peers.topics import Topics
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import CALL, CANCEL, CAST, PUBLISH, REPLY, STATUS, Envelope
from appbackplane.transport.errors import MalformedFrame, Status
from appbackplane.transport.remote.greeting import (
    PROTOCOL,
    WELCOME,
    ClientClock,
    ClientHello,
    Welcome,
    heard,
    hello,
    said,
)
from appbackplane.transport.security.grants import Grant
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.session import ClientSession

S = 1_000_000_000
HOLDER = Holder("k", PublicKey(b"k" * 32))
A, B = f"client/{'a' * 32}", f"client/{'b' * 32}"
SYSTEM = Directory(
    "shop",
    7,
    backplanes={"main": Place(3, "/run/main", pid=4711)},
    routes={"calc.add": ("main",), "calc.sub": ("main",), "calc.secret": ("main",)},
    topics={"files": ("main",), "prices.*": ("main", "node")},
    exported_topics=("prices.*",),
    idempotent=("calc.add", "calc.secret"),
    exported=("calc.add", "calc.sub"),
)


class Session:
    """As much of it as is asked."""

    directory: Directory | None = SYSTEM


class Node:
    """What clients are to a node: those in front of it, and what it does for them."""

    def __init__(self) -> None:
        self.session = Session()
        self.said: list[tuple[str, Envelope]] = []
        self.taken: list[tuple[str, Envelope]] = []
        self.arrivals: list[Arrival | None] = []
        self.down_names: list[str] = []
        self.holders = {A: HOLDER, B: HOLDER}
        self.published: list[tuple[str, Holder, Envelope]] = []
        self.hearers = Hearers(self.holders.get, lambda _name, _packed: True)
        topics = SimpleNamespace(hearers=self.hearers, said=lambda *words: self.published.append(words))
        self.clients = Clients(cast(ClientSession, self.session), cast(Inward, self), cast(Topics, topics), self._say)

    def hear(self, envelope: Envelope, name: str = A, now_ns: int = 100 * S) -> list[Envelope]:
        """A client says this; what it is answered."""
        self.said.clear()
        self.clients.take(name, self.holders[name], envelope, now_ns)
        assert all(to == name for to, _ in self.said)
        return [answer for _, answer in self.said]

    def greet(self, name: str = A, clock_ns: int = 40 * S) -> None:
        """As a client does."""
        (answer,) = self.hear(said(hello("b", clock_ns)), name)
        assert heard(answer) == Welcome(PROTOCOL)

    def directory(self, name: str = A) -> Directory:
        """That it asks for."""
        (answer,) = self.hear(Envelope(CALL, 1, route=DIRECTORY, body={}), name)
        assert answer.kind == REPLY
        return Directory.from_body(answer.body)

    def news(self) -> list[tuple[str, int, Directory]]:
        """Of whom may be told what: to whom, under which number."""
        self.said.clear()
        self.clients.look(self.holders.get)
        assert all(news.kind == PUBLISH for _, news in self.said)
        return [(to, news.id, Directory.from_body(news.body)) for to, news in self.said]

    # What it asks of Inward

    def take(
        self, name: str, incarnation: int, holder: Holder, envelope: Envelope, _now_ns: int, arrival: Arrival | None
    ) -> None:
        """Do it."""
        self.arrivals.append(arrival)
        assert (incarnation, holder) == (0, self.holders[name])
        self.taken.append((name, envelope))

    def down(self, name: str) -> None:
        """Nobody waits for it."""
        self.down_names.append(name)

    def _say(self, name: str, envelope: Envelope) -> None:
        self.said.append((name, envelope))


@pytest.fixture
def node() -> Node:
    """That nobody has greeted."""
    return Node()


def test_nothing_is_done_for_who_has_not_greeted(node: Node) -> None:
    """Which version he speaks is not known: a call is refused, all else is nothing."""
    (answer,) = node.hear(Envelope(CALL, 5, route="calc.add", body={}))
    assert (answer.kind, answer.id, answer.is_refused) == (STATUS, 5, True)
    assert answer.body[0] == Status.FAILED_PRECONDITION
    assert node.hear(Envelope(CAST, 0, route="calc.add", body={})) == []
    assert node.hear(said(ClientClock(1))) == []
    assert (node.taken, len(node.clients)) == ([], 0)


def test_who_speaks_another_version_is_told_so_and_not_known(node: Node) -> None:
    """And may greet again."""
    (answer,) = node.hear(said(ClientHello(PROTOCOL + 2, PROTOCOL + 1, "b", 0)))
    assert answer.route != WELCOME
    assert len(node.clients) == 0
    node.greet()
    assert len(node.clients) == 1


def test_the_directory_has_what_may_be_used_and_nothing_else(node: Node) -> None:
    """No paths, no processes, no names of backplanes: served by this node, by the name that the client has for it."""
    node.greet()
    assert node.directory() == Directory(
        "b",
        1,
        backplanes={"b": Place(1, "")},
        routes={"calc.add": ("b",), "calc.sub": ("b",)},
        topics={"prices.*": ("b",)},
        idempotent=("calc.add",),
        node="b",
    )
    node.holders[B] = Holder("other", PublicKey(b"o" * 32), routes=Grant.of(["calc.secret"]))
    node.greet(B)
    assert list(node.directory(B).routes) == ["calc.secret"]
    assert node.directory(B).idempotent == ("calc.secret",)


def test_the_directory_is_told_no_more_often_than_the_node_bears(node: Node) -> None:
    """A frame has room for 4,096 questions: with 4,096 routes a node answered nobody else for five seconds."""
    node.greet()
    for _ in range(TOLD_MAX):
        node.directory()
    (answer,) = node.hear(Envelope(CALL, 1, route=DIRECTORY, body={}))
    assert (answer.kind, answer.body[0]) == (STATUS, Status.RESOURCE_EXHAUSTED)
    (answer,) = node.hear(Envelope(CALL, 1, route=DIRECTORY, body={}), now_ns=100 * S + TOLD_NS)
    assert answer.kind == REPLY


def test_before_the_system_is_known_a_client_is_told_to_come_back(node: Node) -> None:
    """A node that has just begun."""
    node.session.directory = None
    node.greet()
    (answer,) = node.hear(Envelope(CALL, 1, route=DIRECTORY, body={}))
    assert (answer.kind, answer.body[0], answer.body[2]) == (STATUS, Status.UNAVAILABLE, 0.25)
    assert node.news() == []


def test_news_are_told_to_whom_they_concern(node: Node) -> None:
    """Each once, under a number, and none to who has not asked."""
    node.greet(A)
    node.greet(B)
    node.directory(A)
    assert node.news() == []
    node.session.directory = Directory("shop", 8, SYSTEM.backplanes, SYSTEM.routes, exported=("calc.add",))
    ((to, number, directory),) = node.news()
    assert (to, number, list(directory.routes)) == (A, 1, ["calc.add"])
    assert node.news() == []
    node.session.directory = Directory("shop", 9, {}, SYSTEM.routes, exported=("calc.add",))
    assert node.news() == [], "what has changed is none of its business"
    node.holders[A] = Holder("k", HOLDER.key, routes=Grant.of(["calc.*"]))
    ((_, number, later),) = node.news()
    assert (number, list(later.routes)) == (2, list(SYSTEM.routes))
    assert later.version > directory.version
    del node.holders[A]
    node.session.directory = SYSTEM
    assert node.news() == [], "it is not trusted any more, and about to be cut"


def test_what_is_asked_goes_the_way_of_what_peers_ask(node: Node) -> None:
    """Calls, casts and withdrawals, each as it is; but for what a client asks of its system by itself."""
    node.greet()
    said_all = [
        Envelope(CALL, 5, 0, "calc.add", "key", 3 * S, None, {"x": 1}, None, "once"),
        Envelope(CAST, 0, 9, "calc.sub", body={}),
        Envelope(CANCEL, 5),
        Envelope(CALL, 6, route="supervisor.status", body={}),
    ]
    for envelope in said_all:
        assert node.hear(envelope) == []
    assert node.taken == [(A, envelope) for envelope in said_all]
    (settled,) = node.hear(Envelope(CALL, 7, route="backplane.b.unsubscribe", body={"topic": "system.settled"}))
    assert (settled.kind, settled.id) == (REPLY, 7)


def test_topics_are_heard_and_published_on(node: Node) -> None:
    """As on one host; nonsense is refused, and ends with who has gone."""
    node.greet()
    assert node.directory().topics == {"prices.*": ("b",)}
    for id, topic in enumerate(("prices.eu", "prices.*", "prices.us")):
        (told,) = node.hear(Envelope(CALL, id, route="backplane.b.subscribe", body={"topic": topic}))
        assert (told.kind, told.id) == (REPLY, id)
    for nonsense in ("*", [], None, {}):
        (told,) = node.hear(Envelope(CALL, 8, route="backplane.b.subscribe", body={"topic": nonsense}))
        assert (told.kind, told.body[0]) == (STATUS, Status.INVALID_ARGUMENT)
    for former in ("prices.us", "prices.us", "files", [], None):
        (told,) = node.hear(Envelope(CALL, 9, route="backplane.b.unsubscribe", body={"topic": former}))
        assert told.kind == REPLY
    assert node.hearers.patterns() == {"prices.eu", "prices.*"}
    said = Envelope(PUBLISH, 1, None, "prices.eu", body={})
    assert node.hear(said) == []
    assert node.published == [(A, HOLDER, said)]
    node.clients.gone([A])
    assert node.hearers.patterns() == set()


def test_who_may_use_no_topics_is_told(node: Node) -> None:
    """Rather than left to wait for messages that never come."""
    node.holders[A] = Holder("k", HOLDER.key, topics=Grant.of(["none"]))
    node.greet()
    assert node.directory().topics == {}
    (refused,) = node.hear(Envelope(CALL, 8, route="backplane.b.subscribe", body={"topic": "prices.eu"}))
    assert (refused.kind, refused.body[0]) == (STATUS, Status.FAILED_PRECONDITION)


@pytest.mark.parametrize(
    ("deadline", "left_ns"),
    [(-45 * S, 5 * S), (-40 * S, 0), (-30 * S, 0), (7 * S, 7 * S), (None, None)],
)
def test_a_deadline_is_by_the_clock_of_who_calls(node: Node, deadline: int | None, left_ns: int | None) -> None:
    """It said what its clock shows: 40 s, when this one's showed 100 s."""
    node.greet(clock_ns=40 * S)
    node.hear(Envelope(CALL, 5, route="calc.add", deadline=deadline, body={}))
    assert node.taken[-1][1].deadline == left_ns


def test_clocks_that_drift_are_compared_again(node: Node) -> None:
    """What a call waits for on its way is spent: its time began when it was made."""
    node.greet(clock_ns=40 * S)
    node.hear(Envelope(CALL, 5, route="calc.add", deadline=-60 * S, body={}), now_ns=110 * S)
    assert node.taken[-1][1].deadline == 10 * S
    node.hear(said(ClientClock(51 * S)), now_ns=110 * S)
    node.hear(Envelope(CALL, 6, route="calc.add", deadline=-60 * S, body={}), now_ns=110 * S)
    assert node.taken[-1][1].deadline == 9 * S


def test_what_no_client_says_makes_no_sense(node: Node) -> None:
    """It is counted against who says it, and done for nobody."""
    node.greet()
    with pytest.raises(MalformedFrame):
        node.hear(said(Welcome(PROTOCOL)))
    assert node.taken == []


def test_what_one_who_has_gone_wanted_is_taken_back(node: Node) -> None:
    """Once; of one who never greeted there is nothing."""
    node.greet(A)
    node.clients.gone([A, B])
    node.clients.gone([A])
    assert (node.down_names, len(node.clients)) == ([A], 0)
    (answer,) = node.hear(Envelope(CALL, 5, route="calc.add", body={}))
    assert answer.kind == STATUS, "what was read ahead of it comes too late"


def test_a_call_is_charged_with_the_frame_that_it_came_in(node: Node) -> None:
    """To the key, whichever of its connections it came by."""
    node.greet()
    frame = Arrival(1_000)
    for id in (5, 6):
        node.clients.take(A, HOLDER, Envelope(CALL, id, route="calc.add", body={}), 100 * S, frame)
    assert node.arrivals == [frame, frame]
