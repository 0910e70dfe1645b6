"""Topics between nodes: who is sent what under which number, what of it is heard here, and what is asked for."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest

from appbackplane.runtime.peers.hearers import PATTERNS_MAX, Hearers
from appbackplane.runtime.peers.outward import BULK_FROM
from appbackplane.runtime.peers.topics import Topics
from appbackplane.transport import codec
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import PUBLISH, Envelope
from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument
from appbackplane.transport.peers.messages import ROUTES_MAX
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.offer import ROUTE_LENGTH_MAX
from appbackplane.transport.security.grants import Grant
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.session import ClientSession

KEY = PublicKey(b"k" * 32)
TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
HERE = Directory(
    "here",
    topics={"prices.*": ("main", "node"), "offers.*": ("node",), "private": ("main",)},
    exported_topics=("prices.*", "offers.*"),
    node="node",
)


class Peer(NamedTuple):
    """A node, as the view knows it."""

    address: str
    incarnation: int = 1


class Around:
    """Everything about it: two nodes that hear prices, and the session into this system."""

    def __init__(self) -> None:
        self.table = self.membership = self
        self.view = {"b": Peer("at-b"), "c": Peer("at-c")}
        self.hearing, self.absent = ["b", "c"], list[str]()
        self.holders = {"at-b": Holder("b", KEY), "at-c": Holder("c", KEY)}
        self.full: set[str] = set()
        self.patterns: frozenset[str] = frozenset()
        self.said: list[tuple[str, Envelope, bool]] = []
        self.told: list[tuple[str, Any, str, int]] = []
        self.is_busy = False
        self.clients = {"client/1": Holder("k", KEY), "client/2": Holder("k", KEY)}
        self.heard: list[tuple[str, int, Any]] = []
        self.slow: set[str] = set()
        self.topics = Topics(
            cast(PeerNode, self), cast(ClientSession, self), holder_of=self.holders.get, say=self._say,
            patterns=lambda: self.patterns, hearers=Hearers(self.clients.get, self._tell),
        )  # fmt: skip
        self.topics.update(HERE)

    def subscribers(self, _topic: str) -> list[str]:
        """Of the route table."""
        return self.hearing

    def absent_subscribers(self, _topic: str) -> list[str]:
        """Of the route table."""
        return self.absent

    def publish(self, topic: str, _: int | None, body: Any, *, node: str, trace: str | None, lost: int) -> int:
        """Of the session."""
        assert trace == TRACE
        if self.is_busy:
            raise Busy("it does not read")
        self.told.append((topic, body, node, lost))
        return 1

    def hear(
        self,
        number: int,
        topic: str = "prices.eu",
        *,
        incarnation: int = 1,
        holder: Holder | None = None,
        priority: int | None = None,
    ) -> None:
        """Of b."""
        envelope = Envelope(PUBLISH, number, priority, topic, "its own word", None, TRACE, {"n": number})
        self.topics.came("b", incarnation, holder or self.holders["at-b"], envelope)

    def tell(self, topic: str = "prices.eu", priority: int | None = None) -> None:
        """A process of this system."""
        self.topics.published(Envelope(PUBLISH, 77, priority, topic, None, None, TRACE, {"n": 1}))

    def numbers(self) -> list[tuple[str, int]]:
        """What was said since the last time: to whom, under which number."""
        found = [(address, said.id) for address, said, _ in self.said]
        self.said.clear()
        return found

    def _tell(self, name: str, packed: bytes) -> bool:
        if name in self.slow:
            return False
        (envelope,) = codec.decode(codec.batch([packed]))
        self.heard.append((name, envelope.id, envelope.body["n"]))
        return True

    def _say(self, address: str, packed: bytes, is_bulk: bool) -> bool:
        if address in self.full:
            return False
        (envelope,) = codec.decode(codec.batch([packed]))
        self.said.append((address, envelope, is_bulk))
        return True


@pytest.fixture
def around() -> Around:
    """Of node a."""
    return Around()


def test_each_node_is_sent_messages_under_numbers_of_its_own(around: Around) -> None:
    """As the publisher said it; whatever number it had here is nobody's there."""
    around.tell()
    around.hearing.remove("c")
    around.tell()
    around.tell("prices.us")
    assert around.said[0][1] == Envelope(PUBLISH, 1, None, "prices.eu", None, None, TRACE, {"n": 1})
    assert around.numbers() == [("at-b", 1), ("at-c", 1), ("at-b", 2), ("at-b", 1)]


def test_only_what_its_publisher_hurries_takes_the_urgent_line(around: Around) -> None:
    """A flood of messages that nobody waits for must not stand before calls."""
    for priority in (None, 0, BULK_FROM):
        around.tell(priority=priority)
    assert [is_bulk for address, _, is_bulk in around.said if address == "at-b"] == [True, False, True]


