"""Ticks: due once a period, in step with the first, however late anybody looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.scheduling.scheduler import Ticks


@given(
    period_ns=st.integers(1, 1000), start_ns=st.integers(0, 10**15), steps=st.lists(st.integers(0, 3500), max_size=40)
)
def test_ticks_keep_step(period_ns: int, start_ns: int, steps: list[int]) -> None:
    """Law 4. A tick that counted from when it was noticed would drift, and every share of CPU with it."""
    ticks = Ticks(period_ns, start_ns)
    now_ns, total = start_ns, 0
    for step_ns in steps:
        now_ns += step_ns
        total += ticks.advance(now_ns)
        assert total == (now_ns - start_ns) // period_ns
        assert now_ns < ticks.next_ns <= now_ns + period_ns
        assert (ticks.next_ns - start_ns) % period_ns == 0


@pytest.mark.parametrize("period_ns", [0, -5])
def test_a_period_is_longer_than_nothing(period_ns: int) -> None:
    """A period of 0 would tick for ever at one moment."""
    with pytest.raises(ValueError, match="expected a time above 0"):
        Ticks(period_ns, 0)


@given(old_ns=st.integers(1, 1000), new_ns=st.integers(1, 1000), passed_ns=st.integers(0, 999))
def test_another_period_holds_from_the_tick_that_is_due(old_ns: int, new_ns: int, passed_ns: int) -> None:
    """A shorter one begins now: who has set it to get quotas back sooner does not wait for the end of the longer one."""
    ticks = Ticks(old_ns, 0)
    now_ns = min(passed_ns, old_ns - 1)
    ticks.change(new_ns, now_ns)
    assert ticks.next_ns == min(old_ns, now_ns + new_ns)
    assert ticks.advance(ticks.next_ns + new_ns) == 2


def test_another_period_is_longer_than_nothing() -> None:
    """As the first is."""
    with pytest.raises(ValueError, match="expected a time above 0"):
        Ticks(1, 0).change(0, 0)
