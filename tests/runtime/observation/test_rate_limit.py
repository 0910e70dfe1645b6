"""Rate limit: one report a subject and interval, and the count of those left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.observation.rate_limit import (
    REPORT_INTERVAL_NS,
    SUBJECT_LENGTH_MAX,
    SUBJECTS_MAX,
    RateLimit,
)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, REPORT_INTERVAL_NS)), max_size=60))
def test_reports_and_those_left_out_add_up(events: list[tuple[str, int]]) -> None:
    """DESIGN 12.10. A warning that hides how often it happened is worse than a flood: nobody looks."""
    limit, now_ns = RateLimit(), 10**15
    seen: dict[str, int] = {}
    reported_ns: dict[str, int] = {}
    for subject, passed_ns in events:
        now_ns += passed_ns
        seen[subject] = seen.get(subject, 0) + 1
        left_out = limit.admit(subject, now_ns)
        is_due = subject not in reported_ns or now_ns - reported_ns[subject] >= REPORT_INTERVAL_NS
        assert (left_out is not None) == is_due
        if left_out is not None:
            assert left_out == seen[subject] - 1
            seen[subject], reported_ns[subject] = 0, now_ns


def test_new_names_do_not_get_around_the_limit() -> None:
    """Peers are named by strangers: a new name a frame would fill the disk, or the memory."""
    limit = RateLimit()
    admitted = sum(limit.admit(f"peer-{number}", number) is not None for number in range(3 * SUBJECTS_MAX))
    assert admitted == SUBJECTS_MAX
    assert limit.overflow_count == 2 * SUBJECTS_MAX
    assert limit.admit("peer-0", 5) is None, "the known ones are still limited"
    later_ns = REPORT_INTERVAL_NS + SUBJECTS_MAX
    assert limit.admit("new", later_ns) == 0, "the oldest has made room"
    assert len(limit._reported) == SUBJECTS_MAX


def test_a_subject_is_cut() -> None:
    """A route of a stranger may be as long as a frame, and a thousand of them are remembered."""
    limit = RateLimit()
    assert limit.admit("cast " + "x" * 10_000_000, 1) == 0
    assert limit.admit("cast " + "x" * 20_000_000, 1) is None
    assert all(len(subject) <= SUBJECT_LENGTH_MAX for subject in limit._reported)
