"""docs/concepts/architectures.md says of each architecture what the registry promises, and so what the tests have found."""

from __future__ import annotations

import re

from registry import ALL, ARCHITECTURES, Architecture

from tests.docs.pages import DOCS, table

PAGE = (DOCS / "concepts" / "architectures.md").read_text()
YES_NO = {True: "yes", False: "no"}


def row(architecture: Architecture) -> tuple[str, ...]:
    """Its row of the table."""
    promise = architecture.promise
    return (
        architecture.title,
        "TOML",
        "in order" if promise.keeps_order else "any order",
        str(promise.frames_first),
        str(promise.at_once),
        YES_NO[promise.passes_running],
        YES_NO[promise.needs_lock],
        "all" if promise.late_in_flood == ALL else ", ".join(promise.late_in_flood),
    )


def test_the_table_of_promises_is_that_of_the_registry() -> None:
    """A promise on the page that no test keeps is believed all the same."""
    shown = [tuple(re.sub(r"\[(.*)\]\(.*\)", r"\1", cell) for cell in cells) for cells in table(PAGE, "Promises")]
    assert shown == [row(each) for each in ARCHITECTURES]


def test_each_architecture_has_a_section_that_says_where_it_breaks() -> None:
    """In the order of the table; none without its limits."""
    which = PAGE.split("\n## Which one\n")[1].split("\n## ")[0]
    sections = dict(part.split("\n", 1) for part in which.split("\n### ")[1:])
    assert list(sections) == [each.title for each in ARCHITECTURES]
    for title, text in sections.items():
        assert "Choose it" in text and "promises" in text and "**At three times the capacity**" in text, title


def test_the_actor_with_arbitrary_threads_is_refused_with_its_reasons() -> None:
    """The one architecture of the source that no TOML makes."""
    assert "\n## Refused: an actor with arbitrary threads\n" in PAGE
    assert not any("arbitrary" in each.title for each in ARCHITECTURES)


def test_the_picture_has_every_architecture() -> None:
    """Or an entry was added, and `scripts/bench architectures --plots docs/concepts` was not run."""
    picture = (DOCS / "concepts" / "architectures.svg").read_text()
    assert [each.label for each in ARCHITECTURES if f">{each.label}</text>" not in picture] == []
