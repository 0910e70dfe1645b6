"""Routes known of peers: versions and differences, the order in which nodes are asked, and convergence over bad links."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.transport.errors import InvalidArgument, MalformedFrame, NotFound, Unavailable, UnknownRoute
from appbackplane.transport.peers.effects import PeerUp, Send
from appbackplane.transport.peers.membership import Membership
from appbackplane.transport.peers.messages import (
    ROUTES_MAX,
    Heartbeat,
    ListChange,
    Routes,
    RoutesWanted,
    body_of,
    message_from,
)
from appbackplane.transport.peers.node import ROUTES_COUNT_MAX, PeerNode
from appbackplane.transport.peers.offer import VERSIONS_MAX, Offer
from appbackplane.transport.peers.peer import Peer
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.peers.route_table import LOAD_STEP, PATIENCE_BEATS, WITHDRAWN_BEATS, RouteTable
from appbackplane.transport.peers.view import Identity
from tests.transport.peers.network import MS, SECOND, Network, Process, Weather, at, exports_of
from tests.transport.peers.test_joining import HEAL_S, mesh

POLICY = MembershipPolicy()
names = st.sets(st.sampled_from([f"r{i}.do" for i in range(6)]))
topics = st.sets(st.sampled_from(["a", "a.*", "a.b", "c.d"]))


def said(offer: Offer, since: int) -> Routes:
    """The answer to who knows `since`."""
    begin, operations, heard, bulk = offer.since(since)
    return Routes(
        name="b", incarnation=2, to=1, beat=1, sent_ns=1, echo_ns=1,
        since=begin, version=offer.version, operations=operations, topics=heard, bulk=bulk,
    )  # fmt: skip


def table(**offers: tuple[float, str]) -> RouteTable:
    """Nodes that are up, their load, and the route that each offers."""
    known = RouteTable()
    for name, (load, route) in offers.items():
        known.up(name)
        offer = Offer()
        offer.set([route], [])
        known.heard(name, 1, load)
        assert known.learn(name, said(offer, 0)) is None
    return known


# Versions.


@settings(deadline=None)
@given(st.lists(st.tuples(names, topics, names), max_size=30), st.data())
def test_what_is_known_is_what_was_offered(
    versions: list[tuple[set[str], set[str], set[str]]], data: st.DataObject
) -> None:
    """Answers may be lost, repeated, and overtake each other: whoever is told the version catches up, and is never wrong."""
    offer, known = Offer(), RouteTable()
    known.up("b")
    on_their_way: list[Routes] = []
    latest = 0
    history = {0: (frozenset[str](), frozenset[str]())}
    for operations, heard, bulk in versions:
        offer.set(operations, heard, bulk)
        history[offer.version] = (frozenset(operations), frozenset(heard))
        since = known.heard("b", offer.version, 0.0)
        if since is not None:
            on_their_way.append(said(offer, since))
        for routes in data.draw(st.permutations(on_their_way)):
            if data.draw(st.booleans()):
                known.learn("b", routes)
        version, *now_known = exports_of(known)["b"]
        assert tuple(now_known) == history[version], "a version that never was"
        assert version >= latest, "a version that went back"
        latest = version
    for _ in range(2 * PATIENCE_BEATS + 2):
        since = known.heard("b", offer.version, 0.0)
        if since is not None:
            known.learn("b", said(offer, since))
    version, *now_known = exports_of(known)["b"]
    assert (version, tuple(now_known)) == (offer.version, history[offer.version])
    for route in {route for operations, _, _ in versions for route in operations}:
        assert known.best(route, "a") == (("b",) if route in now_known[0] else ())
        assert known.may_wait("b", route) == (route in now_known[0] and route in versions[-1][2])


def test_nothing_new_is_no_version() -> None:
    """A version that grows without a change would have all peers ask."""
    offer = Offer()
    assert not offer.set([], []) and offer.version == 0
    assert offer.set(["x.y"], []) and not offer.set(["x.y"], [])
    assert offer.version == 1


def test_what_may_wait_is_on_one_line_until_its_node_is_down() -> None:
    """What one caller says to one object must not be on two: the later might overtake the earlier."""
    offer, known = Offer(), RouteTable()
    assert not known.may_wait("b", "x.y")
    known.up("b")
    offer.set(["x.y", "later.x"], [], ["x.y", "strange.x"])
    known.learn("b", said(offer, 0))
    assert [known.may_wait("b", route) for route in ("x.y", "strange.x", "none.x")] == [True, False, False]
    assert offer.set(["x.y", "later.x"], [], ["later.x"])
    known.learn("b", said(offer, 1))
    assert [known.may_wait("b", route) for route in ("x.y", "later.x")] == [True, True]
    known.up("b")
    known.learn("b", said(offer, 0))
    assert [known.may_wait("b", route) for route in ("x.y", "later.x")] == [False, True]


def test_what_is_called_before_its_node_has_said_what_it_offers_may_wait_later() -> None:
    """By the node's name, as in the moment after the two have met. For ever on the urgent line, it would delay all others."""
    offer, known = Offer(), RouteTable()
    known.up("b")
    assert not known.may_wait("b", "store.keep")
    offer.set(["calc.add"], [])
    known.learn("b", said(offer, 0))
    assert not known.may_wait("b", "store.keep"), "and before all its components are there"
    offer.set(["calc.add", "store.keep"], [], ["store.keep"])
    known.learn("b", said(offer, 1))
    assert known.may_wait("b", "store.keep")


