"""The optimiser finds the setting of highest throughput within 20 intervals, finds it again, and holds still otherwise.

Against a simulated kernel (tests/models/throughput_model.py) whose best setting is known. Seeds are fixed: a controller that
is right by luck is wrong in some of them, so the share of seeds in which it must be right is part of each rule.
"""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.runtime.requests.optimiser import Optimiser, OptimiserPolicy, Setting
from appbackplane.runtime.requests.optimiser.optimiser import LATE_MAX
from tests.models.throughput_model import Load, SimulatedKernel, best

MS = 1_000_000
MOST = 64
#: Noise of the throughput from interval to interval on two cores that others use, too.
NOISE = 0.12
#: What the issue asks for.
INTERVALS, SHARE = 20, 0.9
SEEDS = range(20)

LOADS = {
    "CPU-bound": Load(5 * MS, 0, contention=0.03),
    "CPU-bound, 8 cores": Load(5 * MS, 0, cores=8, contention=0.02),
    "CPU-bound, one at a time": Load(2 * MS, 0, cores=1, contention=0.05),
    "blocking": Load(0, 50 * MS),
    "blocking, thrashing beyond 20": Load(0, 50 * MS, contention=0.05, knee=20),
    "blocking, a cliff beyond 11": Load(0, 50 * MS, contention=0.5, knee=11),
    "mixed": Load(2 * MS, 18 * MS, contention=0.02),
    "mixed, mostly blocking": Load(1 * MS, 20 * MS, contention=0.01),
}
CHANGES = [
    ("CPU-bound", "blocking"),
    ("blocking", "CPU-bound"),
    ("CPU-bound", "mixed"),
    ("mixed", "CPU-bound"),
    ("blocking", "mixed"),
    ("mixed", "blocking, a cliff beyond 11"),
    ("CPU-bound, 8 cores", "CPU-bound"),
]  # fmt: skip


def kernel(load: Load, start: int = 4, *, seed: int = 1, noise: float = NOISE) -> SimulatedKernel:
    """One that starts with so many workers, and pools that are no bottleneck."""
    optimiser = Optimiser(OptimiserPolicy(workers_max=MOST), Setting(start, 1000, 2000))
    return SimulatedKernel(optimiser, load.per_s, seed=seed, noise=noise)


def held_share(kernel: SimulatedKernel, load: Load) -> float:
    """The throughput of the setting that is held, as a share of the best one's."""
    return load.per_s(kernel.optimiser.workers_held) / best(load.per_s, MOST)[1]


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("start", [1, 4, MOST])
def test_it_reaches_nine_tenths_of_the_best_within_20_intervals_without_noise(name: str, start: int) -> None:
    """The rule itself: every kind of load, from below, from beside and from far beyond."""
    simulated = kernel(LOADS[name], start, noise=0.0)
    simulated.run(INTERVALS)
    assert held_share(simulated, LOADS[name]) >= SHARE


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("start", [1, 4, MOST])
def test_noise_seldom_keeps_it_from_the_best(name: str, start: int) -> None:
    """In nine of ten runs at 12 % noise, where one look in three is off by more than that; and nowhere far off."""
    shares = []
    for seed in SEEDS:
        simulated = kernel(LOADS[name], start, seed=seed)
        simulated.run(INTERVALS)
        shares.append(held_share(simulated, LOADS[name]))
    assert sum(share >= SHARE for share in shares) >= 0.85 * len(shares)
    assert sum(shares) / len(shares) >= 0.93


@pytest.mark.parametrize("name", LOADS)
def test_noise_does_not_make_it_wander(name: str) -> None:
    """Over 300 intervals, its own probes included, it has nine tenths of the best throughput, and seldom searches anew."""
    load = LOADS[name]
    simulated = kernel(load)
    simulated.run(30)
    del simulated.workers_seen[:], simulated.moves[:]
    simulated.run(300)
    mean = sum(map(load.per_s, simulated.workers_seen)) / len(simulated.workers_seen)
    assert mean >= 0.9 * best(load.per_s, MOST)[1]
    assert sum("changed" in move.reason or "showed more" in move.reason for move in simulated.moves) <= 2


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_changed_load_is_noticed_and_its_best_setting_found_within_20_intervals(before: str, after: str) -> None:
    """What was best an hour ago may be the worst now; in nine of ten runs, at 12 % noise."""
    right = 0
    for seed in SEEDS:
        simulated = kernel(LOADS[before], seed=seed)
        simulated.run(50)
        simulated.curve = LOADS[after].per_s
        simulated.run(INTERVALS)
        right += held_share(simulated, LOADS[after]) >= SHARE
    assert right >= 0.85 * len(SEEDS)


