"""Restart or give up: a crash loop costs little, ends, and starts anew after a healthy time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.config import Duration, RestartPolicy
from appbackplane.supervisor.restart import BACKOFF_NS, BACKOFF_NS_MAX, HEALTHY_NS, RestartHistory

SECOND_NS = 1_000_000_000


def policy(restarts_max: int, within_s: int) -> RestartPolicy:
    """So many within so long."""
    return RestartPolicy(max=restarts_max, within_ns=Duration(within_s * SECOND_NS))


def test_the_first_restart_is_immediate_and_the_wait_doubles() -> None:
    """Most deaths are single; those that are not must not eat the machine."""
    history, now_ns, waits = RestartHistory(), 0, []
    for _ in range(10):
        history, at_ns = history.after_death(policy(100, 3600), 0, now_ns)
        assert at_ns is not None
        waits.append(at_ns - now_ns)
        now_ns = at_ns
    assert waits == [0, *(min(BACKOFF_NS << n, BACKOFF_NS_MAX) for n in range(9))]


def test_after_a_healthy_time_the_next_restart_is_immediate_again() -> None:
    """Yesterday's crash loop says nothing about today's single death."""
    history = RestartHistory()
    for _ in range(3):
        history, _ = history.after_death(policy(100, 3600), 0, 0)
    _, at_ns = history.after_death(policy(100, 3600), HEALTHY_NS, 5 * SECOND_NS)
    assert at_ns == 5 * SECOND_NS


def test_never_restarted_means_never() -> None:
    """max = 0."""
    assert RestartHistory().after_death(policy(0, 60), HEALTHY_NS, 0)[1] is None


@given(st.integers(0, 4), st.integers(1, 20), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 4)), max_size=30))
def test_no_more_than_max_restarts_in_any_period(
    restarts_max: int, within_s: int, deaths: list[tuple[int, int]]
) -> None:
    """The slow twin counts the restarts of the last period in a list of all of them."""
    history, now_ns, restarts = RestartHistory(), 0, []
    for later_s, up_s in deaths:
        now_ns += later_s * SECOND_NS
        history, at_ns = history.after_death(policy(restarts_max, within_s), up_s * SECOND_NS, now_ns)
        recent = [t for t in restarts if t > now_ns - within_s * SECOND_NS]
        assert (at_ns is None) == (len(recent) >= restarts_max)
        if at_ns is not None:
            assert now_ns <= at_ns <= now_ns + BACKOFF_NS_MAX
            restarts.append(now_ns)
