"""Who starts again with one that died: OTP's rules for groups, case by case, on the pure director in a world that checks it.

supervisor(3): the others are terminated and started again only "if one child process terminates and should be restarted";
a temporary one is not started again, a transient one is; and MaxR counts the restart, not those that it takes along. The
world checks every order of moves besides.
"""

from __future__ import annotations

import pytest

from appbackplane.supervisor.configuration.config import RestartPolicy
from appbackplane.supervisor.control.status import state
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.supervisor.direction.effects import End

from ..world import SECOND_NS, World, policy, up_world

ALL, REST = "one_for_all", "rest_for_one"


def generations(world: World) -> dict[str, int]:
    """Of those that live."""
    return {name: process.generation for name, process in world.processes.items()}


def settle(world: World) -> None:
    """Until nothing is asked of anybody, and nobody waits to be started."""
    world.do_what_is_asked()
    while any(child.process.phase is Phase.WAITING for child in world.director.children.values()) and world.pass_time():
        world.do_what_is_asked()


@pytest.mark.parametrize(
    ("strategy", "died", "expected"),
    [
        ("one_for_one", "first", {"first": 2, "second": 1, "third": 1}),
        ("one_for_one", "third", {"first": 1, "second": 1, "third": 2}),
        (REST, "first", {"first": 2, "second": 2, "third": 2}),
        (REST, "second", {"first": 1, "second": 2, "third": 2}),
        (REST, "third", {"first": 1, "second": 1, "third": 2}),
        (ALL, "third", {"first": 2, "second": 2, "third": 2}),
    ],
)
def test_each_strategy_starts_again_whom_it_names(strategy: str, died: str, expected: dict[str, int]) -> None:
    """Each once, and all are where they were."""
    world = up_world(policies={died: policy(strategy=strategy)})
    world.die(died, -9)
    settle(world)
    assert generations(world) == expected
    world._check_whole()


@pytest.mark.parametrize(
    ("own", "code"),
    [
        (policy(strategy=ALL, type="temporary"), -9),
        (policy(strategy=ALL, type="temporary"), 0),
        (policy(strategy=ALL, type="transient"), 0),
        (policy(strategy=REST, type="transient"), 0),
    ],
)
def test_one_that_is_not_wanted_back_takes_nobody_along(own: RestartPolicy, code: int) -> None:
    """Its strategy is about being restarted."""
    world = up_world(policies={"first": own})
    world.die("first", code)
    settle(world)
    assert generations(world) == {"second": 1, "third": 1}
    assert world.director.children["first"].process.phase is Phase.ENDED
    assert world.director.mode == "up"


def test_a_transient_one_that_was_killed_takes_its_group_along() -> None:
    """Its death is none that it wanted."""
    world = up_world(policies={"first": policy(strategy=ALL, type="transient")})
    world.die("first", 1)
    settle(world)
    assert set(generations(world).values()) == {2}


def test_a_temporary_one_that_goes_along_stays_away() -> None:
    """It is ended in order, and not started again; nobody waits for it."""
    world = up_world(policies={"first": policy(strategy=ALL), "third": policy(type="temporary")})
    world.die("first", -9)
    settle(world)
    assert generations(world) == {"first": 2, "second": 2}
    assert world.director.children["third"].process.phase is Phase.ENDED
    assert world.director.mode == "up"


def test_a_transient_one_that_had_ended_is_started_again_with_its_group() -> None:
    """OTP starts all children that it knows; who has ended well is among them."""
    world = up_world(policies={"first": policy(strategy=ALL), "third": policy(type="transient")})
    world.die("third", 0)
    settle(world)
    assert generations(world) == {"first": 1, "second": 1}
    world.die("first", -9)
    settle(world)
    assert generations(world) == {"first": 2, "second": 2, "third": 2}


def test_those_taken_along_are_not_counted() -> None:
    """Or whoever uses a bad neighbour would be given up for it."""
    world = up_world(policies={"first": policy(strategy=ALL, max=5), "second": policy(max=1), "third": policy(max=0)})
    for generation in range(2, 7):
        world.die("first", -9)
        settle(world)
        assert set(generations(world).values()) == {generation}
    assert {child.process.phase for child in world.director.children.values()} == {Phase.UP}
    world.die("second", -9)
    settle(world)
    assert generations(world)["second"] == 7, "its own first death"


