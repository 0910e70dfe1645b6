"""Offers: which routes a peer may offer here, by its key, and how much its word about its load counts."""

from __future__ import annotations

from collections.abc import Collection, Set

import pytest

from appbackplane.runtime.peers.outward import Outward
from appbackplane.transport.envelope import CALL, REPLY, Envelope
from appbackplane.transport.errors import UnknownRoute
from appbackplane.transport.peers.effects import OfferRefused
from tests.transport.peers.network import Network, Process, at, exports_of
from tests.transport.peers.test_joining import HEAL_S

#: What each key may offer to n0.
Grants = dict[str, set[str]]
Three = tuple[Network, list[Process], Grants]


@pytest.fixture
def three() -> Three:
    """n0, which calls; n1, which may offer what it serves; and n2, whose key was trusted for calling alone."""
    network, grants = Network(seed=31), {"key of n1": {"gamma.stats", "gamma.more"}}

    def may_offer(key: str, routes: Collection[str]) -> Set[str]:
        return grants.get(key, set()).intersection(routes)

    nodes = [network.start("n0", may_offer=may_offer)]
    nodes += [network.start(name, [at("n0")]) for name in ("n1", "n2")]
    nodes[1].node.export(["gamma.stats"], [])
    nodes[1].node.load(0.9)
    nodes[2].node.export(["gamma.stats", "gamma.private"], [])
    nodes[2].node.load(0.0)
    network.run_until(network.agrees, HEAL_S)
    network.run(2)
    return network, nodes, grants


def asked(caller: Process, route: str, count: int) -> list[str]:
    """The nodes that so many calls go to, each of which is answered before the next one."""
    said: list[str] = []

    def say(name: str, envelope: Envelope, _is_bulk: bool) -> bool:
        if envelope.kind == CALL:
            said.append(name)
        return True

    outward = Outward(caller.node, 0, say, lambda _peer, _envelope: None)
    for number in range(count):
        outward.take(b"client/ann", Envelope(CALL, number + 1, 0, route, body={}), 0)
        outward.answered(said[-1], Envelope(REPLY, number + 1))
    return said


def test_calls_go_to_whose_key_may_offer_the_route(three: Three) -> None:
    """With a load of 0 a key that may use one route got seven of seven calls of another node, and their bodies."""
    network, (n0, _, _), _ = three
    assert asked(n0, "gamma.stats", 7) == ["n1"] * 7
    with pytest.raises(UnknownRoute):
        n0.node.best("gamma.private", "ann")
    assert exports_of(n0.node.table)["n2"][1] == frozenset()
    refused = {effect for _, effect in network.seen(OfferRefused, n0)}
    assert refused == {OfferRefused("n2", "gamma.private", 2)}


def test_a_node_that_is_named_is_asked_whatever_it_may_offer(three: Three) -> None:
    """Its key says that it is that node: the caller has chosen it."""
    _, (n0, _, _), _ = three
    assert n0.node.best("n2/gamma.stats", "ann") == ("n2",)


def test_what_may_be_offered_changes_while_all_runs(three: Three) -> None:
    """Without a word from the peer: it does not know what is granted here."""
    network, (n0, n1, _), grants = three
    grants["key of n2"] = {"gamma.private"}
    n0.node.recheck(network.now_ns)
    assert n0.node.best("gamma.private", "ann") == ("n2",)
    assert n0.node.best("gamma.stats", "ann") == ("n1",)
    del grants["key of n1"], grants["key of n2"]
    n0.node.recheck(network.now_ns)
    assert n0.node.table.routes() == []
    grants["key of n1"] = {"gamma.more"}
    n0.node.recheck(network.now_ns)
    n1.node.export(["gamma.more", "gamma.stats"], [])
    network.run(1)
    assert n0.node.table.routes() == ["gamma.more"]
    n1.node.export(["gamma.stats"], [])
    network.run(1)
    assert n0.node.table.routes() == [] and n0.node.table.withdrawn("gamma.more") == ["n1"]
    assert n0.node.table.withdrawn("gamma.stats") == [], "nobody was ever sent there"


def test_what_was_not_granted_is_not_waited_for(three: Three) -> None:
    """A node that is down and might have offered it is no reason to try again."""
    network, (n0, _, n2), _ = three
    network.kill(n2)
    network.run(5)
    with pytest.raises(UnknownRoute):
        n0.node.best("gamma.private", "ann")
