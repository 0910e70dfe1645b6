"""The programs of README and docs/ pass `mypy --strict` as they stand: they are what a newcomer copies into a typed project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, Block, blocks, write
from tests.typing.conftest import of_mypy

PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))


def programs(page: Path) -> list[Block]:
    """The blocks of Python files that the page has its reader write."""
    found = blocks(page.read_text(), page.name)
    return [block for block in found if block.language == "python" and block.file is not None]


def sets_of_pages() -> list[list[Path]]:
    """The pages with programs, in sets within which no file name occurs twice: mypy runs once a set, not once a page."""
    sets: list[tuple[set[str], list[Path]]] = []
    for page in PAGES:
        names = {str(block.file) for block in programs(page)}
        if names:
            taken, pages = next((each for each in sets if not each[0] & names), (set[str](), list[Path]()))
            if not pages:
                sets.append((taken, pages))
            taken |= names
            pages.append(page)
    return [pages for _, pages in sets]


SETS = sets_of_pages()


@pytest.mark.parametrize("pages", SETS, ids=[pages[0].stem for pages in SETS])
def test_programs_of_pages_are_typed(pages: list[Path], workshop: Path, request: pytest.FixtureRequest) -> None:
    """Or the first thing that a reader's checker says of this package is an error."""
    folder = workshop / pages[0].stem
    folder.mkdir()
    for block in (block for page in pages for block in programs(page)):
        write(block, folder)
    files = sorted(str(path) for path in folder.glob("*.py"))
    assert of_mypy(workshop, request, *files) == {}
