"""Joining, leaving, dying, coming back: who is there, as every node sees it, within the stated times."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from appbackplane.transport.peers.effects import (
    Dial,
    DialFailed,
    Down,
    Hangup,
    NodeUnreachable,
    PeerChanged,
    PeerState,
    PeerUp,
    Send,
)
from appbackplane.transport.peers.messages import Hello, Sync
from appbackplane.transport.peers.policy import MembershipPolicy
from tests.profiles import ONCE
from tests.transport.peers.network import MS, SECOND, Network, Process, Weather, at

POLICY = MembershipPolicy()
DEATH_S = POLICY.death_ns_max / SECOND
HEAL_S = POLICY.heal_ns_max / SECOND


def mesh(network: Network, count: int, seeds: int = 1) -> list[Process]:
    """So many nodes that know the first ones only, all up."""
    nodes = [network.start(f"n{i}", [at(f"n{j}") for j in range(seeds)]) for i in range(count)]
    network.run_until(network.agrees, 10)
    return nodes


@pytest.mark.parametrize("count", [2, 3, 8])
def test_one_seed_is_enough(count: int) -> None:
    """Each node gets to know all by what others tell."""
    mesh(network := Network(seed=1), count)
    assert all(len(process.up) == count - 1 for process in network.living())


def test_any_seed_will_do() -> None:
    """A chain: each knows only the one before it; one of them knows nobody."""
    network = Network(seed=2)
    for i in range(10):
        network.start(f"n{i}", [at(f"n{i - 1}")] if i else [])
    network.run_until(network.agrees, HEAL_S)


@ONCE
def test_sixty_four_nodes_are_one_mesh_within_ten_seconds() -> None:
    """With one frame in twenty lost, and up to 100 ms on each link. Afterwards a node sends in proportion to its peers."""
    network = Network(seed=3, weather=Weather(delay_ns=(0, 100 * MS), loss=0.05))
    nodes = [network.start(f"n{i:02}", [at("n00")]) for i in range(64)]
    assert network.run_until(network.agrees, 10) < 5
    joining = [process.sent.total() for process in nodes]
    for process in nodes:
        process.sent.clear()
    network.run(1)
    beats = SECOND / POLICY.heartbeat_ns
    for process in nodes:
        assert 63 * beats <= process.sent["Heartbeat"] <= 63 * beats + 2, "and one to each who has come up meanwhile"
        assert process.sent.total() - process.sent["Heartbeat"] <= 2 * beats, process.sent
    assert max(joining) <= 10 * 63 * beats, "joining cost more than two seconds of heartbeats"


def said_in_trouble(count: int) -> int:
    """The most that one node says in the three seconds in which two halves lose each other."""
    network = Network(seed=4)
    nodes = mesh(network, count)
    network.part(nodes[: count // 2], nodes[count // 2 :])
    for process in nodes:
        process.sent.clear()
    network.run(3)
    asked = max(process.sent["Inquiry"] for process in nodes)
    assert 0 < asked <= 3 * SECOND / POLICY.heartbeat_ns * POLICY.helpers
    return max(process.sent.total() for process in nodes)


def test_trouble_makes_no_storm() -> None:
    """Half of all nodes suspected at once: twice the nodes, about twice the frames."""
    six, twelve, twenty_four = map(said_in_trouble, (6, 12, 24))
    beats = 3 * SECOND / POLICY.heartbeat_ns
    for count, said in ((6, six), (12, twelve), (24, twenty_four)):
        # A heartbeat to each, questions to the helpers and answers to who asks (as many, by lot), a view and an answer.
        assert said <= beats * (count - 1 + 3 * POLICY.helpers + 3)
    assert twenty_four - twelve < 2.5 * (twelve - six)


def test_views_are_sent_one_a_round() -> None:
    """However many others have another: or each join would cost the square of the nodes."""
    network = Network(seed=18)
    nodes = mesh(network, 16)
    rounds = network.now_ns // POLICY.heartbeat_ns + 1
    for process in nodes:
        sent = [e.message for _, e in network.seen(Send, process) if isinstance(e, Send)]
        assert sum(isinstance(message, Sync) and not message.is_answer for message in sent) <= rounds


def test_a_death_is_noticed_in_time() -> None:
    """By everybody, not before the stated silence, and what was outstanding ends."""
    network = Network(seed=5)
    nodes = mesh(network, 8)
    died_ns = network.now_ns
    digest = nodes[0].node.membership.view.digest()
    network.kill(nodes[3])
    assert network.run_until(network.agrees, 10) <= DEATH_S
    assert all(process.node.membership.view.digest() != digest for process in network.living())
    downs = network.seen(NodeUnreachable, since_ns=died_ns)
    assert len(downs) == 7
    for at_ns, down in downs:
        assert isinstance(down, NodeUnreachable)
        assert (down.name, down.kind) == ("n3", Down.DIED)
        assert POLICY.dead_ns - POLICY.heartbeat_ns <= at_ns - died_ns <= POLICY.death_ns_max


def test_a_process_that_stands_still_is_given_up_and_taken_again() -> None:
    """Its connections stay open. It gives nobody up itself, but is told that the others have ended what there was."""
    network = Network(seed=6)
    nodes = mesh(network, 5)
    stopped = nodes[2]
    network.stop(stopped)
    since_ns = network.now_ns
    network.run(5)
    assert all("n2" not in process.up for process in nodes if process is not stopped)
    network.go_on(stopped)
    assert network.run_until(network.agrees, 10) <= HEAL_S
    network.run(2)
    own = [down for _, down in network.seen(NodeUnreachable, stopped, since_ns)]
    assert {down.name for down in own if isinstance(down, NodeUnreachable)} == {"n0", "n1", "n3", "n4"}
    assert all("given this node up" in down.because for down in own if isinstance(down, NodeUnreachable))
    assert not network.seen(PeerChanged, stopped, since_ns), (
        "it took others for silent while it was not listening itself"
    )


def test_a_restarted_peer_is_somebody_else_at_once() -> None:
    """Not after the silence: what belonged to the former one ends when the new one says hello."""
    network = Network(seed=7)
    nodes = mesh(network, 4)
    former = nodes[1].node.membership.me.incarnation
    since_ns = network.now_ns
    network.kill(nodes[1])
    network.start("n1", [at("n0")])
    assert network.run_until(network.agrees, 10) < POLICY.suspect_ns / SECOND
    for process in (nodes[0], nodes[2], nodes[3]):
        (down,) = [e for _, e in network.seen(NodeUnreachable, process, since_ns)]
        (up,) = [e for _, e in network.seen(PeerUp, process, since_ns)]
        assert isinstance(down, NodeUnreachable) and isinstance(up, PeerUp)
        assert (down.incarnation, down.kind) == (former, Down.RESTARTED)
        assert up.incarnation > former


def test_a_restart_elsewhere_is_taken_in_when_the_former_is_dead() -> None:
    """Until then nobody can tell it from a second node of that name."""
    network = Network(seed=8)
    nodes = mesh(network, 3)
    network.kill(nodes[2])
    network.start("n2", [at("n0")], address="tcp://elsewhere", key="key of n2")
    took = network.run_until(network.agrees, 30)
    assert took <= (POLICY.dead_ns + POLICY.refused_ns) / SECOND + HEAL_S


def test_who_leaves_is_gone_at_once() -> None:
    """Nobody waits for it, and its name is free."""
    network = Network(seed=9)
    nodes = mesh(network, 5)
    network.leave(nodes[4])
    assert network.run_until(network.agrees, 10) < 0.1
    kinds = {down.kind for _, down in network.seen(NodeUnreachable) if isinstance(down, NodeUnreachable)}
    assert kinds == {Down.LEFT}
    network.start("n4", [at("n1")], address="tcp://elsewhere")
    assert network.run_until(network.agrees, 10) < 2


def test_a_farewell_that_is_lost_is_passed_on() -> None:
    """As a rumour: one that did not hear it asks others first, and gives it up when it is silent. Only its key can say more."""
    network = Network(seed=10, weather=Weather(late=0.0))
    nodes = mesh(network, 4)
    network.cut(nodes[3], nodes[0], both=False)
    network.leave(nodes[3])
    network.heal()
    peer = nodes[0].node.membership.view.get("n3")
    assert peer is not None
    assert network.run_until(lambda: peer.state is PeerState.SUSPECT, 10) < POLICY.suspect_ns / SECOND
    assert "it has left, according to" in str([e for _, e in network.seen(PeerChanged, nodes[0])][-1])
    assert network.run_until(network.agrees, 10) <= POLICY.death_ns_max / SECOND
    assert peer.state is PeerState.DEAD


def test_the_dead_are_forgotten() -> None:
    """After the stated time, or the longest dead first when there are too many: memory has a bound."""
    policy = MembershipPolicy(forget_ns=10 * SECOND, dead_count_max=2)
    network = Network(seed=11, policy=policy)
    nodes = mesh(network, 5)
    for process in nodes[1:4]:
        network.kill(process)
        network.run(0.5)
    network.run_until(network.agrees, 10)
    network.run(0.5)
    for process in (nodes[0], nodes[4]):
        assert {peer.name for peer in process.node.membership.view if not peer.is_living} == {"n2", "n3"}
    network.run(10)
    for process in (nodes[0], nodes[4]):
        assert [peer.name for peer in process.node.membership.view] == [
            n.name for n in (nodes[4], nodes[0]) if n is not process
        ]
    since_ns = network.now_ns
    network.run(5)
    assert not network.seen(DialFailed, nodes[0], since_ns), "it dials somebody whom it has forgotten"


def test_the_dead_of_others_are_no_older_than_they_say() -> None:
    """Or a tombstone would be handed round for ever, each node keeping it for an hour from when it was told."""
    network = Network(seed=12, policy=MembershipPolicy(forget_ns=10 * SECOND))
    nodes = mesh(network, 3)
    network.kill(nodes[2])
    for number in range(9):
        network.start(f"m{number}", [at("n0")])
        network.run(1.5)
        if number:
            network.kill(network.processes[at(f"m{number - 1}")])
        network.run(1.5)
    assert all(nodes[0].node.membership.view.get(name) is None for name in ("n2", "m0", "m1", "m2"))


def test_a_seed_that_is_away_is_dialled_for_ever_and_seldom() -> None:
    """At the longest wait, and somewhat before it by lot."""
    network = Network(seed=13)
    node = network.start("a", [at("away")])
    network.run(60)
    waits = [e.wait_ns for _, e in network.seen(DialFailed, node) if isinstance(e, DialFailed)]
    assert 30 <= len(waits) <= 60
    assert all(POLICY.backoff_ns_max / 2 <= wait_ns <= POLICY.backoff_ns_max for wait_ns in waits[5:])
    network.start("away")
    network.run_until(network.agrees, POLICY.backoff_ns_max / SECOND + 1)


def test_this_node_among_its_own_seeds_does_no_harm() -> None:
    """One table of seeds serves all nodes of a system; and an alias of one's own address is found out."""
    network = Network(seed=14)
    nodes = [network.start(name, [at("a"), at("b")]) for name in ("a", "b")]
    network.run_until(network.agrees, 5)
    since_ns = network.now_ns
    network.run(10)
    assert not [e for process in nodes for e in network.seen(DialFailed, process, since_ns)]