def test_what_was_mistyped_leaves_room_for_what_may_wait() -> None:
    """As many as are remembered, and more; what is asked for afterwards goes by its own line, and stays there."""
    offer, known = Offer(), RouteTable()
    known.up("b")
    offer.set(["x.y"], [], ["x.y"])
    known.learn("b", said(offer, 0))
    assert not any(known.may_wait("b", f"strange.{number}") for number in range(ROUTES_MAX + 1))
    assert known.may_wait("b", "x.y")
    assert offer.set(["x.y"], [], [])
    known.learn("b", said(offer, 1))
    assert known.may_wait("b", "x.y")


def test_a_node_that_does_not_say_what_may_wait_is_understood() -> None:
    """One of before: all that it offers is urgent, where nothing else is said."""
    offer = Offer()
    offer.set(["x.y"], [], ["x.y"])
    body = body_of(said(offer, 0))
    del body["bulk"]
    known = RouteTable()
    known.up("b")
    routes = message_from(body)
    assert isinstance(routes, Routes) and known.learn("b", routes) is None
    assert known.best("x.y", "a") == ("b",) and not known.may_wait("b", "x.y")


def test_who_is_far_behind_gets_everything() -> None:
    """Beyond the versions that are kept; and who knows a version that is not there yet, as of a former self."""
    offer = Offer()
    for number in range(VERSIONS_MAX + 5):
        offer.set([f"r{number}.x"], [])
    assert offer.since(1)[0] == 0
    assert offer.since(offer.version - VERSIONS_MAX + 1)[0] != 0
    assert offer.since(offer.version + 9) == (0, ListChange((f"r{VERSIONS_MAX + 4}.x",)), ListChange(), ListChange())


def test_everything_leaves_nothing_of_before() -> None:
    """Who was far behind must not go on offering what was withdrawn meanwhile."""
    offer, known = Offer(), RouteTable()
    known.up("b")
    offer.set(["old.x", "kept.x"], ["old"])
    known.learn("b", said(offer, 0))
    for number in range(VERSIONS_MAX + 1):
        offer.set(["kept.x", f"r{number}.x"], [f"t{number}"])
    assert known.learn("b", said(offer, 1)) is None
    assert known.routes() == ["kept.x", f"r{VERSIONS_MAX}.x"]
    assert known.subscribers("old") == [] and known.subscribers(f"t{VERSIONS_MAX}") == ["b"]


def test_a_gap_is_asked_for_at_once() -> None:
    """A difference to what one does not have is of no use."""
    offer, known = Offer(), RouteTable()
    known.up("b")
    for number in range(3):
        offer.set([f"r{number}.x"], [])
    assert known.learn("b", said(offer, 2)) == 0
    assert exports_of(known)["b"][0] == 0


def test_an_answer_that_does_not_come_is_asked_for_again() -> None:
    """Not with each heartbeat, or a long list would be sent five times. The first brings one that nobody has asked for."""
    known = RouteTable()
    known.up("b")
    assert known.heard("b", 1, 0.0) is None
    asked = [known.heard("b", 1, 0.0) for _ in range(3 * PATIENCE_BEATS)]
    assert asked == [0, *[None] * (PATIENCE_BEATS - 1)] * 3


