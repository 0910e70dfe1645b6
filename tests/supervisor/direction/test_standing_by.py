"""Standing by: what a node of a cluster has up as a secondary, and how it ceases to be primary."""

from __future__ import annotations

import pytest

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.direction import effects, events, group_restart, standing_by
from appbackplane.transport.directory import ComponentEntry, OperationEntry, Registration
from appbackplane.transport.errors import DeadlineExceeded, FailedPrecondition

from ..world import SECOND_NS, World, make_director, up_world

PRIMARY, SECONDARY, START = ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.START
#: "third" is needed by the primary alone, "first" by all.
SYSTEM = {"first": {"base": ()}, "third": {"orders": ("base",)}}


def node() -> World:
    """One that has come up, and is secondary."""
    return up_world(SYSTEM, primary_only=("third",))


def primary() -> World:
    """One that has been made primary."""
    world = node()
    world.tell(events.Granted(7))
    world.do_what_is_asked()
    return world


def test_a_node_begins_as_secondary() -> None:
    """What only the primary needs is constructed, and no hook of it has run."""
    assert node().states() == {"base": SECONDARY, "orders": START}


def test_the_primary_has_all_of_it_in_the_order_of_dependencies_and_knows_its_epoch() -> None:
    """As a system that is alone has."""
    world = node()
    world.moves.clear()
    moves = [effect for effect in world.tell(events.Granted(7)) if isinstance(effect, effects.Move)]
    assert {move.epoch for move in moves} == {7}
    world.do_what_is_asked()
    assert world.states() == {"base": PRIMARY, "orders": PRIMARY}
    assert world.moves[-1] == ("orders", PRIMARY)


def test_who_is_primary_no_more_is_drained_and_its_process_replaced() -> None:
    """Nothing of its time is left; what all nodes have goes on in the same process."""
    world = primary()
    world.tell(events.Withdrawn("it is over", None))
    assert world.drains == ["third"] and not standing_by.is_clear(world.director.children)
    world.do_what_is_asked()
    assert standing_by.is_clear(world.director.children)
    assert world.states() == {"base": SECONDARY, "orders": START}
    assert {name: process.generation for name, process in world.processes.items()} == {"first": 1, "third": 2}
    before = primary().director.children["third"].history
    assert world.director.children["third"].history.restarts == before.restarts, "it has not died"


def test_who_carries_calls_between_nodes_is_no_part_of_it() -> None:
    """A node that is primary no more has peers, and they ask it things: nothing of that is to be cut off."""
    director = make_director(system=SYSTEM, primary_only=("third",), node="first")
    world = World(director, SYSTEM)
    world.tell(events.UpOrdered())
    world.do_what_is_asked()
    assert world.states() == {"base": PRIMARY, "orders": START}
    world.tell(events.Granted(1))
    world.do_what_is_asked()
    world.moves.clear()
    world.tell(events.Withdrawn("it is over", world.now_ns))
    world.do_what_is_asked()
    assert world.states() == {"base": PRIMARY, "orders": START}
    assert {name: process.generation for name, process in world.processes.items()} == {"first": 1, "third": 2}


def test_who_does_not_step_down_in_time_is_killed() -> None:
    """In the middle of its work, or of a hook; so is what all nodes have, where it is still primary."""
    world = primary()
    world.tell(events.Withdrawn("it is over", world.now_ns + SECOND_NS))
    begun_ns = world.now_ns
    while not any(process.is_killed for process in world.processes.values()):
        assert world.pass_time()
    assert world.now_ns == begun_ns + SECOND_NS
    assert all(process.is_killed for process in world.processes.values())
    assert not standing_by.is_clear(world.director.children), "they are not dead yet"
    world.do_what_is_asked()
    assert standing_by.is_clear(world.director.children)
    assert world.states() == {"base": SECONDARY, "orders": START}


