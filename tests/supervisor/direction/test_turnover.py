"""Backplanes that come, go or start again because the configuration has changed."""

from __future__ import annotations

import msgspec
import pytest

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.configuration.node_settings import NodeSettings
from appbackplane.supervisor.direction import effects, events
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.supervisor.direction.reconfiguration import Plan

from ..world import REPLICATED, SECOND_NS, World, make_director, policy, up_world

PRIMARY = ModuleState.PRIMARY


def generations(world: World) -> dict[str, int]:
    """Of those that live."""
    return {name: process.generation for name, process in world.processes.items()}


def test_who_starts_again_does_so_in_order_and_alone() -> None:
    """Its last hooks run, and its first; whoever uses it stays where he is."""
    world = up_world()
    mark = len(world.moves)
    world.reconfigure("first")
    world.do_what_is_asked()
    assert generations(world) == {"first": 2, "second": 1, "third": 1}
    assert [to.value for _, to in world.moves[mark:]] == ["down", "initializing", "primary"]
    assert {component for component, _ in world.moves[mark:]} == {"base"}
    assert world.states() == dict.fromkeys(("base", "middle", "side", "top"), PRIMARY)
    assert world.director.movement.problems() == []


def test_an_ordered_start_is_no_death() -> None:
    """It neither counts as a restart that its policy allows, nor is one that is temporary left down."""
    world = up_world(policies={"first": policy(type="temporary"), "second": policy(max=0)})
    for number in range(1, 5):
        world.reconfigure("first", "second")
        world.do_what_is_asked()
        assert generations(world) == {"first": 1 + number, "second": 1 + number, "third": 1}


def test_a_component_that_moves_is_never_in_two_places() -> None:
    """Its new home is started when the old one has gone, and its dependants find it there."""
    world = up_world()
    world.reconfigure(second={"middle": ("base",)}, first={"base": (), "side": ()})
    while any(world.processes[name].generation == 1 for name in ("first", "second") if name in world.processes):
        assert sum(process.generation == 2 for process in world.processes.values()) == 0, "after the last has gone"
        step = world._next_step()
        assert step is not None
        step()
    assert generations(world) == {"first": 2, "second": 2, "third": 1}
    world.register("first")  # before the other, of which the component is known
    world.do_what_is_asked()
    assert generations(world) == {"first": 2, "second": 2, "third": 1}
    assert world.states() == dict.fromkeys(("base", "side", "middle", "top"), PRIMARY)


def test_a_new_backplane_starts_after_the_old_home_of_its_component_has_gone() -> None:
    """Else the component would be in both for as long as the old one drains."""
    world = up_world()
    world.reconfigure(second={"middle": ("base",)}, extra={"side": ()})
    while "second" in world.processes and world.processes["second"].generation == 1:
        assert "extra" not in world.processes
        step = world._next_step()
        assert step is not None
        step()
    world.register("extra")  # before the other, of which the component is known
    world.do_what_is_asked()
    assert generations(world) == {"first": 1, "second": 2, "third": 1, "extra": 1}
    assert world.states() == dict.fromkeys(("base", "side", "middle", "top"), PRIMARY)


def test_who_is_removed_goes_in_order_and_is_forgotten() -> None:
    """Nothing of it is left: neither in the directory nor in the status."""
    world = up_world()
    world.reconfigure(third=None)
    world.do_what_is_asked()
    assert generations(world) == {"first": 1, "second": 1}
    assert list(world.director.children) == ["first", "second"]
    assert "third" not in world.director.directory.backplanes
    assert world.tell(events.Exited("third", 1, 0)) == [], "news of it comes too late"


def test_who_comes_is_brought_up_and_judged_like_the_others() -> None:
    """And comes back as another generation than the one that was removed, since nothing sent to that one may reach it."""
    world = up_world()
    world.reconfigure(extra={"more": ("top",)})
    world.do_what_is_asked()
    assert world.states()["more"] is PRIMARY
    assert generations(world)["extra"] == 1
    world.die("extra", -9)
    world.do_what_is_asked()
    assert generations(world)["extra"] == 2
    world.reconfigure(extra=None)
    world.do_what_is_asked()
    world.reconfigure(extra={"more": ("top",)})
    world.do_what_is_asked()
    assert generations(world)["extra"] == 3
    assert world.director.children["extra"].process.restarts == 0


def test_one_that_cannot_come_up_does_not_take_the_system_down() -> None:
    """At the first start it would; here the other backplanes already serve."""
    world = up_world()
    world.reconfigure(extra={"more": ()})
    world.do_what_is_asked()
    for _ in range(4):
        if "extra" in world.processes:
            world.die("extra", 2)
        while "extra" not in world.processes and world.pass_time():
            pass
    assert world.director.children["extra"].process.phase is Phase.FAILED
    assert world.director.mode == "up"


