"""Statistics: an account an operation."""

from __future__ import annotations

from appbackplane.runtime.observation.statistics import NAMES_MAX, OTHERS, Statistics


def test_an_operation_has_one_account() -> None:
    """A second one would split its figures between whoever asked first and whoever asked later."""
    statistics = Statistics()
    account = statistics.of("query.search")
    assert statistics.of("query.search") is account
    assert statistics.of("query.rebuild") is not account
    assert list(statistics.snapshot({})) == ["query.rebuild", "query.search"]


def test_the_snapshot_tells_how_each_run_ended_and_how_long_it_took() -> None:
    """Law 11. What `status --stats` shows is all that an operator has at three in the morning."""
    account = Statistics().of("query.search")
    for run_ns in (1_000, 3_000):
        account.run.record(run_ns)
        account.wait.record(500)
    account.cpu_ns = 2_500_000
    account.error_count, account.expired_count, account.cancelled_count = 1, 2, 3
    account.refused_count, account.slow_count, account.late_count = 4, 5, 7
    snapshot = account.snapshot(failing=6)
    assert {key: value for key, value in snapshot.items() if not isinstance(value, dict)} == {
        "count": 2, "errors": 1, "expired": 2, "cancelled": 3, "refused": 4, "slow": 5, "late": 7, "failing": 6,
        "cpu_ms": 2.5,
    }  # fmt: skip
    assert snapshot["run"]["mean_us"] == 2.0
    assert snapshot["wait"]["max_us"] == 0.5


def test_a_snapshot_does_not_change_afterwards() -> None:
    """It is packed for the wire after the lead has been given up."""
    statistics = Statistics()
    statistics.of("a").run.record(5)
    snapshot = statistics.snapshot({})
    statistics.of("a").run.record(5)
    statistics.of("b")
    assert list(snapshot) == ["a"]
    assert snapshot["a"]["count"] == 1


def test_names_that_are_made_up_do_not_fill_the_memory() -> None:
    """A user's action may be named for its request ("GET /item/4711"): one account each would never end."""
    statistics = Statistics()
    for number in range(NAMES_MAX + 1000):
        statistics.of(f"GET {number}").error_count += 1
    assert len(statistics.operations) == NAMES_MAX + 1
    assert statistics.of(OTHERS).error_count == 1000
    assert statistics.of("GET 0").error_count == 1