def test_more_than_a_node_may_offer_is_refused() -> None:
    """At home with an error; of a peer nothing is taken, and it is not asked for the same again."""
    offer = Offer()
    with pytest.raises(InvalidArgument, match="4,097 operations exported, limit 4,096"):
        offer.set([f"r.{n}" for n in range(ROUTES_MAX + 1)], [])
    with pytest.raises(InvalidArgument, match="cannot be exported"):
        offer.set([], ["x" * 257])
    known = RouteTable()
    known.up("b")
    for version, part in ((1, "x"), (2, "y")):
        known.heard("b", version, 0.0)
        routes = Routes(
            name="b", incarnation=2, to=1, beat=1, sent_ns=1, echo_ns=1, since=version - 1, version=version,
            operations=ListChange(tuple(f"{part}.{n}" for n in range(ROUTES_MAX))), topics=ListChange(),
        )  # fmt: skip
        if version == 1:
            known.learn("b", routes)
    with pytest.raises(MalformedFrame, match="more than 4,096"):
        known.learn("b", routes)
    assert known.routes() == []
    assert known.heard("b", 2, 0.0) is None


def asked_by_another() -> tuple[Network, PeerNode, str, Peer]:
    """A node that offers something; the key of one that is up, and what is known of that one."""
    network = Network(seed=7)
    one, other = mesh(network, 2)
    export(one)
    network.run(1)
    peer = one.node.membership.view.get("n1")
    assert peer is not None
    return network, one.node, other.key, peer


def test_nobody_is_told_all_routes_again_and_again() -> None:
    """A question of a hundred bytes, an answer of up to a megabyte: who asks without end is answered ten times a second."""
    network, node, key, peer = asked_by_another()
    me = node.membership.me
    wanted = RoutesWanted(
        name="n1", incarnation=peer.incarnation, to=me.incarnation, beat=10**6, sent_ns=1, echo_ns=1, since=0
    )
    answers = [
        effect
        for number in range(1_000)
        for effect in node.received(key, wanted, network.now_ns + number * 1_000_000)
        if isinstance(effect, Send) and isinstance(effect.message, Routes)
    ]
    assert ROUTES_COUNT_MAX <= len(answers) < 2 * ROUTES_COUNT_MAX, "the second had begun before"
    later = node.received(key, wanted, network.now_ns + 2_000 * 1_000_000)
    assert [type(effect.message) for effect in later if isinstance(effect, Send)] == [Routes]


def test_who_comes_up_again_and_again_is_not_told_all_each_time() -> None:
    """Each heartbeat says that it had given this node up: so each would bring it a megabyte that it has not asked for."""
    network, node, key, peer = asked_by_another()
    me = node.membership.me
    effects = []
    for number in range(1_000):
        now_ns = network.now_ns + number * 1_000_000
        beat = Heartbeat(
            name="n1", incarnation=peer.incarnation, to=me.incarnation, beat=10**6 + number, sent_ns=1, echo_ns=now_ns,
            digest=0, session=10 + number, is_up=True, routes=0, load=0.0,
        )  # fmt: skip
        effects += node.received(key, beat, now_ns)
    assert sum(isinstance(effect, PeerUp) for effect in effects) > 100, "it did not come up again and again"
    told = [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Routes)]
    assert len(told) < 2 * ROUTES_COUNT_MAX


def test_who_comes_up_is_told_the_routes_before_he_asks() -> None:
    """So they can be called a heartbeat earlier."""
    network = Network(seed=8)
    for name in ("n0", "n1"):
        export(network.start(name, [at("n0")]))
    network.run_until(lambda: offered(network), 10)
    assert [process.sent["RoutesWanted"] for process in network.living()] == [0, 0]


# Order.


def test_the_least_busy_first() -> None:
    """And who is suspected last, whatever he announced when he could be heard."""
    known = table(b=(0.9, "r.x"), c=(0.1, "r.x"), d=(0.5, "r.x"), e=(0.0, "other.x"))
    assert known.best("r.x", "a") == ("c", "d", "b")
    known.suspect("c", is_suspect=True)
    assert known.best("r.x", "a") == ("d", "b", "c")
    assert len(set(known.loads("r.x", "a"))) == 2
    known.suspect("c", is_suspect=False)
    known.down("d")
    assert known.best("r.x", "a") == ("c", "b")


def test_load_is_smoothed() -> None:
    """One busy moment moves nobody's calls; two seconds of it do."""
    known = table(b=(0.0, "r.x"), c=(0.5, "r.x"))
    known.heard("b", 1, 1.0)
    assert known.best("r.x", "a") == ("b", "c")
    for _ in range(10):
        known.heard("b", 1, 1.0)
    assert known.best("r.x", "a") == ("c", "b")


