"""Mutation: one small mistake in the product, and the tests that must notice it.

A test that cannot fail proves nothing. `scripts/mutate` (mutate.py) makes each mistake in a copy of the tree and runs the named
tests, the cheapest that should fail. The tables lie beside this file, one for each area (areas.py lists them).

A mutation is worth its seconds when somebody could have made the mistake: a comparison turned, a decrement forgotten, a check
dropped, the wrong key, the wrong order. One that changes nothing a caller can see (an equivalent mutant) proves nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """One mistake."""

    area: str
    #: The file of the product, relative to the root.
    file: str
    #: Occurs exactly once in the file.
    text: str
    replacement: str
    #: What no longer holds, in plain English.
    breaks: str
    #: Files of tests, all of one tier (tests/tiers.py): pieces wherever possible.
    tests: tuple[str, ...]


def mutations(area: str, file: str, tests: tuple[str, ...], *changes: tuple[str, str, str]) -> tuple[Mutation, ...]:
    """Mutations of one file that the same tests must notice. A change is (what it breaks, text, replacement)."""
    return tuple(Mutation(area, file, text, replacement, breaks, tests) for breaks, text, replacement in changes)