def test_while_one_is_missing_the_system_is_degraded() -> None:
    """With a replica dead and its next start due in ten seconds, `status` and systemd said `up`."""
    world = up_world()
    for _ in range(2):
        world.die("second", -9)
        assert state(world.director) == "degraded"
        (problem,) = world.director.movement.problems()
        assert problem.startswith("backplane 'second': killed by signal 9")
        assert problem.endswith("it is being started again")
        settle(world)
        assert state(world.director) == "up"


def test_one_that_is_back_is_not_said_to_be_started_again() -> None:
    """Its hook had failed, and `status` said for ever that its process was being started."""
    world = up_world()
    world.die("first", -9)
    world.register("first")
    (problem,) = world.director.movement.problems()
    assert problem == "backplane 'first': killed by signal 9: its last line; it is not up again yet"
    world.finish_hook("first", "base", is_well=False)
    (problem,) = world.director.movement.problems()
    assert problem.startswith("backplane 'first': component 'base' did not become initializing: it raised")
    assert state(world.director) == "degraded"


@pytest.mark.parametrize("type", ["temporary", "transient"])
def test_one_that_nobody_wants_back_is_not_missing(type: str) -> None:
    """It has failed in nothing."""
    world = up_world(policies={"second": policy(type=type)})
    world.die("second", 0)
    assert state(world.director) == "up"


def test_a_system_in_which_all_have_ended_goes_down_and_has_not_failed() -> None:
    """It went on for ever with nothing left to run."""
    world = up_world(policies={name: policy(type="temporary") for name in ("first", "second", "third")})
    world.die("first", -9)
    world.die("second", 0)
    assert world.ended is None and state(world.director) == "up"
    world.die("third", 3)
    assert world.ended == End(0, "all backplanes have ended")
    assert "all backplanes have ended: going down" in world.said


def test_a_system_in_which_one_was_given_up_stays_although_the_others_have_ended() -> None:
    """Its operator is to find it, and may restart it."""
    world = up_world(
        policies={"first": policy(max=0), "second": policy(type="transient"), "third": policy(type="transient")}
    )
    for name, code in (("first", -9), ("second", 0), ("third", 0)):
        world.die(name, code)
    assert world.ended is None and state(world.director) == "degraded"


def test_one_death_more_than_max_gives_it_up_and_restarts_nobody() -> None:
    """A group that is torn down for nothing is worse than the death."""
    world = up_world(policies={"first": policy(strategy=ALL, max=1, on_give_up="down")})
    world.die("first", -9)
    settle(world)
    assert set(generations(world).values()) == {2}
    world.die("first", -9)
    settle(world)
    assert generations(world) == {"second": 2, "third": 2}
    assert world.director.children["first"].process.phase is Phase.FAILED


def test_a_start_that_fails_counts_as_a_death() -> None:
    """OTP: a child that cannot be started again is another restart, and so a crash at start ends, too."""
    world = up_world(policies={"first": policy(max=3)})
    world.die("first", -9)
    deaths = 1
    while world.director.children["first"].process.phase is not Phase.FAILED:
        if "first" in world.processes:
            world.die("first", 1)  # before it has registered
            deaths += 1
        else:
            assert world.pass_time()
    assert deaths == 4
    assert generations(world) == {"second": 1, "third": 1}


def test_who_dies_while_it_goes_along_is_started_once() -> None:
    """It is on its way out already: its death is no second reason."""
    world = up_world(policies={"first": policy(strategy=ALL), "third": policy(max=0)})
    world.die("first", -9)
    world.die("third", -9)  # in the middle of its hook
    settle(world)
    assert generations(world) == {"first": 2, "second": 2, "third": 2}


def test_a_crash_loop_does_little_in_an_hour() -> None:
    """Counted, not timed: once the wait has grown to `backoff_max`, a process each ten seconds, and no wake-up but for it."""
    world = up_world(policies={"first": policy(max=10_000, within_ns=3600 * SECOND_NS)})
    begin_ns, spawned, woken = world.now_ns, 0, 0
    world.die("first", -9)
    while world.now_ns < begin_ns + 3600 * SECOND_NS:
        if "first" in world.processes:
            spawned += 1
            world.die("first", 1)
        else:
            assert world.pass_time()
            woken += 1
    assert 3600 / 10 <= spawned <= 3600 / 10 + 10
    assert woken <= spawned + 2
