"""Addresses: who is taken for the node that listens at an address, when a node with a trusted key says that it listens there.

In each test a thief, whose key the victim trusts under its own name, claims the address of another node. It echoes the clock
of the victim, which it has heard before, as if it had heard it now.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from appbackplane.transport.peers.effects import Dial, PeerState, PeerUp, Refused, RefusedBy
from appbackplane.transport.peers.messages import PROTOCOL, Hello
from tests.transport.peers.network import MS, SECOND, Network, Process, at
from tests.transport.peers.test_joining import HEAL_S, mesh

#: How far behind the clock of the victim an echo is on the fastest way.
ECHO_AGE_NS = 5 * MS


def claim(network: Network, victim: Process, address: str, *, incarnation: int = 0) -> None:
    """The thief says hello once: it listens at `address`, and has just heard the victim. By default it was started just now."""
    said = Hello(
        name="thief", incarnation=incarnation or network.now_ns, to=victim.node.membership.me.incarnation, beat=network.now_ns,
        sent_ns=network.now_ns, echo_ns=network.now_ns - ECHO_AGE_NS, digest=0, session=0, is_up=False, routes=0,
        load=0.0, protocol=PROTOCOL, protocol_oldest=PROTOCOL, address=address, dialled=victim.address,
    )  # fmt: skip
    network._carry_out(victim, victim.node.received("key of thief", said, network.now_ns))


def state(process: Process, name: str) -> PeerState | None:
    """What a node thinks of another; None: it does not know it."""
    peer = process.node.membership.view.get(name)
    return None if peer is None else peer.state


def claims_until(
    network: Network, victim: Process, address: str, is_over: Callable[[], bool], limit_s: float, *, every_s: float
) -> None:
    """The thief claims the address again and again, each time as one that was started again. Fails when it takes too long."""
    end_ns = network.now_ns + int(limit_s * SECOND)
    while not is_over():
        assert network.now_ns < end_ns, f"not within {limit_s} s: {network.differences()}"
        claim(network, victim, address)
        network.run(every_s)


# The address of a seed.


def test_the_address_of_a_seed_is_kept_for_the_key_that_the_configuration_names() -> None:
    """A thief held it for as long as it liked while the seed was started again, and the seed was refused."""
    network = Network(seed=31)
    n0, n1 = (network.start(name, [at("n0"), at("n1")]) for name in ("n0", "n1"))
    network.run_until(network.agrees, HEAL_S)
    network.kill(n1)
    network.run_until(lambda: state(n0, "n1") is PeerState.DEAD, 10)
    for _ in range(20):
        claim(network, n0, at("n1"))
        network.run(0.2)
        assert state(n0, "thief") is None
    (why,) = {e.reason for _, e in network.seen(Refused, n0) if isinstance(e, Refused)}
    assert why == (
        "[peers] of 'n0' expects another key at tcp://n1: correct [node] listen of 'thief', or [peers] of 'n0'"
    )
    dialled = {e.key for _, e in network.seen(Dial, n0) if isinstance(e, Dial) and e.address == at("n1")}
    assert dialled == {"key of n1"}
    network.start("n1", [at("n0")])
    network.run_until(network.agrees, HEAL_S)


def test_whoever_comes_first_cannot_take_the_address_of_a_seed() -> None:
    """A node that has just been started has met nobody: in two starts of four the thief was heard before the seed."""
    network = Network(seed=32)
    n0 = network.start("n0", [at("n1")])
    claim(network, n0, at("n1"))
    network.start("n1", [at("n0")])
    claims_until(network, n0, at("n1"), lambda: n0.node.membership.is_up("n1"), HEAL_S, every_s=0.001)
    assert state(n0, "thief") is None


def test_a_thief_that_is_refused_does_not_take_the_line_of_a_seed() -> None:
    """For its last word it would be dialled there, under its own key: from then on the seed was expected under that one."""
    network = Network(seed=33)
    n0 = network.start("n0", [at("n1")], is_allowed=lambda _key, name: name != "thief")
    for _ in range(10):
        claim(network, n0, at("n1"))
        network.run(0.2)
    network.start("n1")
    network.run_until(network.agrees, HEAL_S)
    assert {e.key for _, e in network.seen(Dial, n0) if isinstance(e, Dial)} == {"key of n1"}


def test_a_seed_that_gets_a_new_key_is_expected_under_that_one() -> None:
    """No node has to be started again when a key is replaced, on whichever side the other is a seed."""
    network = Network(seed=34)
    trusted = {"key of n1"}
    n0 = network.start("n0", [at("n1")], is_allowed=lambda key, _name: key in trusted)
    network.kill(network.start("n1"))
    network.run(1)
    trusted.clear()
    network._carry_out(n0, n0.node.recheck(network.now_ns))
    network.start("n1", key="new key of n1")
    trusted.add("new key of n1")
    network._carry_out(n0, n0.node.recheck(network.now_ns))
    network.run_until(network.agrees, HEAL_S)
    claim(network, n0, at("n1"))
    assert state(n0, "n1") is PeerState.UP and state(n0, "thief") is None


# The address of a node that is no seed.


def test_nobody_is_up_by_an_echo_alone() -> None:
    """No line to the address stands, so nothing that this node said could get there: the echo is forged."""
    network = Network(seed=35)
    n0 = network.start("n0")
    states = []
    for _ in range(20):
        claim(network, n0, "tcp://anywhere", incarnation=1)
        network.run(0.2)
        states.append(state(n0, "thief"))
    assert set(states) == {PeerState.MET, PeerState.UNREACHABLE} and states[-1] is PeerState.UNREACHABLE
    assert network.seen(PeerUp, n0) == []
    network.start("thief", ["tcp://n0"], address="tcp://anywhere")
    network.run_until(network.agrees, HEAL_S)


@pytest.mark.parametrize("every_s", [0.2, 0.01, 0.0003])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_thief_cannot_keep_out_the_node_that_has_the_key_at_an_address(*, is_known: bool, every_s: float) -> None:
    """However often it says so, and as however many incarnations. Each claim closed the line on which the other was dialled."""
    network = Network(seed=36)
    n0 = network.start("n0")
    if is_known:
        n1 = network.start("n1", [at("n0")])
        network.run_until(network.agrees, HEAL_S)
        network.kill(n1)
        network.run_until(lambda: state(n0, "n1") is PeerState.DEAD, 10)
    claim(network, n0, at("n1"))
    network.run(1)
    assert state(n0, "thief") is PeerState.MET
    n1 = network.start("n1", [at("n0")])
    claims_until(network, n0, at("n1"), lambda: n0.node.membership.is_up("n1"), HEAL_S, every_s=every_s)
    claims_until(network, n0, at("n1"), lambda: n1.node.membership.is_up("n0"), HEAL_S, every_s=every_s)
    assert state(n0, "thief") is None and network.agrees()


def test_a_line_that_stands_outranks_a_claim() -> None:
    """Its other end has proved its key at the address, whether it has said anything yet or not."""
    network = Network(seed=37)
    n0 = network.start("n0")
    n1 = network.start("n1", [at("n0")])
    while at("n1") not in n0.connected:
        network.run(0.0001)
    assert state(n0, "n1") is PeerState.MET
    claim(network, n0, at("n1"))
    assert (state(n0, "n1"), state(n0, "thief")) == (PeerState.MET, None)
    (why,) = [e.reason for _, e in network.seen(Refused, n0) if isinstance(e, Refused)]
    assert why == "node 'n1' says that it listens at tcp://n1, too: correct [node] listen of one of the two"
    network.run_until(network.agrees, HEAL_S)
    assert n1.up


def test_who_is_refused_is_told_so_whoever_else_is_refused_there() -> None:
    """A thief that is refused once a second would have kept from the other what is wrong."""
    network = Network(seed=39)
    n0 = network.start("n0", is_allowed=lambda _key, _name: False)
    claim(network, n0, at("n1"))
    n1 = network.start("n1", [at("n0")])
    claims_until(network, n0, at("n1"), lambda: bool(network.seen(RefusedBy, n1)), HEAL_S, every_s=0.05)
    assert {e.name for _, e in network.seen(Refused, n0) if isinstance(e, Refused)} == {"thief", "n1"}


def test_an_address_goes_to_the_next_node_there() -> None:
    """The host was given to another node, which has another name and another key, after the former one died."""
    network = Network(seed=38)
    n0, n1 = mesh(network, 2)
    network.kill(n1)
    network.run_until(lambda: state(n0, "n1") is PeerState.DEAD, 10)
    network.start("next", [at("n0")], address=at("n1"))
    network.run_until(network.agrees, HEAL_S)