@pytest.mark.parametrize(
    ("granted", "topic", "is_sent"),
    [
        (("exported",), "prices.eu", True),
        (("exported",), "private", False),
        (("none",), "prices.eu", False),
        (("prices.us",), "prices.eu", False),
        (("prices.*",), "prices.eu", True),
        (("private",), "private", False),
    ],
)
def test_a_key_hears_and_publishes_what_it_may(
    around: Around, granted: tuple[str, ...], topic: str, is_sent: bool
) -> None:
    """Of what is exported; and what it may not publish is not told to anybody."""
    around.holders["at-b"] = holder = Holder("b", KEY, topics=Grant.of(granted))
    around.tell(topic)
    assert ("at-b" in dict(around.numbers())) is is_sent
    around.hear(1, topic, holder=holder)
    assert (bool(around.told), around.topics.refused_count) == (is_sent, int(not is_sent))


def test_a_node_whose_key_is_no_longer_there_is_sent_nothing(around: Around) -> None:
    """The ring decides at each message."""
    del around.holders["at-b"]
    around.tell()
    assert around.numbers() == [("at-c", 1)]


def test_what_finds_no_room_is_a_gap(around: Around) -> None:
    """And counted here: on its line, and before it came to the endpoint at all."""
    around.tell()
    around.full.add("at-b")
    around.tell()
    around.full.clear()
    around.topics.drop("prices.eu")
    around.tell()
    assert [number for address, number in around.numbers() if address == "at-b"] == [1, 4]
    assert around.topics.lost_count == 1


def test_numbers_run_on_for_a_node_that_is_down_and_begin_anew_for_one_that_was_started_again(around: Around) -> None:
    """The one has missed something, the other has asked for nothing before."""
    around.tell()
    around.hearing.remove("b")
    around.absent.append("b")
    around.tell()
    around.hearing.append("b")
    around.absent.remove("b")
    around.tell()
    assert [number for address, number in around.numbers() if address == "at-b"] == [1, 3]
    around.view["b"] = Peer("at-b", incarnation=2)
    around.tell()
    assert [number for address, number in around.numbers() if address == "at-b"] == [1]


def test_what_a_node_publishes_is_told_as_its_own_with_what_is_missing_before_it(around: Around) -> None:
    """What it claims to pass on for others is its own word; and another incarnation counts from one."""
    for number in (1, 2, 5):
        around.hear(number)
    around.hear(1, incarnation=2)
    assert [(topic, node, lost) for topic, _, node, lost in around.told] == [
        ("prices.eu", "b", 0), ("prices.eu", "b", 0), ("prices.eu", "b", 2), ("prices.eu", "b", 0),
    ]  # fmt: skip
    assert around.topics.gaps.lost_count == 2


def test_who_does_not_read_here_is_not_the_nodes_fault(around: Around) -> None:
    """The session has told all others."""
    around.is_busy = True
    around.hear(1)
    assert around.topics.lost_count == 1
    with pytest.raises(InvalidArgument, match="a topic is words"):
        around.hear(1, "prices.*")


def test_asked_for_is_what_is_heard_here_and_exported(around: Around) -> None:
    """Objects and clients; nobody is asked for what nobody hears, nor told what clients hear beside it."""
    assert around.topics.wanted() == {"prices.*"}
    around.patterns = frozenset({"prices.eu", "offers.today", "offers.*", "private", "telemetry.*", "offersmore"})
    assert around.topics.wanted() == {"prices.*", "prices.eu", "offers.today", "offers.*"}
    around.topics.update(Directory("here", node="node"))
    assert around.topics.wanted() == set()


def test_what_clients_ask_for_never_keeps_the_nodes_operations_from_its_peers(around: Around) -> None:
    """A node announces 4,096 topics of 256 characters: beyond that its operations were not announced either. Two clients with
    2,049 subscriptions each, or one with a long one, cut a node off from what changed at it.
    """
    around.patterns = frozenset(f"prices.t{number}" for number in range(ROUTES_MAX))
    assert around.topics.wanted() == {"prices.*"}
    around.patterns = frozenset({"offers." + "x" * ROUTE_LENGTH_MAX, "prices.eu"})
    assert around.topics.wanted() == {"prices.*", "offers.*"}
    around.patterns = frozenset({"private" + "x" * ROUTE_LENGTH_MAX, "prices.eu"})
    assert around.topics.wanted() == {"prices.*", "prices.eu"}, "nobody is asked for that one"


def test_a_topic_of_another_host_is_no_longer_than_one_may_be(around: Around) -> None:
    """Each was remembered, a thousand of 16 MiB; and one of 16 MiB of dots would have stopped the node for hours."""
    with pytest.raises(InvalidArgument, match=r"got 200,006 characters"):
        around.hear(1, "prices" + ".a" * 100_000)
    with pytest.raises(InvalidArgument, match=r"limit 1,024"):
        around.topics.hearers.subscribe("client/1", "prices." + "a" * 1_018)
    with pytest.raises(InvalidArgument, match=r"got \[0, 0,"):
        around.topics.hearers.subscribe("client/1", [0] * 1_000_000)
    assert not around.told
    assert not around.topics.hearers.patterns()


