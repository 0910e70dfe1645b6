"""Timers: what is due and when, in step, and never two of one kind in a queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling.timers import SWEEP_MIN, Timer, Timers


def timer(interval_ns: int = 0, object: AppObject | None = None) -> Timer:
    return Timer(object or AppObject(), "tick", lambda self: None, (), 3, interval_ns)


@given(st.lists(st.integers(0, 50), max_size=30), st.lists(st.integers(0, 12), max_size=12))
def test_timers_fall_due_in_order_of_time_then_of_setting(delays: list[int], steps: list[int]) -> None:
    """Law 8. Timers set in an order for one moment are expected to run in that order."""
    timers, model, now_ns = Timers(), [], 0
    for number, delay_ns in enumerate(delays):
        each = timer()
        timers.set(each, delay_ns)
        model.append((delay_ns, number, each))
    for step_ns in [*steps, 50]:
        now_ns += step_ns
        expected = [each for due_ns, _, each in sorted(model, key=lambda entry: entry[:2]) if due_ns <= now_ns]
        model = [entry for entry in model if entry[0] > now_ns]
        assert timers.due(now_ns) == expected
        assert timers.next_ns() == min((due_ns for due_ns, _, _ in model), default=None)
        assert len(timers) == len(model)


@given(st.integers(1, 20), st.lists(st.integers(1, 70), max_size=30))
def test_a_repeating_timer_keeps_step_and_counts_what_it_skips(interval_ns: int, steps: list[int]) -> None:
    """Law 8. A timer that counted from when it was noticed would drift; one that caught up would flood its object."""
    timers, each, now_ns, fired = Timers(), timer(interval_ns), 0, 0
    timers.set(each, interval_ns)
    for step_ns in steps:
        now_ns += step_ns
        due = timers.due(now_ns)
        assert due in ([], [each])
        fired += len(due)
        each.is_pending = False
        assert fired + each.skipped_count == now_ns // interval_ns
        assert timers.next_ns() == (now_ns // interval_ns + 1) * interval_ns


def test_one_that_was_taken_back_wakes_nobody() -> None:
    """Time-outs are nearly always taken back: each would wake an idle backplane for nothing."""
    timers, first, second = Timers(), timer(), timer()
    timers.set(first, 10)
    timers.set(second, 20)
    assert first.cancel()
    assert timers.next_ns() == 20
    assert second.cancel()
    assert timers.next_ns() is None


def test_a_timer_whose_last_action_has_not_run_is_skipped() -> None:
    """An overrun must not fill the queue of its object."""
    timers, each = Timers(), timer(10)
    timers.set(each, 10)
    assert timers.due(10) == [each]
    assert timers.due(20) == []
    assert timers.due(30) == []
    assert each.skipped_count == 2
    each.is_pending = False
    assert timers.due(40) == [each]


def test_cancelling_says_whether_it_was_in_time() -> None:
    """Whoever takes a time-out back must know whether it will still come."""
    timers, early, late, repeating = Timers(), timer(), timer(), timer(10)
    for each in (early, late, repeating):
        timers.set(each, 10)
    assert early.cancel()
    assert not early.cancel(), "it had been taken back"
    assert timers.due(10) == [late, repeating]
    assert not late.cancel(), "it has become an action"
    late.is_pending = False
    assert not late.cancel(), "and that action has run"
    assert repeating.cancel(), "its next turn is taken back"
    assert timers.due(1000) == []
    assert (timers.next_ns(), len(timers)) == (None, 0)


def test_an_object_that_goes_takes_its_timers_along() -> None:
    """A timer of a removed object would run on something that nobody knows."""
    timers, going, staying = Timers(), AppObject(), timer()
    for each in (timer(0, going), timer(10, going), staying):
        timers.set(each, 10)
    timers.cancel_of([going])
    assert timers.due(100) == [staying]


@pytest.mark.parametrize("kept", [0, 10])
def test_time_outs_that_are_taken_back_do_not_pile_up(kept: int) -> None:
    """Everything has a bound: an hour's time-out a call, nearly always taken back, is a leak of an hour's calls."""
    timers = Timers()
    staying = [timer() for _ in range(kept)]
    for each in staying:
        timers.set(each, 3600)
    for _ in range(20 * SWEEP_MIN):
        each = timer()
        timers.set(each, 3600)
        each.cancel()
        assert len(timers._heap) <= 2 * (SWEEP_MIN + kept)
    assert timers.due(3600) == staying