def test_what_has_gone_down_is_not_clear_before_its_process_is_dead() -> None:
    """What did not end within the limits of its drain may still write something, hooks or no hooks."""
    world = primary()
    world.tell(events.Withdrawn("it is over", world.now_ns + SECOND_NS))
    world.finish_draining("third", running=("orders.place",))
    while (process := world.processes["third"]).moving:
        world.finish_hook("third", "orders")
    assert process.is_stopping and process.generation == 1
    while world.processes["first"].moving:
        world.finish_hook("first", "base")
    assert not standing_by.is_clear(world.director.children)
    begun_ns = world.now_ns
    while not process.is_killed:
        assert world.pass_time()
    assert world.now_ns == begun_ns + SECOND_NS, "it does not end, and others may be primary soon"
    world.do_what_is_asked()
    assert standing_by.is_clear(world.director.children)


def test_what_failed_on_its_way_to_be_primary_is_replaced_as_well() -> None:
    """Half a hook has run."""
    world = node()
    world.tell(events.Granted(7))
    while not world.processes["third"].moving:
        world.finish_hook("first", "base")
    while world.processes["third"].moving:  # it is tried again, at once and then later
        world.finish_hook("third", "orders", is_well=False)
    assert not standing_by.is_clear(world.director.children)
    world.tell(events.Withdrawn("it is over", None))
    world.do_what_is_asked()
    assert standing_by.is_clear(world.director.children)
    assert world.processes["third"].generation == 2


def test_what_only_the_primary_serves_a_secondary_does_not_offer() -> None:
    """So that calls go to the primary. While it finishes what it has, it says so."""
    world = node()
    operations = (
        OperationEntry("orders.place", 1, "()", ("primary", "secondary"), export=True),
        OperationEntry("orders.look", 1, "()", ("primary", "secondary")),
    )
    both = (
        OperationEntry("base.read", 1, "()", ("primary", "secondary")),
        OperationEntry("base.write", 1, "()", ("primary",)),
    )
    children = world.director.children
    for name, component, served in (("third", "orders", operations), ("first", "base", both)):
        entry = (ComponentEntry(component, SYSTEM[name][component], served),)
        pid = children[name].process.pid or 0
        children[name].components.registration = Registration(name, 1, pid, f"/{name}", entry)

    def offered() -> set[str]:
        registrations = group_restart.registrations(children)
        found = standing_by.offered(registrations, children, world.director.movement.ceiling)
        return {each.route for one in found for component in one.components for each in component.operations}

    assert offered() == {"base.read"}
    world.tell(events.Granted(1))
    world.do_what_is_asked()
    assert offered() == {"base.read", "base.write", "orders.place", "orders.look"}
    world.tell(events.Withdrawn("it is over", None))
    assert offered() == {"base.read", "orders.place", "orders.look"}
    assert world.director.directory.backplanes["third"].is_draining
    world.do_what_is_asked()
    assert offered() == {"base.read"}


@pytest.mark.parametrize("component", ["base", "orders"])
def test_a_component_of_a_secondary_cannot_be_made_primary_alone(component: str) -> None:
    """Who wants that wants the node to be."""
    world = node()
    refused = world.answers.get(world.order_move(PRIMARY, component))
    assert isinstance(refused, effects.Refuse) and isinstance(refused.error, FailedPrecondition)
    assert "this node is secondary in its cluster" in refused.error.message


def test_who_moves_a_node_to_primary_waits_until_it_is() -> None:
    """It has to get the lease first; until then the order has not been carried out."""
    world = node()
    first, second = world.order_move(PRIMARY), world.order_move(PRIMARY, limit_ns=SECOND_NS)
    world.do_what_is_asked()
    assert first not in world.answers
    world.now_ns += SECOND_NS
    world.tell(events.TimePassed())
    late = world.answers[second]
    assert isinstance(late, effects.Refuse) and isinstance(late.error, DeadlineExceeded)
    world.tell(events.Granted(1))
    world.do_what_is_asked()
    assert world.answers[first] == effects.ReplyToCaller(
        first, {"components": {"base": "primary", "orders": "primary"}}
    )


def test_a_secondary_goes_down_in_order_and_starts_nothing() -> None:
    """What never left `start` has nothing to let go of."""
    world = node()
    world.moves.clear()
    world.order_down()
    world.do_what_is_asked()
    assert world.ended == effects.End(0, "SIGTERM")
    assert world.moves == [("base", ModuleState.DOWN)]
