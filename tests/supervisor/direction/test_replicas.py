"""Replicas of a backplane: who waits for them, who stays up without one of them, and where calls are sent meanwhile."""

from __future__ import annotations

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.direction import effects, events
from appbackplane.supervisor.direction.child.process import Phase

from ..world import REPLICATED, World, make_director, policy, up_world

PRIMARY, SECONDARY, DOWN = ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.DOWN


def all_but(world: World, *names: str) -> None:
    """Well-behaved processes, but for these, which do nothing."""
    while True:
        for name, process in list(world.processes.items()):
            if name not in names:
                if process.is_stopping or process.is_killed:
                    world.die(name, -9 if process.is_killed else 0)
                elif not process.is_registered:
                    world.register(name)
                elif process.moving:
                    world.finish_hook(name, next(iter(process.moving)))
                else:
                    continue
                break
        else:
            return


def unready(world: World) -> set[str]:
    """Those that callers avoid."""
    return set(world.director.directory.unready)


def test_at_first_a_dependency_is_all_replicas() -> None:
    """A system that says it is up serves as much as it was made for."""
    world = World(make_director(system=REPLICATED), REPLICATED)
    world.tell(events.UpOrdered())
    for name in ("first", "second-1", "second-2", "third"):
        world.register(name)
    all_but(world, "second-2")
    assert set(world.processes["second-1"].states.values()) == {PRIMARY}
    assert world.processes["third"].states["top"] is not PRIMARY
    assert world.director.movement.waiting()["top"] == ["second-2/middle", "second-2/side"]
    world.do_what_is_asked()
    assert world.is_up and not world.problems


def test_in_a_replica_a_dependency_is_the_one_beside_it() -> None:
    """Its calls stay there, so it need not wait for another process."""
    world = World(make_director(system=REPLICATED), REPLICATED)
    world.tell(events.UpOrdered())
    for name in ("first", "second-1", "second-2", "third"):
        world.register(name)
    all_but(world, "second-2", "third")
    assert world.processes["second-1"].states["side"] is PRIMARY


def test_one_that_restarts_takes_nobody_down_and_is_waited_for_by_nobody() -> None:
    """What replicas are for: another one serves meanwhile, also whoever comes up in that time."""
    world = up_world(REPLICATED)
    world.moves.clear()
    world.die("second-1", -9)
    world.die("third", -9)
    all_but(world, "second-1")
    assert world.processes["third"].states["top"] is PRIMARY
    assert {component for component, _ in world.moves} == {"top"}


def test_while_none_of_them_is_there_whoever_needs_them_waits() -> None:
    """The last one has no stand-in."""
    world = up_world(REPLICATED)
    for name in ("second-1", "second-2", "third"):
        world.die(name, -9)
    all_but(world, "second-1", "second-2")
    assert world.processes["third"].states["top"] is not PRIMARY
    all_but(world, "second-1")
    assert world.processes["third"].states["top"] is PRIMARY


def test_those_above_stay_up_until_the_last_replica_is_given_up() -> None:
    """One that crashes and crashes would else end what the others can do as well."""
    world = up_world(REPLICATED, dict.fromkeys(REPLICATED, policy(max=0, on_give_up="secondary")))
    world.die("second-1", -9)
    world.do_what_is_asked()
    assert world.director.children["second-1"].process.phase is Phase.FAILED
    assert world.processes["third"].states["top"] is PRIMARY
    assert not any("dependents lowered" in line for line in world.said)
    world.die("second-2", -9)
    world.do_what_is_asked()
    assert world.processes["third"].states["top"] is SECONDARY
    assert any("dependents lowered to secondary: top" in line for line in world.said)


def test_a_hook_that_fails_in_one_replica_keeps_nobody_waiting() -> None:
    """It is shown, and tried again; the others serve."""
    world = World(make_director(system=REPLICATED), REPLICATED)
    world.tell(events.UpOrdered())
    all_but(world, "second-2")
    world.register("second-2")
    all_but(world, "second-2")
    world.finish_hook("second-2", "middle", is_well=False)
    all_but(world, "second-2")
    assert world.processes["third"].states["top"] is PRIMARY


def test_an_order_to_move_is_for_all_replicas() -> None:
    """They are one component in several places; its answer tells of each."""
    world = up_world(REPLICATED)
    caller = world.order_move(DOWN, "side")
    world.do_what_is_asked()
    assert world.answers[caller] == effects.ReplyToCaller(
        caller, {"components": {"second-1/side": "down", "second-2/side": "down", "top": "down"}}
    )
    assert world.processes["second-1"].states["middle"] is PRIMARY
    caller = world.order_move(PRIMARY, "side")
    world.do_what_is_asked()
    assert isinstance(world.answers[caller], effects.ReplyToCaller)
    assert world.processes["second-2"].states["side"] is PRIMARY


def test_an_order_is_done_with_a_replica_that_was_given_up() -> None:
    """Nobody waits for what will not come; those that are left do what was ordered."""
    world = up_world(REPLICATED, dict.fromkeys(REPLICATED, policy(max=0)))
    world.die("second-1", -9)
    world.do_what_is_asked()
    for to in (SECONDARY, PRIMARY):
        caller = world.order_move(to, "middle")
        world.do_what_is_asked()
        assert isinstance(world.answers[caller], effects.ReplyToCaller)
        assert world.processes["second-2"].states["middle"] is to


def test_callers_avoid_a_replica_until_its_components_are_there() -> None:
    """Its socket is open before its components serve: calls would be refused that another place would have answered."""
    world = up_world(REPLICATED)
    assert unready(world) == set()
    world.die("second-1", -9)
    all_but(world, "second-1")
    assert unready(world) == {"second-1"}
    world.register("second-1")
    assert world.director.directory.backplanes["second-1"].is_up
    assert unready(world) == {"second-1"}
    version = world.version
    world.do_what_is_asked()
    assert unready(world) == set()
    assert world.version > version


def test_rest_for_one_starts_those_above_again_and_no_other_replica() -> None:
    """The strategy is taken at its word: they may hold what they were told by the one that died."""
    world = up_world(REPLICATED, dict.fromkeys(REPLICATED, policy(strategy="rest_for_one")))
    world.die("second-1", -9)
    world.do_what_is_asked()
    generations = {name: process.generation for name, process in world.processes.items()}
    assert generations == {"first": 1, "second-1": 2, "second-2": 1, "third": 2}
