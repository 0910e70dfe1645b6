"""What cannot come up, or would wait for itself, is found before anything starts."""

from __future__ import annotations

import msgspec
import pytest

from appbackplane.supervisor.direction import events, plan
from appbackplane.supervisor.direction.effects import Caller, Say
from appbackplane.transport.directory import ComponentEntry, OperationEntry, Registration

from ..world import make_director


def operation(route: str, *calls: str, reentrant: bool = False) -> OperationEntry:
    """One that declares calls."""
    return OperationEntry(route, 4, "()", ("primary",), reentrant=reentrant, calls=calls)


def system(**backplanes: tuple[ComponentEntry, ...]) -> list[Registration]:
    """Backplanes and what they hold."""
    return [Registration(name, 1, 1, "", components) for name, components in backplanes.items()]


def component(name: str, *operations: OperationEntry, depends_on: tuple[str, ...] = ()) -> ComponentEntry:
    """One component."""
    return ComponentEntry(name, depends_on=depends_on, operations=operations)


def texts(registrations: list[Registration], *, errors: bool = True) -> list[str]:
    """What is found."""
    return [finding.text for finding in plan.find(registrations) if finding.is_error is errors]


def test_a_missing_dependency_is_named_with_who_wants_it() -> None:
    """It would wait for ever."""
    registrations = system(q=(component("query", depends_on=("indx",)),), i=(component("index"),))
    expected = "component 'query' (backplane 'q') depends on 'indx', which no backplane has (did you mean 'index'?)"
    assert texts(registrations) == [expected]


def test_a_ring_of_dependencies_is_spelled_out() -> None:
    """None of them could ever be the first."""
    registrations = system(
        x=(component("a", depends_on=("b",)), component("b", depends_on=("c",))),
        y=(component("c", depends_on=("a",)),),
    )
    assert texts(registrations) == ["components depend on each other in a cycle: a -> b -> c -> a"]


def test_a_ring_of_calls_is_spelled_out() -> None:
    """A waits for B, which waits for A: nobody would see more than a call that takes its time."""
    registrations = system(
        x=(component("a", operation("a.one", "b.two")),), y=(component("b", operation("b.two", "a.one")),)
    )
    (text,) = texts(registrations)
    assert text.startswith("calls form a cycle and would deadlock: a.one -> b.two -> a.one")


def test_a_ring_of_reentrant_calls_is_no_error() -> None:
    """Whoever says that it may be entered again knows why."""
    registrations = system(
        x=(component("a", operation("a.one", "b.two", reentrant=True), operation("b.two", "a.one", reentrant=True)),)
    )
    assert plan.find(registrations) == []


def test_an_operation_that_calls_itself_is_a_ring() -> None:
    """The shortest one."""
    assert "a.one -> a.one" in texts(system(x=(component("a", operation("a.one", "a.one")),)))[0]


def test_chains_that_may_cross_are_a_warning_that_spells_them_out() -> None:
    """Each operation is in order by itself; two callers at the same moment are enough for both to wait for ever."""
    registrations = system(
        x=(component("a", operation("a.go", "b.leaf"), operation("a.leaf")),),
        y=(component("b", operation("b.go", "c.leaf"), operation("b.leaf")),),
        z=(component("c", operation("c.go", "a.leaf"), operation("c.leaf"), operation("c.other", "c.leaf")),),
    )
    assert texts(registrations) == []
    (warning,) = texts(registrations, errors=False)
    assert "a.go calls b.leaf, b.go calls c.leaf, c.go calls a.leaf." in warning
    assert "mark b.leaf, c.leaf, a.leaf reentrant=True" in warning


@pytest.mark.parametrize(
    ("of_a", "of_b", "marked"), [(False, False, "b.leaf, a.leaf"), (True, False, "b.leaf"), (True, True, None)]
)
def test_only_operations_that_are_not_reentrant_keep_crossing_chains_waiting(
    of_a: bool, of_b: bool, marked: str | None
) -> None:
    """Each that is left may be the one that closes the ring, whatever else the components call of each other."""
    registrations = system(
        x=(component("a", operation("a.go", "b.inner", "b.leaf"), operation("a.leaf", reentrant=of_a)),),
        y=(
            component(
                "b",
                operation("b.go", "a.leaf"),
                operation("b.leaf", reentrant=of_b),
                operation("b.inner", reentrant=True),
            ),
        ),
    )
    found = [text.partition("(mark ")[2].partition(" reentrant")[0] for text in texts(registrations, errors=False)]
    assert found == ([] if marked is None else [marked])


def test_of_chains_that_are_a_ring_themselves_the_ring_alone_is_told() -> None:
    """It is an error; that others may meet there, too, is known from it."""
    ring = component("a", operation("a.one", "b.two")), component("b", operation("b.two", "a.one"))
    assert texts(system(x=ring), errors=False) == []


