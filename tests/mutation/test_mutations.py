"""The tables of mutations say what they mean to say; whether the tests notice is for `scripts/mutate`, which takes minutes."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.areas import AREAS, MUTATIONS
from tests.mutation.laws import LAWS
from tests.tiers import tier_of

ROOT = Path(__file__).parents[2]


def test_each_mutation_changes_one_place() -> None:
    """When the code has moved on, a mutation that changes nothing would be one that no test can notice."""
    wrong = [
        f"{mutation.file}: {mutation.text!r} occurs {count} times"
        for mutation in MUTATIONS
        if (count := (ROOT / mutation.file).read_text().count(mutation.text)) != 1
    ]
    assert wrong == []


def test_each_mutated_file_compiles() -> None:
    """A program that does not even compile is noticed by every test, and so by none."""
    for mutation in MUTATIONS:
        source = (ROOT / mutation.file).read_text()
        assert mutation.replacement != mutation.text
        compile(source.replace(mutation.text, mutation.replacement), mutation.file, "exec")


def test_no_mutation_is_listed_twice() -> None:
    """The count of mutations would say more than there is."""
    counts = Counter((mutation.file, mutation.text, mutation.replacement) for mutation in MUTATIONS)
    assert [change for change, count in counts.items() if count > 1] == []


def test_each_mutation_names_tests_of_one_tier() -> None:
    """A file that was moved would end pytest before any test has failed. One run has one tier."""
    for mutation in MUTATIONS:
        assert [file for file in mutation.tests if not (ROOT / file).is_file()] == []
        assert len({tier_of(ROOT / file) for file in mutation.tests}) == 1, mutation


def test_each_mutation_is_in_the_table_of_its_area() -> None:
    """The command line selects by area, and the table at its end counts by area."""
    for area, table in AREAS.items():
        assert {mutation.area for mutation in table} == {area}


def test_each_law_has_tests_and_several_mutations() -> None:
    """A law without is a sentence."""
    assert list(LAWS) == list(range(1, 13))
    counts = Counter(mutation.tests for mutation in AREAS["laws"])
    for law, file in LAWS.items():
        assert counts[(file,)] >= 3, f"law {law}"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["scheduler"], "no area 'scheduler'"),
        (["13"], "no area '13'"),
        (["laws", "--workers", "0"], "--workers takes a number of 1 or more"),
    ],
)
def test_bad_usage_is_one_line(words: list[str], why: str) -> None:
    """The person at the command line reads what to type instead."""
    command = [ROOT / "scripts" / "mutate", *words]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stdout) == (2, "")
    assert why in found.stderr and found.stderr.count("\n") == 1