def test_equals_are_shared_among_callers() -> None:
    """Not everybody to the first of the alphabet; each caller keeps to its own, and to the same when another goes."""
    known = table(**{name: (0.01 * i, "r.x") for i, name in enumerate("bcdef")})
    assert LOAD_STEP > 0.01 * 4
    firsts = {f"caller {n}": known.best("r.x", f"caller {n}")[0] for n in range(1_000)}
    shares = Counter(firsts.values())
    assert set(shares) == set("bcdef") and max(shares.values()) < 270 and min(shares.values()) > 130
    known.down("c")
    for caller, first in firsts.items():
        if first != "c":
            assert known.best("r.x", caller)[0] == first


def test_nodes_are_equals_by_what_they_have_to_do() -> None:
    """An eighth of all cores, or where work waits an eighth of it: a hundred calls and one more are the same."""
    known = table(b=(0.0, "r.x"), c=(0.1, "r.x"), d=(0.2, "r.x"), e=(40.0, "s.x"), f=(44.0, "s.x"), g=(50.0, "s.x"))
    assert known.loads("r.x", "a") == (0.0, 0.0, 0.2)
    assert known.loads("s.x", "a") == (40.0, 40.0, 50.0)
    assert known.loads("t.x", "a") == ()
    assert known.best("s.x", "a")[2] == "g"


def test_a_key_is_at_one_node_for_all() -> None:
    """Whoever calls, and however busy it is: what it names would otherwise be done at two places at a time."""
    network = Network(seed=6)
    nodes = mesh(network, 4)
    for process in nodes[1:]:
        export(process)
    network.run(2)
    keys = [f"key {number}" for number in range(300)]
    homes = {key: nodes[0].node.best("all.same", "n0", key) for key in keys}
    assert {home[0] for home in homes.values()} == {"n1", "n2", "n3"}
    assert {len(home) for home in homes.values()} == {1}
    nodes[2].node.load(50.0)
    network.run(5)
    assert nodes[0].node.best("all.same", "n0")[-1] == "n2"
    assert all(nodes[0].node.best("all.same", "another", key) == home for key, home in homes.items())
    network.leave(nodes[2])
    network.run(2)
    moved = {key for key, home in homes.items() if nodes[0].node.best("all.same", "n0", key) != home}
    assert moved == {key for key, home in homes.items() if home == ("n2",)}, "no more than must"


def test_callers_do_not_run_after_the_smallest_figure() -> None:
    """A hundred callers, four nodes whose load is what was sent there a moment ago, about a half: nobody gets everything."""
    drawn = random.Random(1)
    loads = dict.fromkeys("bcde", 0.0)
    known = table(**{name: (0.0, "r.x") for name in loads})
    most = 0
    for _ in range(50):
        sent = Counter(known.best("r.x", f"caller {n}")[0] for n in range(100))
        most = max(most, *sent.values())
        loads = {name: 0.5 + (sent[name] - 25) / 500 + drawn.uniform(-0.02, 0.02) for name in loads}
        for name, load in loads.items():
            known.heard(name, 1, load)
    assert most < 60


def test_topics_are_heard_by_pattern() -> None:
    """As within a node: `files.*` hears all below it."""
    offer, known = Offer(), RouteTable()
    known.up("b")
    offer.set([], ["files.*", "jobs"])
    known.learn("b", said(offer, 0))
    assert known.subscribers("files.changed.now") == ["b"]
    assert known.subscribers("jobs") == ["b"] and known.subscribers("jobs.done") == []
    offer.set([], ["jobs"])
    known.learn("b", said(offer, 1))
    assert known.subscribers("files.changed.now") == []
    known.down("b")
    assert known.subscribers("jobs") == []


# Nodes.


def offered(network: Network) -> bool:
    """Whether each node knows of each other exactly what that exports."""
    living = network.living()
    right = {p.name: (f"{p.name}.own", "all.same", *p.extra) for p in living}
    return all(
        {name: sorted(operations) for name, (_, operations, _) in exports_of(p.node.table).items()}
        == {name: sorted(routes) for name, routes in right.items() if name != p.name}
        for p in living
    )


def export(process: Process, *extra: str) -> None:
    """Something that all have, and something of its own."""
    process.extra = extra
    process.node.export([f"{process.name}.own", "all.same", *extra], [f"{process.name}.news"])


