"""Ordered restart: one backplane, or several one after the other, end in order and come back, and only these."""

from __future__ import annotations

import pytest

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.direction import draining, effects, events
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.transport.errors import BackplaneError, Busy, DeadlineExceeded, InternalError, NotFound, Unavailable

from ..world import SECOND_NS, STOP_LIMIT_NS, World, make_director, policy, up_world


def answer(world: World, caller: effects.Caller) -> dict[str, int]:
    """What was answered to who ordered: the generations."""
    told = world.answers[caller]
    assert isinstance(told, effects.ReplyToCaller), told
    generations: dict[str, int] = told.result["backplanes"]
    return generations


def refusal(world: World, caller: effects.Caller) -> BackplaneError:
    """Why it was refused."""
    told = world.answers[caller]
    assert isinstance(told, effects.Refuse), told
    return told.error


def generations(world: World) -> dict[str, int]:
    """Of those that live."""
    return {name: process.generation for name, process in world.processes.items()}


def test_it_is_drained_goes_down_and_comes_back() -> None:
    """In this order; the answer comes when all its components are where they are to be, and not before."""
    world = up_world()
    begun = len(world.moves)
    caller = world.order_restart("second")
    assert world.drains == ["second"]
    assert world.moves[begun:] == []
    world.finish_draining("second")
    for component in ("middle", "side"):
        world.finish_hook("second", component)
    assert world.processes["second"].is_stopping
    world.die("second", 0)
    assert world.processes["second"].generation == 2
    assert caller in world.waiting
    world.do_what_is_asked()
    assert answer(world, caller) == {"second": 2}
    assert generations(world) == {"first": 1, "second": 2, "third": 1}
    assert world.states()["middle"] is ModuleState.PRIMARY


def test_those_that_depend_on_it_stay_where_they_are() -> None:
    """One for one: they are told UNAVAILABLE for a moment, which is less than to be taken down themselves."""
    world = up_world()
    begun = len(world.moves)
    world.order_restart("first")
    world.do_what_is_asked()
    assert {name for name, _ in world.moves[begun:]} == {"base"}


def test_what_its_strategy_names_goes_with_it() -> None:
    """The same rule as for a death; each is drained before what it needs."""
    world = up_world(policies={"first": policy(strategy="rest_for_one")})
    caller = world.order_restart("first")
    assert world.drains == ["third"]
    world.do_what_is_asked()
    assert world.drains == ["third", "second", "first"]
    assert answer(world, caller) == {"first": 2}
    assert generations(world) == {"first": 2, "second": 2, "third": 2}
    assert "backplane 'first': ordered to restart, and with it second, third (rest_for_one)" in world.said


def test_no_new_process_meets_one_that_is_to_go() -> None:
    """All are down before the first is started: no hook of a new one meets an old one."""
    world = up_world(policies={"first": policy(strategy="one_for_all")})
    world.order_restart("first")
    seen_together = False
    while (step := world._next_step()) is not None:
        step()
        living = set(generations(world).values())
        seen_together |= living == {1, 2}
    assert not seen_together
    assert set(generations(world).values()) == {2}


def test_it_does_not_count_against_its_restarts() -> None:
    """Nothing has failed: who restarts ten times for ten releases must not find it given up."""
    world = up_world(policies={"first": policy(max=0)})
    for number in range(2, 12):
        caller = world.order_restart("first")
        world.do_what_is_asked()
        assert answer(world, caller) == {"first": number}


@pytest.mark.parametrize("kind", ["permanent", "transient", "temporary"])
def test_it_comes_back_whatever_its_type(kind: str) -> None:
    """The type says what becomes of one that ended by itself."""
    world = up_world(policies={"first": policy(type=kind)})
    caller = world.order_restart("first")
    world.do_what_is_asked()
    assert answer(world, caller) == {"first": 2}
    world.die("first", 0)
    world.do_what_is_asked()
    assert ("first" in world.processes) == (kind == "permanent"), "the order holds for one restart"


def test_one_that_was_given_up_is_started_with_a_fresh_history() -> None:
    """The cause has been mended, says who orders it: the next death is a first one."""
    world = up_world(policies={"first": policy(max=1, on_give_up="down")})
    for _ in range(2):
        world.die("first", -11)
        world.do_what_is_asked()
    assert world.director.children["first"].process.phase is Phase.FAILED
    assert world.states()["top"] is ModuleState.DOWN
    caller = world.order_restart("first")
    world.do_what_is_asked()
    assert answer(world, caller) == {"first": 3}
    assert world.states()["top"] is ModuleState.PRIMARY, "and with it those that had been taken down"
    world.die("first", -11)
    assert world.processes["first"].generation == 4


def test_deaths_are_counted_and_ordered_restarts_are_not() -> None:
    """The reason of an old death is kept, so it does not tell whether the last end was one."""
    world = up_world()
    history = world.director.children["second"].history
    world.die("second", -9)
    world.do_what_is_asked()
    assert history.deaths_count == 1
    caller = world.order_restart("second")
    world.do_what_is_asked()
    assert answer(world, caller) == {"second": 3}
    assert (history.deaths_count, history.reason) == (1, "killed by signal 9: its last line")


