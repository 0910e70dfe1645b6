"""Quotas: the default rule of the source, and what configuration may say."""

from __future__ import annotations

import pytest

from appbackplane.runtime.scheduling.quotas import UNLIMITED, Quotas, default_quotas, quotas_from


def test_default_quotas_are_those_of_the_source() -> None:
    """Law 3: unlimited, 100, 50, 25, 12, 12, … Other numbers are other shares for everybody who configured none."""
    assert default_quotas(8) == [UNLIMITED, 100, 50, 25, 12, 12, 12, 12]
    assert default_quotas(1) == [UNLIMITED]
    assert quotas_from((), 3) == [UNLIMITED, 100, 50]


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ([0, 100, 50, 25, 12], [UNLIMITED, 100, 50, 25, 12, 12, 12, 12]),
        ([7], [7] * 8),
        ([3, 0], [3, *[UNLIMITED] * 7]),
    ],
)
def test_zero_is_unlimited_and_the_last_repeats(configured: list[int], expected: list[int]) -> None:
    """Section 8. A 0 taken literally would never run that priority again."""
    assert quotas_from(configured, 8) == expected


def test_what_makes_no_sense_is_refused_with_the_number() -> None:
    """A wrong quota found while running would look like a hang."""
    with pytest.raises(ValueError, match="3 given for 2 priorities"):
        quotas_from([1, 2, 3], 2)
    with pytest.raises(ValueError, match="-1 is below 0"):
        quotas_from([1, -1], 2)
    with pytest.raises(ValueError, match="1 given for 2"):
        Quotas([1, 2]).change([1])


def test_new_quotas_are_in_force_at_once() -> None:
    """An operator who lowers a quota while bulk work floods must not wait for the tick."""
    quotas = Quotas([5, 5])
    quotas.left[0] = 0
    quotas.change([2, 3])
    assert quotas.left == [2, 3]
    quotas.left[1] = 0
    quotas.reset()
    assert (quotas.left, quotas.full) == ([2, 3], [2, 3])
    quotas.left[0] = 0
    assert quotas.full == [2, 3], "spending a quota must not spend the rule"
