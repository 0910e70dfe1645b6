"""What a system did between two looks: of the interval, of one generation, and unknown where nobody knows."""

from __future__ import annotations

import pytest

from appbackplane.supervisor.live.figures import figures

from .looks import account, backplane, board, look, statistics

MS = 1_000_000


def test_rates_and_percentiles_are_those_of_the_interval() -> None:
    """A thousand quick actions of yesterday would hide the ten slow ones of now."""
    old = account(wait_ns=[1_000] * 1_000, run_ns=[1_000] * 1_000, cpu_ms=1)
    new = account(wait_ns=[1_000] * 1_000 + [8 * MS] * 10, run_ns=[1_000] * 1_000 + [40 * MS] * 10, cpu_ms=401)
    before = look(10.0, backplane("query", statistics(110.0, {"query.search": old}, process_ms=5.0)))
    now = look(12.0, backplane("query", statistics(112.0, {"query.search": new}, process_ms=505.0)))
    (query,) = figures(before, now).backplanes
    assert (query.rate, query.cpu) == (5.0, 0.25)
    assert query.run is not None and query.wait is not None
    assert 40 * MS <= query.run.p50_ns <= 45 * MS
    assert 8 * MS <= query.wait.p99_ns <= 9 * MS
    (search,) = query.operations
    assert (search.rate, search.cpu, search.count) == (5.0, 0.2, 1_010)
    assert search.run == query.run


def test_all_operations_are_counted_together() -> None:
    """The percentiles of a backplane are of all its actions: an average of percentiles has no meaning."""
    none = statistics(1.0)
    slow, quick = account(wait_ns=[0], run_ns=[MS] * 1), account(wait_ns=[0], run_ns=[1_000] * 9)
    before, now = look(1.0, backplane("query", none)), look(
        2.0, backplane("query", statistics(2.0, {"query.slow": slow, "query.quick": quick}))
    )  # fmt: skip
    (query,) = figures(before, now).backplanes
    assert query.rate == 10.0
    assert query.run is not None
    assert query.run.p50_ns < 1_200 < MS <= query.run.p99_ns


def test_without_a_look_before_there_is_no_interval() -> None:
    """Unknown, and not zero; totals are known."""
    done = account(wait_ns=[1], run_ns=[1], errors=1)
    found = figures(None, look(10.0, backplane("query", statistics(10.0, {"query.search": done}, slow=3))))
    (query,) = found.backplanes
    assert (found.interval_s, query.rate, query.cpu, query.wait, query.run) == (None,) * 5
    assert (query.slow, query.operations[0].errors, query.operations[0].rate) == (3, 1, None)


@pytest.mark.parametrize("what", ["another generation", "another supervisor", "an earlier look"])
def test_only_what_belongs_together_is_subtracted(what: str) -> None:
    """A restart begins to count at zero: subtracted from what was before, rates would be below it."""
    many = account(wait_ns=[1] * 100, run_ns=[1] * 100)
    one = account(wait_ns=[1], run_ns=[1])
    before = look(10.0, backplane("query", statistics(10.0, {"query.search": many})))
    now = {
        "another generation": look(11.0, backplane("query", statistics(11.0, {"query.search": one}), generation=2)),
        "another supervisor": look(11.0, backplane("query", statistics(11.0, {"query.search": one})), pid=8),
        "an earlier look": look(10.0, backplane("query", statistics(10.0, {"query.search": one}))),
    }[what]
    (query,) = figures(before, now).backplanes
    assert (query.rate, query.run, query.operations[0].rate) == (None, None, None)


def test_who_does_not_answer_is_shown_from_the_board() -> None:
    """With its age; what the board does not say is unknown."""
    before = look(10.0, backplane("query", None, board=board(heartbeat_age=0.2, finished=100, cpu=1.0)))
    after = board(heartbeat_age=0.45, finished=175, cpu=1.6, queued=9, waiting=2, throttled=4, slow=1, running_for=3.0)
    now = look(11.0, backplane("query", None, board=after, health="busy"))
    (query,) = figures(before, now).backplanes
    assert query.age_s == 0.45
    assert query.rate == pytest.approx(75 / 0.75)
    assert query.cpu == pytest.approx(0.6 / 0.75)
    assert (query.queued, query.waiting, query.throttled, query.slow, query.running_for_s) == (9, 2, 4, 1, 3.0)
    assert (query.ready, query.wait, query.run, query.operations) == (None, None, None, ())
    assert (query.throttled_new, query.slow_new) == (4, 1)


def test_the_same_heartbeat_seen_twice_is_no_interval() -> None:
    """Divided by next to nothing, a standstill would be a rate of millions."""
    before = look(10.0, backplane("query", None, board=board(heartbeat_age=0.1, finished=100)))
    now = look(10.1, backplane("query", None, board=board(heartbeat_age=0.2, finished=100)))
    (query,) = figures(before, now).backplanes
    assert (query.rate, query.cpu) == (None, None)


def test_nobody_on_the_board_is_nothing_known() -> None:
    """A process that is starting has not said anything yet."""
    (query,) = figures(
        None, look(1.0, backplane("query", None, board=None, state="starting", health="unknown"))
    ).backplanes
    assert (query.queued, query.waiting, query.slow, query.age_s) == (None,) * 4