def test_started_again_after_its_end_it_is_what_its_type_says_from_then_on() -> None:
    """One order is for one start: a temporary one that goes down later with another that died stays away."""
    world = up_world(policies={"first": policy(strategy="one_for_all"), "third": policy(type="temporary")})
    world.die("third", 0)
    world.order_restart("third")
    world.do_what_is_asked()
    assert generations(world)["third"] == 2
    world.die("first", -9)
    world.do_what_is_asked()
    assert generations(world) == {"first": 2, "second": 2}
    assert world.director.children["third"].process.phase is Phase.ENDED


def test_one_that_had_ended_is_started() -> None:
    """A job that is to run once more."""
    world = up_world(policies={"first": policy(type="temporary")})
    world.die("first", 0)
    world.do_what_is_asked()
    assert world.director.children["first"].process.phase is Phase.ENDED
    caller = world.order_restart("first")
    world.do_what_is_asked()
    assert answer(world, caller) == {"first": 2}


def test_one_that_waits_for_its_next_start_is_started_now() -> None:
    """Whoever has mended it does not want to wait for the backoff."""
    world = up_world()
    world.die("first", -9)
    world.register("first")
    world.die("first", -9)
    assert "first" not in world.processes
    caller = world.order_restart("first")
    assert "first" in world.processes
    world.do_what_is_asked()
    assert answer(world, caller) == {"first": 3}


def test_several_one_after_the_other() -> None:
    """Who lists several wants one of them to be there while the other is not."""
    world = up_world()
    caller = world.order_restart("second", "first")
    while (step := world._next_step()) is not None:
        step()
        assert len(world.processes) >= 2
        away = [name for name, child in world.director.children.items() if child.departure.is_leaving]
        assert len(away) <= 1
    assert answer(world, caller) == {"second": 2, "first": 2}
    assert world.drains == ["second", "first"]


def test_two_orders_for_one_backplane_wait_for_each_other() -> None:
    """Each is a restart: the second is not done by the first, which may have begun before a file was changed."""
    world = up_world()
    one, two = world.order_restart("first"), world.order_restart("first")
    world.do_what_is_asked()
    assert answer(world, one) == {"first": 2}
    assert answer(world, two) == {"first": 3}


def test_orders_for_others_do_not_wait() -> None:
    """Nobody hears "busy" because of somebody else."""
    world = up_world()
    one, two = world.order_restart("first"), world.order_restart("third")
    assert world.drains == ["first", "third"]
    world.finish_draining("third")
    world.finish_hook("third", "top")
    world.die("third", 0)
    world.register("third")
    assert one in world.waiting
    world.do_what_is_asked()
    assert answer(world, one) == {"first": 2}
    assert answer(world, two) == {"third": 2}


def test_now_it_is_killed() -> None:
    """Who cannot wait for it to finish."""
    world = up_world()
    caller = world.order_restart("first", is_now=True)
    assert world.drains == []
    assert world.processes["first"].is_killed
    world.do_what_is_asked()
    assert answer(world, caller) == {"first": 2}
    assert world.director.children["first"].history.restarts.restarts_ns == ()


def test_a_crash_of_the_new_one_is_judged_as_ever() -> None:
    """The order has become a start like any other; it ends when that has succeeded, or has been given up."""
    world = up_world(policies={"first": policy(max=1)})
    caller = world.order_restart("first")
    while world.processes["first"].generation == 1:
        step = world._next_step()
        assert step is not None
        step()
        if "first" not in world.processes:
            break
    world.die("first", 1)
    assert world.processes["first"].generation == 3
    assert caller in world.waiting
    world.die("first", 1)
    error = refusal(world, caller)
    assert isinstance(error, InternalError)
    assert "backplane 'first': exited with 1: its last line; given up: 1 restarts within 60 s were not enough" in str(
        error.message
    )


def test_at_the_first_that_is_not_well_again_the_others_are_left_alone() -> None:
    """A release that does not start must not take down one after the other."""
    world = up_world()
    caller = world.order_restart("first", "third")
    world.finish_draining("first")
    world.finish_hook("first", "base")
    world.die("first", 0)
    world.register("first")
    world.finish_hook("first", "base", is_well=False)
    error = refusal(world, caller)
    assert isinstance(error, InternalError)
    assert error.message == (
        "backplane 'first': component 'base' did not become initializing: it raised; not restarted: third"
    )
    world.do_what_is_asked()
    assert world.processes["third"].generation == 1


