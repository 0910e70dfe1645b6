"""Roster: what is told of nodes to those who look on. The nodes are real, their network and time are not."""

from __future__ import annotations

import secrets

import pytest

from appbackplane.runtime.peers.roster import CLIENT, SELF, UNMET, PeerInWords, Roster, Row, Visitor
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder
from tests.transport.peers.network import EPOCH, SECOND, Network, Process, at


class Looked:
    """A node's roster, kept as its endpoint does: each effect is noted when it comes."""

    def __init__(self, network: Network, process: Process, seeds: dict[str, str]) -> None:
        self.network, self.process = network, process
        self.roster = Roster(process.node, seeds, network.now_ns)
        self._noted_count = 0

    def told(self, *, has_names: bool = False, calls: dict[str, int] | None = None) -> dict[str, PeerInWords]:
        """The rows, by the names of the nodes."""
        log = self.process.log
        for at_ns, effect in log[self._noted_count :]:
            self.roster.note(effect, at_ns)
        self._noted_count = len(log)
        self.roster.look(lambda name: (calls or {}).get(name, 0), lambda name: 0)
        now_ns = self.network.now_ns
        return {row.name: row.in_words(now_ns, EPOCH + now_ns, has_names=has_names) for row in self.roster.rows}


def test_clients_come_last_and_one_key_is_one_row(network: Network) -> None:
    """However many programs have it: the first of them, and what all have outstanding."""
    a = network.start("a", [], key=str(key()))
    roster = Roster(a.node, {}, network.now_ns)
    laptop, phone = (Holder(name, key()) for name in ("laptop", "a-phone"))
    visitors = [
        Visitor(laptop, "10.0.0.9:2", 2 * SECOND, 1), Visitor(laptop, "10.0.0.9:1", SECOND, 4),
        Visitor(phone, "10.0.0.8:1", SECOND, 0),
    ]  # fmt: skip
    roster.look(lambda name: 0, lambda name: 0, visitors)
    told = [row.in_words(5 * SECOND, EPOCH, has_names=True) for row in roster.rows]
    assert [(one["name"], one["state"], one["calls_from"]) for one in told] == [
        ("a", SELF, 0), ("a-phone", CLIENT, 0), ("laptop", CLIENT, 5),
    ]  # fmt: skip
    _, one, two = told
    assert (one["because"], one["address"], one["fingerprint"]) == ("", "10.0.0.8:1", phone.key.fingerprint)
    assert (two["because"], two["address"]) == ("2 connections, this is the first", "10.0.0.9:1")
    assert (two["state_for"], two["heard"], two["incarnation"]) == (4.0, None, None)


def key() -> PublicKey:
    """Somebody's."""
    return PublicKey(secrets.token_bytes(32))


@pytest.fixture
def network() -> Network:
    """Without nodes."""
    return Network(1)


def test_this_node_comes_first_and_then_those_it_knows(network: Network) -> None:
    """With what a person compares (the key), and what a program counts."""
    keys = {name: key() for name in "abc"}
    for name in "bac":
        network.start(name, [] if name == "b" else [at("b")], key=str(keys[name]))
    b = network.processes[at("b")]
    b.node.export(["index.stats", "index.add"], [])
    network.run(5)
    looked = Looked(network, network.processes[at("a")], {at("b"): "b"})
    looked.roster.exports(["x.y"])
    told = looked.told(has_names=True, calls={"b": 3})
    assert list(told) == ["a", "b", "c"]
    assert [each["state"] for each in told.values()] == [SELF, "up", "up"]
    assert {name: each["fingerprint"] for name, each in told.items()} == {n: k.fingerprint for n, k in keys.items()}
    assert told["a"]["route_names"] == ["x.y"]
    assert (told["b"]["routes"], told["b"]["route_names"]) == (2, ["index.add", "index.stats"])
    assert (told["b"]["calls_to"], told["c"]["calls_to"]) == (3, 0)
    assert told["b"]["runs_for"] == pytest.approx(5, abs=0.1)
    assert told["b"]["heard"] is not None and told["b"]["heard"] < 0.5
    assert told["b"]["incarnation"] == b.node.membership.me.incarnation
    assert "route_names" not in looked.told()["b"], "a megabyte that nobody asked for"


