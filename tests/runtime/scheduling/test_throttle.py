"""Throttle: the count of what is outstanding, and the hint when to come back."""

from __future__ import annotations

import pytest

from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling.throttle import (
    RETRY_AFTER_DEFAULT,
    RETRY_AFTER_MAX,
    RETRY_AFTER_MIN,
    OwnWork,
    Throttle,
)
from appbackplane.runtime.scheduling.timers import Timer

MS = 1_000_000


def serve(throttle: Throttle, start_ns: int, count: int, interval_ns: int) -> int:
    """`count` requests end, one each `interval_ns`, with others still outstanding; when the last did."""
    now_ns = start_ns
    for _ in range(count):
        throttle.outstanding += 1
        now_ns += interval_ns
        throttle.ended(now_ns)
    return now_ns


def test_full_means_as_many_outstanding_as_the_limit() -> None:
    """Law 9."""
    throttle = Throttle(2)
    throttle.outstanding += 1
    assert not throttle.is_full
    throttle.outstanding += 1
    assert throttle.is_full
    throttle.ended(0)
    assert not throttle.is_full


def test_a_lower_limit_holds_for_requests_from_now_on() -> None:
    """What was admitted is served; it only must not admit more."""
    throttle = Throttle(10)
    throttle.outstanding = 8
    throttle.change(5)
    assert throttle.is_full
    for _ in range(4):
        throttle.ended(0)
    assert not throttle.is_full


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_admits_nothing_is_refused(limit: int) -> None:
    """It would answer Busy for ever, with a hint to try again."""
    with pytest.raises(ValueError, match="would refuse everything"):
        Throttle(limit)


@pytest.mark.parametrize("limit", ["5", 1.5, None])
def test_a_limit_that_is_no_integer_is_refused(limit: object) -> None:
    """In the same words where the package is compiled."""
    with pytest.raises(TypeError, match=f"max_requests: {limit!r} is no limit: expected an integer, 1 or more"):
        Throttle(limit)


def test_the_hint_follows_the_pace() -> None:
    """Law 9. A hint that is too short is a storm of retries, one that is too long an idle component."""
    throttle = Throttle(100)
    assert throttle.retry_after() == RETRY_AFTER_DEFAULT
    throttle.outstanding = 50
    now_ns = serve(throttle, 0, 300, 2 * MS)
    assert throttle.retry_after() == pytest.approx(10 * 0.002, rel=0.01)
    serve(throttle, now_ns, 300, 20 * MS)
    assert throttle.retry_after() == pytest.approx(10 * 0.020, rel=0.01)


def test_the_hint_stays_within_what_a_caller_can_use() -> None:
    """Below a millisecond it is a spin, above seconds a guess."""
    fast, slow = Throttle(1), Throttle(1000)
    fast.outstanding = slow.outstanding = 1
    serve(fast, 0, 10, 10)
    serve(slow, 0, 10, 1000 * MS)
    assert fast.retry_after() == RETRY_AFTER_MIN
    assert slow.retry_after() == RETRY_AFTER_MAX


def test_an_idle_night_is_not_the_pace_of_work() -> None:
    """The first callers after a pause would be sent away for seconds although work takes milliseconds."""
    throttle = Throttle(10)
    throttle.outstanding = 1
    now_ns = serve(throttle, 0, 100, MS)
    throttle.ended(now_ns + MS)
    assert throttle.outstanding == 0
    throttle.outstanding = 1
    serve(throttle, now_ns + 8 * 3600 * 1000 * MS, 3, MS)
    assert throttle.retry_after() == pytest.approx(0.001, rel=0.05)


@pytest.mark.parametrize("has_fired_meanwhile", [False, True])
def test_a_timer_that_was_taken_back_gives_its_place_back_once(has_fired_meanwhile: bool) -> None:
    """Any thread may take it back, also while it fires: then its place is its action's, which gives it back at its end."""
    own, timer = OwnWork(2), Timer(AppObject(), "later", lambda: None, (), 3, 0)
    own.admit("later", "mill")
    timer.account = own
    assert timer.cancel()
    if has_fired_meanwhile:
        timer.account = None
    own.settle()
    assert own.outstanding == int(has_fired_meanwhile)
