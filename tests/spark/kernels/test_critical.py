"""Critical path: of each moment of a trace it is known what it was waited for, and no moment counts twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.spark.kernels.critical import PathShare, Span, critical_path

A, B, C = ("a", "a.go"), ("b", "b.go"), ("c", "c.go")


def test_a_call_that_waits_for_another_gives_its_time_to_that_one() -> None:
    """A caller that does nothing but wait must not be the one who is told to be faster."""
    #: a is queued 10, runs 5, calls b, which is queued 20 and runs 50, and ends 15 later, of which 5 are its run.
    spans = [Span(1, 0, 10, 10, 10, 90, A), Span(2, 1, 35, 20, 50, 50, B)]
    assert critical_path(spans) == [PathShare(A, 10, 10, 10), PathShare(B, 20, 50, 0)]


def test_of_two_callees_the_one_that_ended_last_was_waited_for() -> None:
    """Making the faster of two parallel calls faster changes nothing."""
    spans = [Span(1, 0, 0, 0, 0, 100, A), Span(2, 1, 0, 0, 40, 40, B), Span(3, 1, 0, 0, 100, 100, C)]
    assert critical_path(spans) == [PathShare(A, 0, 0, 0), PathShare(C, 0, 100, 0)]


def test_a_cast_that_goes_on_after_its_caller_costs_the_caller_nothing() -> None:
    """Only until the caller's end can anybody have waited for it."""
    spans = [Span(1, 0, 0, 0, 100, 100, A), Span(2, 1, 200, 0, 50, 50, B)]
    assert critical_path(spans) == [PathShare(A, 0, 100, 0)]


def test_a_trace_whose_first_action_is_not_recorded_has_its_longest_one_as_the_first() -> None:
    """A client that sends a trace id of its own is the parent of all, and recorded nowhere."""
    spans = [Span(2, 77, 10, 0, 50, 50, B), Span(3, 77, 70, 5, 10, 10, C)]
    assert critical_path(spans) == [PathShare(B, 0, 50, 0)]


def test_a_chain_deeper_than_the_stack_is_walked() -> None:
    """A loop of calls, recorded: the report is what shows it."""
    spans = [Span(n, n - 1, n, 0, 10_000 - 2 * n, 10_000 - 2 * n, A) for n in range(1, 4000)]
    assert sum(share.run for share in critical_path(spans)) == 9_998


@st.composite
def traces(draw: st.DrawFn) -> list[Span]:
    """Any forest, with any times."""
    count = draw(st.integers(1, 12))
    number = st.integers(0, 100)
    return [
        Span(n + 1, draw(st.integers(0, n)), draw(number) + 100, draw(number), draw(number), draw(number), (f"{n}", ""))
        for n in range(count)
    ]


@given(traces())
def test_the_shares_add_up_to_the_time_of_the_first(spans: list[Span]) -> None:
    """Issue 5: where the time goes. Time that appears from nowhere, or is lost, makes every share wrong."""
    path = critical_path(spans)
    roots = [span for span in spans if span.parent == 0]
    assert sum(share.queue + share.run + share.other for share in path) == max(s.end - s.arrival for s in roots)
    assert all(min(share.queue, share.run, share.other) >= 0 for share in path)
