"""Links lead somewhere, and what is named is there: files, headings, functions, modules that are imported.

The first thing that a reader does with a page is to follow a link; a dead one says that nobody looks after the rest.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, blocks, prose

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
#: A file of this repository, named with its folder; perhaps with a function in it.
FILE = re.compile(r"`((?:transport|runtime|supervisor|spark|examples|tests|scripts|docs)/[\w./-]*)(?::([\w.]+))?`")
READMES = sorted(path for path in ROOT.glob("examples/*/README.md"))
ALL = [*PAGES, *READMES, *sorted(ROOT.glob("*.md"))]


def name_of(page: Path) -> str:
    """As it is called from the root."""
    return str(page.relative_to(ROOT))


def problem_of(link: str, page: Path) -> str | None:
    """Why a link leads nowhere. Links to other sites are not followed."""
    if "://" in link:
        return None
    target, _, anchor = link.partition("#")
    path = (page.parent / target).resolve() if target else page
    if not path.exists():
        return f"{link}: no such file"
    if not path.is_relative_to(ROOT):
        return f"{link}: leads out of the repository"
    if anchor and anchor not in anchors(path.read_text()):
        return f"{link}: no such heading; there are {sorted(anchors(path.read_text()))}"
    return None


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file, and to a heading in it."""
    links = LINK.findall(prose(page.read_text()))
    assert [problem for link in links if (problem := problem_of(link, page))] == []


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_files_and_functions_that_are_named_exist(page: Path) -> None:
    """Whoever reads `runtime/execution/workers/poll_leader.py` goes and looks for it."""
    missing = []
    for name, function in FILE.findall(prose(page.read_text())):
        path = ROOT / name
        if not path.exists() or (function and function not in functions(path)):
            missing.append(f"{name}:{function}")
    assert missing == []


def functions(path: Path) -> set[str]:
    """The names of what a file defines, methods with their class."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
    return found


def test_every_page_is_in_the_index() -> None:
    """A page that nothing leads to is not read."""
    index = DOCS / "README.md"
    linked = {index, *((DOCS / link).resolve() for link in LINK.findall(index.read_text()))}
    changes = DOCS / "changes"  # one file a change, read in their folder
    assert [name_of(page) for page in PAGES if page not in linked and changes not in page.parents] == []


def test_pages_import_only_what_is_public() -> None:
    """What a page shows is what people write; names that may change tomorrow are not for them."""
    public = {"appbackplane.runtime", "appbackplane.runtime.testing", "appbackplane.transport"}
    public |= {
        "appbackplane.runtime.dispatcher",
        "appbackplane.runtime.dispatcher.sources",
        "appbackplane.runtime.dispatcher.sources.sockets",
    }
    public |= {"appbackplane.runtime.requests", "appbackplane.runtime.things", "appbackplane.runtime.things.mashups"}
    public.add("appbackplane.runtime.things.proxies")
    public |= {"appbackplane.spark.replay", "appbackplane.spark.advice"}
    public |= {f"appbackplane.spark.{name}" for name in ("compaction", "datasource", "frames", "session")}
    public |= {"appbackplane.spark.jobs.operation_statistics"}
    found = set()
    for page in PAGES:
        for block in blocks(page.read_text(), name_of(page)):
            if block.language == "python":
                found |= set(re.findall(r"(?:from|import) (appbackplane[\w.]*)", block.text))
    assert found == public


def test_dead_links_are_seen() -> None:
    """Or the tests above would pass for ever."""
    page = DOCS / "README.md"
    assert problem_of("tutorial.md", page) is None
    assert problem_of("tutorial.md#install", page) is None
    assert problem_of("nobody.md", page) == "nobody.md: no such file"
    assert "no such heading" in (problem_of("tutorial.md#nothing", page) or "")
    assert LINK.findall("see [a\nlink](x.md#y), and `code`") == ["x.md#y"]
    assert FILE.findall("`transport/link.py:Link.send`") == [("transport/link.py", "Link.send")]
    assert {"Link", "Link.send"} <= functions(ROOT / "transport" / "link.py")
