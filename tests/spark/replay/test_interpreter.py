"""Who computes, and how fast: against a twin that counts what each has left, in fractions that are exact."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.spark.replay.interpreter import NEVER_NS, RESERVE_NS, Interpreter
from tests.profiles import examples

Jobs = list[tuple[int, int]]


def by_interpreter(jobs: Jobs) -> dict[int, float]:
    """When each of (begins, needs) is done."""
    interpreter = Interpreter()
    coming = sorted(range(len(jobs)), key=lambda number: jobs[number][0])
    done: dict[int, float] = {}
    while len(done) < len(jobs):
        begins = jobs[coming[0]][0] if coming else NEVER_NS
        ends = interpreter.next_ns()
        if ends <= begins:
            done[interpreter.pop(ends)] = ends
        else:
            number = coming.pop(0)
            interpreter.join(number, jobs[number][1], begins)
    return done


def by_counting(jobs: Jobs) -> dict[int, Fraction]:
    """The same, a moment after the other: all that are there have an equal part."""
    left = {number: Fraction(needs) for number, (_, needs) in enumerate(jobs)}
    now = Fraction(0)
    done: dict[int, Fraction] = {}
    while left:
        there = [number for number in left if jobs[number][0] <= now]
        later = [Fraction(jobs[number][0]) for number in left if jobs[number][0] > now]
        if not there:
            now = min(later)
            continue
        step = min([min(left[number] for number in there) * len(there), *[at - now for at in later]])
        now += step
        for number in there:
            left[number] -= step / len(there)
            if not left[number]:
                del left[number]
                done[number] = now
    return done


@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30)), min_size=1, max_size=8))
def test_all_that_compute_advance_alike(jobs: Jobs) -> None:
    """Were one to get more than its part, long work would be predicted to hold up short work, or not to."""
    counted = by_counting(jobs)
    assert by_interpreter(jobs) == pytest.approx({number: float(at) for number, at in counted.items()}, abs=1e-6)


def test_a_limit_is_full_speed_first_and_then_its_share() -> None:
    """What is saved lasts longer than itself, since it fills up meanwhile; then a quarter is four times as slow."""
    interpreter = Interpreter(share=0.25)
    interpreter.join("long", 3 * RESERVE_NS, 0)
    full = RESERVE_NS / 0.75
    assert interpreter.next_ns() == pytest.approx(full + (3 * RESERVE_NS - full) * 4)


def test_a_pause_fills_what_was_saved_and_no_more_than_that() -> None:
    """A limited backplane that was idle for an hour has not saved an hour."""
    interpreter = Interpreter(share=0.5)
    interpreter.join("first", RESERVE_NS, 0)
    assert interpreter.next_ns() == RESERVE_NS  # half of it came back meanwhile
    interpreter.pop(RESERVE_NS)
    interpreter.join("second", 4 * RESERVE_NS, 3_600e9)
    assert interpreter.next_ns() - 3_600e9 == pytest.approx(2 * RESERVE_NS + 2 * RESERVE_NS * 2)


def test_a_limit_of_a_core_or_more_limits_nothing() -> None:
    """One thread has the interpreter at a time: it cannot use more than a core."""
    interpreter = Interpreter(share=1.5)
    interpreter.join("long", 1e9, 0)
    assert interpreter.next_ns() == 1e9


def test_nobody_is_done_where_nobody_computes() -> None:
    """Or the simulation would never come to its end."""
    assert Interpreter().next_ns() == NEVER_NS
