"""Sizing: neither a task for each of a million tiny requests, nor a million requests that nobody can overtake any more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.spark.requests.settings import BATCH, SparkSettings
from appbackplane.spark.requests.sizing import TASK_NS, TASKS_PER_CORE, Sizing, cut

MS = 1_000_000


def learned(request_ns: int, cores: int = 8, **settings: int) -> Sizing:
    """Of requests that take so long."""
    sizing = Sizing(SparkSettings(**settings), cores)
    sizing.learn(1, request_ns)
    return sizing


def test_as_long_as_nothing_is_known_each_task_has_one_request() -> None:
    """A request may take an hour: the second one is not to wait for it while a core is idle."""
    sizing = Sizing(SparkSettings(), 8)
    assert sizing.take_count(1) == 8 * TASKS_PER_CORE
    assert sizing.tasks(20, 1) == 20


def test_short_requests_share_a_task() -> None:
    """Each in a task of its own, a request of 1 ms costs ten times that."""
    sizing = learned(1 * MS, batch=10_000)
    assert sizing.take_count(1) == 8 * TASKS_PER_CORE * TASK_NS // MS
    assert learned(1 * MS).take_count(1) == BATCH
    assert sizing.tasks(8_000, 1) == 8 * TASKS_PER_CORE
    assert sizing.tasks(40, 1) == 2
    assert sizing.tasks(5, 1) == 1


def test_long_requests_do_not_share_one() -> None:
    """Two of ten seconds in one task are twenty seconds, and seven cores idle."""
    sizing = learned(10_000 * MS)
    assert sizing.take_count(1) == sizing.tasks(32, 1) == 32


def test_all_jobs_together_keep_the_cores_busy_and_take_no_more() -> None:
    """What is taken cannot be overtaken by what is more urgent."""
    sizing = learned(10 * MS, batch=10_000)
    one, four = sizing.take_count(1), 4 * sizing.take_count(4)
    assert one == four == 8 * TASKS_PER_CORE * 25


def test_what_requests_take_now_counts_more_than_what_they_took() -> None:
    """Else an hour of tiny requests would put thousands of long ones into one task."""
    sizing = learned(1 * MS)
    for _ in range(20):
        sizing.learn(10, 10 * 1_000 * MS)
    assert 900 * MS < sizing.request_ns <= 1_000 * MS


def test_settings_go_before_what_is_learned() -> None:
    """Whoever knows better says so."""
    sizing = learned(1 * MS, batch=50, slices=7)
    assert sizing.take_count(1) == 50
    assert sizing.tasks(50, 1) == 7
    assert sizing.tasks(3, 1) == 3


@given(st.integers(1, 500), st.integers(1, 500))
def test_pieces_are_all_of_it_in_order_and_nearly_equal(count: int, pieces: int) -> None:
    """A request that is in no piece would never end."""
    made = cut(count, pieces)
    assert [number for start, stop in made for number in range(start, stop)] == list(range(count))
    sizes = {stop - start for start, stop in made}
    assert max(sizes) - min(sizes) <= 1
    assert len(made) == min(count, pieces)
