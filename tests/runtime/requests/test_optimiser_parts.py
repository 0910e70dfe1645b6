"""The parts of the optimiser: the fitted curve, the pools, the policy's checks."""

from __future__ import annotations

import doctest
import itertools
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.runtime.requests.optimiser import KernelSample, OptimiserPolicy, Setting
from appbackplane.runtime.requests.optimiser import curve as curve_module
from appbackplane.runtime.requests.optimiser.curve import Curve, fitted
from appbackplane.runtime.requests.optimiser.pools import grown

SECOND = 1_000_000_000
POLICY = OptimiserPolicy()
#: 4 workers, all at work, plenty of both pools.
BUSY = KernelSample(
    interval_ns=SECOND, ended_count=100, ready_count=50, posting_count=1, rejoinable_count=10, workers=4, executing_count=4,
    blocked_count=0, run_ns=40_000_000, wait_ns=0,
)  # fmt: skip


def test_doctests() -> None:
    """What the docstrings show is so."""
    assert doctest.testmod(curve_module).failed == 0


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    looks=st.dictionaries(
        st.integers(1, 64), st.tuples(st.floats(-0.4, 0.4), st.integers(1, 4)), min_size=1, max_size=8
    )
)
def test_the_fitted_curve_has_one_top_and_workers_never_do_more_in_company(
    looks: dict[int, tuple[float, int]],
) -> None:
    """A second top, or a worker that does more where there are more of them, is noise, and would lead the search astray."""
    workers = sorted(looks)
    levels = fitted([looks[w][0] for w in workers], [float(looks[w][1]) for w in workers], workers)
    steps = [after - before for before, after in itertools.pairwise(levels)]
    small = 0.03  # the fit stops before it is exact: differences below 3 % decide nothing
    falls = next((n for n, step in enumerate(steps) if step < -small), len(steps))
    assert all(step <= small for step in steps[falls:])
    for step, (low, high) in zip(steps, itertools.pairwise(workers), strict=True):
        assert step <= math.log(high / low) + small


def test_no_other_curve_is_nearer() -> None:
    """Against all curves of a coarse grid that keep the two rules."""
    workers, seen = [1, 2, 4], [0.0, 1.0, 0.5]
    grid = [n / 20 for n in range(-20, 41)]

    def error(levels: tuple[float, ...]) -> float:
        return sum((a - b) ** 2 for a, b in zip(levels, seen, strict=True))

    two = math.log(2) + 1e-9
    allowed = [
        (a, b, c) for a in grid for b in grid for c in grid
        if b - a <= two and c - b <= two and not (b < a and c > b)
    ]  # fmt: skip
    assert error(tuple(fitted(seen, [1.0] * 3, workers))) <= min(map(error, allowed)) + 1e-3


def test_a_curve_that_is_right_is_left_as_it_is() -> None:
    """What keeps the rules is its own nearest curve."""
    curve = Curve()
    for workers, rate in ((1, 10.0), (2, 18.0), (4, 25.0), (8, 20.0)):
        curve.add(workers, math.log(rate))
    assert [(p.workers, round(math.exp(p.level), 1), p.look_count) for p in curve.points()] == [
        (1, 10.0, 1), (2, 18.0, 1), (4, 25.0, 1), (8, 20.0, 1),
    ]  # fmt: skip


def test_pools_that_are_large_enough_stay_as_they_are() -> None:
    """Most intervals change nothing."""
    assert grown(BUSY, Setting(4, 100, 200), POLICY) is None


def test_the_ready_pool_grows_when_workers_were_idle_while_posters_waited() -> None:
    """Then the pool was the bottleneck; the reason says so."""
    dry = msgspec.structs.replace(BUSY, ready_count=0, posting_count=3, executing_count=2)
    larger, why = grown(dry, Setting(4, 100, 400), POLICY) or pytest.fail("too small, and nothing done")
    assert larger == Setting(4, 200, 400)
    assert why == "2 workers were idle while 3 posters waited for room in a ready pool of 100"


def test_the_ready_pool_bridges_the_time_that_posters_take() -> None:
    """Little's law: 60,000 requests a second, 50 ms."""
    fast = msgspec.structs.replace(BUSY, ended_count=60_000)
    larger, _ = grown(fast, Setting(4, 100, 10_000), POLICY) or pytest.fail("too small, and nothing done")
    assert larger.ready == 3000


def test_the_rejoin_pool_takes_all_that_was_admitted_and_grows_where_that_is_worth_a_try() -> None:
    """A full one stops the posters, whatever the number of workers; then the ready pool is not what they wait for."""
    larger, _ = grown(BUSY, Setting(4, 100, 50), POLICY) or pytest.fail("too small, and nothing done")
    assert larger == Setting(4, 100, 104)
    full = msgspec.structs.replace(BUSY, rejoinable_count=190, ready_count=0, executing_count=0)
    assert grown(full, Setting(4, 100, 200), POLICY) is None
    larger, why = grown(full, Setting(4, 100, 200), POLICY, tries_rejoin=True) or pytest.fail("full, and nothing done")
    assert larger == Setting(4, 100, 400) and "190 of 200 entries of the rejoin pool" in why


def test_pools_never_shrink_and_never_pass_their_bounds() -> None:
    """A smaller pool may stop a hierarchy of requests that post each other."""
    dry = msgspec.structs.replace(BUSY, ready_count=0, executing_count=2)
    assert grown(dry, Setting(4, POLICY.ready_max, POLICY.rejoin_max), POLICY) is None
    assert grown(msgspec.structs.replace(BUSY, ended_count=1), Setting(1, 5000, 10_000), POLICY) is None


def test_pools_beyond_the_bounds_of_growth_stay_as_large_as_somebody_made_them() -> None:
    """Whoever posts 30,000 and then joins them has made room for them: with less, he waits for himself."""
    large = Setting(4, 5 * POLICY.ready_max, 5 * POLICY.rejoin_max)
    assert POLICY.within(large) == large
    dry = msgspec.structs.replace(BUSY, ready_count=0, executing_count=2)
    assert grown(dry, large, POLICY) is None
    beyond = Setting(2 * POLICY.workers_max, 100, 50_000)  # by hand, too
    larger, why = grown(msgspec.structs.replace(BUSY, workers=128), beyond, POLICY) or pytest.fail("nothing done")
    assert larger == Setting(128, 512, 50_000) and why == "128 workers at 100/s need 512 entries in the ready pool"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"workers_min": 0}, "workers_min = 0: expected 1 or"),
        ({"workers_min": 8, "workers_max": 4}, "workers_max = 4: expected workers_min (8) or more"),
        ({"ready_max": 1}, "ready_max = 1: expected ready_min"),
        ({"rejoin_min": -1}, "rejoin_min = -1: expected 1"),
        ({"workers_max": "8"}, "workers_max = '8': expected a whole number"),
        ({"ready_min": True}, "ready_min = True: expected a whole number"),
        ({"significance": "low"}, "significance = 'low': expected 0.01 to 0.2"),
        ({"significance": 0.5}, "significance = 0.5: expected 0.01 to 0.2"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    """At start, in one sentence that names the setting."""
    with pytest.raises(ValueError) as refused:
        OptimiserPolicy(**wrong)
    assert sentence in str(refused.value)
