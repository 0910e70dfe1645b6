"""Restart, give up, or let go: Erlang/OTP's rules on the pure module, case by case. A crash loop costs little, and ends.

What each rule is in OTP: supervisor(3), "Restart Strategy", "Maximum Restart Intensity", `restart` of a child.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.configuration.config import Duration, RestartPolicy
from appbackplane.supervisor.direction.restart import (
    GiveUp,
    LeaveEnded,
    RestartHistory,
    StartAgain,
    after_end,
    after_failure,
    group,
)

SECOND_NS = 1_000_000_000
DEFAULT = RestartPolicy()
BACKOFF_NS, BACKOFF_MAX_NS, HEALTHY_NS = DEFAULT.backoff_ns, DEFAULT.backoff_max_ns, DEFAULT.healthy_after_ns


def policy(restarts_max: int = 5, within_s: int = 60, **words: object) -> RestartPolicy:
    """So many within so long."""
    return RestartPolicy(max=restarts_max, within_ns=Duration(within_s * SECOND_NS), **words)  # type: ignore[arg-type]


def never() -> float:
    """No jitter: whole waits."""
    return 0.0


# Types: is it wanted back?


@pytest.mark.parametrize(
    ("kind", "is_normal", "verdict"),
    [
        ("permanent", True, StartAgain),
        ("permanent", False, StartAgain),
        ("transient", True, LeaveEnded),
        ("transient", False, StartAgain),
        ("temporary", True, LeaveEnded),
        ("temporary", False, LeaveEnded),
    ],
)
def test_who_is_started_again(kind: str, is_normal: bool, verdict: type) -> None:
    """OTP's table of `permanent`, `transient` and `temporary`, whole. Wrong, and a job that has ended runs for ever, or a
    service that ended by itself never again.
    """
    _, found = after_end(RestartHistory(), policy(type=kind), is_normal=is_normal, up_ns=0, now_ns=7, random=never)
    assert type(found) is verdict


def test_who_is_not_wanted_back_is_never_counted() -> None:
    """A temporary child's deaths do not count towards the intensity: nothing is restarted."""
    history = RestartHistory()
    for _ in range(20):
        history, _ = after_end(history, policy(1, type="temporary"), is_normal=False, up_ns=0, now_ns=0, random=never)
    assert history == RestartHistory()


def test_an_ended_transient_does_not_use_up_what_its_deaths_may() -> None:
    """Ending well is no failure, however often it is started by hand."""
    history, calm = RestartHistory(), policy(1, type="transient")
    for _ in range(5):
        history, _ = after_end(history, calm, is_normal=True, up_ns=0, now_ns=0, random=never)
    _, verdict = after_end(history, calm, is_normal=False, up_ns=0, now_ns=0, random=never)
    assert isinstance(verdict, StartAgain)


# Intensity: is restarting any use?


def test_max_restarts_are_made_and_one_more_death_gives_up() -> None:
    """MaxR restarts within MaxT seconds; with more, the supervisor gives up. Off by one, and `max = 1` never tries."""
    history = RestartHistory()
    for number in range(3):
        history, verdict = after_end(history, policy(3), is_normal=False, up_ns=0, now_ns=number, random=never)
        assert isinstance(verdict, StartAgain)
    _, verdict = after_end(history, policy(3), is_normal=False, up_ns=0, now_ns=3, random=never)
    assert verdict == GiveUp("3 restarts within 60 s were not enough")


def test_never_restarted_means_never() -> None:
    """max = 0: OTP's intensity 0 escalates at the first death."""
    assert RestartHistory().after_death(policy(0), HEALTHY_NS, 0, never)[1] is None


@pytest.mark.parametrize(("later_ns", "is_given_up"), [(0, True), (1, False)])
def test_a_restart_counts_to_the_end_of_the_period_and_no_longer(later_ns: int, is_given_up: bool) -> None:
    """OTP counts what is not older than MaxT, the instant itself included."""
    history, _ = RestartHistory().after_death(policy(1, 10), 0, 5, never)
    _, at_ns = history.after_death(policy(1, 10), 0, 5 + 10 * SECOND_NS + later_ns, never)
    assert (at_ns is None) == is_given_up


def test_spread_thin_enough_deaths_are_restarted_for_ever() -> None:
    """The rule is a rate: a death an hour for ten years is not a crash loop."""
    history, now_ns = RestartHistory(), 0
    for _ in range(1_000):
        now_ns += 3600 * SECOND_NS
        history, at_ns = history.after_death(policy(1, 60), HEALTHY_NS, now_ns, never)
        assert at_ns == now_ns
    assert len(history.restarts_ns) == 1, "what is over is forgotten: nothing grows"


@given(st.integers(0, 4), st.integers(1, 20), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 4)), max_size=30))
def test_no_more_than_max_restarts_in_any_period(
    restarts_max: int, within_s: int, deaths: list[tuple[int, int]]
) -> None:
    """The slow twin counts the restarts of the last period in a list of all of them."""
    history, now_ns, restarts = RestartHistory(), 0, []
    for later_s, up_s in deaths:
        now_ns += later_s * SECOND_NS
        history, at_ns = history.after_death(policy(restarts_max, within_s), up_s * SECOND_NS, now_ns, never)
        recent = [t for t in restarts if t >= now_ns - within_s * SECOND_NS]
        assert (at_ns is None) == (len(recent) >= restarts_max)
        if at_ns is not None:
            assert now_ns <= at_ns <= now_ns + BACKOFF_MAX_NS
            restarts.append(now_ns)


