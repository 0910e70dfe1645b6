"""A case is judged by the median of its rounds, and what could not be measured has not passed."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from bench_cases.harness.case import Case, Figures, Requirement, Sides, judge, ours, ratio
from bench_cases.harness.report import as_json, line, table
from bench_cases.harness.runner import measure, run
from bench_cases.harness.timing import percentile
from rich.console import Console

RATIO = Requirement("p50 ratio", ratio("p50_us"), at_most=1.25)
P99 = Requirement("p99", ours("p99_ms"), at_most=5, unit="ms")


def case(*requirements: Requirement, order: list[str] | None = None, rounds: int = 3, fails: bool = False) -> Case:
    """A case that takes no time; its sides write down when they were asked."""
    asked = [] if order is None else order

    @contextmanager
    def both(is_quick: bool) -> Iterator[Sides]:
        if fails:
            raise RuntimeError("it does not come up")

        def side(name: str, p50_us: float) -> Figures:
            asked.append(name)
            return {"p50_us": p50_us, "p99_ms": 1.0}

        yield Sides(lambda: side("ours", 12.0), lambda: side("reference", 10.0))

    return Case("one", "what", requirements, both, rounds, quick_rounds=1)


def rounds(*pairs: tuple[float, float]) -> list[tuple[Figures, Figures]]:
    """p50 of ours and of the reference."""
    return [({"p50_us": mine}, {"p50_us": other}) for mine, other in pairs]


def test_the_median_of_the_ratios_decides() -> None:
    """One round on a busy machine must neither fail a case nor pass it: the ratio of medians would do both."""
    result = judge(case(RATIO), rounds((12, 10), (240, 200), (900, 10)))
    assert result.ratio == pytest.approx(1.2)
    assert result.is_passed
    assert not judge(case(RATIO), rounds((13, 10), (13, 10), (1, 10))).is_passed


@pytest.mark.parametrize(("value", "holds"), [(1.25, True), (1.2500001, False), (0.0, True), (math.nan, False)])
def test_a_bound_is_part_of_what_is_allowed(value: float, holds: bool) -> None:
    """A figure that is not a number is one that was not measured."""
    assert RATIO.holds(value) is holds


def test_all_requirements_must_hold_and_what_is_missed_is_named() -> None:
    """A case that fails must say by how much, or nobody knows whether it was near."""
    found: list[tuple[Figures, Figures]] = [({"p50_us": 10.0, "p99_ms": 18.8}, {"p50_us": 10.0})]
    result = judge(case(RATIO, P99), found)
    assert not result.is_passed
    assert result.note == "p99 is 18.8 ms"
    assert result.target == "p50 ratio ≤ 1.25; p99 ≤ 5 ms"


def test_a_reference_of_nothing_is_no_pass() -> None:
    """A reference that did nothing would make every ratio infinite, and `at least` happy."""
    at_least = Requirement("calls/s", ratio("per_s"), at_least=2)
    assert not judge(case(at_least), [({"per_s": 10.0}, {"per_s": 0.0})]).is_passed


def test_sides_are_measured_by_turns_and_take_turns_to_be_first() -> None:
    """What always comes second finds the caches, and the cores, as the first has left them."""
    order: list[str] = []
    measure(case(RATIO, order=order), is_quick=False)
    warm_up, *slices = zip(order[::2], order[1::2], strict=True)
    assert warm_up == ("ours", "reference")
    assert slices == [("ours", "reference"), ("reference", "ours"), ("ours", "reference")]


def test_what_cannot_be_measured_fails_and_the_others_go_on() -> None:
    """One case that does not come up must not hide what the others found."""
    result = run(case(RATIO, fails=True))
    assert not result.is_passed
    assert "RuntimeError: it does not come up" in result.note
    assert json.loads(as_json([result, run(case(RATIO))]))[1]["pass"] is True


def test_json_is_of_the_promised_shape() -> None:
    """Programs read it: a list, an object a case, these keys, and null where JSON has no word."""
    passed, broken = json.loads(as_json([run(case(RATIO)), run(case(RATIO, fails=True))]))
    assert passed == {
        "case": "one", "ours": {"p50_us": 12.0, "p99_ms": 1.0}, "reference": {"p50_us": 10.0, "p99_ms": 1.0},
        "ratio": 1.2, "target": "p50 ratio ≤ 1.25", "pass": True,
    }  # fmt: skip
    assert (broken["ratio"], broken["pass"], broken["ours"]) == (None, False, {})


def test_the_table_says_what_the_json_says() -> None:
    """People read this one."""
    result = judge(case(P99), [({"p50_us": 10.0, "p99_ms": 18.8}, {"p50_us": 8.0})])
    console = Console(width=160, record=True, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115
    console.print(table([result]))
    shown = console.export_text()
    assert all(word in shown for word in ("one", "p50 10 µs", "p99 18.8 ms", "p99 ≤ 5 ms", "fail"))
    assert "FAIL (p99 is 18.8 ms)" in line(result)


def test_a_percentile_is_one_of_the_figures() -> None:
    """The 99th of a hundred, not the worst of them, and never past the end."""
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99
    assert percentile([3.0], 0.99) == 3.0
