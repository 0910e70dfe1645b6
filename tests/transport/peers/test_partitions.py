"""Partitions: a cut link is told apart from a death, everybody knows it in time, and it heals by itself."""

from __future__ import annotations

import os

import pytest

from appbackplane.transport.peers.effects import Down, NodeUnreachable, PeerChanged, PeerState
from appbackplane.transport.peers.policy import MembershipPolicy
from tests.transport.peers.network import MS, SECOND, Network, Process, Weather
from tests.transport.peers.test_joining import HEAL_S, mesh

POLICY = MembershipPolicy()
#: More of them find more, and take longer: the figures of docs/concepts/membership.md are from 60 seeds of 120 s.
SEEDS = int(os.environ.get("APPBACKPLANE_PEERS_SEEDS", "3"))


def state(process: Process, of: Process) -> PeerState:
    """What one thinks of another."""
    peer = process.node.membership.view.get(of.name)
    assert peer is not None
    return peer.state


@pytest.mark.parametrize("is_one_way", [False, True], ids=["both ways", "one way"])
@pytest.mark.parametrize("length_s", [1, 5, 20])
def test_a_cut_between_two_is_no_death(length_s: int, is_one_way: bool) -> None:
    """Others vouch. Both ends know that nothing passes, also the one that still hears the other; and it heals."""
    network = Network(seed=length_s)
    nodes = mesh(network, 5)
    one, two = nodes[1], nodes[2]
    since_ns = network.now_ns
    network.cut(one, two, both=not is_one_way)
    network.run(length_s)
    if length_s * SECOND > POLICY.cut_ns_max:
        assert state(one, two) is state(two, one) is PeerState.UNREACHABLE
        assert "n2" not in one.up and "n1" not in two.up
        downs = network.seen(NodeUnreachable, since_ns=since_ns)
        assert {(e.name, e.kind) for _, e in downs if isinstance(e, NodeUnreachable)} == {
            ("n1", Down.UNREACHABLE), ("n2", Down.UNREACHABLE)
        }  # fmt: skip
        assert all(at_ns - since_ns <= POLICY.cut_ns_max for at_ns, _ in downs)
    assert len(network.views()) == 1, "a cut between two changed somebody's view"
    network.heal()
    assert network.run_until(network.agrees, 30) <= HEAL_S
    dead = [e for _, e in network.seen(PeerChanged) if isinstance(e, PeerChanged) and e.state is PeerState.DEAD]
    assert dead == []


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("length_s", [1, 5, 20])
def test_islands_find_each_other_again(length_s: int, size: int) -> None:
    """Each goes on by itself, and loses what was outstanding with the other; not one node has to be touched."""
    network = Network(seed=length_s)
    nodes = mesh(network, 6)
    network.part(nodes[:size], nodes[size:])
    network.run(length_s)
    if length_s > 3:
        assert {len(view) for view in network.views()} == {size, 6 - size}
    network.heal()
    assert network.run_until(network.agrees, 30) <= HEAL_S


def test_three_islands_and_a_restart_in_one() -> None:
    """The others have never seen the new incarnation, and take it for what it is."""
    network = Network(seed=31)
    nodes = mesh(network, 6, seeds=3)
    network.part(nodes[:2], nodes[2:4], nodes[4:])
    network.run(8)
    network.kill(nodes[5])
    network.start("n5", [nodes[4].address])
    network.run(8)
    network.heal()
    network.run_until(network.agrees, HEAL_S)


def test_a_long_way_round_is_a_way() -> None:
    """A line of five, in which each hears its neighbours only: nobody is dead, and nobody flaps."""
    network = Network(seed=32)
    nodes = mesh(network, 5)
    for i, one in enumerate(nodes):
        for two in nodes[i + 2 :]:
            network.cut(one, two)
    network.run(10)
    since_ns = network.now_ns
    network.run(20)
    assert network.agrees(is_full_mesh=False), network.differences()
    assert not network.seen(PeerChanged, since_ns=since_ns)


def test_who_is_cut_off_and_dies_is_dead() -> None:
    """Old news of its life, told by others, must not keep it alive."""
    network = Network(seed=33)
    nodes = mesh(network, 5)
    network.cut(nodes[1], nodes[2])
    network.run(5)
    network.kill(nodes[2])
    # Others know it after a death's time; who had it from them, when their proofs have run out, too.
    assert (
        network.run_until(lambda: len(network.views()) == 1 and network.agrees(is_full_mesh=False), 10)
        <= (POLICY.death_ns_max + POLICY.dead_ns) / SECOND
    )


def test_a_partition_of_an_hour_heals_too() -> None:
    """Short of `forget_ns` all are still dialled."""
    network = Network(seed=34, policy=MembershipPolicy(forget_ns=120 * SECOND))
    nodes = mesh(network, 4)
    network.part(nodes[:2], nodes[2:])
    network.run(110)
    network.heal()
    network.run_until(network.agrees, HEAL_S)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_living_node_is_given_up(seed: int) -> None:
    """One frame in twenty lost, delays to 100 ms, frames repeated and out of order: not once in all node pairs and seconds."""
    network = Network(seed, Weather(delay_ns=(0, 100 * MS), loss=0.05, repeat=0.02))
    mesh(network, 6)
    since_ns = network.now_ns
    network.run(60)
    given_up = [e for _, e in network.seen(NodeUnreachable, since_ns=since_ns)]
    assert given_up == []
    changes = [e.state for _, e in network.seen(PeerChanged, since_ns=since_ns) if isinstance(e, PeerChanged)]
    assert set(changes) <= {PeerState.SUSPECT, PeerState.UP}
    pair_hours = 6 * 5 * 60 / 3600
    assert changes.count(PeerState.SUSPECT) <= 10 * pair_hours, "suspicions are to be rare, too"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_death_in_bad_weather_is_noticed_in_time(seed: int) -> None:
    """Loss makes silence, so nothing is later than it is in fair weather but for the delay."""
    network = Network(seed, Weather(delay_ns=(0, 100 * MS), loss=0.05, repeat=0.02))
    nodes = mesh(network, 8)
    network.kill(nodes[seed % 7 + 1])
    assert network.run_until(network.agrees, 10) <= POLICY.death_ns_max / SECOND
