"""Each rule sees its own trouble and no other; and the judge takes the mildest proposal that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appbackplane.spark.advice.facts import Facts
from appbackplane.spark.advice.gather import GatheredWindow
from appbackplane.spark.advice.judge import judge
from appbackplane.spark.advice.rules import (
    RULES,
    AdviceFinding,
    starved_priority,
    too_few_threads,
    too_low_a_limit,
    too_narrow_a_lane,
)
from appbackplane.spark.replay import Costs, Load, ReplaySetting
from tests.spark.replay.loads import load
from tests.spark.replay.test_calibration import recorded_under

MS = 1_000_000
OPERATIONS = ("shop.buy", "shop.report", "shop.price")


def facts_of(truth: Load, setting: ReplaySetting, costs: Costs | None = None) -> Facts:
    """What would be known after this load under this setting."""
    found = recorded_under(truth, setting, costs or Costs(30_000))
    return Facts(GatheredWindow("here", "shop", setting, found, OPERATIONS, 0, len(found)))


def bursts(count: int, every: float, *kinds: dict[str, Any]) -> Load:
    """`kinds`: rows, each `times` in a burst, on objects of their own."""
    return load(
        *[
            {"at": burst * every, "object": 100 * number + n, **kind}
            for burst in range(count)
            for number, kind in enumerate(kinds)
            for n in range(kind["times"])
        ]
    )


BLOCKED = bursts(5, 500, {"times": 30, "run": 10, "operation": 0, "priority": 1})
COMPUTING = bursts(5, 500, {"times": 30, "run": 5, "cpu": 5, "operation": 2, "priority": 3})
URGENT = {"times": 80, "run": 5, "operation": 0, "priority": 1}
PATIENT = {"times": 20, "run": 5, "operation": 1, "priority": 6}
LANES = bursts(5, 500, {"times": 20, "run": 10, "lane": 2, "operation": 0}, {"times": 3, "run": 10, "operation": 1})

SEEN: dict[str, tuple[Facts, set[Any]]] = {
    "blocked": (facts_of(BLOCKED, ReplaySetting()), {too_few_threads}),
    "blocked, with threads": (facts_of(BLOCKED, ReplaySetting(threads=32)), set()),
    "computing": (facts_of(COMPUTING, ReplaySetting()), set()),
    "computing, limited": (facts_of(COMPUTING, ReplaySetting(cpu_limit=35)), {too_low_a_limit}),
    "computing, limited to a core": (facts_of(COMPUTING, ReplaySetting(cpu_limit=100)), set()),
    "starved": (
        facts_of(bursts(5, 700, URGENT, PATIENT), ReplaySetting(quotas=(0,), tick_ns=200 * MS, preempt=False)),
        {starved_priority},
    ),
    "patient, but served each tick": (
        facts_of(bursts(5, 700, URGENT, PATIENT), ReplaySetting(quotas=(0,), tick_ns=1000 * MS, preempt=False)),
        set(),
    ),
    "a narrow lane": (facts_of(LANES, ReplaySetting(threads=16, lanes={2: 2})), {too_narrow_a_lane}),
}


@pytest.mark.parametrize("name", SEEN)
def test_each_rule_sees_its_own_trouble(name: str) -> None:
    """A rule that sees what is not there costs trust; one that sees nothing is not needed."""
    facts, expected = SEEN[name]
    assert {rule for rule in RULES if rule(facts) is not None} == expected


def test_evidence_has_figures_and_names() -> None:
    """Whoever reads it can look them up."""
    facts, _ = SEEN["starved"]
    finding = starved_priority(facts)
    assert finding is not None
    assert finding.figure == (1, 6)
    assert finding.evidence.startswith("When shop.report (priority 6) had work, for ")
    assert "to priority 1 meanwhile" in finding.evidence
    assert finding.data["by"] == [1]


@pytest.mark.parametrize(("by", "first"), [(0, 100), (1, 0)])
def test_priority_0_stays_unlimited_unless_it_takes_all_the_time(by: int, first: int) -> None:
    """It is kept for what is short and rare; where it is neither, it gets a quota like all others."""
    work = bursts(5, 700, {**URGENT, "priority": by}, PATIENT)
    finding = starved_priority(facts_of(work, ReplaySetting(quotas=(0,), tick_ns=200 * MS, preempt=False)))
    assert finding is not None
    assert finding.candidates[0][0] == first
    assert all(min(quotas[1:], default=1) > 0 for quotas in finding.candidates)


def test_work_that_was_kept_from_computing_is_not_called_blocked() -> None:
    """A machine that has no core to give: half of it did well, and shows that it needs no more than CPU."""
    rows = [
        {"at": 500 * burst, "object": n, "run": 5 if n % 3 else 20, "cpu": 5} for burst in range(5) for n in range(30)
    ]
    assert too_few_threads(facts_of(load(*rows), ReplaySetting())) is None


def judged(facts: Facts, **finding: Any) -> Any:
    """The value that is taken."""
    told = AdviceFinding(rule="made", key="threads", figure=(0, 1), evidence="", **finding)
    verdict = judge(told, facts, facts.setting)
    return verdict and verdict.new


def test_the_mildest_proposal_that_reaches_the_goal_is_taken() -> None:
    """More threads than are needed cost memory, and turns at the lead."""
    facts, _ = SEEN["blocked"]
    assert judged(facts, candidates=(2, 4, 8, 16, 32), goal_ns=25 * MS) == 8  # 8 is the first below what nobody minds
    assert judged(facts, candidates=(2, 4, 8, 16, 32), goal_ns=0, worth=1.0) == 32


def test_what_brings_little_is_not_proposed() -> None:
    """Two threads for thirty that compute: a wait is a wait."""
    computing, _ = SEEN["computing"]
    told = AdviceFinding(rule="made", key="threads", candidates=(2, 8), figure=(2, 3), evidence="")
    assert judge(told, computing, computing.setting) is None


def test_what_delays_others_by_more_than_half_is_not_proposed() -> None:
    """A patch that moves trouble elsewhere is no advice."""
    few = bursts(5, 700, {**URGENT, "times": 10}, {**PATIENT, "times": 80})
    facts = facts_of(few, ReplaySetting(preempt=False))
    told = AdviceFinding(rule="made", key="priorities", candidates=(1,), figure=(1, 6), evidence="")
    assert judge(told, facts, facts.setting) is None


def test_a_lane_is_widened_and_others_stay_as_they_are() -> None:
    """Where the request kernel has lanes."""
    facts, _ = SEEN["a narrow lane"]
    finding = too_narrow_a_lane(facts)
    assert finding is not None
    verdict = judge(finding, facts, facts.setting)
    assert verdict is not None
    assert set(verdict.new) == {2}
    assert verdict.new[2] > 2


def test_facts_take_a_run_as_spread_over_its_time(tmp_path: Path) -> None:
    """What ran while somebody waited is counted for that time, and for no more."""
    rows = load({"at": 0, "run": 10, "cpu": 4}, {"at": 5, "run": 10, "wait": 5}, {"at": 100, "run": 10})
    facts = Facts(GatheredWindow("here", "shop", ReplaySetting(), rows, OPERATIONS, 0, 3))
    assert facts.queued_ns == 5 * MS
    assert facts.while_queued("run") == pytest.approx(5 * MS)
    assert facts.while_queued("cpu") == pytest.approx(2 * MS)
    assert facts.lasted_ns == 110 * MS