def test_what_is_thought_of_a_peer_since_when_and_why(network: Network) -> None:
    """Who looks at a node that is not up wants to know for how long, and what is the matter."""
    a = network.start("a", key=str(key()))
    b = network.start("b", [at("a")], key=str(key()))
    looked = Looked(network, a, {})
    b.node.export(["index.stats"], [])
    network.run(3)
    assert looked.told()["b"]["routes"] == 1
    network.kill(b)
    network.run(10)
    told = looked.told()["b"]
    assert told["state"] == "dead"
    assert told["state_for"] == pytest.approx(8, abs=0.5)
    assert told["because"].startswith("silent for 2 s, and nobody else hears it; dialled, "), (
        "what keeps it away now, too"
    )
    assert told["routes"] == 0, "nobody can be asked for them"
    c = network.start("b", [at("a")], key=b.key)
    network.run(3)
    told = looked.told()["b"]
    assert told["state"] == "up"
    assert told["state_for"] < 3
    network.leave(c)
    network.run(1)
    told = looked.told()["b"]
    assert (told["state"], told["because"]) == ("left", "it has left")


def test_a_successor_is_told_of_as_itself(network: Network) -> None:
    """Its versions of routes begin again: what was offered by the former one in the same version is not its."""
    a = network.start("a", key=str(key()))
    b = network.start("b", [at("a")], key=str(key()))
    looked = Looked(network, a, {})
    for route in ("index.stats", "other.route"):
        b.node.export([route], [])
        network.run(3)
        assert looked.told(has_names=True)["b"]["route_names"] == [route]
        network.kill(b)
        b = network.start("b", [at("a")], key=b.key)


def test_what_kept_a_peer_away_once_is_forgotten_when_it_is_up(network: Network) -> None:
    """Or the next trouble would be told with the cause of the last."""
    b_key = str(key())
    network.kill(network.start("b", key=b_key))
    a = network.start("a", [at("b")], key=str(key()))
    looked = Looked(network, a, {at("b"): "b"})
    network.run(3)
    assert looked.told()["b"]["state"] == UNMET
    b = network.start("b", key=b_key)
    network.run(5)
    assert looked.told()["b"]["state"] == "up"
    network.cut(a, b)
    network.run(1)
    told = looked.told()["b"]
    assert (told["state"], told["because"]) == ("suspect", "silent for 600 ms")


def test_a_seed_that_was_not_met_is_told_of_with_what_keeps_it_away(network: Network) -> None:
    """It is the first thing that goes wrong between two hosts, and membership knows nobody there."""
    b_key = str(key())
    network.kill(network.start("b", key=b_key))  # so that it is known whose key is there
    a = network.start("a", [at("b")], key=str(key()))
    looked = Looked(network, a, {at("b"): "b", at("a"): "a"})
    assert looked.told()["b"]["because"] == "it is being dialled"
    network.run(3)
    told = looked.told()
    assert list(told) == ["a", "b"], "this node among its own seeds is itself"
    assert told["b"]["state"] == UNMET
    assert (told["b"]["address"], told["b"]["incarnation"], told["b"]["heard"]) == (at("b"), None, None)
    assert told["b"]["because"] not in ("", "it is being dialled")
    network.start("b", key=b_key)
    network.run(5)
    told = looked.told()
    assert [each["state"] for each in told.values()] == [SELF, "up"]


def test_clocks_of_two_hosts_may_differ() -> None:
    """Nobody has been started in the future."""
    told = Row("b", "up", SECOND, "", "", "", incarnation=9 * SECOND).in_words(2 * SECOND, 5 * SECOND, has_names=False)
    assert (told["runs_for"], told["state_for"]) == (0, 1)


def test_what_is_kept_has_the_bounds_of_the_view(network: Network) -> None:
    """A node that others come to and leave for a year must not grow."""
    a = network.start("a", key=str(key()))
    looked = Looked(network, a, {})
    for n in range(5):
        node = network.start(f"n{n}", [at("a")], key=str(key()))
        network.run(2)
        looked.told()
        network.leave(node)
    network.run(network.policy.forget_ns / SECOND + 10)
    assert list(looked.told()) == ["a"]
    roster = looked.roster
    assert not roster._judged and not roster._offered and not roster._troubles
    assert len(roster._fingerprints) == 1
