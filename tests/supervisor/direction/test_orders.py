"""Orders to move: serialised for their target only, each ends once, and what cannot be is refused with its reason."""

from __future__ import annotations

import pytest

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.direction import effects, events
from appbackplane.supervisor.direction.effects import Caller
from appbackplane.supervisor.direction.orders import ORDERS_MAX
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    NotFound,
    Unavailable,
)

from ..world import REPLICATED, SECOND_NS, World, make_director, policy, up_world

PRIMARY, SECONDARY, DOWN = ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.DOWN


def answer(world: World, caller: Caller) -> dict[str, str]:
    """That all went well."""
    found = world.answers[caller]
    assert isinstance(found, effects.ReplyToCaller), found
    components: dict[str, str] = found.result["components"]
    return components


def refusal(world: World, caller: Caller, kind: type[BackplaneError]) -> str:
    """Why not."""
    found = world.answers[caller]
    assert isinstance(found, effects.Refuse), found
    assert type(found.error) is kind, found.error
    return found.error.message


def test_a_component_takes_along_what_depends_on_it_and_nobody_else() -> None:
    """In reverse order; and back again in order. What else there is must not notice."""
    world = up_world()
    world.moves.clear()
    caller = world.order_move(DOWN, "middle")
    assert caller not in world.answers, "it ends when all are there, not when it is heard"
    world.do_what_is_asked()
    assert answer(world, caller) == {"middle": "down", "top": "down"}
    assert world.moves == [("top", DOWN), ("middle", DOWN)]
    caller = world.order_move(PRIMARY, "middle")
    world.do_what_is_asked()
    assert answer(world, caller) == {"middle": "primary", "top": "primary"}
    assert {name for name, _ in world.moves} == {"top", "middle"}


def test_the_whole_system_moves_and_forgets_what_was_ordered_of_one() -> None:
    """`move primary` is the way back from whatever somebody has tried out."""
    world = up_world()
    world.order_move(DOWN, "side")
    world.do_what_is_asked()
    caller = world.order_move(SECONDARY)
    world.do_what_is_asked()
    assert set(answer(world, caller).values()) == {"secondary"}
    caller = world.order_move(DOWN)
    world.do_what_is_asked()
    assert set(answer(world, caller).values()) == {"down"}
    assert len(world.processes) == 3, "the processes stay, so it is back in a moment"
    caller = world.order_move(PRIMARY)
    world.do_what_is_asked()
    assert set(answer(world, caller).values()) == {"primary"}


def test_orders_for_one_target_are_carried_out_one_after_the_other() -> None:
    """Each is done before the next begins: whoever ordered secondary is not told it of one that is primary again."""
    world = up_world()
    first, second = world.order_move(SECONDARY, "top"), world.order_move(PRIMARY, "top")
    assert world.processes["third"].moving == {"top": SECONDARY}
    world.finish_hook("third", "top")
    assert answer(world, first) == {"top": "secondary"}
    assert second not in world.answers
    world.do_what_is_asked()
    assert answer(world, second) == {"top": "primary"}


def test_an_order_for_the_system_waits_for_one_of_a_component_and_holds_up_the_next() -> None:
    """It concerns all of them."""
    world = up_world()
    callers = [world.order_move(DOWN, "top"), world.order_move(SECONDARY), world.order_move(DOWN, "side")]
    assert world.moves[-1] == ("top", DOWN)
    world.do_what_is_asked()
    assert [answer(world, caller).get("top") for caller in callers] == ["down", "secondary", "down"]
    assert answer(world, callers[2]) == {"side": "down", "top": "down"}, "which depends on it"


def test_orders_for_others_do_not_wait() -> None:
    """circus #776: "arbiter is already running" was the answer to everybody, because of one."""
    world = up_world()
    slow, quick = world.order_move(SECONDARY, "top"), world.order_move(SECONDARY, "side")
    assert slow not in world.answers
    assert world.processes["third"].moving == {"top": SECONDARY}
    world.finish_hook("third", "top")
    assert "side" in world.processes["second"].moving, (
        "top depends on it, and has come down: it is not waited for twice"
    )
    world.do_what_is_asked()
    assert answer(world, slow) and answer(world, quick)


def test_a_hung_hook_holds_up_its_own_target_only() -> None:
    """It is told so at its limit; meanwhile everybody else is served."""
    world = up_world()
    hung = world.order_move(SECONDARY, "top", limit_ns=5 * SECOND_NS)
    again = world.order_move(PRIMARY, "top", limit_ns=20 * SECOND_NS)
    other = world.order_move(DOWN, "nobody")
    refusal(world, other, NotFound)
    while hung not in world.answers:
        assert world.pass_time()
    said = refusal(world, hung, DeadlineExceeded)
    assert said == (
        "component 'top' is not secondary yet, and the move goes on: 'top' is still in its hook of secondary"
    )
    world.do_what_is_asked()
    assert answer(world, again) == {"top": "primary"}


