"""Names, keys, incarnations and protocols: who is let in as whom, and what the others are told."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from appbackplane.transport.errors import Unavailable
from appbackplane.transport.peers import messages
from appbackplane.transport.peers.effects import (
    Dial,
    Down,
    Effect,
    Hangup,
    NameTaken,
    NewIncarnation,
    NodeUnreachable,
    PeerState,
    PeerUp,
    Refused,
    RefusedBy,
    Send,
)
from appbackplane.transport.peers.membership import Membership
from appbackplane.transport.peers.messages import (
    PROTOCOL,
    Heartbeat,
    Hello,
    NodeRecord,
    Refusal,
    Sync,
    Vouch,
    incompatible,
)
from appbackplane.transport.peers.naming import NameClaim, claim, keeps
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.peer import Peer
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.peers.view import Identity
from tests.transport.peers.network import EPOCH, SECOND, Network, Process
from tests.transport.peers.test_joining import HEAL_S, mesh

POLICY = MembershipPolicy()
START = 5 * SECOND


def alone(incarnation: int = 1_000, clock: Sequence[int] = ()) -> PeerNode:
    """A node to which one talks by hand. The first of `clock` is the time on its host, by default when it was started."""
    me = Identity("me", incarnation, "tcp://me", "my key")
    membership = Membership(me, dict, START, random=random.Random(1).random, unix_ns=lambda: (*clock, incarnation)[0])
    return PeerNode(membership, START)


def hello(name: str = "b", incarnation: int = 2_000, address: str = "", **changes: object) -> Hello:
    """As somebody would say it who dialled us."""
    said = Hello(
        name=name, incarnation=incarnation, to=0, beat=1, sent_ns=1, echo_ns=0, digest=0, session=0, is_up=False,
        routes=0, load=0.0, protocol=PROTOCOL, protocol_oldest=PROTOCOL - 1, address=address or f"tcp://{name}", dialled="tcp://me",
    )  # fmt: skip
    return replace(said, **changes)


# Duplicate names.


@pytest.mark.parametrize("order", [0, 1])
def test_two_living_nodes_of_one_name_are_told_and_the_elder_keeps_it(order: int) -> None:
    """Whichever comes first: the one started later has just been configured, and somebody looks at it."""
    network = Network(seed=1)
    mesh(network, 3)
    ages = [("tcp://elder", EPOCH), ("tcp://younger", EPOCH + 1)]
    for address, incarnation in ages if order else reversed(ages):
        network.start("twin", ["tcp://n0"], address=address, key=f"key at {address}", incarnation=incarnation)
        network.run(1)
    elder, younger = network.processes["tcp://elder"], network.processes["tcp://younger"]
    network.run(3)
    for process in network.living():
        if process.name != "twin":
            peer = process.node.membership.view.get("twin")
            assert peer is not None and (peer.address, peer.state) == ("tcp://elder", PeerState.UP)
    assert not younger.up and len(elder.up) == 3
    (taken,) = [e for _, e in network.seen(NameTaken, younger)]
    assert isinstance(taken, NameTaken)
    assert taken.holder == "tcp://elder"
    assert "belongs to the node at tcp://elder" in taken.reason and "[node] name" in taken.reason
    assert not network.seen(NameTaken, elder)
    told = [e for _, e in network.seen(Refused) if isinstance(e, Refused) and e.address == "tcp://younger"]
    assert told and all("belongs to" in e.reason for e in told)
    # The name becomes free with its bearer, without anybody's help.
    network.kill(elder)
    network.run_until(lambda: len(younger.up) == 3, (POLICY.dead_ns + POLICY.refused_ns) / SECOND + HEAL_S)


def test_who_is_refused_does_not_fill_the_log() -> None:
    """One line an address and reason, however often it comes again."""
    network = Network(seed=2)
    nodes = mesh(network, 2)
    network.start("n1", ["tcp://n0"], address="tcp://twin", key="another")
    network.run(60)
    assert len(network.seen(Refused, nodes[0])) == 1


def test_islands_that_each_had_one_come_to_the_same_answer() -> None:
    """The younger was up in its island; what was outstanding with it ends there."""
    network = Network(seed=3)
    nodes = mesh(network, 5)
    network.part(nodes[:2], nodes[2:])
    network.run(5)
    elder = network.start("twin", ["tcp://n0"], address="tcp://elder", key="elder")
    network.part([*nodes[:2], elder], nodes[2:])
    network.run(1)
    younger = network.start("twin", ["tcp://n2"], address="tcp://younger", key="younger")
    network.part([*nodes[:2], elder], [*nodes[2:], younger])
    network.run(3)
    assert "twin" in nodes[3].up and len(younger.up) == 3
    network.heal()
    network.run(HEAL_S + 1)
    assert not younger.up and len(elder.up) == 5
    assert {process.node.membership.view.digest() for process in [*nodes, elder]} == {
        elder.node.membership.view.digest()
    }
    downs = [
        e for _, e in network.seen(NodeUnreachable, nodes[3]) if isinstance(e, NodeUnreachable) and e.name == "twin"
    ]
    assert [e.kind for e in downs] == [Down.NAME_TAKEN]


def test_of_two_there_is_always_one_that_keeps() -> None:
    """Both, and everybody else, come to the same answer; nobody keeps a name against himself."""
    ones = list(itertools.product((1, 2), ("tcp://a", "tcp://b")))
    for one, two in itertools.product(ones, ones):
        assert keeps(*one, *two) + keeps(*two, *one) == (one != two)


@pytest.mark.parametrize(
    ("state", "incarnation", "address", "key", "expected"),
    [
        (PeerState.UP, 5, "tcp://b", "k", NameClaim.SAME),
        (PeerState.DEAD, 5, "tcp://b", "k", NameClaim.SAME),
        (PeerState.UP, 6, "tcp://b", "k", NameClaim.SUCCESSOR),
        (PeerState.UP, 6, "tcp://b", "new key", NameClaim.SUCCESSOR),
        (PeerState.LEFT, 6, "tcp://b", "k", NameClaim.SUCCESSOR),
        (PeerState.LEFT, 4, "tcp://b", "k", NameClaim.SUCCESSOR),
        (PeerState.LEFT, 5, "tcp://b", "k", NameClaim.SAME),
        (PeerState.UP, 4, "tcp://b", "k", NameClaim.FORMER),
        (PeerState.DEAD, 4, "tcp://b", "k", NameClaim.FORMER),
        (PeerState.UP, 6, "tcp://c", "k", NameClaim.YOUNGER),
        (PeerState.SUSPECT, 6, "tcp://c", "k", NameClaim.YOUNGER),
        (PeerState.UNREACHABLE, 6, "tcp://c", "k", NameClaim.YOUNGER),
        (PeerState.MET, 6, "tcp://c", "k", NameClaim.YOUNGER),
        (PeerState.UP, 4, "tcp://c", "k", NameClaim.ELDER),
        (PeerState.DEAD, 6, "tcp://c", "k", NameClaim.SUCCESSOR),
        (PeerState.LEFT, 4, "tcp://c", "k", NameClaim.SUCCESSOR),
        (PeerState.UP, 5, "tcp://b", "stolen name", NameClaim.YOUNGER),
    ],
)
def test_every_claim(state: PeerState, incarnation: int, address: str, key: str, expected: NameClaim) -> None:
    """The table of naming.py."""
    peer = Peer("b", 5, "tcp://b", "k", 0, state, has_spoken=True, is_told_up=state is PeerState.UP)
    assert claim(peer, incarnation, address, key) is expected


@pytest.mark.parametrize(
    ("incarnation", "address", "expected"),
    [
        (4, "tcp://b", NameClaim.SUCCESSOR),
        (5, "tcp://b", NameClaim.SAME),
        (6, "tcp://c", NameClaim.SUCCESSOR),
        (4, "tcp://c", NameClaim.SUCCESSOR),
    ],
)
def test_who_was_only_told_of_yields_to_who_speaks(incarnation: int, address: str, expected: NameClaim) -> None:
    """Or a member could shut a node out by telling of a later incarnation, or of one at another address, before it comes."""
    assert claim(Peer("b", 5, "tcp://b", "k", 0), incarnation, address, "k") is expected


# Incarnations.


def test_a_clock_that_was_set_back_is_caught_up() -> None:
    """Or the new one would be taken for words of the former one that were long on their way, for ever."""
    network = Network(seed=4)
    nodes = mesh(network, 3)
    was = nodes[2].node.membership.me.incarnation
    network.kill(nodes[2])
    network.run(0.1)
    again = network.start("n2", ["tcp://n0"], incarnation=EPOCH - 1)
    network.run_until(network.agrees, HEAL_S)
    (new,) = [e for _, e in network.seen(NewIncarnation, again)]
    assert isinstance(new, NewIncarnation)
    assert new.incarnation == again.node.membership.me.incarnation == was + 1
    assert "clock was set back" in new.because


def test_words_of_a_former_self_change_nothing() -> None:
    """Frames may be long on their way: a greeting, or a heartbeat, of a process that is gone."""
    node = alone()
    node.received("k", hello(incarnation=2_000), START)
    node.received("k", hello(incarnation=3_000), START + 1)
    effects = node.received("k", hello(incarnation=2_000), START + 2)
    peer = node.membership.view.get("b")
    assert effects == [] and peer is not None and peer.incarnation == 3_000
    old = Heartbeat(
        name="b",
        incarnation=2_000,
        to=1_000,
        beat=99,
        sent_ns=9,
        echo_ns=9,
        digest=1,
        session=1,
        is_up=True,
        routes=1,
        load=0.0,
    )
    assert node.received("k", old, START + 3) == [] and peer.beat < 99
    assert node.membership.counts == {"stale": 0, "strange": 1, "over": 0, "incredible": 0}


def test_words_that_were_long_on_their_way_prove_nothing() -> None:
    """A frame that a cut link held back comes when its sender is long dead; its last one may come twice."""
    node = alone()
    node.received("k", hello(), START)
    node.tick(START)
    node.connected("tcp://b", START)
    peer = node.membership.view.get("b")
    assert peer is not None

    def beat(number: int, at_ns: int) -> None:
        said = Heartbeat(
            name="b", incarnation=2_000, to=1_000, beat=number, sent_ns=number, echo_ns=START + 1, digest=1, session=1,
            is_up=True, routes=0, load=0.0,
        )  # fmt: skip
        node.received("k", said, at_ns)

    beat(9, START + 2)
    assert peer.state is PeerState.UP
    beat(5, START + 100)
    assert (peer.heard_ns, peer.clock_ns) == (START + 2, 9)
    now_ns = START
    while peer.state is not PeerState.DEAD:
        now_ns += POLICY.heartbeat_ns
        node.tick(now_ns)
    for late in (5, 8, 9):
        beat(late, now_ns)
        assert peer.state is PeerState.DEAD, late
    beat(10, now_ns)
    assert peer.is_living


def test_who_has_left_is_not_dialled() -> None:
    """One that is told of as dead is: a partition may hide it."""
    node = alone()
    node.received("key of c", hello("c"), START)
    told = tuple(
        NodeRecord(name, 5, f"tcp://{name}", "k", fate, 9, SECOND) for name, fate in (("d", "dead"), ("l", "left"))
    )
    node.received(
        "key of c", Sync(name="c", incarnation=2_000, to=1_000, beat=2, sent_ns=2, echo_ns=0, records=told), START
    )
    dialled = [e.address for e in node.tick(START) if isinstance(e, Dial)]
    assert dialled == ["tcp://c", "tcp://d"]


def test_a_proof_is_as_old_as_its_teller_says() -> None:
    """Or news that goes from one to the next would keep a dead node alive a little longer at each."""
    node = alone()
    node.received("k", hello(), START)
    node.received("key of c", hello("c"), START)
    told = NodeRecord("b", 2_000, "tcp://b", "k", "living", 50, POLICY.suspect_ns)
    vouch = Vouch(name="c", incarnation=2_000, to=1_000, beat=2, sent_ns=2, echo_ns=0, records=(told,))
    node.received("key of c", vouch, START + SECOND)
    peer = node.membership.view.get("b")
    assert peer is not None
    assert (peer.vouched_ns, peer.voucher, peer.beat) == (START + SECOND - POLICY.suspect_ns, "c", 50)


def test_words_to_a_former_self_are_not_taken() -> None:
    """What was queued for a dead process must not be taken in by its successor."""
    node = alone(incarnation=1_000)
    node.received("k", hello(), START)
    said = Heartbeat(
        name="b",
        incarnation=2_000,
        to=999,
        beat=9,
        sent_ns=9,
        echo_ns=9,
        digest=1,
        session=1,
        is_up=True,
        routes=1,
        load=0.0,
    )
    assert node.received("k", said, START) == []
    refusal = Refusal(
        name="b", incarnation=2_000, to=999, beat=9, sent_ns=9, echo_ns=9, reason="", dialled="tcp://b", known=5_000
    )
    assert node.received("k", refusal, START) == []
    assert node.membership.me.incarnation == 1_000
    assert node.membership.counts["stale"] == 2


def test_nobody_can_push_an_incarnation_over_the_edge() -> None:
    """A peer that is wrong by centuries is not believed."""
    node = alone()
    refusal = Refusal(
        name="b", incarnation=2, to=1_000, beat=1, sent_ns=1, echo_ns=1, reason="", dialled="", known=(1 << 63) - 1
    )
    assert node.received("k", refusal, START) == []
    assert node.membership.me.incarnation == 1_000


def told_by_c(node: PeerNode, *records: NodeRecord) -> list[Effect]:
    """What follows from these, of a peer that is known."""
    node.received("key of c", hello("c", incarnation=2_000), START)
    to = node.membership.me.incarnation
    said = Sync(name="c", incarnation=2_000, to=to, beat=2, sent_ns=2, echo_ns=0, records=records, is_answer=True)
    return node.received("key of c", said, START)


@pytest.mark.parametrize("ahead_ns", [POLICY.ahead_ns_max + 1, messages.INCARNATION_MAX - 2 - EPOCH])
def test_nobody_is_told_into_the_far_future(ahead_ns: int) -> None:
    """Neither this node, which would have no later incarnation left to take, nor a third one, which would be taken for the past
    of itself. One that is ahead by less than a year is possible.
    """
    node = alone(EPOCH)
    node.received("k", hello(incarnation=EPOCH), START)
    later = EPOCH + ahead_ns
    records = [NodeRecord(name, later, f"tcp://{name}", "k", "living", 9, 0) for name in ("me", "b", "d")]
    assert told_by_c(node, *records) == []
    known = {peer.name: peer.incarnation for peer in node.membership.view}
    assert (known, node.membership.me.incarnation) == ({"b": EPOCH, "c": 2_000}, EPOCH)
    assert node.membership.counts["incredible"] == 2
    near = EPOCH + POLICY.ahead_ns_max - 1
    told_by_c(node, *(NodeRecord(name, near, f"tcp://{name}", "k", "living", 9, 0) for name in ("me", "b", "d")))
    assert {peer.name: peer.incarnation for peer in node.membership.view} == {"b": EPOCH, "c": 2_000, "d": near}
    assert node.membership.me.incarnation == EPOCH


def test_who_is_refused_for_the_far_future_says_why() -> None:
    """A clock is wrong, and somebody has to set it."""
    node = alone(EPOCH)
    node.received("k", hello(), START)
    refusal = Refusal(
        name="b", incarnation=2_000, to=EPOCH, beat=1, sent_ns=1, echo_ns=1, reason="", dialled="tcp://b",
        known=EPOCH + 3 * POLICY.ahead_ns_max,
    )  # fmt: skip
    (why,) = [e for e in node.received("k", refusal, START) if isinstance(e, RefusedBy)]
    assert (
        why.reason
        == "it knows an incarnation of this node 1,098 days in the future: correct the clock of this host or of that one"
    )
    assert node.membership.me.incarnation == EPOCH


DECADE_NS = 10 * POLICY.ahead_ns_max + SECOND


def test_the_clock_counts_as_it_is_now() -> None:
    """A host without a battery boots in 1970, and is right seconds later: its node must not stay in 1970."""
    network = Network(seed=41)
    n0, n1 = mesh(network, 2)
    was = n1.node.membership.me.incarnation
    network.kill(n1)
    again = network.start("n1", ["tcp://n0"], ahead_ns=-DECADE_NS)
    again.ahead_ns = 0
    network.run_until(lambda: again.node.membership.me.incarnation == was + 1, POLICY.attempt_ns / SECOND)
    network.run_until(network.agrees, HEAL_S)
    assert network.seen(RefusedBy, again) == [] and "n1" in n0.up


def test_a_node_from_the_future_is_refused_until_its_clock_is_right() -> None:
    """Whoever accepted it would not accept its next incarnation, which a right clock gives it."""
    network = Network(seed=42)
    n0, n1 = mesh(network, 2)
    late = network.start("late", ["tcp://n0"], ahead_ns=DECADE_NS)
    network.run(2 * POLICY.refused_ns / SECOND)
    assert late.up == {} and not {"late"} & {*n0.up, *n1.up}
    (_, why), *_ = network.seen(RefusedBy, late)
    assert isinstance(why, RefusedBy)
    assert why.reason.startswith(
        "'late' was started 3,660 days in the future by the clock of 'n0': correct whichever clock"
    )
    assert n0.node.membership.counts["incredible"] > 0
    late.ahead_ns = 0
    network.run_until(network.agrees, POLICY.refused_ns / SECOND + HEAL_S)
    (new,) = [e for _, e in network.seen(NewIncarnation, late)]
    assert isinstance(new, NewIncarnation)
    assert "which was set back since" in new.because and new.incarnation <= EPOCH + network.now_ns


def test_a_node_whose_clock_was_behind_takes_others_in_once_it_is_right() -> None:
    """It does not say for ever that all others come from the future."""
    network = Network(seed=43)
    mesh(network, 2)
    early = network.start("early", ["tcp://n0"], ahead_ns=-DECADE_NS)
    network.run(2 * POLICY.refused_ns / SECOND)
    assert early.up == {}
    early.ahead_ns = 0
    network.run_until(network.agrees, POLICY.refused_ns / SECOND + HEAL_S)
    assert network.seen(NewIncarnation, early) == []


def test_who_is_up_stays_while_a_clock_is_wrong() -> None:
    """A clock that jumps for a while ends no call: only newcomers have to be credible, and a refusal has to come first."""
    network = Network(seed=44)
    nodes = mesh(network, 3)
    begin_ns = network.now_ns
    for ahead_ns in (-DECADE_NS, DECADE_NS, 0):
        nodes[1].ahead_ns = ahead_ns
        network.run(2 * POLICY.refused_ns / SECOND)
    assert network.agrees()
    assert not [
        seen for kind in (NodeUnreachable, NewIncarnation, Refused) for seen in network.seen(kind, since_ns=begin_ns)
    ]


def test_who_was_let_in_may_dial_anew_while_a_clock_is_wrong() -> None:
    """Its incarnation was credible when it came."""
    clock = [EPOCH, EPOCH - DECADE_NS]
    node = alone(EPOCH, clock)
    node.received("k", hello(incarnation=EPOCH), START)
    clock.pop(0)
    assert node.received("k", hello(incarnation=EPOCH, beat=2), START + SECOND) == []
    assert node.membership.counts["incredible"] == 0
    effects = node.received("k", hello(incarnation=EPOCH + 1, beat=3), START + SECOND)
    assert Refused in {type(effect) for effect in effects}


def test_a_clock_that_is_set_back_again_and_again_makes_few_incarnations() -> None:
    """With each all that is outstanding ends."""
    clock = [EPOCH]
    node = alone(EPOCH, clock)
    for number in range(2 * POLICY.raises_max):
        clock[0] -= 2 * POLICY.ahead_ns_max
        me = node.membership.me.incarnation
        refusal = Refusal(name="b", incarnation=2, to=me, beat=1, sent_ns=1, echo_ns=1, reason="no", dialled="")
        effects = node.received("k", refusal, START + number)
        assert [type(effect) for effect in effects] == [NewIncarnation if number < POLICY.raises_max else RefusedBy]


def test_a_node_does_not_take_one_incarnation_after_the_other() -> None:
    """With each all that is outstanding ends: a hostile peer could say so all day."""
    node = alone(EPOCH)
    raised = []
    for number in range(10_000):
        now_ns = START + number * POLICY.raises_ns // 2_000
        me = node.membership.me.incarnation
        refusal = Refusal(
            name="b", incarnation=2_000, to=me, beat=1, sent_ns=1, echo_ns=1, reason="", dialled="", known=me + 1
        )
        effects = node.received("k", refusal, now_ns)
        raised += [now_ns for effect in effects if isinstance(effect, NewIncarnation)]
        assert raised[-1] == now_ns or RefusedBy in {type(effect) for effect in effects}
    assert len(raised) == 5 * POLICY.raises_max
    assert all(b - a >= POLICY.raises_ns for a, b in zip(raised, raised[POLICY.raises_max :], strict=False))


def test_a_superseded_line_is_closed_before_it_is_dialled_anew() -> None:
    """What waits in it was meant for the former one (and its routes were the former one's)."""
    network = Network(seed=5)
    nodes = mesh(network, 2)
    network.run(1)
    log = nodes[0].log
    begin = len(log)
    # It comes back while its death has not been noticed: the link did not carry the break.
    network.cut("tcp://n1", nodes[0], both=False)
    network.kill(nodes[1])
    network.heal()
    network.start("n1", ["tcp://n0"])
    network.run(1)
    kinds = [type(e) for _, e in log[begin:] if getattr(e, "address", "tcp://n1") == "tcp://n1"]
    assert kinds.index(Hangup) < kinds.index(NodeUnreachable) < kinds.index(PeerUp)


# Keys.

NetworkOf = tuple[Network, list[Process], set[str]]


@pytest.fixture
def network_of() -> NetworkOf:
    """Three nodes, and the keys that the first of them does not trust."""
    network, distrusted = Network(seed=8), set[str]()
    first = network.start("n0", is_allowed=lambda key, _name: key not in distrusted)
    return network, [first, *(network.start(f"n{number}", ["tcp://n0"]) for number in (1, 2))], distrusted


def test_the_key_of_the_connection_says_who_speaks() -> None:
    """Not the message: a peer that is trusted as c cannot speak for b."""
    node = alone()
    node.received("key of b", hello("b"), START)
    said = Heartbeat(
        name="b",
        incarnation=2_000,
        to=1_000,
        beat=9,
        sent_ns=9,
        echo_ns=9,
        digest=1,
        session=1,
        is_up=True,
        routes=1,
        load=0.0,
    )
    assert node.received("key of c", said, START + 1) == []
    peer = node.membership.view.get("b")
    assert peer is not None and peer.beat == 1
    leave = messages.Leave(name="b", incarnation=2_000, to=1_000, beat=9, sent_ns=9, echo_ns=9)
    node.received("key of c", leave, START + 2)
    assert peer.is_living


def test_who_may_not_bear_his_name_any_more_is_down_and_back_when_he_may(network_of: NetworkOf) -> None:
    """A key that was revoked, or given another name, on a running node: nothing of its is done any more, nor for it; and what
    others tell of it is no reason to begin again.
    """
    network, nodes, distrusted = network_of
    network.run_until(network.agrees, HEAL_S)
    distrusted.add("key of n1")
    network._carry_out(nodes[0], nodes[0].node.recheck(network.now_ns))
    network.run(10)
    peer = nodes[0].node.membership.view.get("n1")
    assert peer is not None and peer.state is PeerState.REVOKED
    (down,) = [
        e for _, e in network.seen(NodeUnreachable, nodes[0]) if isinstance(e, NodeUnreachable) and e.name == "n1"
    ]
    assert down.kind is Down.REVOKED
    assert "tcp://n1" not in nodes[0].dialled or "tcp://n1" not in nodes[0].connected
    assert nodes[0].node.membership.is_up("n2") and nodes[2].node.membership.is_up("n1"), "it is nobody else's matter"
    with pytest.raises(Unavailable, match="node 'n1' at tcp://n1 is revoked"):
        nodes[0].node.best("n1/a.b", "")
    distrusted.clear()
    network._carry_out(nodes[0], nodes[0].node.recheck(network.now_ns))
    network.run_until(network.agrees, HEAL_S)
    assert nodes[0].node.membership.is_up("n1")


def test_a_key_may_bear_its_own_name_only_where_trust_says_so() -> None:
    """And the refusal says what to do."""
    network = Network(seed=6)
    node = network.start("a", is_allowed=lambda key, name: key == f"key of {name}")
    network.start("b", ["tcp://a"], key="key of c")
    network.run(3)
    (refused,) = [e for _, e in network.seen(Refused, node)]
    assert isinstance(refused, Refused)
    assert "may not bear the node name 'b'" in refused.reason and not node.up


def test_an_address_that_is_another_node_s_is_refused() -> None:
    """A copied [node] listen would end a living peer for everybody."""
    network = Network(seed=7)
    nodes = mesh(network, 2)
    effects = nodes[0].node.received("key of x", hello("x", EPOCH, address="tcp://n1"), network.now_ns)
    assert [type(e) for e in effects] == [Refused]
    assert "is where node 'n1' listens" in str(effects[0])
    assert "n1" in nodes[0].up


def test_a_name_that_no_route_could_bear_is_refused_at_once() -> None:
    """`b/index.stats`: no slash in a name; and a message that says so is malformed."""
    with pytest.raises(ValueError, match="node name 'a/b': expected"):
        Identity("a/b", 1, "tcp://a", "k")
    with pytest.raises(ValueError, match="incarnation 0"):
        Identity("a", 0, "tcp://a", "k")


def test_a_refusal_is_said_once_a_second() -> None:
    """Whoever does not heed it must not make this node dial five times a second."""
    node = alone()
    dials = 0
    for n in range(20):
        now_ns = START + n * SECOND // 10
        node.received("k", hello(protocol=9, protocol_oldest=8), now_ns)
        for effect in node.tick(now_ns):
            if isinstance(effect, Dial):
                dials += 1
                said = node.connected(effect.address, now_ns)
                assert [type(e) for e in said] == [Send, Hangup]
    assert dials == 2


# Protocols.


@pytest.mark.parametrize(
    ("theirs", "oldest", "is_understood"),
    [
        (PROTOCOL, PROTOCOL - 1, True),
        (PROTOCOL - 1, max(0, PROTOCOL - 2), True),
        (PROTOCOL + 1, PROTOCOL, True),
        (PROTOCOL + 2, PROTOCOL + 1, False),
    ],
)
def test_one_version_apart_is_understood(theirs: int, oldest: int, is_understood: bool) -> None:
    """A system is brought up to date node by node; two apart is refused in words that say which one to upgrade."""
    said = hello(protocol=theirs, protocol_oldest=oldest)
    reason = incompatible(said)
    assert (reason is None) == is_understood
    effects = alone().received("k", said, START)
    assert (alone_refuses := [e for e in effects if isinstance(e, Refused)]) == [] or not is_understood
    if not is_understood:
        assert f"speaks peer protocol {theirs}" in alone_refuses[0].reason
        assert "upgrade this node" in alone_refuses[0].reason


def test_an_older_one_by_two_is_told_to_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it will be when there are three."""
    monkeypatch.setattr(messages, "PROTOCOL", 3)
    monkeypatch.setattr(messages, "PROTOCOL_OLDEST", 2)
    assert incompatible(hello(protocol=2, protocol_oldest=1)) is None
    reason = incompatible(hello(protocol=1, protocol_oldest=0))
    assert reason is not None and reason.endswith("upgrade it")


def test_who_is_refused_is_told_why_and_comes_again_later() -> None:
    """Its side says so as well, and does not knock five times a second."""
    network = Network(seed=8)
    network.start("a", is_allowed=lambda _key, name: name == "a")
    b = network.start("b", ["tcp://a"])
    network.run(20)
    told = [(at_ns, e) for at_ns, e in network.seen(RefusedBy, b) if isinstance(e, RefusedBy)]
    assert told[0][1].name == "a" and "may not bear the node name 'b'" in told[0][1].reason
    gaps = [later - sooner for (sooner, _), (later, _) in itertools.pairwise(told)]
    assert len(gaps) >= 2
    assert sum(gaps) / len(gaps) >= POLICY.refused_ns / 2
    hellos = [e for _, e in network.seen(Send, b) if isinstance(e, Send) and isinstance(e.message, Hello)]
    assert len(hellos) <= 40