def test_a_declared_call_that_nobody_serves_is_a_warning() -> None:
    """It may be served later; but most often it is mistyped."""
    registrations = system(x=(component("a", operation("a.one", "a.tow"), operation("a.two")),))
    assert texts(registrations) == []
    (warning,) = texts(registrations, errors=False)
    assert warning == "a.one declares to call 'a.tow', which nobody serves (did you mean 'a.two'?)"


def test_one_name_belongs_to_one_component() -> None:
    """A move or a call would reach one of them by chance."""
    registrations = system(x=(component("a", operation("a.one")),), y=(component("a", operation("a.one")),))
    (text,) = texts(registrations)
    assert text.startswith("two components are named 'a', in backplane 'x' and backplane 'y'")


@pytest.mark.parametrize("word", ["supervisor", "backplane", "control"])
def test_reserved_words_are_not_for_components(word: str) -> None:
    """Their routes would hide those of the system itself."""
    assert f"may not be named {word!r}" in texts(system(x=(component(word),)))[0]


def test_the_order_puts_dependencies_first() -> None:
    """Whatever the order of the file."""
    registrations = system(
        x=(component("c", depends_on=("b",)), component("a")), y=(component("b", depends_on=("a",)),)
    )
    assert plan.order(registrations) == ["a", "b", "c"]


def test_a_chain_of_calls_longer_than_pythons_stack_is_followed() -> None:
    """Generated systems exist; `check` must not die of them."""
    chain = {str(n): [str(n + 1)] for n in range(5_000)} | {"5000": ["0"]}
    (ring,) = plan.rings(chain)
    assert len(ring) == 5_002


def test_replicas_have_their_components_and_routes_in_common() -> None:
    """Nobody else may: a call would reach one of them by chance."""
    shop = component("shop", operation("shop.serve", "shop.left"), operation("shop.left"))
    replicas = system(**{"web-1": (shop,), "web-2": (shop,)})
    in_common = {"web-1": "web", "web-2": "web"}
    assert plan.find(replicas, in_common) == []
    (*_, alone) = [finding.text for finding in plan.find([*replicas, *system(old=(shop,))], in_common)]
    assert (
        alone
        == "two components are named 'shop', in backplane 'web' and backplane 'old': set component_name on one of them"
    )
    twice = system(**{"web-1": (shop, shop), "web-2": (shop, shop)})
    assert [finding.is_error for finding in plan.find(twice, in_common)] == [True]


def test_what_is_wrong_with_all_replicas_is_said_once() -> None:
    """By the name that the file has for them."""
    shop = component("shop", operation("shop.serve", "shop.serve"), depends_on=("nothing",))
    findings = plan.find(system(**{"web-1": (shop,), "web-2": (shop,)}), {"web-1": "web", "web-2": "web"})
    missing, ring = [finding.text for finding in findings]
    assert missing == "component 'shop' (backplane 'web') depends on 'nothing', which no backplane has"
    assert "shop.serve -> shop.serve" in ring


def test_those_above_replicas_depend_on_each_and_those_beside_only_on_their_own() -> None:
    """Who starts again with one of them (rest_for_one)."""
    shop, stock = component("shop", depends_on=("stock",)), component("stock")
    above = plan.dependants(
        system(**{"web-1": (shop, stock), "web-2": (shop, stock), "front": (component("page", depends_on=("shop",)),)})
    )
    assert above == {"web-1": {"front"}, "web-2": {"front"}, "front": set()}


def test_what_other_nodes_may_serve_is_no_finding() -> None:
    """Nobody here does; and without [node] nobody can."""
    registrations = system(x=(component("a", operation("a.one", "b/c.two", "c.two")),))
    assert plan.find(registrations, has_node=True) == []
    assert texts(registrations, errors=False) == [
        "a.one declares to call 'b/c.two', and there is no [node] in the TOML",
        "a.one declares to call 'c.two', which nobody serves",
    ]


@pytest.mark.parametrize(("node", "warnings"), [("", 1), ("main", 0)])
def test_the_supervisor_knows_whether_other_nodes_may_serve_it(node: str, warnings: int) -> None:
    """Else each start would warn of what is in order."""
    director = make_director(system={"main": {}}, node=node)
    director.handle(events.UpOrdered(), 0)
    director.handle(events.Spawned("main", 1, 7), 0)
    (alone,) = system(main=(component("a", operation("a.one", "c.two")),))
    registered = events.Registered(msgspec.structs.replace(alone, pid=7), Caller(b"main", 1))
    said = [each.text for each in director.handle(registered, 0) if isinstance(each, Say)]
    assert len([text for text in said if text.startswith("warning: a.one declares to call 'c.two'")]) == warnings
