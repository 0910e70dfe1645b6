"""Timeline: nothing is lost where it is cut, and what lasts for long does not fill the memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from appbackplane.spark.kernels.timeline import clipped, spread


@pytest.mark.parametrize("within", [(0, 1000), (100, 500), (333, 334), (-50, 0), (2000, 3000)])
def test_a_window_has_what_falls_into_its_slots_and_no_more(within: tuple[int, int]) -> None:
    """A report draws some bins: each must hold what it would hold if all of them were asked for."""
    random = np.random.default_rng(1)
    begin = random.integers(0, 900, 500)
    end = begin + random.integers(0, 400, 500)
    amount = random.integers(0, 1000, 500)
    whole = dict(zip(*(each.tolist() for each in spread(begin, end, amount, 1)), strict=True))
    part = dict(zip(*(each.tolist() for each in spread(*clipped(begin, end, amount, within), 1)), strict=True))
    inside = {slot: sum for slot, sum in whole.items() if within[0] <= slot < within[1]}
    assert part == pytest.approx(inside)


def test_a_hundred_long_ones_need_no_more_memory_than_one() -> None:
    """Long polls of ten minutes, all begun in the same moment, in slots of a millisecond: 60 million parts."""
    begin = np.arange(100)
    end = begin + 600_000
    tracemalloc.start()
    try:
        slots, amounts = spread(begin, end, np.full(100, 1000), 1)
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()
    assert len(slots) == 600_099
    assert amounts.sum() == pytest.approx(100_000)
