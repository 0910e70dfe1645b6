"""What becomes of a load: cases that one can work out on paper."""

from __future__ import annotations

import pytest

from appbackplane.spark.replay import Costs, Load, Replayed, ReplaySetting, predict, simulate
from appbackplane.spark.replay.simulation import REFUSED
from tests.spark.replay.loads import MS, in_ms, load

ALONE = ReplaySetting(preempt=False)


def waits(load: Load, setting: ReplaySetting = ALONE, costs: Costs | None = None) -> list[float]:
    """ms."""
    return in_ms(simulate(load, setting, costs).wait)


def test_one_worker_does_one_thing_after_the_other() -> None:
    """The simplest queue there is: whoever gets this wrong predicts nothing."""
    assert waits(load({}, {}, {}, {"at": 35})) == [0, 10, 20, 0]


def test_what_is_blocked_overlaps_and_what_computes_does_not() -> None:
    """The interpreter is one: more threads help who sleeps, and nobody who computes."""
    sleeping = load(*[{"run": 10} for _ in range(4)])
    computing = load(*[{"run": 10, "cpu": 10} for _ in range(4)])
    two = ALONE.with_(threads=2)
    assert waits(sleeping, two) == [0, 0, 10, 10]
    assert waits(computing, two) == [0, 0, 20, 20]  # two at half the speed, then two more
    assert simulate(computing, two).end_ns == 40 * MS


def test_a_computing_and_a_sleeping_action_do_not_disturb_each_other() -> None:
    """10 ms of CPU beside 10 ms of sleep are 10 ms."""
    result = simulate(load({"cpu": 10}, {}), ALONE.with_(threads=2))
    assert (result.end_ns, sum(result.held_up)) == (10 * MS, 0)


def test_who_has_to_share_the_interpreter_is_held_up() -> None:
    """By how much is what calibration takes out of recorded runs."""
    result = simulate(load({"cpu": 10}, {"cpu": 10, "run": 15}), ALONE.with_(threads=2))
    assert in_ms(result.held_up) == [10, 10]
    assert in_ms(result.end) == [20, 25]


def test_actions_of_one_object_run_one_at_a_time() -> None:
    """Law 1: here more threads are no advice."""
    busy = load(*[{"object": 1} for _ in range(3)])
    assert waits(busy, ALONE.with_(threads=8)) == [0, 10, 20]


def test_urgent_work_goes_first_and_quotas_let_others_in() -> None:
    """Law 3: the real scheduler decides, with the quotas that are asked about."""
    mixed = load({}, *[{"priority": 1} for _ in range(4)], *[{"priority": 5} for _ in range(2)])
    assert waits(mixed, ALONE.with_(quotas=(0,))) == [40, 0, 10, 20, 30, 50, 60]
    assert waits(mixed, ALONE.with_(quotas=(0, 2, 2, 2, 2, 1))) == [20, 0, 10, 40, 50, 30, 60]


def test_a_relief_runs_what_is_more_urgent_beside_long_work() -> None:
    """workers/poll_leader.py: without it every prediction for urgent work would be the length of what is in its way."""
    long = load({"run": 100}, {"at": 20, "priority": 1}, {"at": 20, "priority": 4}, {"at": 20, "priority": 0})
    assert waits(long, ALONE) == [0, 90, 100, 80]
    assert waits(long, ReplaySetting()) == [
        0,
        10,
        80,
        0,
    ]  # one after the other: the second relief is for what is above 0


def test_a_second_relief_is_let_in_for_what_is_more_urgent_still() -> None:
    """Long actions of three priorities run side by side."""
    long = load(
        {"run": 100}, {"at": 20, "priority": 2, "run": 50}, {"at": 30, "priority": 1}, {"at": 30, "priority": 0}
    )
    assert waits(long, ReplaySetting()) == [0, 0, 10, 0]


def test_an_overrun_that_nobody_expected_is_seen_after_the_quantum() -> None:
    """The sentinel looks: 0.5 ms, and half of its pause."""
    short = [{"at": -100 + number / 4, "run": 0.1} for number in range(300)]
    long = load(*short, {"run": 100}, {"at": 0.25, "priority": 0, "operation": 1})
    assert waits(long, ReplaySetting())[-1] == 0.5
    assert waits(long, ALONE)[-1] == 99.75


def test_the_account_runs_nothing_until_the_tick() -> None:
    """Law 5, as docs/concepts/priorities_and_quotas.md has it: 40 ms at 20 % of a core, and the debt is paid."""
    burning = load(*[{"run": 40, "cpu": 40} for _ in range(20)])
    limited = ALONE.with_(cpu_limit=20, is_limited_by_kernel=False)
    result = simulate(burning, limited, Costs(tick_after_ns=1000 * MS))
    assert sum(end <= 2900 * MS for end in result.end) == 15


