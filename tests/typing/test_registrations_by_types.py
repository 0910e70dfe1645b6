"""Registrations that are wrong fail in the type checker (seed 003: "a compiler error"); those that are right do not.

The mistakes are the marked lines of cases/bad.py: another one is another line there. What raises at run time, for those who
have no type checker, is in tests/runtime/dispatcher/test_registration.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

#: What a type checker says, by file and line (conftest.py).
Errors = dict[tuple[str, int], list[str]]
BAD = Path(__file__).parent / "cases" / "bad.py"
MISTAKES = {
    number: found[1]
    for number, line in enumerate(BAD.read_text().splitlines(), start=1)
    if (found := re.search(r"# wrong: (.*)", line))
}


def test_what_is_right_passes(errors: Errors) -> None:
    """Or users would write `# type: ignore`, and have no types at all."""
    assert {place: said for place, said in errors.items() if place[0] != "bad.py"} == {}


@pytest.mark.parametrize("line", MISTAKES, ids=MISTAKES.get)
def test_a_mistake_is_refused(errors: Errors, line: int) -> None:
    """The paper's claim for C++, that only there a wrong registration does not compile."""
    assert ("bad.py", line) in errors


def test_nothing_but_the_mistakes_is_refused(errors: Errors) -> None:
    """Each mistake is told where it is."""
    assert {place[1] for place in errors if place[0] == "bad.py"} - set(MISTAKES) == set()
