"""Sizing: neither a task for each of a million tiny requests, nor a million requests that nobody can overtake any more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.spark.requests.settings import BATCH, SparkSettings
from appbackplane.spark.requests.sizing import JOBS_BYTES_MAX, TASK_NS, TASKS_PER_CORE, Sizing, cut
from appbackplane.spark.requests.task import TASK_BYTES_MAX

MS = 1_000_000


def learned(request_ns: int, cores: int = 8, result_bytes: int = 0, **settings: int) -> Sizing:
    """Of requests that take so long, and bring so much."""
    sizing = Sizing(SparkSettings(**settings), lambda: cores)
    sizing.learn(1, request_ns, result_bytes)
    return sizing


def test_as_long_as_nothing_is_known_each_task_has_one_request() -> None:
    """A request may take an hour: the second one is not to wait for it while a core is idle."""
    sizing = Sizing(SparkSettings(), lambda: 8)
    assert sizing.take_count(1) == 8 * TASKS_PER_CORE
    assert sizing.tasks(20, 1) == 20


def test_a_cluster_that_grows_is_used() -> None:
    """The first executor of eight has registered when the session is there: a job was cut for its cores for ever."""
    cores = [2]
    sizing = Sizing(SparkSettings(), lambda: cores[-1])
    assert sizing.take_count(1) == sizing.tasks(1_000, 1) == 2 * TASKS_PER_CORE
    cores.append(16)
    assert sizing.take_count(1) == sizing.tasks(1_000, 1) == 16 * TASKS_PER_CORE


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


def test_large_results_do_not_share_a_task() -> None:
    """What one gathers is in memory several times, for each core: short requests of 6 MB would end the JVM."""
    sizing = learned(1 * MS, result_bytes=6 << 20)
    assert sizing.take_count(1) == sizing.tasks(32, 1) == 32
    sizing = learned(1 * MS, result_bytes=TASK_BYTES_MAX // 10)
    assert sizing.take_count(1) == 32 * 10
    assert sizing.tasks(320, 1) == 32
    assert sizing.tasks(15, 1) == 2


def test_all_jobs_together_bring_no_more_than_spark_takes() -> None:
    """It gives up the job whose results are more than 1 GB, and with it what its tasks have done."""
    for workers in (1, 4):
        sizing = learned(1_000 * MS, cores=256, result_bytes=1 << 20, batch=10_000)
        assert workers * sizing.take_count(workers) << 20 <= JOBS_BYTES_MAX
    assert learned(1_000 * MS, result_bytes=JOBS_BYTES_MAX).take_count(4) == 1


def test_what_requests_take_now_counts_more_than_what_they_took() -> None:
    """Else an hour of tiny requests would put thousands of long ones into one task."""
    sizing = learned(1 * MS)
    for _ in range(20):
        sizing.learn(10, 10 * 1_000 * MS, 0)
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