def test_who_waits_hears_at_his_limit_what_is_missing() -> None:
    """What has begun goes on all the same."""
    world = up_world()
    caller = world.order_restart("first", "third", limit_ns=SECOND_NS)
    world.pass_time()
    error = refusal(world, caller)
    assert isinstance(error, DeadlineExceeded)
    assert (
        error.message
        == "backplane 'first' is not up again yet, and its restart goes on: it is draining; not restarted: third"
    )
    world.do_what_is_asked()
    assert generations(world) == {"first": 2, "second": 1, "third": 1}


def test_an_unknown_name_is_refused_before_anything_begins() -> None:
    """With the nearest that there is."""
    world = up_world()
    error = refusal(world, world.order_restart("first", "secnd"))
    assert isinstance(error, NotFound)
    assert error.message == "no backplane 'secnd' (did you mean 'second'?)"
    assert world.drains == []


def test_in_a_system_that_goes_down_nothing_is_restarted() -> None:
    """Neither what is ordered then, nor what had been: those who wait are told."""
    world = up_world()
    before = world.order_restart("first")
    world.order_down()
    after = world.order_restart("second")
    for caller in (before, after):
        assert isinstance(refusal(world, caller), Unavailable)
    world.do_what_is_asked()
    assert world.ended == effects.End(0, "SIGTERM")
    assert world.drains.count("first") == 1, "it had begun, and is not asked twice"


def test_orders_have_a_bound() -> None:
    """A script that never waits would fill the memory of the supervisor."""
    world = up_world()
    callers = [world.order_restart("first") for _ in range(65)]
    assert isinstance(refusal(world, callers[-1]), Busy)
    assert len(world.waiting) == 64


def test_an_order_to_move_what_is_restarted_waits_for_it() -> None:
    """Moved while it goes, it would be told to go up by one and down by the other."""
    world = up_world()
    restart = world.order_restart("first")
    move = world.order_move(ModuleState.PRIMARY, "base")
    world.do_what_is_asked()
    assert answer(world, restart) == {"first": 2}
    assert isinstance(world.answers[move], effects.ReplyToCaller)


def test_it_is_told_that_it_is_being_restarted() -> None:
    """Callers who are refused may try again in a moment; those of a system that goes down need not."""
    world = up_world()
    caller = effects.Caller(b"client", 1)
    world.waiting[caller] = world.now_ns + SECOND_NS
    done = world.tell(events.RestartOrdered(caller, ("first",), SECOND_NS))
    drain = effects.Drain("first", 1, 10 * SECOND_NS, STOP_LIMIT_NS, draining.RESTARTING)
    assert drain in done


def test_it_is_answered_at_once_when_an_order_to_move_lets_it_stay_where_it_is() -> None:
    """It waited below for one that was given up; told at the next event instead, whoever waits might hear a minute late."""
    world = up_world(policies={"second": policy(max=0)})
    world.die("second", -9)
    caller = world.order_restart("third")
    world.do_what_is_asked()
    assert caller in world.waiting, "top waits for middle and side"
    world.order_move(ModuleState.DOWN)
    assert answer(world, caller) == {"third": 2}


def test_an_order_goes_on_as_soon_as_a_younger_one_is_out_of_its_way() -> None:
    """Nothing else may happen for a minute. And those who go at one instant are drained in order, whoever ordered it."""
    world = up_world()
    older, younger = world.order_restart("first", "third"), world.order_restart("third", "second")
    for name, component in (("first", "base"), ("third", "top")):
        world.finish_draining(name)
        world.finish_hook(name, component)
        world.die(name, 0)
        world.register(name)
        world.finish_hook(name, component)
        world.finish_hook(name, component)
    assert [world.director.children[name].departure.is_leaving for name in ("second", "third")] == [True, True]
    assert world.drains == ["first", "third", "third"], "the second needs the third to be gone"
    world.do_what_is_asked()
    assert world.drains[3:] == ["second"]
    assert answer(world, older) == {"first": 2, "third": 3}
    assert answer(world, younger) == {"third": 3, "second": 2}


def test_nobody_comes_up_on_one_that_is_about_to_go() -> None:
    """The restart was ordered while it came up itself: those above wait for the new process, not for the old one."""
    world = up_world()
    world.order_move(ModuleState.DOWN)
    world.do_what_is_asked()
    world.order_move(ModuleState.PRIMARY)
    caller = world.order_restart("first")
    begun = len(world.moves)
    world.finish_hook("first", "base")
    assert ("middle", ModuleState.INITIALIZING) not in world.moves[begun:]
    assert world.director.movement.waiting()["middle"] == ["base"]
    world.do_what_is_asked()
    assert answer(world, caller) == {"first": 2}
    assert world.states() == dict.fromkeys(("base", "middle", "side", "top"), ModuleState.PRIMARY)


def test_before_the_system_is_up_it_waits_for_nothing_else() -> None:
    """One that hangs in its constructor is started again without the others."""
    world = World(make_director())
    world.tell(events.UpOrdered())
    world.register("first")
    caller = world.order_restart("second")
    assert world.processes["second"].is_killed
    world.do_what_is_asked()
    assert world.is_up
    assert answer(world, caller) == {"second": 2}
