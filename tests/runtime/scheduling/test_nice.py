"""The nice of each priority, what of it may be had, and the weight that says the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.scheduling.nice import NICE_MAX, NICE_MIN, NiceTable, granted, weight_of_nice

TABLES = st.lists(st.integers(NICE_MIN, NICE_MAX), min_size=1, max_size=8).map(sorted)


def test_the_last_nice_repeats() -> None:
    """Whoever names three of eight priorities means the rest to be like the third."""
    table = NiceTable([-10, 0, 10], lowest=-20)
    assert [table.nice_of(priority) for priority in range(5)] == [-10, 0, 10, 10, 10]


def test_without_a_table_nice_is_left_alone() -> None:
    """What the user started with a nice of his own keeps it."""
    table = NiceTable([], lowest=-20, resting=7)
    assert (table.nice_of(0), table.is_in_force) == (7, False)


def test_without_the_privilege_nobody_is_lowered() -> None:
    """Lowered threads could never be raised again, and urgent work would run in them (TRAPS 25)."""
    table = NiceTable([-10, 0, 10], lowest=None, resting=3)
    assert ([table.nice_of(p) for p in range(3)], table.is_in_force) == ([3, 3, 3], False)
    assert table.weight_of(0, version=1) == 9548, "a weight may be written back"


def test_what_may_not_be_raised_is_lowered_in_order() -> None:
    """Relative nice from a lower base: the order is what the kernel needs to prefer urgent work."""
    table = NiceTable([-10, 0, 10], lowest=0)
    assert (table.granted, table.shift) == ((0, 10, 19), 10)


@given(wanted=TABLES, lowest=st.integers(NICE_MIN, NICE_MAX))
def test_what_is_granted_is_allowed_and_in_order(wanted: list[int], lowest: int) -> None:
    """A nice below the bound is refused by the kernel at every single action."""
    had = granted(wanted, lowest, 0)
    assert all(lowest <= nice <= NICE_MAX or nice in wanted for nice in had)
    assert min(had) >= lowest
    assert list(had) == sorted(had)
    if min(wanted) >= lowest:
        assert list(had) == wanted


@pytest.mark.parametrize(
    ("nice", "v1", "v2"), [(-20, 88761, 8668), (-10, 9548, 932), (0, 1024, 100), (10, 110, 11), (19, 15, 1)]
)
def test_weights_are_the_kernels(nice: int, v1: int, v2: int) -> None:
    """A group of this weight is treated as a thread of that nice: both are what the kernel divides by."""
    assert (weight_of_nice(nice, version=1), weight_of_nice(nice, version=2)) == (v1, v2)


def test_each_step_of_nice_is_a_quarter() -> None:
    """The table is typed in: a slip of the finger would show here."""
    for nice in range(NICE_MIN, NICE_MAX):
        ratio = weight_of_nice(nice, version=1) / weight_of_nice(nice + 1, version=1)
        assert 1.15 < ratio < 1.35, nice
    assert all(1 <= weight_of_nice(nice, version=2) <= 10_000 for nice in range(NICE_MIN, NICE_MAX + 1))
