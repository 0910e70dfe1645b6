"""Draining: whoever goes down in order finishes first what he has, and nobody loses what he needs for that."""

from __future__ import annotations

import pytest

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.direction import draining, effects, events
from appbackplane.supervisor.direction.child.drain import DrainPhase
from appbackplane.supervisor.direction.child.process import Phase

from ..world import SECOND_NS, STOP_LIMIT_NS, World, make_director, policy, up_world

#: Two backplanes that need each other, through different components, and one that needs nobody.
MUTUAL = {
    "left": {"floor": (), "roof": ("walls",)},
    "right": {"walls": ("floor",)},
    "aside": {"shed": ()},
}


def test_nothing_moves_before_it_is_drained() -> None:
    """A component that is down serves nobody: what is queued for it would be refused although there is time."""
    world = up_world()
    begun = len(world.moves)
    world.order_down()
    assert world.drains == ["third"]
    assert world.moves[begun:] == []
    world.finish_draining("third")
    assert world.moves[begun:] == [("top", ModuleState.DOWN)]


def test_who_is_needed_is_drained_after_those_that_need_it() -> None:
    """They finish their work with its help: drained at the same time, it would refuse them."""
    world = up_world()
    world.order_down()
    world.do_what_is_asked()
    assert world.drains == ["third", "second", "first"]
    assert world.ended == effects.End(0, "SIGTERM")


def test_independent_backplanes_are_drained_at_the_same_time() -> None:
    """Else `down` takes as long as all of them together."""
    world = up_world({"one": {"a": ()}, "two": {"b": ()}, "three": {"c": ()}})
    world.order_down()
    assert sorted(world.drains) == ["one", "three", "two"]


def test_backplanes_that_need_each_other_are_drained_at_the_same_time() -> None:
    """Each would wait for the other for ever."""
    world = up_world(MUTUAL)
    world.order_down()
    assert sorted(world.drains) == ["aside", "left", "right"]
    world.do_what_is_asked()
    assert world.ended == effects.End(0, "SIGTERM")
    downs = [name for name, to in world.moves if to is ModuleState.DOWN]
    assert downs.index("roof") < downs.index("walls") < downs.index("floor")


def test_callers_hear_of_it_before_the_backplane_does() -> None:
    """Told the other way round, it would wait for its last calls while they are still being sent."""
    world = up_world()
    done = world.tell(events.DownOrdered("SIGTERM"))
    kinds = [type(effect) for effect in done if isinstance(effect, effects.SendDirectory | effects.Drain)]
    assert kinds == [effects.SendDirectory, effects.Drain]
    place = world.director.directory.backplanes["third"]
    assert (place.is_up, place.is_draining) == (True, True), "its calls are not given up: they will be answered"


def test_what_serves_nobody_yet_is_not_drained() -> None:
    """There is nothing in it; a system that is taken down while it starts is gone at once."""
    world = World(make_director())
    world.tell(events.UpOrdered())
    for name in world.system:
        world.register(name)
    world.order_down()
    world.do_what_is_asked()
    assert world.drains == []
    assert world.ended == effects.End(0, "SIGTERM")


def test_what_a_crash_pulls_along_is_not_drained() -> None:
    """First of all the one that crashed has to be back, and without it they finish nothing."""
    world = up_world(policies={"first": policy(strategy="rest_for_one")})
    world.die("first", -11)
    world.do_what_is_asked()
    assert world.drains == []
    assert {process.generation for process in world.processes.values()} == {2}


def test_whom_a_dead_one_waits_for_is_not_drained_any_further() -> None:
    """What they finish needs it, and it is started again when they have gone: they would wait for each other until the limits
    of each drain in turn, 40 s of outage where a crash costs one.
    """
    world = up_world(policies={"first": policy(strategy="rest_for_one")})
    caller = world.order_restart("first")
    begun = len(world.moves)
    world.die("first", -9)
    assert world.moves[begun:] == [("top", ModuleState.DOWN)], "without a word of its being drained"
    because = "draining stopped: 'first' died and restarts only after this one has exited"
    assert world.said[-2:] == [f"backplane {name!r}: {because}" for name in ("second", "third")]
    world.do_what_is_asked()
    assert world.drains == ["third"], "nor is the one whose turn it would have been"
    assert {process.generation for process in world.processes.values()} == {2}
    told = world.answers[caller]
    assert isinstance(told, effects.ReplyToCaller), told


