"""Pausing: `pause` refuses what is no time, in the same words compiled and interpreted."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import pause


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        ("a", TypeError),
        (True, TypeError),
        (None, TypeError),
        ([], TypeError),
        (-1, ValueError),
        (float("nan"), ValueError),
    ],
)
def test_what_is_no_time_is_refused(seconds: Any, error: type[Exception]) -> None:
    """At once, where it is written, and not where it is awaited."""
    with pytest.raises(error) as refused:
        pause(seconds)
    assert str(refused.value) == f"pause({seconds!r}): expected a number of seconds, 0 or more"
