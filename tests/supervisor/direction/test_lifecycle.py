"""Where components are to be, and who may move: on random graphs, against slow twins, and with every module in sight."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.runtime.objects.module_state import MOVES, ModuleState
from appbackplane.supervisor.direction.lifecycle import (
    HEIGHT,
    Standing,
    all_above,
    dependants,
    is_there,
    moves,
    next_step,
    targets,
    waits_for,
)
from tests.profiles import examples

PRIMARY, SECONDARY, DOWN, START = ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.DOWN, ModuleState.START
INITIALIZING = ModuleState.INITIALIZING
ROLES = st.sampled_from([PRIMARY, SECONDARY, DOWN])


@st.composite
def graphs(draw: st.DrawFn, modules_max: int = 40) -> dict[str, Standing]:
    """All at the start; listed in an order that has nothing to do with who depends on whom."""
    names = [f"m{number:02}" for number in range(draw(st.integers(1, modules_max)))]
    found = {}
    for number, name in enumerate(names):
        needs = draw(st.lists(st.sampled_from(names[:number]), max_size=3, unique=True)) if number else []
        home, is_driven = draw(st.sampled_from("abcdef")), draw(st.integers(0, 7)) == 0
        found[name] = Standing(START, tuple(needs), home, is_driven_by_backplane=is_driven)
    return {name: found[name] for name in draw(st.permutations(names))}


def counted(name: str, standings: dict[str, Standing]) -> list[str]:
    """Those that it waits for."""
    me = standings[name]
    return [o for o in me.depends_on if not me.is_driven_by_backplane or standings[o].backplane == me.backplane]


@given(graphs(12), ROLES, st.data())
def test_nobody_is_to_be_higher_than_what_it_depends_on(
    standings: dict[str, Standing], role: ModuleState, data: st.DataObject
) -> None:
    """Against the slow twin, which asks downwards: and nobody is lower than need be."""
    some = st.dictionaries(st.sampled_from(sorted(standings)), ROLES, max_size=3)
    wanted, ceilings = data.draw(some), data.draw(some)

    def target(name: str) -> ModuleState:
        bounds = [wanted.get(name, role)]
        for other in counted(name, standings):
            bounds += [target(other), ceilings.get(other, PRIMARY)]
        return min(bounds, key=HEIGHT.__getitem__)

    assert targets(standings, role, wanted, ceilings) == {name: target(name) for name in standings}


@settings(max_examples=examples(40), deadline=None)
@given(graphs(), st.lists(st.tuples(ROLES, st.integers(0, 39), st.booleans()), min_size=1, max_size=5), st.randoms())
def test_everybody_gets_where_it_is_to_be_and_each_move_is_legal(standings, ways, chance) -> None:  # type: ignore[no-untyped-def]
    """Whatever is ordered, in whatever order hooks end, and ordered anew in the middle of it: it comes to rest, with all at
    their targets, and on its way nobody was above what it relies on.
    """
    role, wanted = PRIMARY, {}
    for to, number, is_whole in ways:
        if is_whole:
            role, wanted = to, {}
        else:
            wanted[sorted(standings)[number % len(standings)]] = to
        goals = targets(standings, role, wanted, {})
        steps = chance.choice((3, 10_000))
        while steps:
            steps -= 1
            for name, state in moves(standings, goals):
                check(name, state, standings)
                standings[name] = replace(standings[name], moving_to=state)
            moving = [name for name, standing in standings.items() if standing.moving_to is not None]
            if not moving:
                break
            name = chance.choice(moving)
            standings[name] = replace(standings[name], state=standings[name].moving_to, moving_to=None)
    while (moving := [n for n, s in standings.items() if s.moving_to is not None]) or moves(standings, goals):
        for name, state in moves(standings, goals):
            check(name, state, standings)
            standings[name] = replace(standings[name], moving_to=state)
        for name in moving:
            standings[name] = replace(standings[name], state=standings[name].moving_to, moving_to=None)
    assert [name for name, standing in standings.items() if not is_there(standing, goals[name])] == []


def check(name: str, to: ModuleState, standings: dict[str, Standing]) -> None:
    """By the definition: an edge joins what is above to what is below, at both ends of any move."""
    assert to in MOVES[standings[name].state]
    if HEIGHT[to] > HEIGHT[standings[name].state]:
        for other in counted(name, standings):
            ends = (standings[other].state, standings[other].moving_to or standings[other].state)
            assert min(HEIGHT[end] for end in ends) >= HEIGHT[to]
    else:
        for other, standing in standings.items():
            if name in counted(other, standings) and not (
                standings[name].is_driven_by_backplane and standing.backplane != standings[name].backplane
            ):
                ends = (standing.state, standing.moving_to or standing.state)
                assert max(HEIGHT[end] for end in ends) <= HEIGHT[to]


@given(graphs(12), st.data())
def test_who_is_above(standings: dict[str, Standing], data: st.DataObject) -> None:
    """Against the slow twin, who asks each whether a way leads down from it."""
    below = data.draw(st.sampled_from(sorted(standings)))

    def leads_down(name: str) -> bool:
        return name == below or any(leads_down(other) for other in counted(name, standings))

    assert all_above({below}, standings) == {name for name in standings if leads_down(name)}


def test_independent_modules_may_move_at_the_same_time() -> None:
    """One that loads for a minute must not hold up those that have nothing to do with it."""
    standings = {"a": Standing(START), "b": Standing(START), "c": Standing(START, ("a",))}
    assert moves(standings, dict.fromkeys(standings, PRIMARY)) == [("a", INITIALIZING), ("b", INITIALIZING)]


def test_a_dependency_that_is_on_its_way_down_cannot_be_relied_on() -> None:
    """It is still in its old state while its hook lets go."""
    standings = {"a": Standing(PRIMARY, moving_to=DOWN), "b": Standing(START, ("a",))}
    assert moves(standings, dict.fromkeys(standings, PRIMARY)) == []


def test_nobody_rises_on_what_is_about_to_leave() -> None:
    """Its process is to start again: both would begin at one instant, the one to let go, the other to rely on it."""
    standings = {"a": Standing(INITIALIZING), "b": Standing(START, ("a",))}
    goals = {"a": DOWN, "b": PRIMARY}
    assert moves(standings, goals) == [("a", DOWN)]
    assert waits_for("b", INITIALIZING, standings, goals, dependants(standings)) == ["a"]


def test_primary_waits_for_primary() -> None:
    """A dependency that stands by has reached secondary, and no more."""
    standings = {"a": Standing(SECONDARY), "b": Standing(INITIALIZING, ("a",))}
    assert moves(standings, dict.fromkeys(standings, PRIMARY)) == [("a", PRIMARY)]
    assert moves(standings, dict.fromkeys(standings, SECONDARY)) == [("b", SECONDARY)]


def test_who_is_driven_by_its_backplane_waits_for_nobody_outside_it() -> None:
    """Neither up nor down; inside its backplane the order holds for it as for all."""
    standings = {
        "far": Standing(START, (), "b1"),
        "near": Standing(START, (), "b2"),
        "own": Standing(START, ("far", "near"), "b2", is_driven_by_backplane=True),
    }
    goals = dict.fromkeys(standings, PRIMARY)
    assert waits_for("own", INITIALIZING, standings, goals, dependants(standings)) == ["near"]
    assert targets(standings, PRIMARY, {"far": DOWN}, {})["own"] is PRIMARY
    assert targets(standings, PRIMARY, {"near": DOWN}, {})["own"] is DOWN


def test_who_is_not_brought_down_does_not_hold_up_one_that_is() -> None:
    """A backplane that is restarted alone: those who use it are not moved, so it does not wait for them."""
    standings = {"a": Standing(PRIMARY), "b": Standing(PRIMARY, ("a",))}
    assert moves(standings, {"a": DOWN, "b": PRIMARY}) == [("a", DOWN)]
    assert moves(standings, {"a": DOWN, "b": DOWN}) == [("b", DOWN)]


def test_one_that_is_gone_keeps_its_place_in_the_order() -> None:
    """The top needs the middle, and the middle the base: with the middle dead, the base still goes after the top."""
    standings = {
        "base": Standing(PRIMARY),
        "middle": Standing(DOWN, ("base",), is_reachable=False),
        "top": Standing(PRIMARY, ("middle",)),
    }
    goals = dict.fromkeys(standings, DOWN)
    assert waits_for("base", DOWN, standings, goals, dependants(standings)) == ["top"]
    assert moves(standings, goals) == [("top", DOWN)]


def test_a_hook_that_is_not_to_be_tried_now_does_not_keep_its_component_from_going_down() -> None:
    """What cannot become primary can still let go."""
    standings = {"a": Standing(INITIALIZING, refuses=PRIMARY)}
    assert moves(standings, {"a": PRIMARY}) == []
    assert moves(standings, {"a": DOWN}) == [("a", DOWN)]


def test_nobody_waits_for_one_that_has_ended_as_it_was_meant_to() -> None:
    """A job that is done stands in nobody's way; one that is dead does."""
    standings = {"job": Standing(DOWN, is_reachable=False, has_ended=True), "b": Standing(START, ("job",))}
    goals = dict.fromkeys(standings, PRIMARY)
    assert moves(standings, goals) == [("b", INITIALIZING)]
    standings["job"] = replace(standings["job"], has_ended=False)
    assert moves(standings, goals) == []


def test_every_way_ends_and_goes_by_the_table() -> None:
    """From any state to any that can be ordered, in two steps at most."""
    for state in ModuleState:
        for target in (PRIMARY, SECONDARY, DOWN):
            at, steps = state, 0
            while (to := next_step(at, target)) is not None:
                assert to in MOVES[at]
                at, steps = to, steps + 1
            assert at is target or (state is START and target is DOWN)
            assert steps <= 2
