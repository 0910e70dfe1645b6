"""Retrying: what is tried again, when, and how often: within the budget and never past the deadline. Pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.errors import BackplaneError, Busy, PeerDown, Status, Unavailable, error_from
from appbackplane.transport.retrying import (
    BACKOFF_MAX_NS,
    BACKOFF_NS,
    WINDOW_NS,
    Retries,
    RetryAccount,
    RetryBudget,
    StopRetrying,
    after_attempts,
    wait_before,
)

SECOND_NS = 1_000_000_000


def account(ratio: float = 0.2, min_per_s: float = 10.0) -> RetryAccount:
    """Opened at 0."""
    return RetryAccount(RetryBudget(ratio, min_per_s), 0)


def decided(
    error: BackplaneError,
    *,
    is_repeatable: bool = True,
    is_sent: bool = True,
    attempt: int = 1,
    remaining_ns: int = 30 * SECOND_NS,
    random: float = 0.5,
    of: RetryAccount | None = None,
) -> int | StopRetrying:
    """A decision at time 0, of a client that has made no calls before: how long the call waits, ns, or why it does not."""
    calls = OutstandingCalls[str]()
    retries = Retries(calls, of or account(), lambda: random)
    spec = CallSpec("a.b", {}, ends_ns=remaining_ns, is_retried=True)
    waiting = retries.wait("token", spec, attempt, error, 0, is_sent=is_sent, is_idempotent=is_repeatable)
    if isinstance(waiting, StopRetrying):
        return waiting
    wait = calls.get(waiting)
    assert wait is not None
    return wait[1]


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("is_repeatable", [False, True])
def test_only_what_may_end_better_and_does_no_harm_is_tried_again(
    status: Status, is_refused: bool, is_repeatable: bool
) -> None:
    """A payment that may have been made is not made again; and what is wrong stays wrong, however often it is asked."""
    error = error_from(int(status), "no", 0.1, is_refused=is_refused)
    is_again = isinstance(decided(error, is_repeatable=is_repeatable), int)
    may_end_better = status in (Status.UNAVAILABLE, Status.PEER_DOWN, Status.RESOURCE_EXHAUSTED)
    assert is_again == (may_end_better and (is_repeatable or is_refused))


def test_a_refusal_that_says_that_waiting_does_not_help_is_believed() -> None:
    """A route that is served as secondary only would be asked for until the deadline, thirty seconds long."""
    assert not isinstance(decided(error_from(int(Status.UNAVAILABLE), "primary", is_refused=True)), int)
    assert isinstance(decided(error_from(int(Status.UNAVAILABLE), "down", 0.25, is_refused=True)), int)
    assert isinstance(decided(error_from(int(Status.UNAVAILABLE), "said by the operation")), int)


@given(
    attempt=st.integers(1, 10_000),
    retry_after=st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.integers(-5, 10**30),
    remaining_ns=st.integers(-SECOND_NS, 40 * SECOND_NS),
    random=st.floats(0, 1, exclude_max=True),
    is_sent=st.booleans(),
)
def test_no_wait_ends_past_the_deadline(
    attempt: int, retry_after: float | None, remaining_ns: int, random: float, is_sent: bool
) -> None:
    """A retry that is too late is work for nobody."""
    verdict = decided(
        Busy("full", retry_after=retry_after),
        attempt=attempt,
        remaining_ns=remaining_ns,
        random=random,
        is_sent=is_sent,
    )
    if isinstance(verdict, int):
        assert 0 <= verdict < remaining_ns


@given(attempt=st.integers(1, 10_000), random=st.floats(0, 1, exclude_max=True), asked=st.floats(0, 1_000))
def test_a_wait_is_what_was_asked_for_and_a_bounded_backoff_with_full_jitter(
    attempt: int, random: float, asked: float
) -> None:
    """Sooner than asked for, it would be refused again; and who all wait the same time come back together."""
    least_ns = int(asked * 1e9)
    most_ns = min(BACKOFF_MAX_NS, BACKOFF_NS * 2 ** min(attempt - 1, 64))
    assert least_ns <= wait_before(attempt, asked, random) <= least_ns + most_ns
    assert wait_before(attempt, None, 0.0) == 0
    assert wait_before(attempt, None, random) <= most_ns


@given(
    ratio=st.floats(0, 1),
    min_per_s=st.floats(0, 100),
    steps=st.lists(
        st.tuples(st.integers(0, 20 * SECOND_NS), st.integers(0, 2_000), st.integers(0, 400)), min_size=1, max_size=30
    ),
)
def test_retries_never_exceed_the_budget(ratio: float, min_per_s: float, steps: list[tuple[int, int, int]]) -> None:
    """In an outage the retries of all clients are the load that keeps it going.

    Each step: time passes, calls are made, retries are asked for. From the beginning on and in every stretch of steps, no
    more are granted than that share of the calls, and what the minimum gives in that time and one window before.
    """
    budget = account(ratio, min_per_s)
    now_ns = calls = 0
    history: list[tuple[int, int, int]] = [(0, 0, 0)]
    for passed_ns, made, asked in steps:
        now_ns, calls = now_ns + passed_ns, calls + made
        granted = sum(budget.take(now_ns, calls) for _ in range(asked))
        history.append((now_ns, calls, history[-1][2] + granted))
    assert budget.taken_count == history[-1][2]
    at_most = ratio * calls + min_per_s * (now_ns + WINDOW_NS) / SECOND_NS
    assert history[-1][2] <= at_most + 1e-6


def test_a_budget_fills_again_and_no_further_than_one_window() -> None:
    """After a quiet night a client may not have a night's worth of retries."""
    budget = account(0.0, 10.0)
    assert sum(budget.take(0, 0) for _ in range(1_000)) == 100
    assert not budget.take(SECOND_NS // 20, 0)
    assert sum(budget.take(SECOND_NS, 0) for _ in range(1_000)) == 10
    assert sum(budget.take(3_600 * SECOND_NS, 0) for _ in range(1_000)) == 100


def test_calls_of_long_ago_bring_in_nothing() -> None:
    """A million calls this morning are no reason for 200,000 retries tonight."""
    budget = account(0.2, 0.0)
    assert sum(budget.take(100 * WINDOW_NS, 1_000_000) for _ in range(10_000)) == 2_000  # as if they had come evenly
    assert not budget.take(110 * WINDOW_NS, 1_000_000)
    assert sum(budget.take(110 * WINDOW_NS, 1_000_010) for _ in range(10)) == 2


def test_what_has_not_left_waits_without_touching_the_budget() -> None:
    """It is nobody's load. Otherwise a restart that takes long would end calls that have all the time in the world."""
    spent = account(0.0, 0.0)
    assert decided(Unavailable("down now"), is_sent=False, of=spent) == BACKOFF_NS // 2
    assert decided(Unavailable("stopping"), of=spent) == StopRetrying("the retry budget is spent")


def test_who_gives_up_says_why_and_how_often_it_was_tried() -> None:
    """Or nobody could tell an outage from one bad moment."""
    error = PeerDown("backplane 'a' died", retry_after=0.5)
    assert after_attempts(error, 1, "") is error
    told = after_attempts(error, 3, "the retry budget is spent")
    assert (type(told), told.attempts, told.retry_after) == (PeerDown, 3, 0.5)
    assert str(told) == "backplane 'a' died (after 3 attempts: the retry budget is spent)"
    assert str(after_attempts(error, 2, "")) == "backplane 'a' died (after 2 attempts)"
    assert str(error) == "backplane 'a' died", "it may be that of other calls, too"


@pytest.mark.parametrize(
    ("ratio", "min_per_s"), [(-0.1, 1.0), (1.1, 1.0), (float("nan"), 1.0), (0.5, -1.0), (0.5, float("inf"))]
)
def test_a_budget_that_is_none_is_refused(ratio: float, min_per_s: float) -> None:
    """Where it is written, not in the next outage."""
    with pytest.raises(ValueError, match="RetryBudget"):
        RetryBudget(ratio, min_per_s)


def test_waits_double_up_to_the_longest() -> None:
    """A callee that does not come back is asked less and less often."""
    longest = [wait_before(attempt, None, 1.0) for attempt in range(1, 60)]
    assert longest[:3] == [BACKOFF_NS, 2 * BACKOFF_NS, 4 * BACKOFF_NS]
    assert longest[-1] == BACKOFF_MAX_NS == max(longest)


def test_what_calls_have_brought_in_decays() -> None:
    """In an outage after a busy hour the retries of that hour would be the load that keeps it going."""
    busy = account(ratio=1.0, min_per_s=0.0)
    assert busy.take(0, 100)
    assert busy.take(WINDOW_NS, 100), "a third is left"
    assert not busy.take(10 * WINDOW_NS, 100)
