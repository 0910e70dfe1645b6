"""Resolver and directory: which backplane a route goes to, and what is said when there is none."""

from collections.abc import Collection

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport.directory import ComponentEntry, Directory, OperationEntry, Place, Registration, build
from appbackplane.transport.errors import Unavailable, UnknownRoute
from appbackplane.transport.resolver import Resolver

names = st.sampled_from(["a", "b", "c", "d"])


def directory(serving: list[str], up: set[str], draining: Collection[str] = ()) -> Directory:
    """All of them serve one route; those in `up` can be reached."""
    places = {n: Place(1, f"/run/{n}-1.sock", n in up, is_draining=n in draining) for n in serving}
    return Directory("s", 1, places, {"x.do": tuple(serving)})


def test_without_a_key_those_that_are_up_take_turns() -> None:
    """A place that is never asked does no work; one that is down must not be asked."""
    resolver = Resolver(directory(["a", "b", "c"], {"a", "c"}))
    assert [resolver.resolve("x.do") for _ in range(4)] == ["a", "c", "a", "c"]


def test_those_that_are_ready_go_before_those_that_are_only_up() -> None:
    """A replica that comes up, or goes, would refuse what another answers; where there is no other it is asked."""
    places = {name: Place(1, f"/run/{name}-1.sock", name != "d", is_ready=name in "bd") for name in "abcd"}
    resolver = Resolver(Directory("s", 1, places, {"x.do": tuple("abcd"), "y.do": ("a", "c", "d")}))
    assert {resolver.resolve("x.do") for _ in range(4)} == {"b"}
    assert [resolver.resolve("y.do") for _ in range(3)] == ["a", "c", "a"]


@given(st.lists(names, min_size=1, unique=True), st.text(max_size=5))
def test_a_key_stays_where_it_is_whoever_restarts(serving: list[str], key: str) -> None:
    """A key names an object: elsewhere its state would be missing."""
    home = Resolver(directory(serving, set(serving))).resolve("x.do", key)
    for down in serving:
        resolver = Resolver(directory(serving, set(serving) - {down}))
        if down != home:
            assert resolver.resolve("x.do", key) == home
        else:
            with pytest.raises(Unavailable) as caught:
                resolver.resolve("x.do", key)
            assert caught.value.retry_after and f"served by {home}" in str(caught.value)


def test_one_that_is_drained_is_asked_nothing_new() -> None:
    """It would never come to an end; the others can do it, and where there are none, waiting helps."""
    resolver = Resolver(directory(["a", "b"], {"a", "b"}, {"a"}))
    assert [resolver.resolve("x.do") for _ in range(3)] == ["b", "b", "b"]
    assert resolver.resolve("backplane.a.statistics") == "a", "its own operations are served to the end"
    alone = Resolver(directory(["a", "b"], {"a"}, {"a"}))
    with pytest.raises(Unavailable, match="served by a, b: finishes what it has, and goes down") as caught:
        alone.resolve("x.do")
    assert caught.value.retry_after


def test_a_key_of_one_that_is_drained_goes_nowhere_else() -> None:
    """Its object is there, and will be again in a moment."""
    home = Resolver(directory(["a", "b"], {"a", "b"})).resolve("x.do", "k")
    resolver = Resolver(directory(["a", "b"], {"a", "b"}, {home}))
    with pytest.raises(Unavailable, match="key 'k'"):
        resolver.resolve("x.do", "k")


def test_what_is_being_finished_may_ask_one_that_is_drained() -> None:
    """It could not be finished otherwise: the caller says whether it belongs to that work."""
    resolver = Resolver(directory(["a", "b"], {"a", "b"}, {"b"}))
    assert resolver.draining("x.do") == "b"
    assert {resolver.draining("x.do", key) for key in "klmnop"} == {None, "b"}
    assert Resolver(directory(["a", "b"], {"a"}, {"b"})).draining("x.do") is None, "it is gone"


@given(st.lists(names, min_size=2, unique=True), st.text(max_size=5))
def test_a_new_place_takes_keys_over_and_moves_no_others(serving: list[str], key: str) -> None:
    """Else every object of the system would move whenever one backplane is added."""
    before = Resolver(directory(serving[:-1], set(serving))).resolve("x.do", key)
    assert Resolver(directory(serving, set(serving))).resolve("x.do", key) in (before, serving[-1])


def test_a_key_that_cannot_travel_resolves_all_the_same() -> None:
    """The codec refuses it with one declared error; a UnicodeEncodeError from here nobody would catch."""
    assert Resolver(directory(["a", "b"], {"a", "b"})).resolve("x.do", "\ud800") in ("a", "b")


