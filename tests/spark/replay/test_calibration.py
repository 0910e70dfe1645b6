"""What the records do not say is found out again, where it is known because the simulation itself made them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from appbackplane.spark.replay import Costs, Load, ReplaySetting, calibrate, simulate
from appbackplane.spark.replay.calibration import gap_ns_of
from appbackplane.spark.replay.load import NEVER
from appbackplane.spark.replay.prediction import PredictedWaits
from tests.spark.replay.loads import MS, load

#: A worker between two actions.
COSTS = Costs(between_ns=30_000)


def recorded_under(load: Load, setting: ReplaySetting, costs: Costs = COSTS) -> Load:
    """What would be recorded of it: waits, and runs with what they were held up."""
    replayed = simulate(load, setting, costs)
    later = replayed.wait_later
    return load.changed(
        run=[run + held for run, held in zip(load.run, replayed.held_up, strict=True)],
        awaited=[awaited + wait for awaited, wait in zip(load.awaited, later, strict=True)],
        arrival=[arrival - wait for arrival, wait in zip(load.arrival, later, strict=True)],
        wait=replayed.wait,
    )


def mixed(**more: Any) -> Load:
    """A second and a half of three kinds of work, the same each time."""
    chance = random.Random(3)
    rows: list[dict[str, Any]] = []
    at = 0.0
    for _ in range(600):
        at += chance.expovariate(1 / 2.5)
        kind = chance.randrange(3)
        run = chance.uniform(1, 5)
        cpu = run * (0.8, 0.3, 0.05)[kind]
        rows.append({"at": at, "operation": kind, "priority": 2 * kind + 1, "run": run, "cpu": cpu, **more})
    return load(*rows)


@pytest.mark.parametrize(
    "setting",
    [
        ReplaySetting(),
        ReplaySetting(threads=4),
        ReplaySetting(threads=2, preempt=False),
        ReplaySetting(cpu_limit=45),
        ReplaySetting(threads=3, cpu_limit=60),
    ],
    ids=["one", "four", "two without relief", "the kernel's limit", "both"],
)
def test_recorded_waits_are_reproduced_and_other_settings_foretold(setting: ReplaySetting) -> None:
    """What a run was held up by is not taken for being blocked: or more threads would help those that compute."""
    truth = mixed()
    found = calibrate(recorded_under(truth, setting), setting)
    assert found.error < 0.1
    for other in (setting.with_(threads=8), setting.with_(cpu_limit=80), setting.with_(cpu_limit=None, threads=2)):
        expected = simulate(truth, other, COSTS)
        mean = sum(expected.wait) / len(truth)
        assert found.predict(other).mean_ns == pytest.approx(mean, rel=0.25, abs=MS)


def test_who_holds_a_limit_is_found_out() -> None:
    """The account stops everything until the tick; the kernel slows it down. Nobody has written down which it was."""
    truth = load(*[{"at": 700 * (n // 20), "run": 5, "cpu": 5, "object": n % 20} for n in range(200)])
    limited = ReplaySetting(cpu_limit=20, tick_ns=250 * MS)
    of_kernel = calibrate(recorded_under(truth, limited), limited)
    assert of_kernel.setting.is_limited_by_kernel
    account = limited.with_(is_limited_by_kernel=False)
    of_account = calibrate(recorded_under(truth, account, Costs(30_000, tick_after_ns=125 * MS)), limited)
    assert not of_account.setting.is_limited_by_kernel
    assert of_account.costs.tick_after_ns == 125 * MS
    assert max(of_kernel.error, of_account.error) < 0.05


def test_what_the_kernel_holds_up_is_not_taken_for_blocked() -> None:
    """Recorded, 10 % of a core: two actions of 2 ms a period of 50 ms, and the second of them took 48 ms. As blocked it is
    explained as well, nearly; then no other limit would help, and there was no advice at all.
    """
    rows = json.loads(Path(__file__).with_name("throttled.json").read_text())
    arrival, wait, run, cpu = ([value * 1000 for value in column] for column in list(zip(*rows, strict=True))[:4])
    operation, priority, object = list(zip(*rows, strict=True))[4:]
    none = [0] * len(rows)
    recorded = Load(
        arrival=arrival, operation=operation, object=object, priority=priority, run=run, cpu=cpu, awaited=none,
        deadline=[NEVER] * len(rows), wait=wait,
    )  # fmt: skip
    found = calibrate(recorded, ReplaySetting(cpu_limit=10, cpu_limit_by="os"))
    counted = {number for number, kind in enumerate(operation) if kind == 3}
    believed = sum(found.load.run[number] - cpu[number] for number in counted) / len(counted)
    assert believed < 2 * MS
    with_more = found.predict(found.setting.with_(cpu_limit=40)).waits[3, 3]
    assert with_more.mean == pytest.approx(38 * MS, rel=0.1)  # so it was


def test_what_a_worker_does_between_two_actions_is_read_from_the_gaps() -> None:
    """Where others were queued: a pause is no work."""
    queued = load(*[{"run": 1} for _ in range(50)], *[{"run": 1, "at": 1000 + 10 * n} for n in range(50)])
    setting = ReplaySetting(preempt=False)
    assert gap_ns_of(recorded_under(queued, setting, Costs(70_000)), 1) == pytest.approx(70_000, abs=10)


def test_an_idle_backplane_tells_nothing_of_its_costs() -> None:
    """Then what is usual is taken, and it does not matter."""
    idle = load(*[{"run": 1, "at": 10 * n} for n in range(50)])
    assert gap_ns_of(recorded_under(idle, ReplaySetting()), 1) is None
    assert 0 < calibrate(idle, ReplaySetting()).costs.between_ns < 100_000


def test_what_awaited_something_is_put_where_it_arrived() -> None:
    """Its recorded wait holds the second one: taken for the first, it would have come before it was called."""
    rows = [{"at": 4 * n, "run": 2, "awaited": 5, "object": n % 7} for n in range(200)]
    rows += [{"at": 4 * n + 1, "run": 1.5, "operation": 1, "object": 100 + n} for n in range(200)]
    truth = load(*rows)
    found = calibrate(recorded_under(truth, ReplaySetting(preempt=False)), ReplaySetting(preempt=False))
    assert found.error < 0.25


def test_the_error_is_told_and_of_one_figure_too() -> None:
    """A prediction without it is a guess that looks like one no more."""
    truth = mixed()
    apart = recorded_under(truth, ReplaySetting())
    apart = apart.changed(wait=[wait + 40 * MS for wait in apart.wait])
    found = calibrate(apart, ReplaySetting())
    assert found.error > 0.5
    assert found.error_of((0, 1), "mean") < -0.5


def test_percentiles_are_those_of_the_sorted_list() -> None:
    """No bucket is between the figure and the truth."""
    waits = PredictedWaits.of([5, 1, 4, 2, 3], late=2)
    assert (waits.count, waits.mean, waits.p50, waits.p99, waits.max, waits.late) == (5, 3.0, 3, 5, 5, 2)
    assert PredictedWaits.of(range(1, 101)).p99 == 99
    assert PredictedWaits.of([]).count == 0