def test_nor_is_whom_a_crash_pulls_along_that_had_been_ordered_to_go() -> None:
    """The order was for him alone; then what he needs died, and takes him along."""
    world = up_world(policies={"first": policy(strategy="rest_for_one")})
    world.order_restart("third")
    assert world.drains == ["third"]
    world.die("first", -9)
    assert world.director.children["third"].drain.phase is DrainPhase.DONE
    world.do_what_is_asked()
    assert {process.generation for process in world.processes.values()} == {2}


def test_an_answer_that_comes_after_that_changes_nothing() -> None:
    """It was on its way, or came of the hooks: nobody is moved twice."""
    world = up_world(policies={"first": policy(strategy="rest_for_one")})
    world.order_restart("first")
    world.die("first", -9)
    begun = len(world.moves)
    said = len(world.said)
    world.finish_draining("third", refused_count=3)
    assert (world.moves[begun:], world.said[said:]) == ([], [])


def test_who_dies_and_is_back_at_once_cuts_nobody_short() -> None:
    """He waits for nobody, and what is being finished finds him again."""
    world = up_world()
    world.order_restart("third")
    begun = len(world.moves)
    world.die("first", -9)
    assert world.director.children["third"].drain.phase is DrainPhase.RUNNING
    assert world.moves[begun:] == []


def test_who_has_gone_in_order_cuts_nobody_short() -> None:
    """He was drained beside them; that he is done first is no reason for them to stop."""
    world = up_world({"one": {"a": ()}, "two": {"b": ()}}, {"one": policy(strategy="one_for_all")})
    world.order_restart("one")
    assert sorted(world.drains) == ["one", "two"]
    world.finish_draining("one")
    world.finish_hook("one", "a")
    world.die("one", 0)
    assert world.director.children["two"].drain.phase is DrainPhase.RUNNING
    world.do_what_is_asked()
    assert {process.generation for process in world.processes.values()} == {2}


def test_a_hook_on_its_way_up_ends_first() -> None:
    """Moved from under it, it would not find what it was promised."""
    world = up_world()
    world.order_move(ModuleState.SECONDARY, "top")
    world.do_what_is_asked()
    world.order_move(ModuleState.PRIMARY, "top")
    assert world.processes["third"].moving
    world.order_down()
    assert world.drains == []
    world.finish_hook("third", "top")
    assert world.drains == ["third"]


def test_what_was_left_is_said() -> None:
    """Somebody was refused, or something was cut off: a person wants to know what, and how much."""
    world = up_world()
    world.order_down()
    world.finish_draining("third", refused_count=7, running=("top.dig",))
    assert world.said[-1] == (
        "backplane 'third': drained, but 7 not begun within 10 s, and refused; not ended, and cut off: top.dig"
    )
    world.finish_hook("third", "top")
    world.die("third", 0)
    world.finish_draining("second", error="no answer")
    assert world.said[-1] == "backplane 'second': drained, but result of draining unknown: no answer"
    world.do_what_is_asked()
    assert world.ended == effects.End(0, "SIGTERM")


def test_one_that_does_not_answer_is_killed() -> None:
    """It answers at both its limits: silent beyond these, it will not move or stop either."""
    world = up_world()
    world.order_down()
    begun_ns = world.now_ns
    child = world.director.children["third"]
    assert child.process.phase is Phase.DRAINING
    world.pass_time()
    assert world.now_ns - begun_ns == child.settings.drain_limit_ns + STOP_LIMIT_NS + draining.ANSWER_NS
    assert world.processes["third"].is_killed
    assert child.history.reason == "did not answer within 22 s of being drained"
    world.do_what_is_asked()
    assert world.ended == effects.End(1, "SIGTERM")


def test_ordered_twice_to_go_down_nobody_drains() -> None:
    """Who presses Ctrl-C again means it."""
    world = up_world()
    world.order_down()
    world.order_down(is_final=True)
    assert all(process.is_killed for process in world.processes.values())
    world.do_what_is_asked()
    assert world.drains == ["third"]


def test_one_that_dies_while_it_drains_does_not_hold_up_the_others() -> None:
    """It has nothing to finish any more."""
    world = up_world()
    world.order_down()
    world.die("third", -11)
    assert world.drains == ["third", "second"]
    assert world.director.children["third"].drain.phase is DrainPhase.NONE