def test_a_component_nobody_has_is_not_found_and_the_nearest_is_named() -> None:
    """One clear line."""
    world = up_world()
    said = refusal(world, world.order_move(DOWN, "midle"), NotFound)
    assert said == "no component or backplane 'midle' (did you mean 'middle'?)"
    said = refusal(world, world.order_move(DOWN, "xyz"), NotFound)
    assert said == "no component or backplane 'xyz' (known: base, first, middle, second, side, third, top)"


def test_a_backplane_moves_as_a_whole_with_its_dependents() -> None:
    """By its name, unless a component has that."""
    world = up_world()
    caller = world.order_move(SECONDARY, "second")
    world.do_what_is_asked()
    assert answer(world, caller) == {"middle": "secondary", "side": "secondary", "top": "secondary"}
    caller = world.order_move(PRIMARY, "backplane.second")
    world.do_what_is_asked()
    assert answer(world, caller) == {"middle": "primary", "side": "primary", "top": "primary"}


def test_orders_for_a_backplane_and_for_one_of_its_components_are_carried_out_one_after_the_other() -> None:
    """And for another backplane at the same time."""
    world = up_world()
    callers = [world.order_move(*each) for each in ((DOWN, "second"), (PRIMARY, "side"), (SECONDARY, "first"))]
    world.do_what_is_asked()
    assert answer(world, callers[0]) == {"middle": "down", "side": "down", "top": "down"}
    assert answer(world, callers[1])["side"] == "primary"
    assert answer(world, callers[2])["base"] == "secondary"


def test_replicas_move_together_and_one_alone_is_refused() -> None:
    """An order is for a component, wherever it runs."""
    world = up_world(REPLICATED)
    caller = world.order_move(SECONDARY, "second")
    world.do_what_is_asked()
    assert set(answer(world, caller).values()) == {"secondary"}
    said = refusal(world, world.order_move(DOWN, "second-1"), FailedPrecondition)
    assert said == "'second-1' is a replica of 'second': move that, or scale it"


def test_a_part_of_an_order_that_cannot_be_reached_refuses_all_of_it() -> None:
    """Nothing of it holds later."""
    world = up_world()
    world.order_move(DOWN, "base")
    world.do_what_is_asked()
    refusal(world, world.order_move(PRIMARY, "second"), FailedPrecondition)
    assert not {"middle", "side"} & set(world.director.movement.wanted)


def test_nobody_can_be_ordered_above_what_it_depends_on() -> None:
    """It would break the promise that its hook relies on; and what was ordered before still holds."""
    world = up_world()
    world.order_move(SECONDARY, "base")
    world.do_what_is_asked()
    said = refusal(world, world.order_move(PRIMARY, "top"), FailedPrecondition)
    assert said == "'top' cannot be primary: it depends on 'middle', which is to be secondary: move that first"
    assert world.states() == {"base": SECONDARY, "middle": SECONDARY, "side": PRIMARY, "top": SECONDARY}
    world.order_move(PRIMARY, "base")
    world.do_what_is_asked()
    assert set(world.states().values()) == {PRIMARY}


def test_an_order_that_was_refused_does_not_hold_later() -> None:
    """Its caller was told that it cannot be: nobody expects the component to rise by itself an hour later."""
    world = up_world()
    world.order_move(DOWN, "top")
    world.order_move(SECONDARY, "base")
    world.do_what_is_asked()
    refusal(world, world.order_move(PRIMARY, "top"), FailedPrecondition)
    world.order_move(PRIMARY, "base")
    world.do_what_is_asked()
    assert world.states() == {"base": PRIMARY, "middle": PRIMARY, "side": PRIMARY, "top": DOWN}


def test_what_fails_on_its_way_down_is_down() -> None:
    """What its hook was to let go of it may still have; but to run a half-done hook again would keep it from ever going."""
    world = up_world()
    world.moves.clear()
    world.order_move(DOWN, "top")
    world.finish_hook("third", "top", is_well=False)
    assert world.director.children["third"].components.states == {"top": DOWN}
    world.do_what_is_asked()
    assert world.moves == [("top", DOWN)]