def test_what_was_given_up_gets_another_try() -> None:
    """Most likely the change is what it was given up for."""
    world = up_world()
    for _ in range(4):
        world.die("third", -11)
        while "third" not in world.processes and world.pass_time():
            pass
        world.do_what_is_asked()
    assert world.director.children["third"].process.phase is Phase.FAILED
    world.reconfigure("third")
    world.do_what_is_asked()
    assert world.states()["top"] is PRIMARY
    assert world.director.movement.problems() == []
    world.die("third", -11)
    assert "third" in world.processes, "its former deaths count no more"


def test_one_that_is_just_starting_is_started_anew() -> None:
    """What it was born with does not hold any more."""
    world = up_world()
    world.die("third", -9)
    assert not world.processes["third"].is_registered
    world.reconfigure("third")
    assert world.processes["third"].is_killed
    world.do_what_is_asked()
    assert generations(world)["third"] == 3
    assert world.states()["top"] is PRIMARY


@pytest.mark.parametrize("component", ["top", None])
def test_who_waits_for_what_has_gone_is_told(component: str | None) -> None:
    """Nobody waits for a component that is in no configuration any more."""
    world = up_world()
    caller = world.order_move(ModuleState.SECONDARY, component)
    world.reconfigure(third=None)
    world.do_what_is_asked()
    answer = world.answers[caller]
    if component is None:
        assert isinstance(answer, effects.ReplyToCaller)
    else:
        assert isinstance(answer, effects.Refuse)
        assert "removed" in answer.error.message


def test_who_waits_for_the_restart_of_what_has_gone_is_told() -> None:
    """At once, whether its turn had come or not; it took down the whole supervisor when the last process of it ended."""
    world = up_world()
    caller, next_caller = world.order_restart("third", "first"), world.order_restart("second", "third")
    world.reconfigure(third=None)
    for told, left in ((world.answers[caller], "; not restarted: first"), (world.answers[next_caller], "")):
        assert isinstance(told, effects.Refuse)
        assert told.error.message == f"backplane 'third' has been removed from the configuration{left}"
    world.do_what_is_asked()
    assert generations(world) == {"first": 1, "second": 2}, "what has begun goes on"


def test_a_restart_that_was_done_before_its_backplane_went_is_no_failure() -> None:
    """Who ordered several gets what he ordered of those that are left."""
    world = up_world()
    caller = world.order_restart("third", "first")
    while not world.director.children["first"].departure.is_leaving:
        (step := world._next_step()) and step()
    world.reconfigure(third=None)
    world.do_what_is_asked()
    answer = world.answers[caller]
    assert isinstance(answer, effects.ReplyToCaller)
    assert answer.result == {"backplanes": {"first": 2}, "unfinished": []}


def test_a_rolling_restart_ends_when_one_of_the_replicas_goes() -> None:
    """Who gave it counted on those that were there."""
    world = up_world(REPLICATED)
    caller = world.order_restart("second", is_rolling=True)
    world.reconfigure(**{"second-1": None})
    answer = world.answers[caller]
    assert isinstance(answer, effects.Refuse)
    assert answer.error.message == (
        "backplane 'second-1' has been removed from the configuration; not restarted: second-2 (1 of 2 are unchanged)"
    )
    world.do_what_is_asked()
    assert generations(world) == {"first": 1, "second-2": 1, "third": 1}


def test_limits_and_policies_hold_at_once() -> None:
    """For what happens from now on; nobody is disturbed."""
    world = up_world()
    world.policies["first"] = policy(max=0)
    world.reconfigure()
    assert generations(world) == {"first": 1, "second": 1, "third": 1}
    child = world.director.children["first"]
    assert (child.settings.policy.max, child.settings.start_limit_ns) == (0, 30 * SECOND_NS)


def test_the_directory_says_who_carries_what_is_for_other_nodes() -> None:
    """From the first one on, and anew as soon as another configuration holds, before anybody has come or gone."""
    assert make_director(node="node").directory.node == "node", "before anybody has registered"
    world = up_world()
    without = world._config(0, ())
    with_node = msgspec.structs.replace(without, node=NodeSettings("b", "tcp://127.0.0.1:7400"))
    for old, new, said in ((without, with_node, "node"), (with_node, without, "")):
        before = world.director.directory.version
        world.tell(events.Reconfigured(old, new, Plan()))
        assert (world.director.directory.node, world.version) == (said, before + 1)
    world.tell(events.Reconfigured(without, without, Plan()))
    assert world.version == before + 1, "nothing new, and nobody is told"