def test_keys_spread() -> None:
    """All in one place would be stable, too."""
    resolver = Resolver(directory(["a", "b", "c"], {"a", "b", "c"}))
    counts = {name: 0 for name in "abc"}
    for n in range(300):
        counts[resolver.resolve("x.do", f"shard-{n}")] += 1
    assert min(counts.values()) > 50


def test_an_unknown_route_is_said_with_its_nearest() -> None:
    """And is not the same as a known one that is down."""
    resolver = Resolver(directory(["a"], set()))
    with pytest.raises(UnknownRoute, match=r"no route 'x\.dp' \(did you mean 'x\.do'\?\)"):
        resolver.resolve("x.dp")
    with pytest.raises(Unavailable, match="served by a: down now") as caught:
        resolver.resolve("x.do")
    assert caught.value.retry_after


def test_every_backplane_serves_its_own_operations() -> None:
    """They are reserved, so nobody declares them."""
    resolver = Resolver(directory(["a", "b"], {"a"}))
    assert resolver.resolve("backplane.a.statistics") == "a"
    with pytest.raises(Unavailable):
        resolver.resolve("backplane.b.statistics")
    for unknown in ("backplane.z.statistics", "backplane.a", "backplane.", "control.stop"):
        with pytest.raises(UnknownRoute):
            resolver.resolve(unknown)


def test_a_route_whose_place_is_not_in_the_directory_is_down() -> None:
    """A half-made directory must not raise a KeyError in a caller."""
    with pytest.raises(Unavailable):
        Resolver(Directory("s", 1, {}, {"x.do": ("gone",)})).resolve("x.do")


def test_a_directory_is_built_of_registrations_and_survives_the_wire() -> None:
    """What the supervisor says is what everybody reads."""
    operation = OperationEntry("index.add", 5, "(path: str)", ("primary",))
    component = ComponentEntry("index", operations=(operation,), topics=("files.changed",))
    registrations = [
        Registration("one", 2, 11, "/run/one-2.sock", (component, component)),
        Registration("two", 1, 12, "/run/two-1.sock", (component,)),
    ]
    built = build("s", 7, registrations, down={"two"})
    assert Directory.from_body(built.to_body()) == built
    assert built.topics == {"files.changed": ("one", "two")}
    assert set(built.routes["index.add"]) == {"one", "two"}
    assert built.backplanes["one"] == Place(2, "/run/one-2.sock", True, 11) and not built.backplanes["two"].is_up
    assert Resolver(built).resolve("index.add") == "one"


# Other nodes

ALONE = "a table \\[node\\] in its TOML"


def node_directory(*, is_up: bool = True, is_draining: bool = False, node: str = "node") -> Directory:
    """`x.do` is served here, by `a`; `node` carries what is for others."""
    places = {"a": Place(1, "/run/a-1.sock"), "node": Place(1, "/run/node-1.sock", is_up, is_draining=is_draining)}
    return Directory("s", 1, places, {"x.do": ("a",)}, node=node)


@pytest.mark.parametrize("key", [None, "k", "@a", "@node:k"])
def test_what_nobody_here_serves_goes_to_the_node(key: str | None) -> None:
    """It knows who else does, and where the object is that a key names: nothing of that is known here."""
    resolver = Resolver(node_directory())
    assert [resolver.resolve(route, key) for route in ("b/x.do", "y.do", "b/backplane.a.statistics")] == ["node"] * 3
    assert resolver.directory.backplanes["node"].path == "/run/node-1.sock"
    assert not resolver.is_idempotent("b/x.do")


@pytest.mark.parametrize("key", [None, "k"])
def test_what_is_served_here_stays_here(key: str | None) -> None:
    """Also while it is down: it will be back before another node has what it had."""
    directory = node_directory()
    assert Resolver(directory).resolve("x.do", key) == "a"
    down = {**directory.backplanes, "a": Place(1, "/run/a-1.sock", False)}
    with pytest.raises(Unavailable, match="served by a: down now"):
        Resolver(msgspec.structs.replace(directory, backplanes=down)).resolve("x.do", key)


@pytest.mark.parametrize(
    "directory",
    [node_directory(is_up=False), node_directory(is_draining=True), Directory("s", 1, {}, {}, node="node")],
)
@pytest.mark.parametrize("key", [None, "k"])
def test_a_node_that_is_not_there_is_waited_for(directory: Directory, key: str | None) -> None:
    """It is started again as any other; a route that nobody had ever served would not be worth the wait."""
    for route in ("b/x.do", "y.do"):
        with pytest.raises(Unavailable, match="is served by node") as caught:
            Resolver(directory).resolve(route, key)
        assert caught.value.retry_after


def test_what_belongs_to_work_that_is_finished_may_pass_a_node_that_is_drained() -> None:
    """It could not be finished otherwise."""
    assert Resolver(node_directory(is_draining=True)).draining("b/x.do") == "node"