def test_routes_converge_after_each_join_change_and_leave() -> None:
    """One frame in twenty lost: what is lost is asked for again, three heartbeats later."""
    network = Network(seed=1, weather=Weather(delay_ns=(0, 50 * MS), loss=0.05))
    for process in mesh(network, 6):
        export(process)
    network.run_until(lambda: offered(network), 3)
    late = network.start("late", ["tcp://n0"])
    export(late)
    network.run_until(lambda: network.agrees() and offered(network), HEAL_S)
    export(network.processes["tcp://n3"], "new.one")
    assert network.run_until(lambda: offered(network), 5) <= 3
    network.leave(network.processes["tcp://n4"])
    network.run_until(lambda: offered(network), 2)
    nodes = network.living()
    network.part(nodes[:3], nodes[3:])
    network.run(4)
    assert nodes[0].node.best("all.same", "n0") and len(nodes[0].node.best("all.same", "n0")) == 2
    export(nodes[5], "while.apart")
    network.heal()
    network.run_until(lambda: network.agrees() and offered(network), HEAL_S + 2)


def test_who_dies_takes_its_routes_along() -> None:
    """In the moment of its PeerDown, and its next incarnation begins with nothing."""
    network = Network(seed=2)
    nodes = mesh(network, 3)
    for process in nodes:
        export(process)
    network.run(1)
    assert nodes[0].node.best("n2.own", "n0") == ("n2",)
    best = nodes[0].node.best
    caller = next(f"c{n}" for n in range(100) if best("all.same", f"c{n}") == ("n2", "n1"))
    network.kill(nodes[2])
    network.run(POLICY.suspect_ns / SECOND + 0.4)
    assert best("all.same", caller) == ("n1", "n2"), "who is suspected comes last"
    network.run_until(lambda: "n2" not in nodes[0].up, 3)
    with pytest.raises(Unavailable, match=r"'n2\.own' is served by node n2: down now"):
        nodes[0].node.best("n2.own", "n0")
    assert nodes[0].node.best("all.same", "n0") == ("n1",)
    network.start("n2", ["tcp://n0"])
    network.run_until(lambda: "n2" in nodes[0].up, 3)
    network.run(1)
    with pytest.raises(UnknownRoute):
        nodes[0].node.best("n2.own", "n0")


def test_who_comes_back_is_waited_for_until_it_has_told_its_routes() -> None:
    """A call that finds nobody may be made again (UNAVAILABLE); one for an unknown route is over."""
    network = Network(seed=5)
    nodes = mesh(network, 3)
    for process in nodes:
        export(process)
    network.run(1)
    network.kill(nodes[2])
    network.run_until(lambda: "n2" not in nodes[0].up, 3)
    nodes[2] = network.start("n2", ["tcp://n0"])
    export(nodes[2])
    seen = set()

    def asked(route: str) -> bool:
        try:
            return nodes[0].node.best(route, "n0") == ("n2",)
        except Unavailable as error:
            seen.add(error.message.partition(":")[0])
            return False

    network.run_until(lambda: asked("n2/n2.own"), 5)
    network.run_until(lambda: asked("n2.own"), 5)
    assert seen, "it was never found down"
    network.kill(nodes[2])
    network.run_until(lambda: "n2" not in nodes[0].up, 3)
    assert not asked("n2.own") and "'n2.own' is served by node n2" in seen


def test_a_named_node_is_asked_and_nobody_else() -> None:
    """And each way in which that fails has its own words."""
    network = Network(seed=3)
    nodes = mesh(network, 3)
    for process in nodes:
        export(process)
    network.run(1)
    node = nodes[0].node
    assert node.best("n1/all.same", "n0") == ("n1",)
    assert node.best("n1/all.sane", "n0") == ("n1",), "it may be granted what is not exported: it decides itself"
    with pytest.raises(NotFound, match=r"no node 'n7' is known \(did you mean 'n2'\?\)|no node 'n7' is known"):
        node.best("n7/all.same", "n0")
    network.kill(nodes[1])
    network.run(3)
    with pytest.raises(Unavailable, match="node 'n1' at tcp://n1 is dead"):
        node.best("n1/all.same", "n0")
    with pytest.raises(UnknownRoute, match=r"did you mean 'all\.same'"):
        node.best("all.sam", "n0")


def test_many_changes_are_one_answer() -> None:
    """A component that comes up with a hundred routes, one after the other, costs each peer one question."""
    network = Network(seed=4)
    nodes = mesh(network, 3)
    for number in range(100):
        export(nodes[0], *[f"r{n}.x" for n in range(number)])
        network.run(0.001)
    begin = {id(process): len(process.log) for process in nodes}
    network.run(1)
    sent = [e for _, e in nodes[0].log[begin[id(nodes[0])] :] if isinstance(e, Send) and isinstance(e.message, Routes)]
    assert len(sent) <= 2 * 2
    assert len(exports_of(nodes[1].node.table)["n0"][1]) == 101