def test_a_top_that_moved_without_a_change_of_the_throughput_is_found_by_probes() -> None:
    """The load at 11 workers is what it was, but now 64 would do six times as much: nothing but a look elsewhere shows it."""
    found = 0
    for seed in SEEDS:
        simulated = kernel(LOADS["blocking, a cliff beyond 11"], seed=seed, noise=0.06)
        simulated.run(50)
        simulated.curve = LOADS["blocking"].per_s
        simulated.run(30)
        found += simulated.optimiser.workers_held >= 0.9 * MOST
    assert found >= 0.9 * len(SEEDS)


def test_probes_that_agree_are_believed_however_noisy_it_was() -> None:
    """What the machine did an hour ago is no reason to look at better settings again and again and never take one."""
    found = 0
    for seed in SEEDS:
        simulated = kernel(LOADS["blocking, a cliff beyond 11"], seed=seed, noise=0.4)
        simulated.run(50)
        simulated.curve, simulated.noise = LOADS["blocking"].per_s, 0.06
        simulated.run(80)
        found += simulated.optimiser.workers_held >= 0.9 * MOST
    assert found > 0.9 * len(SEEDS)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    top=st.integers(1, MOST), rise=st.floats(0.5, 1.0), fall=st.floats(0.0, 1.5), start=st.integers(1, MOST),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_any_curve_with_one_top(top: int, rise: float, fall: float, start: int, seed: int) -> None:
    """Wherever the top is, however steep its sides, and wherever the search begins."""

    def curve(workers: int) -> float:
        return 2000.0 * min(workers, top) ** rise * min(1.0, top / workers) ** fall

    simulated = SimulatedKernel(
        Optimiser(OptimiserPolicy(workers_max=MOST), Setting(start, 1000, 2000)), curve, seed=seed, noise=0.03
    )
    simulated.run(INTERVALS)
    assert curve(simulated.optimiser.workers_held) >= 0.85 * best(curve, MOST)[1]


def test_a_low_offered_load_says_nothing_about_the_setting() -> None:
    """The throughput falls to a fifth because less is offered: whoever takes that for a bad setting wanders off."""
    simulated = kernel(LOADS["mixed"])
    simulated.run(30)
    held = simulated.optimiser.workers_held
    del simulated.moves[:]
    simulated.offered_per_s = 0.2 * LOADS["mixed"].per_s(held)
    simulated.run(25)
    assert all("the probe has ended" in move.reason for move in simulated.moves)
    assert simulated.optimiser.setting.workers == held


def test_idle_workers_are_given_back_slowly_and_come_back_with_the_work() -> None:
    """One at a time, each with the reason; what was learned is not forgotten with them."""
    simulated = kernel(LOADS["blocking"])
    simulated.run(30)
    held = simulated.optimiser.workers_held
    del simulated.moves[:]
    simulated.offered_per_s = 0.1 * LOADS["blocking"].per_s(held)
    simulated.run(300)
    workers = [held, *(move.setting.workers for move in simulated.moves)]
    assert all(fewer >= 0.75 * more - 1 for more, fewer in itertools.pairwise(workers))
    assert simulated.offered_per_s <= LOADS["blocking"].per_s(workers[-1]) < 0.3 * LOADS["blocking"].per_s(held)
    assert all("no backlog" in move.reason for move in simulated.moves)
    simulated.offered_per_s = math.inf
    simulated.run(2)
    assert simulated.optimiser.setting.workers == held
    assert "a backlog again" in simulated.moves[-1].reason


def test_every_move_has_a_reason_that_names_what_was_changed() -> None:
    """The log is all that a person has to understand the controller."""
    simulated = kernel(LOADS["mixed"])
    before = simulated.optimiser.setting
    simulated.run(100)
    assert len(simulated.moves) >= 5
    for move in simulated.moves:
        assert move.setting != before
        assert move.reason.startswith(f"workers {before.workers} -> {move.setting.workers}: ")
        before = move.setting


def test_the_same_seed_gives_the_same_moves() -> None:
    """It decides from what it is told alone."""
    first, second = kernel(LOADS["mixed"]), kernel(LOADS["mixed"])
    first.run(100)
    second.run(100)
    assert first.moves == second.moves


