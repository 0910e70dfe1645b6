"""Rules: read strictly, judged on closed windows in a row, told once when it begins and once when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.spark.stream.alerts import Alerts, BadRules, Comparison, Rule, parse, read_rules

RULES = """
[[alert]]
operation = "shop.*"
when = "p99_run_ms > 50 and count >= 3 or errors > 0"
for = 2
route = "alerts.show"
"""


def row(window: int, run: float = 100.0, count: int = 3, errors: int = 0, late: bool = False) -> dict[str, Any]:
    """A closed window of shop.buy, of size 10."""
    return {
        "window_ns": window, "until_ns": window + 10, "component": "shop", "operation": "shop.buy", "late": late,
        "run_ms": {"p99": run}, "count": count, "errors": errors,
    }  # fmt: skip


def alerts() -> Alerts:
    return Alerts(read_rules(RULES), 10)


def told(calls: Any) -> list[tuple[int, bool]]:
    return [(call.arguments["windows"], call.arguments["is_over"]) for call in calls]


def test_it_is_told_when_so_many_windows_in_a_row_fulfil_it_and_when_it_is_over() -> None:
    """Told every window, it would be a stream of noise; not told when it is over, somebody goes on looking."""
    watch = alerts()
    assert told(watch.after([row(0)], 10)) == []
    begun = watch.after([row(10)], 20)
    assert told(begun) == [(2, False)]
    assert begun[0].route == "alerts.show"
    assert begun[0].arguments["figures"] == {"p99_run_ms": 100.0, "count": 3, "errors": 0}
    assert told(watch.after([row(20)], 30)) == []
    assert told(watch.after([row(30, run=1.0)], 40)) == [(3, True)]
    assert watch.watched == {}


def test_a_window_without_a_row_ends_it() -> None:
    """An operation that nobody calls any more is not slow; and what is remembered of it must not stay for ever."""
    watch = alerts()
    watch.after([row(0), row(10)], 20)
    assert told(watch.after([], 29)) == []
    assert told(watch.after([], 30)) == [(2, True)]
    watch.after([row(40)], 50)
    assert told(watch.after([row(60)], 70)) == [], "there was none between"
    assert watch.watched and told(watch.after([], 80)) == [] and watch.watched == {}


def test_what_is_late_and_what_is_not_meant_is_not_judged() -> None:
    """A row of three late actions says nothing about the window."""
    watch = alerts()
    assert told(watch.after([row(0, late=True), row(10, late=True)], 20)) == []
    assert (
        told(watch.after([row(0) | {"operation": "shopping.buy"}, row(10) | {"operation": "shopping.buy"}], 20)) == []
    )


def test_what_was_seen_is_gone_on_with_but_not_of_a_rule_that_is_no_more() -> None:
    """A restart in the middle of trouble must neither tell it again nor forget it."""
    before, after = alerts(), alerts()
    before.after([row(0), row(10)], 20)
    after.restore(before.watched)
    assert told(after.after([row(20)], 30)) == []
    assert told(after.after([row(30, run=1.0)], 40)) == [(3, True)]
    none = Alerts([], 10)
    none.restore(before.watched)
    assert none.watched == {}


def test_and_binds_closer_than_or() -> None:
    """As everywhere; a rule that is read otherwise is an alert that never comes."""
    assert parse("count > 1 and errors>=2 or rate < -0.5") == [
        [Comparison("count", ">", 1.0), Comparison("errors", ">=", 2.0)],
        [Comparison("rate", "<", -0.5)],
    ]


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("", "expected a comparison"),
        ("count", "expected a comparison"),
        ("count > ", "expected a comparison"),
        ("p98_run_ms > 5", "no figure 'p98_run_ms': one of count"),
        ("count > 5 xor errors > 1", "expected 'and' or 'or' instead of 'xor'"),
        ("count > 5 and", "expected a comparison"),
        ("__import__('os')", "cannot read"),
        ("5 < count", "expected a comparison"),
        ("count > five", "expected a comparison"),
        ("count > p99", "expected a comparison"),
    ],
)
def test_a_condition_that_is_none_is_refused_with_the_reason(condition: str, why: str) -> None:
    """Before anything starts; and nothing of it is ever run as Python."""
    with pytest.raises(BadRules, match=why):
        parse(condition)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[alert]", "is not TOML"),
        ('[[alert]]\noperation = "a.b"', "when"),
        ('[[alert]]\noperation = "a.b"\nwhen = "count > 1"\nroute = "c.d"\nfor = 0', "for"),
        ('[[alert]]\noperation = "a.b"\nwhen = "count > 1"\nroute = "c.d"\nwindow = 2', "window"),
        ("[[alarm]]", "alarm"),
        (RULES + RULES, "is there twice"),
    ],
)
def test_a_file_that_says_something_else_is_refused(text: str, why: str) -> None:
    """A misspelt key would be a rule that does not do what it says."""
    with pytest.raises(BadRules, match=why):
        read_rules(text)


def test_a_rule_as_it_is_written() -> None:
    """The file of the documentation."""
    assert read_rules(RULES) == [
        Rule(operation="shop.*", when="p99_run_ms > 50 and count >= 3 or errors > 0", windows=2, route="alerts.show")
    ]
