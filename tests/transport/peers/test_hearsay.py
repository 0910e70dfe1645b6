"""Hearsay: what a peer says of others, and of this node, that only those could know. It ends nothing that is in order.

In each test a member of the mesh that is trusted, and well, tells lies under its own key.
"""

from __future__ import annotations

import pytest

from appbackplane.transport.peers.effects import Effect, NewIncarnation, NodeUnreachable, PeerState, RefusedBy
from appbackplane.transport.peers.messages import NodeRecord, Refusal, Sync
from appbackplane.transport.peers.peer import Peer
from appbackplane.transport.peers.policy import MembershipPolicy
from tests.transport.peers.network import SECOND, Network, Process, at
from tests.transport.peers.test_joining import mesh

POLICY = MembershipPolicy()
HEARTBEAT_S = POLICY.heartbeat_ns / SECOND

Three = tuple[Network, list[Process]]


@pytest.fixture
def three() -> Three:
    """n0 and n1, which are well, and n2, which lies. All are up."""
    network = Network(seed=21)
    return network, mesh(network, 3)


def known(process: Process, name: str) -> Peer:
    """What a node knows of another."""
    peer = process.node.membership.view.get(name)
    assert peer is not None
    return peer


def lie(network: Network, liar: Process, victim: Process, *records: NodeRecord) -> list[Effect]:
    """A view, as the liar would send it to the victim now; what follows there."""
    me = liar.node.membership.me
    to = victim.node.membership.me.incarnation
    view = Sync(
        name=me.name, incarnation=me.incarnation, to=to, beat=known(victim, me.name).spoken_beat + 1,
        sent_ns=network.now_ns, echo_ns=network.now_ns, records=records, is_answer=True,
    )  # fmt: skip
    begin = len(victim.log)
    network._carry_out(victim, victim.node.received(liar.key, view, network.now_ns))
    return [effect for _, effect in victim.log[begin:]]


def told_of(process: Process, fate: str, *, later: int = 0, beat: int = 1 << 40, address: str = "") -> NodeRecord:
    """What a liar may say of a node."""
    me = process.node.membership.me
    return NodeRecord(me.name, me.incarnation + later, address or me.address, me.key, fate, beat, 0)


def downs(process: Process, since: int) -> list[NodeUnreachable]:
    """Peers that were given up."""
    return [effect for _, effect in process.log[since:] if isinstance(effect, NodeUnreachable)]


def test_a_false_farewell_makes_a_suspect_until_it_is_heard(three: Three) -> None:
    """One frame cut two nodes apart, until one of them was started again."""
    network, (n0, n1, n2) = three
    begin = len(n0.log)
    lie(network, n2, n0, told_of(n1, "left"))
    assert known(n0, "n1").state is PeerState.SUSPECT
    network.run(2 * HEARTBEAT_S)
    assert known(n0, "n1").state is PeerState.UP
    lie(network, n2, n0, told_of(n1, "left"))
    assert known(n0, "n1").state is PeerState.UP, "it has refuted that"
    network.run(5)
    assert downs(n0, begin) == [] and network.agrees()


@pytest.mark.parametrize("fate", ["living", "dead", "left"])
def test_a_later_incarnation_that_is_hearsay_ends_nothing(three: Three, fate: str) -> None:
    """All calls to the node would end, and it would have to take a later incarnation: three times, and it is shut out."""
    network, (n0, n1, n2) = three
    begin, was = len(n0.log), n1.node.membership.me.incarnation
    for later in range(1, 6):
        lie(network, n2, n0, told_of(n1, fate, later=later))
        network.run(HEARTBEAT_S)
    network.run(5)
    assert (downs(n0, begin), n1.node.membership.me.incarnation) == ([], was)
    assert network.agrees()


def test_nobody_is_told_that_it_is_a_later_one_itself(three: Three) -> None:
    """Whoever takes a later incarnation ends all that is outstanding, with everybody."""
    network, (n0, _, n2) = three
    begin = len(n0.log)
    lie(network, n2, n0, told_of(n0, "living", later=5))
    network.run(1)
    assert downs(n0, begin) == [] and network.agrees()


@pytest.mark.parametrize("fate", ["living", "dead", "left"])
@pytest.mark.parametrize(("later", "address"), [(0, ""), (9, ""), (9, "tcp://x"), (-9, "tcp://x")])
def test_who_was_told_of_falsely_before_it_came_is_let_in(three: Three, fate: str, later: int, address: str) -> None:
    """Its own words count for more than all that was said of it, however many heartbeats it was said to have."""
    network, (n0, _, n2) = three
    network.cut("tcp://n3", n0)
    n3 = network.start("n3", [at("n0")])
    for _ in range(10):
        lie(network, n2, n0, told_of(n3, fate, later=later, address=address))
        network.run(HEARTBEAT_S)
    network.heal()
    network.run_until(lambda: n0.node.membership.is_up("n3") and n3.node.membership.is_up("n0"), 10)
    network.run_until(network.agrees, 10)


def test_who_was_silent_is_heard_again_whatever_was_said_of_its_heartbeats(three: Three) -> None:
    """A count that it will not reach in a thousand years would make all its words old news, once it was given up."""
    network, (n0, n1, n2) = three
    network.cut(n0, n1)
    lie(network, n2, n0, told_of(n1, "living"))
    network.kill(n2)
    network.run(10)
    assert known(n0, "n1").state is PeerState.DEAD
    network.heal()
    network.run_until(lambda: n0.node.membership.is_up("n1"), 10)