def test_each_backplane_has_a_limit_of_its_own() -> None:
    """One works off an hour of batches, another nothing that lasts."""
    director = make_director(drains_ns={"third": 3 * SECOND_NS})
    world = World(director)
    world.tell(events.UpOrdered())
    world.do_what_is_asked()
    done = world.tell(events.DownOrdered("SIGTERM"))
    assert effects.Drain("third", 1, 3 * SECOND_NS, STOP_LIMIT_NS, draining.GOING_DOWN) in done


@pytest.mark.parametrize(("running", "has_finished"), [((), True), (("base.work",), False)])
def test_callers_can_tell_who_ended_with_all_its_work_done(running: tuple[str, ...], has_finished: bool) -> None:
    """An answer may be lost on its way; then its caller is told that the work was done, and not that nobody knows."""
    world = up_world()
    world.order_restart("third")
    world.finish_draining("third", running=running)
    world.finish_hook("third", "top")
    assert not world.director.directory.backplanes["third"].has_finished, "it has not ended"
    done = world.die("third", 0)
    sent = [effect.directory for effect in done if isinstance(effect, effects.SendDirectory)]
    assert [one.backplanes["third"].has_finished for one in sent] == [has_finished]
    world.do_what_is_asked()
    assert not world.director.directory.backplanes["third"].has_finished, "another generation, which has just begun"


def test_whoever_ordered_it_is_told_what_was_not_finished() -> None:
    """A job of half a minute was cut off, and the order was answered as done; those who are taken along count, too."""
    world = up_world(policies={"first": policy(strategy="rest_for_one")})
    caller = world.order_restart("first")
    world.finish_draining("third", refused_count=7, running=("top.dig",))
    world.do_what_is_asked()
    told = world.answers[caller]
    assert isinstance(told, effects.ReplyToCaller), told
    assert told.result["unfinished"] == [
        "backplane 'third': 7 not begun within 10 s, and refused; not ended, and cut off: top.dig"
    ]
    caller = world.order_restart("first")
    world.do_what_is_asked()
    told = world.answers[caller]
    assert isinstance(told, effects.ReplyToCaller), told
    assert told.result["unfinished"] == [], "this time nothing was"


def test_so_is_it_of_one_that_was_killed_at_its_limit() -> None:
    """Its hook hangs, or its process does not end: what it had then is cut off without a word of its own."""
    world = up_world()
    caller = world.order_restart("third")
    world.finish_draining("third")
    world.finish_hook("third", "top")
    while not world.processes["third"].is_killed:
        assert world.pass_time()
    world.do_what_is_asked()
    told = world.answers[caller]
    assert isinstance(told, effects.ReplyToCaller), told
    assert told.result["unfinished"] == ["backplane 'third': did not stop within 10 s: killed"]


@pytest.mark.parametrize("deaths", [1, 2])
def test_down_does_not_tell_what_an_earlier_order_has_cut_off(deaths: int) -> None:
    """Of a backplane that had died since, and is being started again or waits for that. Whoever restarted it had been told."""
    world = up_world()
    world.order_restart("third")
    world.finish_draining("third", running=("top.dig",))
    world.do_what_is_asked()
    for _ in range(deaths):
        world.die("third", -9)
    assert world.director.children["third"].process.phase is (Phase.STARTING, Phase.WAITING)[deaths - 1]
    world.order_down()
    world.do_what_is_asked()
    assert draining.unfinished(world.director.children.values()) == []


@pytest.mark.parametrize("on_give_up", ["shutdown", "down"])
def test_the_order_holds_across_one_that_is_gone(on_give_up: str) -> None:
    """Whoever needs what is gone goes before what that needed. The base went first, while the top still worked on it."""
    strategy = "one_for_one" if on_give_up == "shutdown" else "one_for_all"
    world = up_world(policies={"second": policy(strategy=strategy, max=0, on_give_up=on_give_up)})
    begun = len(world.moves)
    world.die("second", -9)
    assert on_give_up != "shutdown" or world.drains == ["third"]
    world.do_what_is_asked()
    downs = [component for component, to in world.moves[begun:] if to is ModuleState.DOWN]
    assert downs == ["top", "base"]


def test_so_it_does_in_a_restart_beside_one_that_is_gone() -> None:
    """The base is drained when those above have gone, also those that need it through one that is not there now."""
    world = up_world(
        policies={"first": policy(strategy="rest_for_one"), "second": policy(max=0, on_give_up="secondary")}
    )
    world.die("second", -9)
    world.do_what_is_asked()
    world.order_restart("first")
    assert world.drains == ["third"]
    world.do_what_is_asked()
    assert world.drains == ["third", "first"]
