"""A rolling restart: who goes next, what is waited for, and where it stops."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.direction import effects, events
from appbackplane.supervisor.direction.child.child import Child
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.supervisor.direction.effects import Caller
from appbackplane.supervisor.direction.rolling import SETTLE_NS, Begin, Rolling, RollingDone, RollingStop, Wait
from appbackplane.transport.errors import FailedPrecondition

from ..world import REPLICATED, World, child_settings, policy, up_world

NOW_NS = 1_000_000_000


def replicas(count: int = 3) -> dict[str, Child]:
    """All in service, each in its first generation; and one that is alone."""
    children = {f"web-{n}": Child(f"web-{n}", child_settings(replica_of="web")) for n in range(1, count + 1)}
    children["store"] = Child("store", child_settings())
    for child in children.values():
        spawn(child)
        come_up(child)
    return children


def leave(child: Child) -> None:
    """It has been ordered to restart."""
    child.departure.begin(frozenset())


def die(child: Child, phase: Phase = Phase.WAITING) -> None:
    """Its process is gone, for whatever reason."""
    child.bury(NOW_NS)
    child.stay_down(phase, "exited with 1", NOW_NS)


def spawn(child: Child) -> None:
    """There is a new one."""
    child.spawn(NOW_NS)


def come_up(child: Child, at_ns: int = 0) -> None:
    """All its components are there."""
    child.process.enter(Phase.UP, at_ns)
    child.history.see_up(at_ns)


def test_one_after_the_other_each_when_the_last_has_stayed_up() -> None:
    """Two at a time are one too many; and what dies of its first calls would take all of them along."""
    children = replicas()
    rolling, now_ns, begun = Rolling(children, ["web-1", "web-2", "web-3"]), NOW_NS, []
    while (step := rolling.step(now_ns)) != RollingDone():
        assert isinstance(step, Begin)
        begun.append(step.backplane)
        child = children[step.backplane]
        leave(child)
        assert rolling.step(now_ns) == Wait()
        die(child)
        assert rolling.step(now_ns) == Wait()
        spawn(child)
        assert rolling.step(now_ns) == Wait()
        come_up(child, now_ns)
        assert rolling.step(now_ns + SETTLE_NS - 1) == Wait(now_ns + SETTLE_NS)
        now_ns += SETTLE_NS
    assert begun == ["web-1", "web-2", "web-3"]


def test_it_stops_at_the_first_that_does_not_come_back() -> None:
    """Whoever orders it has made a mistake that the others would repeat; they still answer."""
    for phase in (Phase.FAILED, Phase.WAITING, Phase.KILLED):
        children = replicas()
        rolling = Rolling(children, ["web-1", "web-2", "web-3"])
        assert rolling.step(NOW_NS) == Begin("web-1")
        die(children["web-1"])
        spawn(children["web-1"])
        die(children["web-1"], phase)
        if phase is Phase.KILLED:
            spawn(children["web-1"])
        assert rolling.step(NOW_NS) == RollingStop("web-1 did not come back: exited with 1")
        assert rolling.left() == ["web-2", "web-3"]


def test_one_that_dies_while_it_settles_did_not_come_back() -> None:
    """It was up for an instant only."""
    children = replicas()
    rolling = Rolling(children, ["web-1", "web-2"])
    rolling.step(NOW_NS)
    die(children["web-1"])
    spawn(children["web-1"])
    come_up(children["web-1"], NOW_NS)
    assert rolling.step(NOW_NS) == Wait(NOW_NS + SETTLE_NS)
    die(children["web-1"])
    assert isinstance(rolling.step(NOW_NS), RollingStop)


def test_a_hook_that_fails_stops_it() -> None:
    """With the reason: the process lives, and would be waited for until the limit."""
    children = replicas()
    rolling = Rolling(children, ["web-1"])
    rolling.step(NOW_NS)
    die(children["web-1"])
    spawn(children["web-1"])
    children["web-1"].process.enter(Phase.UP, NOW_NS)
    children["web-1"].components.begin_move("shop", ModuleState.PRIMARY, None)
    children["web-1"].components.fail_move("shop", "KeyError: 'x'", NOW_NS)
    assert rolling.step(NOW_NS) == RollingStop("web-1 did not come back: shop did not become primary: KeyError: 'x'")


def test_while_another_is_missing_nobody_goes() -> None:
    """It died by itself: one that answers would be one too few."""
    children = replicas()
    rolling = Rolling(children, ["web-1"])
    die(children["web-3"])
    assert rolling.step(NOW_NS) == Wait()
    spawn(children["web-3"])
    assert rolling.step(NOW_NS) == Wait()
    come_up(children["web-3"])
    assert rolling.step(NOW_NS) == Begin("web-1")


def test_what_was_given_up_is_not_waited_for_but_started_first() -> None:
    """Nobody loses anything by it; and the others are one more then."""
    children = replicas()
    die(children["web-2"], Phase.FAILED)
    assert Rolling(children, ["web-1"]).step(NOW_NS) == Begin("web-1")
    assert Rolling(children, ["web-1", "web-2"]).step(NOW_NS) == Begin("web-2")


def test_the_last_that_answers_does_not_go() -> None:
    """All others were given up: to restart it would be what rolling is there to avoid."""
    children = replicas(2)
    die(children["web-2"], Phase.FAILED)
    assert Rolling(children, ["web-1"]).step(NOW_NS) == RollingStop("web-1 is the last replica that answers")


def test_one_without_replicas_is_refused_unless_forced() -> None:
    """Nobody would answer meanwhile, and whoever says rolling counts on it."""
    with pytest.raises(FailedPrecondition, match="'store' has no replicas"):
        Rolling(replicas(), ["web-1", "store"])
    assert Rolling(replicas(), ["store"], is_forced=True).step(NOW_NS) == Begin("store")


def test_one_that_restarts_by_itself_meanwhile_is_done() -> None:
    """It is new; but the next waits until it is there."""
    children = replicas()
    rolling = Rolling(children, ["web-1", "web-2", "web-3"])
    die(children["web-1"])
    spawn(children["web-1"])
    assert rolling.step(NOW_NS) == Wait()
    come_up(children["web-1"])
    assert rolling.step(NOW_NS) == Begin("web-2")
    assert rolling.left() == ["web-2", "web-3"]


def test_two_of_one_family_touch_each_other() -> None:
    """Each would find all others in service, and take one away."""
    children = replicas()
    first, second = Rolling(children, ["web-1"]), Rolling(children, ["web-3"])
    assert first.touches(second)
    assert not first.touches(Rolling(children, ["store"], is_forced=True))


@settings(deadline=None)
@example(4, [1, 2, 3])  # one has failed for good, and is begun while another is on its way
@given(st.integers(2, 5), st.lists(st.integers(0, 99), max_size=60))
def test_whatever_happens_it_takes_nobody_away_while_another_is_missing(count: int, chance: list[int]) -> None:
    """And it ends: done, or stopped with a reason; never two on their way by its doing."""
    children = replicas(count)
    names = [name for name in children if name != "store"]
    rolling, now_ns = Rolling(children, names), NOW_NS
    for number in [*chance, *range(200)]:
        family = [children[name] for name in names]
        before = [child for child in family if not child.is_in_service and child.process.phase is not Phase.FAILED]
        step = rolling.step(now_ns)
        if isinstance(step, Begin):
            child = children[step.backplane]
            assert not child.is_in_service or not before, "one that serves goes only while all others do"
            if child.process.is_living:
                leave(child)
            else:
                child.process.enter(Phase.WAITING, now_ns)
        elif not isinstance(step, Wait):
            assert step == RollingDone() or (isinstance(step, RollingStop) and step.because)
            if step == RollingDone():
                assert not rolling.left()
            return
        child = family[number % count]
        what = number // count % 8
        if what == 0 and number in chance[:4]:
            die(child, Phase.FAILED if number % 3 == 0 else Phase.WAITING)
        for child in family:
            if child.process.phase is Phase.WAITING:
                spawn(child)
            elif child.process.phase is Phase.STARTING:
                come_up(child, now_ns)
            elif child.departure.is_leaving:
                die(child)
        now_ns += SETTLE_NS // 3
    raise AssertionError("it has no end")


def answer_of(world: World, caller: Caller) -> str:
    """What whoever ordered it was told when he was refused."""
    answer = world.answers[caller]
    assert isinstance(answer, effects.Refuse)
    return answer.error.message


def run_until_answered(world: World, caller: Caller) -> None:
    """Well-behaved processes, and time that passes only when nothing else happens."""
    while caller not in world.answers:
        world.do_what_is_asked()
        assert caller in world.answers or world.pass_time()


def test_ordered_for_the_name_in_common_all_replicas_are_restarted() -> None:
    """And nobody else: what their strategy says of others is for deaths."""
    world = up_world(REPLICATED, dict.fromkeys(REPLICATED, policy(strategy="one_for_all")))
    caller = world.order_restart("second", is_rolling=True)
    run_until_answered(world, caller)
    assert world.answers[caller] == effects.ReplyToCaller(
        caller, {"backplanes": {"second-1": 2, "second-2": 2}, "unfinished": []}
    )
    assert {name: process.generation for name, process in world.processes.items()} == {
        "first": 1, "second-1": 2, "second-2": 2, "third": 1,
    }  # fmt: skip
    assert world.drains == ["second-1", "second-2"]
    assert all(process.states["top"] is ModuleState.PRIMARY for process in [world.processes["third"]])


def test_while_it_rolls_callers_always_have_a_place() -> None:
    """The directory never shows all of them as going, or coming."""
    world = up_world(REPLICATED)
    obey, seen = world.obey, []

    def look(effect: effects.Effect) -> list[events.Event]:
        if isinstance(effect, effects.SendDirectory):
            seen.append({name for name, place in effect.directory.backplanes.items() if place.is_ready and place.is_up})
        return obey(effect)

    world.obey = look  # type: ignore[method-assign]
    run_until_answered(world, world.order_restart("second", is_rolling=True))
    assert {frozenset(ready & {"second-1", "second-2"}) for ready in seen} == {
        frozenset({"second-1"}), frozenset({"second-2"}), frozenset({"second-1", "second-2"}),
    }  # fmt: skip


def test_stopped_it_says_why_and_who_is_as_he_was() -> None:
    """Who ordered it has to know what runs now."""
    world = up_world(REPLICATED, dict.fromkeys(REPLICATED, policy(max=0)))
    caller = world.order_restart("second", is_rolling=True)
    while world.processes.get("second-1") is None or world.processes["second-1"].generation == 1:
        (step := world._next_step()) and step()
    world.die("second-1", 1)
    assert answer_of(world, caller) == (
        "second-1 did not come back: exited with 1: its last line; given up: restarts are off (restart.max = 0)"
        "; not restarted: second-2 (1 of 2 are unchanged)"
    )
    assert world.processes["second-2"].generation == 1


def test_two_orders_for_one_family_go_one_after_the_other() -> None:
    """At the same time each would take one away. What has started anew since it was ordered is what was ordered."""
    world = up_world(REPLICATED)
    first = world.order_restart("second", is_rolling=True)
    while world.processes["second-1"].generation == 1 if "second-1" in world.processes else True:
        (step := world._next_step()) and step()
    second = world.order_restart("second", is_rolling=True)
    run_until_answered(world, first)
    assert second not in world.answers
    run_until_answered(world, second)
    assert world.drains == ["second-1", "second-2", "second-1"]
    assert world.answers[second] == effects.ReplyToCaller(
        second, {"backplanes": {"second-1": 3, "second-2": 2}, "unfinished": []}
    )


def test_what_cannot_roll_is_refused_in_one_line() -> None:
    """And what is not there, with what is like it."""
    world = up_world(REPLICATED)
    assert "has no replicas" in answer_of(world, world.order_restart("third", is_rolling=True))
    assert answer_of(world, world.order_restart("secod", is_rolling=True)) == (
        "no backplane 'secod' (did you mean 'second'?)"
    )
    forced = world.order_restart("third", is_rolling=True, is_forced=True)
    run_until_answered(world, forced)
    assert isinstance(world.answers[forced], effects.ReplyToCaller)


def test_at_its_limit_it_says_how_far_it_is() -> None:
    """What has begun goes on; the rest is left as it is."""
    world = up_world(REPLICATED)
    caller = world.order_restart("second", is_rolling=True, limit_ns=1_000_000_000)
    while caller not in world.answers:
        assert world.pass_time()
    assert "'second-1' is not up again yet" in answer_of(world, caller)
    assert answer_of(world, caller).endswith("; not restarted: second-2 (1 of 2 are unchanged)")
    world.do_what_is_asked()
    assert (world.processes["second-1"].generation, world.processes["second-2"].generation) == (2, 1)