def test_the_trace_of_another_host_is_one_or_none(around: Around) -> None:
    """As of a call: it comes into logs and recordings here."""
    published = Envelope(PUBLISH, 1, None, "prices.eu", None, None, "x" * 55, {"n": 1})
    with pytest.raises(AssertionError):
        around.topics.said("client/1", around.clients["client/1"], published)
    assert published.trace is None


def test_clients_of_other_hosts_hear_what_is_published_here_and_there(around: Around) -> None:
    """Under numbers of their own, with the gaps of whoever it came from."""
    around.topics.hearers.subscribe("client/1", "prices.*")
    around.topics.hearers.subscribe("client/1", "prices.eu")
    around.topics.hearers.subscribe("client/2", "prices.us")
    around.tell()
    around.hear(4)
    around.hear(7)
    around.tell("prices.us")
    assert around.heard == [
        ("client/1", 1, 1), ("client/1", 2, 4), ("client/1", 5, 7), ("client/2", 1, 1), ("client/1", 1, 1),
    ]  # fmt: skip
    assert around.topics.wanted() == {"prices.*", "prices.eu", "prices.us"}


def test_a_client_hears_what_its_key_may_and_what_it_has_room_for(around: Around) -> None:
    """A grant that was taken back holds at once; what there is no room for is a gap, and keeps nobody else from anything."""
    hearers = around.topics.hearers
    for name in around.clients:
        hearers.subscribe(name, "prices.eu")
    around.slow.add("client/1")
    around.tell()
    around.slow.clear()
    around.clients["client/2"] = Holder("k", KEY, topics=Grant.of(["prices.us"]))
    around.tell()
    del around.clients["client/1"]
    around.tell()
    assert around.heard == [("client/2", 1, 1), ("client/1", 2, 1)]
    assert hearers.lost_count == 1
    hearers.gone("client/1")
    assert hearers.patterns() == {"prices.eu"}


def test_a_client_may_ask_for_so_much(around: Around) -> None:
    """A mistake in a loop must not fill the node."""
    for number in range(PATTERNS_MAX):
        around.topics.hearers.subscribe("client/1", f"t{number}")
    around.topics.hearers.subscribe("client/1", "t0")
    with pytest.raises(FailedPrecondition, match=r"already has 1,000 subscriptions here"):
        around.topics.hearers.subscribe("client/1", "one.more")


def test_the_clients_of_a_key_may_ask_for_so_much_together(around: Around) -> None:
    """One that has gone leaves its places to the others."""
    hearers, clients = around.topics.hearers, [f"client/{number + 10}" for number in range(5)]
    for name in clients:
        around.clients[name] = Holder("busy", KEY)
    for name in clients[:4]:
        for number in range(PATTERNS_MAX):
            hearers.subscribe(name, f"t{number}")
    with pytest.raises(FailedPrecondition, match=r"the clients of this key already have 4,000 subscriptions"):
        hearers.subscribe(clients[4], "one.more")
    hearers.subscribe("client/1", "another.key")
    hearers.unsubscribe(clients[0], "t0")
    hearers.subscribe(clients[4], "one.more")
    with pytest.raises(FailedPrecondition, match=r"the clients of this key"):
        hearers.subscribe(clients[4], "two.more")
    hearers.gone(clients[1])
    hearers.subscribe(clients[4], "two.more")


def test_what_a_client_publishes_goes_to_its_node_and_to_those_that_hear_it(around: Around) -> None:
    """If its key may."""
    envelope = Envelope(PUBLISH, 1, None, "prices.eu", None, None, TRACE, {"n": 9})
    around.topics.said("client/1", around.clients["client/1"], envelope)
    assert [(node, body) for _, body, node, _ in around.told] == [("client/1", {"n": 9})]
    assert around.numbers() == [("at-b", 1), ("at-c", 1)]
    around.topics.said("client/1", Holder("k", KEY, topics=Grant.of(["none"])), envelope)
    assert (len(around.told), around.numbers(), around.topics.refused_count) == (1, [], 1)


def test_what_is_urgent_overtakes_without_a_gap(around: Around) -> None:
    """Two lines go to a node, and one overtakes the other: with numbers for both together what was late was taken for lost."""
    around.tell()
    around.tell(priority=0)
    around.tell()
    around.tell(priority=0)
    to_b = [(said.id, said.priority) for address, said, _ in around.said if address == "at-b"]
    assert to_b == [(1, None), (1, 0), (2, None), (2, 0)]
    for number, priority in ((1, 0), (2, 0), (1, None), (2, None), (4, 0)):
        around.hear(number, priority=priority)
    assert [lost for _, _, _, lost in around.told] == [0, 0, 0, 0, 1]