def test_what_runs_a_system_is_looked_for_nowhere_else() -> None:
    """A mistyped `backplane.…` must not be asked of another host's."""
    for route in ("backplane.z.statistics", "supervisor.stauts", "control.stop"):
        with pytest.raises(UnknownRoute):
            Resolver(node_directory()).resolve(route)


def test_a_system_without_a_node_says_what_to_do() -> None:
    """Who names a node there has forgotten a table."""
    resolver = Resolver(node_directory(node=""))
    with pytest.raises(UnknownRoute, match=f"no route 'b/x.do': .* {ALONE}") as caught:
        resolver.resolve("b/x.do")
    assert caught.value.route == "b/x.do"
    with pytest.raises(UnknownRoute, match=r"no route 'x\.dp' \(did you mean 'x\.do'\?\)$"):
        resolver.resolve("x.dp")


def test_routes_elsewhere_are_not_kept_for_ever() -> None:
    """Only their callers know how many there are; whoever makes them up must not fill the memory."""
    resolver = Resolver(node_directory())
    sizes = []
    for number in range(10_000):
        assert resolver.resolve(f"b/made.up_{number}") == "node"
        assert resolver.resolve("x.do") == "a"
        sizes.append(len(resolver._up))
    assert max(sizes) < 5_000


def test_what_other_nodes_may_use_is_what_all_say_who_serve_it() -> None:
    """One that does not is called, too: a key may lead there. A topic is heard by whoever says so."""

    def component(name: str, *, export: bool, topics: tuple[str, ...] = ()) -> ComponentEntry:
        operations = tuple(
            OperationEntry(route, 4, "()", ("primary",), export=is_exported)
            for route, is_exported in (("x.do", export), (f"{name}.own", True), ("x.not", False))
        )
        return ComponentEntry(name, operations=operations, topics=("t", "u"), exported_topics=topics)

    registrations = [
        Registration("one", 1, 1, "/run/one", (component("a", export=True, topics=("t",)),)),
        Registration("two", 1, 2, "/run/two", (component("b", export=False, topics=("t",)),)),
    ]
    built = build("s", 1, registrations, down=set(), node="two")
    assert (built.exported, built.exported_topics, built.node) == (("a.own", "b.own"), ("t",), "two")
    assert built.topics == {"t": ("one", "two"), "u": ("one", "two")}
    carried = build("s", 1, registrations[:1], down=set(), node="node")
    assert carried.topics == {"t": ("one", "node"), "u": ("one",)}, "what crosses nodes goes to who carries it"
    assert carried.wanted_topics == ("t",)
    assert build("s", 1, registrations[:1], down=set()).exported == ("x.do", "a.own")
    assert Directory.from_body(built.to_body()) == built


def test_a_key_that_names_a_place_is_at_home_there() -> None:
    """For who means one of the replicas; of a name that none of them has, the key is one like any other."""
    resolver = Resolver(directory(["a", "b", "c"], {"a", "b", "c"}))
    for name in "abc":
        assert resolver.resolve("x.do", f"@{name}") == resolver.resolve("x.do", f"@{name}:k") == name
    assert resolver.resolve("x.do", "@nobody:k") in "abc"


def test_a_route_is_idempotent_if_all_who_serve_it_say_so() -> None:
    """Callers do not know beforehand which of them they will get."""

    def registered(name: str, is_idempotent: bool) -> Registration:
        operations = (
            OperationEntry("x.do", 3, "()", ("primary",), idempotent=is_idempotent),
            OperationEntry("x.read", 3, "()", ("primary",), idempotent=True),
        )
        return Registration(name, 1, 1, f"/run/{name}.sock", (ComponentEntry("x", operations=operations),))

    built = build("s", 1, [registered("a", True), registered("b", False)], down=set())
    assert built.idempotent == ("x.read",)


def test_a_route_may_yet_be_registered_until_all_have_registered() -> None:
    """While a system starts, a caller must not take its routes for a spelling mistake."""
    known = directory(["a"], {"a"})
    resolver = Resolver(Directory("s", 1, known.backplanes, known.routes, missing=("b", "c", "d", "e", "f", "g")))
    assert resolver.resolve("x.do") == "a"
    for route, who in (("y.do", "b, c, d, e, f, ... still"), ("backplane.c.statistics", "c still")):
        with pytest.raises(Unavailable, match=f"'{route}' is not known yet: {who} to register") as caught:
            resolver.resolve(route)
        assert caught.value.retry_after
    for never in ("backplane.z.statistics", "control.stop", "n/x.do"):
        with pytest.raises(UnknownRoute):
            resolver.resolve(never)