def test_an_alias_of_a_seed_is_dialled_while_it_is_of_use() -> None:
    """A name in the seeds, a number in what the node says of itself: one line, until that one is lost."""
    network = Network(seed=19)
    hub = network.start("hub")
    network.aliases["tcp://alias"] = hub.address
    node = network.start("a", ["tcp://alias"])
    network.run_until(network.agrees, 5)
    network.run(1)
    since_ns = network.now_ns
    network.run(10)
    assert not network.seen(Dial, node, since_ns)
    network.kill(hub)
    network.run(20)
    moved = network.start("hub", address="tcp://moved", key="key of hub")
    network.aliases["tcp://alias"] = moved.address
    network.run_until(network.agrees, HEAL_S)


def test_a_peer_cannot_have_other_lines_closed() -> None:
    """By saying that they are aliases of its own."""
    network = Network(seed=20)
    n2 = network.start("n2", key="the key of two")
    nodes = [*(network.start(name, [at("n2")], key="the key of two") for name in ("n0", "n1")), n2]
    network.run_until(network.agrees, 5)
    said = next(
        e.message for _, e in network.seen(Send, nodes[1]) if isinstance(e, Send) and isinstance(e.message, Hello)
    )
    own = nodes[0].node.membership.me.incarnation
    lie = replace(said, beat=10_000, to=own, reached_as=nodes[2].address)
    assert not [e for e in nodes[0].node.received(nodes[1].key, lie, network.now_ns) if isinstance(e, Hangup)]
    me = nodes[0].node.membership.me
    lie = replace(said, name=me.name, incarnation=me.incarnation, address=me.address, dialled=nodes[2].address)
    assert nodes[0].node.received(nodes[1].key, lie, network.now_ns) == []


