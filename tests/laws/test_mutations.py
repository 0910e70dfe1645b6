"""The table of mutations says what it means to say; whether the laws notice is for `scripts/mutate`, which takes longer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.laws.mutations import MUTATIONS

ROOT = Path(__file__).parents[2]


def test_each_mutation_changes_one_place() -> None:
    """When the code has moved on, a mutation that changes nothing would be one that no test can notice."""
    wrong = [
        f"{mutation.file}: {mutation.text!r} occurs {count} times"
        for mutation in MUTATIONS
        if (count := (ROOT / mutation.file).read_text().count(mutation.text)) != 1
    ]
    assert wrong == []


def test_each_law_has_tests_and_several_mutations() -> None:
    """A law without is a sentence."""
    counts = Counter(mutation.law for mutation in MUTATIONS)
    for law in range(1, 13):
        assert len([*Path(__file__).parent.glob(f"law_{law:02}_*.py")]) == 1
        assert counts[law] >= 3, f"law {law}"
