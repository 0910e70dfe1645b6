"""Pages: the markdown files of docs/ as blocks, and what each kind of block is good for.

A page is read as its reader would: in order. The first line of a block may name a file (`# boiler.py`); such a block is
written, and a later one that says `# boiler.py, continued` is appended. Python without a name runs in the page's own
namespace; where it begins with `>>>` its results are compared. Consoles run in a shell (shell.py) and are compared with
what is shown, `...` standing for anything. A console that says `not-run` beside its language is only shown.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Those with the most commands first: the longest takes half a minute, and should not be the last to begin.
PAGES = sorted(DOCS.rglob("*.md"), key=lambda page: (-page.read_text().count("\n$ "), page))

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>[\w-]+\.(?:py|toml))(?P<more>, continued)?[ ]*\n")
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the words beside it, its text, and where it stands."""

    page: str
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that it is, or a part of."""
        found = _FILE.match(self.text) if self.language in ("python", "toml") else None
        return found["name"] if found else None

    @property
    def is_continued(self) -> bool:
        """Whether it goes behind what the file has."""
        found = _FILE.match(self.text)
        return bool(found and found["more"])


def blocks(markdown: str, page: str) -> list[Block]:
    """The fenced blocks, in order."""
    found = []
    for fence in _FENCE.finditer(markdown):
        language, *words = fence["info"].split() or [""]
        line = markdown.count("\n", 0, fence.start()) + 2
        found.append(Block(page, line, language, tuple(words), fence["text"]))
    return found


def prose(markdown: str) -> str:
    """The page without its fenced blocks, line for line."""
    return _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), markdown)


def anchors(markdown: str) -> set[str]:
    """What a link may name behind a `#`, as GitHub makes it of the headings."""
    return {_slug(heading[2]) for heading in _HEADING.finditer(prose(markdown))}


def table(markdown: str, heading: str) -> list[tuple[str, ...]]:
    """The rows of the first table below a heading, without its own heading; cells without their backticks."""
    lines = iter(markdown.split(f"# {heading}\n", 1)[1].splitlines())
    rows = list(_rows(lines))
    return rows[1:]


def write(block: Block, folder: Path) -> None:
    """Put the block's file into `folder`, or append to it."""
    assert block.file is not None
    path = folder / block.file
    if block.is_continued:
        assert path.exists(), f"{block.place}: {block.file} is continued before it was begun"
        text = path.read_text() + block.text.split("\n", 1)[1]
    else:
        text = block.text
    path.write_text(text)


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    """Run it; where it is a dialogue, compare the results. Raises what it raises."""
    if not block.text.startswith(">>>"):
        # Blank lines before it: a traceback then names the line of the page.
        code = compile("\n" * (block.line - 1) + block.text, block.page, "exec", dont_inherit=True)
        exec(code, namespace)
        return
    test = doctest.DocTestParser().get_doctest(block.text, namespace, block.place, block.page, block.line - 1)
    test.globs = namespace  # not the copy that the parser made: later blocks go on with what this one binds
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)


def _rows(lines: Iterator[str]) -> Iterator[tuple[str, ...]]:
    has_begun = False
    for line in lines:
        if line.startswith("|"):
            has_begun = True
            cells = [cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                yield tuple(cell.replace("\\|", "|") for cell in cells)
        elif has_begun:
            return


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