def test_a_peer_that_offers_too_much_is_reported() -> None:
    """Its other frames count as before."""
    network = Network(seed=5)
    nodes = mesh(network, 2)
    peer = nodes[0].node.membership.view.get("n1")
    assert peer is not None
    word = {"name": "n1", "incarnation": peer.incarnation, "to": nodes[0].node.membership.me.incarnation}
    for version in (1, 2):
        routes = Routes(
            **word, beat=peer.beat, sent_ns=1, echo_ns=0, since=version - 1, version=version,
            operations=ListChange(tuple(f"{version}.{n}" for n in range(ROUTES_MAX))), topics=ListChange(),
        )  # fmt: skip
        effects = nodes[0].node.received("key of n1", routes, network.now_ns)
    assert "offers more than 4,096" in str(effects)
    assert "n1" in nodes[0].up


def test_what_was_withdrawn_of_late_is_told_from_what_never_was() -> None:
    """Where another node is about to offer it, as after a failover, whoever asks may wait; and not for ever."""
    offer, known = Offer(), RouteTable()
    known.up("b")
    offer.set(["moved.x", "kept.x"], [])
    known.heard("b", offer.version, 0.0)
    known.learn("b", said(offer, 0))
    assert known.withdrawn("moved.x") == []
    offer.set(["kept.x"], [])
    since = known.heard("b", offer.version, 0.0)
    assert since is not None
    known.learn("b", said(offer, since))
    assert (known.withdrawn("moved.x"), known.withdrawn("kept.x"), known.withdrawn("never.x")) == (["b"], [], [])
    for _ in range(WITHDRAWN_BEATS - 1):
        known.heard("b", offer.version, 0.0)
    assert known.withdrawn("moved.x") == ["b"]
    known.heard("b", offer.version, 0.0)
    assert known.withdrawn("moved.x") == []


def test_what_nobody_serves_any_more_may_be_served_soon() -> None:
    """By who asks it of others, and by the node that has withdrawn it itself: a call there may be made again."""
    network = Network(seed=3)
    nodes = mesh(network, 2)
    nodes[1].node.export(["moved.x"], [])
    network.run(1)
    nodes[1].node.export([], [])
    network.run(1)
    for process in nodes:
        with pytest.raises(
            Unavailable, match=r"^'moved\.x' was served by node n1 until recently: no node serves it now$"
        ):
            process.node.best("moved.x", "n0")
    network.run(60)
    for process in nodes:
        with pytest.raises(UnknownRoute):
            process.node.best("moved.x", "n0")


def test_a_node_that_was_just_started_does_not_deny_what_its_peers_serve() -> None:
    """Its process was killed, and is back: calls that ended in NotFound meanwhile would not have been retried. Once a dial has
    failed, or after the time in which two nodes meet, a route that nobody offers is unknown again.
    """
    me = Identity("a", 1_790_000_000 * SECOND, "tcp://10.0.0.1:1", "ka")

    def started() -> PeerNode:
        membership = Membership(
            me, lambda: {"tcp://10.0.0.2:1": "kb"}, SECOND, random=lambda: 0.5, unix_ns=lambda: me.incarnation
        )
        return PeerNode(membership, SECOND, expected={"b": "tcp://10.0.0.2:1", "a": "tcp://10.0.0.9:1"})

    node = started()
    node.tick(SECOND)
    with pytest.raises(Unavailable, match=r"^node 'b' at tcp://10\.0\.0\.2:1 has not been met yet$"):
        node.best("b/calc.add", "x")
    with pytest.raises(Unavailable, match=r"^'calc\.add' is not known yet: node b has not been met yet$"):
        node.best("calc.add", "x")
    with pytest.raises(NotFound, match="no node 'c' is known"):
        node.best("c/calc.add", "x")
    node.lost("tcp://10.0.0.2:1", "nobody listens there", SECOND)
    with pytest.raises(UnknownRoute):
        node.best("calc.add", "x")
    with pytest.raises(Unavailable, match="has not been met yet"):
        node.best("b/calc.add", "x")
    node = started()
    node.tick(SECOND + POLICY.heal_ns_max)
    with pytest.raises(UnknownRoute):
        node.best("calc.add", "x")