def test_it_stays_within_the_bounds_and_moves_into_new_ones() -> None:
    """Bounds are the operator's word: 12 workers where 64 would do more."""
    simulated = kernel(LOADS["blocking"])
    simulated.optimiser = Optimiser(OptimiserPolicy(workers_min=3, workers_max=12), Setting(1, 100, 200))
    assert simulated.optimiser.setting.workers == 3
    simulated.run(100)
    assert all(3 <= workers <= 12 for workers in simulated.workers_seen)
    assert simulated.optimiser.workers_held == 12
    move = simulated.optimiser.review(OptimiserPolicy(workers_max=6))
    assert move is not None and move.setting.workers == 6 and "bounds" in move.reason
    assert simulated.optimiser.is_searching


def test_intervals_before_the_workers_are_there_do_not_count_and_those_that_never_come_are_not_waited_for() -> None:
    """A process takes a while to start; one that cannot start would stop the search for ever."""
    simulated = kernel(LOADS["blocking"], noise=0.0)
    optimiser = simulated.optimiser
    simulated.run(1)
    while optimiser.setting.workers <= 8:
        simulated.run(1)
    asked = optimiser.setting.workers
    short = simulated.sample(Setting(8, 1000, 2000))
    assert [optimiser.observe(short) for _ in range(LATE_MAX)] == [None] * LATE_MAX
    optimiser.observe(short)
    assert optimiser.setting.workers <= 8 < asked
    simulated.run(30)
    assert max(simulated.workers_seen[-30:]) <= 8
    assert optimiser.workers_held == 8


def test_what_somebody_else_sets_is_where_it_goes_on() -> None:
    """Whoever types `workers 20` is not fought over; from there the top is looked for."""
    simulated = kernel(LOADS["CPU-bound"])
    simulated.run(30)
    simulated.optimiser.adopt(Setting(20, 500, 600))
    assert simulated.optimiser.setting == Setting(20, 500, 600) and simulated.optimiser.is_searching
    simulated.run(INTERVALS)
    assert held_share(simulated, LOADS["CPU-bound"]) >= SHARE


def test_pools_that_somebody_made_large_are_never_made_smaller() -> None:
    """At the start, by other bounds, and after a change by hand: who posts that many waits for himself in smaller ones."""
    simulated = kernel(LOADS["mixed"])
    simulated.optimiser = optimiser = Optimiser(OptimiserPolicy(), Setting(4, 50_000, 60_000))
    simulated.run(INTERVALS)
    assert (optimiser.setting.ready, optimiser.setting.rejoin) == (50_000, 60_000)
    optimiser.review(OptimiserPolicy(ready_max=100, rejoin_max=200))
    assert (optimiser.setting.ready, optimiser.setting.rejoin) == (50_000, 60_000)
    optimiser.adopt(Setting(4, 70_000, 80_000))
    simulated.run(INTERVALS)
    assert (optimiser.setting.ready, optimiser.setting.rejoin) == (70_000, 80_000)


def test_requests_that_outlast_the_interval_make_longer_looks() -> None:
    """Four requests an interval vary by half; so several intervals make one look, and it takes longer, but gets there."""
    load = Load(0, 2000 * MS, contention=0.2, knee=16)
    simulated = kernel(load, noise=0.03)
    simulated.run(120)
    assert held_share(simulated, load) >= SHARE


def test_workers_that_are_blocked_are_never_outnumbered_by_the_setting() -> None:
    """Requests that wait for sub-requests hold a worker each: with none left over, a hierarchy stops dead."""
    simulated = kernel(LOADS["CPU-bound"], start=8)
    simulated.blocked = 5
    simulated.run(60)
    assert min(simulated.workers_seen) > 5


def test_when_all_workers_are_blocked_there_are_more_at_once() -> None:
    """Not after a search: nothing ends, so nothing could be learned."""
    simulated = kernel(LOADS["CPU-bound"])
    stuck = msgspec.structs.replace(
        simulated.sample(simulated.optimiser.setting), blocked_count=4, ended_count=0, run_ns=0
    )
    move = simulated.optimiser.observe(stuck)
    assert move is not None and move.setting.workers == 8
    assert "all 4 workers were blocked while 1000 requests were ready" in move.reason


def test_a_ready_pool_that_runs_dry_is_no_reason_to_take_other_workers() -> None:
    """The bottleneck is the pool: it grows, with the reason, and then the workers are looked for."""
    simulated = kernel(LOADS["mixed"])
    simulated.optimiser = Optimiser(OptimiserPolicy(workers_max=MOST), Setting(4, 100, 200))
    simulated.ready_needed = 1500
    simulated.run(INTERVALS)
    assert simulated.optimiser.setting.ready >= 1500
    assert simulated.optimiser.setting.rejoin >= simulated.optimiser.setting.ready
    assert "posters waited for room in a ready pool of 100" in simulated.moves[0].reason
    assert held_share(simulated, LOADS["mixed"]) >= SHARE