def test_a_seed_is_expected_under_the_key_that_the_configuration_says(three: Three) -> None:
    """Another name at its address would have it dialled under another key, in vain, for an hour."""
    network, (_, _, n2) = three
    n4 = network.start("n4", ["tcp://n5", at("n2")])
    network.run_until(lambda: n4.node.membership.is_up("n2"), 10)
    lie(network, n2, n4, NodeRecord("ghost", 5, "tcp://n5", "key of ghost", "living", 1, 0))
    network.run(5)
    network.start("n5")
    network.run_until(lambda: n4.node.membership.is_up("n5"), 10)


def test_what_is_said_of_an_address_ends_no_line_that_stands_there(three: Three) -> None:
    """A node that hangs is given up, and its address could be given away; its sockets still prove its key there."""
    network, (n0, n1, n2) = three
    network.stop(n1)
    network.run_until(lambda: known(n0, "n1").state is PeerState.DEAD and n1.address in n0.connected, 10)
    lie(network, n2, n0, NodeRecord("ghost", 5, n1.address, "key of ghost", "living", 1, 0))
    assert known(n0, "n1").state is PeerState.DEAD and n1.address in n0.connected
    network.go_on(n1)
    network.run_until(network.agrees, 10)


# Refusals.


def refusal(
    network: Network, liar: Process, victim: Process, *, name: str = "", dialled: str, known_as: int = 0
) -> Refusal:
    """As the liar would send it to the victim now."""
    me = liar.node.membership.me
    return Refusal(
        name=name or me.name, incarnation=me.incarnation, to=victim.node.membership.me.incarnation, beat=1 << 20,
        sent_ns=network.now_ns, echo_ns=0, reason="go away", dialled=dialled, known=known_as,
    )  # fmt: skip


def test_a_peer_refuses_at_its_own_address_alone(three: Three) -> None:
    """The line to another node was hung up on, and not dialled for five seconds."""
    network, (n0, n1, n2) = three
    begin = len(n0.log)
    for name in ("n2", "stranger"):
        said = refusal(network, n2, n0, name=name, dialled=n1.address)
        network._carry_out(n0, n0.node.received(n2.key, said, network.now_ns))
    assert n1.address in n0.connected and n0.node.membership.is_up("n2")
    assert downs(n0, begin) == [] and n0.node.membership.counts["strange"] == 2
    own = refusal(network, n2, n0, dialled=n2.address)
    network._carry_out(n0, n0.node.received(n2.key, own, network.now_ns))
    assert n2.address not in n0.connected and [down.name for down in downs(n0, begin)] == ["n2"]


def test_nobody_is_refused_under_a_name_that_the_key_may_not_bear() -> None:
    """By somebody who has not been met, too."""
    network = Network(seed=22)
    n0 = network.start("n0", ["tcp://n1"], is_allowed=lambda key, name: key == f"key of {name}")
    network.run(0.5)
    me = n0.node.membership.me
    said = Refusal(
        name="n1", incarnation=5, to=me.incarnation, beat=1, sent_ns=1, echo_ns=0, reason="", dialled="",
        known=me.incarnation + 5,
    )  # fmt: skip
    assert n0.node.received("key of n2", said, network.now_ns) == []
    assert n0.node.membership.me == me
    effects = n0.node.received("key of n1", said, network.now_ns)
    assert [type(effect) for effect in effects] == [NewIncarnation]


def test_one_peer_that_knows_a_later_one_does_not_outvote_those_who_have_accepted_this_one(three: Three) -> None:
    """It is believed for itself: the others go on as before."""
    network, (n0, n1, n2) = three
    begin, was = len(n0.log), n0.node.membership.me.incarnation
    said = refusal(network, n2, n0, dialled=n2.address, known_as=was + 5)
    effects = n0.node.received(n2.key, said, network.now_ns)
    (why,) = [effect for effect in effects if isinstance(effect, RefusedBy)]
    assert why.reason == "it knows a later incarnation of this node; other peers, such as 'n1', do not"
    network._carry_out(n0, effects)
    assert n0.node.membership.me.incarnation == was and downs(n0, begin) == []
    assert n0.node.membership.is_up("n1") and n1.node.membership.is_up("n0")


def test_a_clock_that_was_set_back_is_got_over_where_others_have_accepted_it() -> None:
    """One node remembers a later incarnation. Its peer does not take another one for that: it proves that it lives."""
    network = Network(seed=23)
    n0, n1, n2 = mesh(network, 3)
    network.kill(n2)
    network.run_until(lambda: known(n0, "n2").state is PeerState.DEAD and known(n1, "n2").state is PeerState.DEAD, 10)
    network.kill(n1)
    n1 = network.start("n1", [at("n0")])
    network._highest.clear()  # here an incarnation does go back
    network.cut(n0, n2.address)
    again = network.start("n2", [at("n1")], incarnation=n2.node.membership.me.incarnation - 1)
    network.run_until(lambda: again.node.membership.is_up("n1"), 10)
    network.heal()
    network.run_until(lambda: n0.node.membership.is_up("n2") and again.node.membership.is_up("n0"), 20)
    assert not [effect for _, effect in again.log if isinstance(effect, NewIncarnation)]
    assert known(n0, "n2").incarnation == again.node.membership.me.incarnation