# Backoff: what may a crash loop cost?


def test_the_first_restart_is_immediate_and_the_wait_doubles() -> None:
    """Most deaths are single; those that are not must not eat the machine."""
    history, now_ns, waits = RestartHistory(), 0, []
    for _ in range(10):
        history, at_ns = history.after_death(policy(100, 3600), 0, now_ns, never)
        assert at_ns is not None
        waits.append(at_ns - now_ns)
        now_ns = at_ns
    assert waits == [0, *(min(BACKOFF_NS << n, BACKOFF_MAX_NS) for n in range(9))]


@pytest.mark.parametrize(("up_ns", "is_immediate"), [(HEALTHY_NS, True), (HEALTHY_NS - 1, False)])
def test_after_a_healthy_time_the_next_restart_is_immediate_again(up_ns: int, is_immediate: bool) -> None:
    """Yesterday's crash loop says nothing about today's single death."""
    history = RestartHistory()
    for _ in range(3):
        history, _ = history.after_death(policy(100, 3600), 0, 0, never)
    _, at_ns = history.after_death(policy(100, 3600), up_ns, 5 * SECOND_NS, never)
    assert (at_ns == 5 * SECOND_NS) == is_immediate


def test_the_policy_says_how_long_the_waits_are() -> None:
    """All three of its figures."""
    slow = policy(
        100,
        3600,
        backoff_ns=Duration(SECOND_NS),
        backoff_max_ns=Duration(3 * SECOND_NS),
        healthy_after_ns=Duration(SECOND_NS),
    )
    history, waits = RestartHistory(), []
    for up_s in (0, 0, 0, 0, 1):
        history, at_ns = history.after_death(slow, up_s * SECOND_NS, 0, never)
        waits.append(at_ns)
    assert waits == [0, SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS, 0]


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 60))
def test_chance_shortens_a_wait_by_up_to_a_half(random: float, deaths: int) -> None:
    """Those who died of one cause do not come back at one instant; and nobody waits longer than he was told, however long
    the loop.
    """
    history, whole = RestartHistory(), RestartHistory()
    for _ in range(deaths):
        history, at_ns = history.after_death(policy(100), 0, 0, lambda: random)
        whole, whole_ns = whole.after_death(policy(100), 0, 0, never)
        assert at_ns is not None and whole_ns is not None
        assert whole_ns / 2 <= at_ns <= whole_ns <= BACKOFF_MAX_NS


# Hooks that fail: the same rules


@pytest.mark.parametrize(
    ("kind", "verdicts"),
    [
        ("permanent", [StartAgain, StartAgain, GiveUp]),
        ("transient", [StartAgain, StartAgain, GiveUp]),
        ("temporary", [LeaveEnded]),
    ],
)
def test_a_hook_that_fails_is_tried_again_as_a_process_is_started_again(kind: str, verdicts: list[type]) -> None:
    """What a hook needs may be there in a second; what never comes must not be asked for for ever."""
    history, found = RestartHistory(), []
    for number, _ in enumerate(verdicts):
        history, verdict = after_failure(history, policy(2, type=kind), number, never)
        found.append(type(verdict))
    assert found == verdicts


# Strategies: who else?

#: To each, those that depend on it directly: a chain a <- b <- c, a ring of two d <-> e on top of b, and f by itself.
DEPENDANTS = {"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"e"}, "e": {"d"}, "f": set()}


@pytest.mark.parametrize(
    ("strategy", "died", "others"),
    [
        ("one_for_one", "a", ""),
        ("one_for_one", "f", ""),
        ("rest_for_one", "a", "bcde"),
        ("rest_for_one", "b", "cde"),
        ("rest_for_one", "c", ""),
        ("rest_for_one", "d", "e"),
        ("rest_for_one", "f", ""),
        ("one_for_all", "a", "bcdef"),
        ("one_for_all", "c", "abdef"),
    ],
)
def test_who_starts_again_with_it(strategy: str, died: str, others: str) -> None:
    """One for one: nobody. Rest for one: what was started after it because it depends on it. One for all: everybody."""
    assert group(policy(strategy=strategy), died, DEPENDANTS) == set(others)


@given(st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7)), min_size=8, max_size=8), st.integers(0, 7))
def test_the_rest_is_who_can_be_reached(dependants: dict[int, set[int]], died: int) -> None:
    """Against the slow twin, who goes all ways; and the strategies contain each other."""
    graph = {str(n): {str(m) for m in others} for n, others in dependants.items()}

    def reach(name: str, seen: frozenset[str]) -> frozenset[str]:
        for other in graph[name] - seen:
            seen = reach(other, seen | {other})
        return seen

    rest = group(policy(strategy="rest_for_one"), str(died), graph)
    assert rest == reach(str(died), frozenset({str(died)})) - {str(died)}
    assert rest <= group(policy(strategy="one_for_all"), str(died), graph) == set(graph) - {str(died)}