def test_a_limit_of_the_kernel_is_a_slower_interpreter() -> None:
    """2 s of CPU at 20 % take 10 s, less what was saved up."""
    burning = load(*[{"run": 40, "cpu": 40} for _ in range(50)])
    result = simulate(burning, ALONE.with_(cpu_limit=20))
    assert 9.9 <= result.end_ns / 1e9 <= 10.0
    assert result.cpu_ns == pytest.approx(2000 * MS, rel=1e-6)


def test_what_awaits_holds_no_worker_and_keeps_its_object() -> None:
    """Law 6: others run meanwhile, and what came later for the same object waits for both halves."""
    rows = load({"object": 1, "run": 10, "awaited": 30}, {"object": 1}, {"object": 2})
    result = simulate(rows, ALONE)
    assert in_ms(result.wait) == [0, 40, 5]
    assert in_ms(result.end) == [40, 50, 15]


def test_the_second_half_waits_for_a_worker_too() -> None:
    """What was waited for in the middle is part of the recorded wait."""
    rows = load({"run": 10, "awaited": 2}, {"run": 20, "priority": 1})
    result = simulate(rows, ALONE)
    assert in_ms(result.wait) == [20, 0]
    rows = load({"run": 10, "awaited": 2}, {"run": 20, "at": 1})
    result = simulate(rows, ALONE)
    assert (in_ms(result.wait), in_ms(result.wait_later)) == ([18, 4], [18, 0])


def test_what_comes_too_late_is_not_begun() -> None:
    """A worker that would run it would be predicted to be busy."""
    result = simulate(load({}, {"deadline": 9}, {}), ALONE)
    assert in_ms(result.wait) == [0, -1, 10]
    assert result.expired_count == 1


def test_nearer_deadlines_go_first_where_that_is_the_order() -> None:
    """`order = "deadline"` is one of the things that one may ask about."""
    rows = load({}, {"deadline": 5000}, {"deadline": 50})
    assert waits(rows) == [0, 10, 20]
    assert waits(rows, ALONE.with_(order="deadline")) == [20, 10, 0]


def test_a_lane_lets_so_many_run_and_keeps_the_order() -> None:
    """What is beyond the limit of its lane waits although workers are free; other lanes pass."""
    rows = load(*[{"lane": 1} for _ in range(4)], {"lane": 0})
    assert waits(rows, ALONE.with_(threads=4, lanes={1: 2})) == [0, 0, 10, 10, 0]
    assert waits(rows, ALONE.with_(threads=4, lanes={1: 1})) == [0, 10, 20, 30, 0]
    assert waits(rows, ALONE.with_(threads=4)) == [0, 0, 0, 0, 10]


def test_a_worker_takes_its_time_between_two() -> None:
    """What calibration finds out is paid for each action."""
    assert waits(load({}, {}, {}), costs=Costs(between_ns=MS)) == [0, 11, 22]


def test_nothing_is_nothing() -> None:
    """An empty window is no error."""
    assert simulate(load(), ALONE) == Replayed([], [], [], [])


def flood(priority: int = 4) -> Load:
    """Twice what one worker can do, for five seconds."""
    return load(*({"at": 5 * number, "run": 10, "priority": priority} for number in range(1_000)))


def test_an_aim_bounds_the_waits_and_keeps_the_worker_busy() -> None:
    """The limit is the real one: what it promises of a backplane it promises here."""
    plain, setting = simulate(flood(), ReplaySetting()), ReplaySetting(aim_ns=50 * MS)
    limited = simulate(flood(), setting)
    refused = sum(wait == REFUSED for wait in limited.wait)
    assert max(plain.wait) > 4_000 * MS
    assert max(limited.wait) <= 50 * MS
    assert 450 <= refused <= 520, "half of them are more than it can do"
    assert limited.end_ns < plain.end_ns * 0.55
    assert predict(flood(), limited, setting).refused == refused
    assert sum(end > 0 for end in limited.end) == 1_000 - refused


def test_an_aim_refuses_nothing_of_priority_0_and_nothing_below_saturation() -> None:
    """As in a backplane."""
    assert REFUSED not in simulate(flood(priority=0), ReplaySetting(aim_ns=50 * MS)).wait
    calm = load(*({"at": 12 * number, "run": 10} for number in range(200)))
    assert REFUSED not in simulate(calm, ReplaySetting(aim_ns=50 * MS)).wait


def test_an_aim_and_awaiting_actions_and_deadlines_end_together() -> None:
    """An action that awaits counts as begun, and one that is too late has left the queue."""
    mixed = load(
        *(
            {"at": 2 * number, "run": 10, "awaited": 30 * (number % 3), "deadline": 2 * number + 35}
            for number in range(500)
        )
    )
    replayed = simulate(mixed, ReplaySetting(aim_ns=50 * MS, threads=2))
    assert replayed.expired_count == replayed.wait.count(-1) > 0
    replayed = simulate(mixed, ReplaySetting(aim_ns=20 * MS, threads=2))
    assert REFUSED in replayed.wait
    assert all((end > 0) == (wait >= 0) for end, wait in zip(replayed.end, replayed.wait, strict=True))