def test_a_full_mesh_says_so() -> None:
    """And takes the next one when there is room."""
    network = Network(seed=15, policy=MembershipPolicy(members_max=3))
    nodes = mesh(network, 3)
    late = network.start("late", [at("n0")])
    network.run(3)
    assert not late.up
    assert any("room for 3 nodes" in str(effect) for _, effect in late.log)
    network.leave(nodes[2])
    network.run_until(network.agrees, POLICY.refused_ns / SECOND + HEAL_S)


def test_nobody_is_suspected_in_fair_weather() -> None:
    """A minute, eight nodes: no change of any kind, and no word but heartbeats."""
    network = Network(seed=16)
    nodes = mesh(network, 8)
    network.run(1)
    since_ns = network.now_ns
    for process in nodes:
        process.sent = Counter()
    network.run(20)
    assert not network.seen(PeerChanged, since_ns=since_ns)
    assert {kind for process in nodes for kind in process.sent} == {"Heartbeat"}


def test_states_are_told_in_order() -> None:
    """Met, up, suspected, dead: what `appbackplane peers` shows and the log says."""
    network = Network(seed=17)
    nodes = mesh(network, 3)
    network.kill(nodes[1])
    network.run(3)
    states = [e.state for _, e in network.seen(PeerChanged, nodes[0]) if isinstance(e, PeerChanged) and e.name == "n1"]
    assert states == [PeerState.MET, PeerState.UP, PeerState.SUSPECT, PeerState.DEAD]