def test_a_hook_that_fails_ends_the_order_with_its_reason() -> None:
    """And goes on being tried: that is no reason to keep a person waiting."""
    world = up_world()
    caller = world.order_move(SECONDARY, "middle")
    world.finish_hook("third", "top")
    world.finish_hook("second", "middle", is_well=False)
    said = refusal(world, caller, InternalError)
    assert said == "backplane 'second': component 'middle' did not become secondary: it raised"
    world.do_what_is_asked()
    assert world.states()["middle"] is SECONDARY


def test_one_that_was_given_up_cannot_be_ordered_up() -> None:
    """There is no process that could move."""
    world = up_world(policies={"first": policy(max=0)})
    world.die("first", -9)
    said = refusal(world, world.order_move(PRIMARY, "base"), FailedPrecondition)
    assert "given up: restarts are off" in said
    said = refusal(world, world.order_move(PRIMARY, "middle"), FailedPrecondition)
    assert said == "'middle' cannot be primary: it depends on 'base', which was given up"


def test_what_was_ordered_outlives_a_restart() -> None:
    """A component that was put aside is not to come back because its process died."""
    world = up_world()
    world.order_move(DOWN, "side")
    world.do_what_is_asked()
    world.die("second", -9)
    world.do_what_is_asked()
    assert world.processes["second"].generation == 2
    assert world.states()["side"] is ModuleState.START
    assert world.states()["middle"] is PRIMARY


def test_a_system_that_goes_down_keeps_nobody_waiting() -> None:
    """Not those who wait, nor who comes now."""
    world = up_world()
    callers = [world.order_move(DOWN, "top"), world.order_move(PRIMARY, "top")]
    world.order_down()
    callers.append(world.order_move(PRIMARY))
    for caller in callers:
        assert refusal(world, caller, Unavailable) == "the system is going down"


def test_too_many_orders_are_refused_with_a_hint_when_to_come_back() -> None:
    """Everything has a bound, and the bound has an answer."""
    world = up_world()
    for _ in range(ORDERS_MAX):
        world.order_move(SECONDARY, "top")
    found = world.answers[world.order_move(SECONDARY, "top")]
    assert isinstance(found, effects.Refuse)
    assert isinstance(found.error, Busy)
    assert found.error.retry_after is not None
    world.do_what_is_asked()
    assert not world.waiting


@pytest.mark.parametrize("to", [PRIMARY, DOWN])
def test_before_it_is_up_an_order_waits_for_the_plan(to: ModuleState) -> None:
    """Nobody moves before all are there and known to fit; then the order is carried out like any other."""
    world = World(make_director())
    world.tell(events.UpOrdered())
    world.register("first")
    caller = world.order_move(to, "base")
    assert not world.moves and caller not in world.answers
    world.do_what_is_asked()
    assert world.is_up
    if to is PRIMARY:
        assert answer(world, caller) == {"base": "primary", "middle": "primary", "top": "primary"}
    else:
        assert answer(world, caller) == {"base": "start", "middle": "start", "top": "start"}


def test_an_order_is_not_done_because_its_component_happens_to_go_down_for_a_restart() -> None:
    """Where it is for a moment is not where it was ordered to be."""
    world = up_world(policies={"first": policy(strategy="rest_for_one")})
    world.die("first", -9)
    caller = world.order_move(PRIMARY, "top")
    world.finish_hook("third", "top")
    assert caller not in world.answers
    world.do_what_is_asked()
    assert answer(world, caller) == {"top": "primary"}
    assert world.processes["third"].generation == 2


def test_an_order_that_can_no_longer_be_done_is_refused_with_the_reason() -> None:
    """What it depends on is given up in the middle of it: waiting for the limit would tell nobody more."""
    world = up_world(policies={"first": policy(max=0, on_give_up="down")})
    world.order_move(SECONDARY)
    world.do_what_is_asked()
    world.order_move(PRIMARY, "base")
    world.do_what_is_asked()
    caller = world.order_move(PRIMARY, "middle")
    world.die("first", -9)
    assert refusal(world, caller, FailedPrecondition) == (
        "'middle' cannot be primary: it depends on 'base', which was given up"
    )


def test_a_job_that_is_done_before_the_system_is_up_does_not_end_it() -> None:
    """`transient`, exit code 0: its work is done, and the others do not wait for it."""
    world = World(make_director(policies={"first": policy(type="transient")}))
    world.tell(events.UpOrdered())
    for name in ("first", "second"):
        world.register(name)
    world.die("first", 0)
    world.do_what_is_asked()
    assert world.is_up and not world.problems
    assert world.states() == {"middle": PRIMARY, "side": PRIMARY, "top": PRIMARY}
