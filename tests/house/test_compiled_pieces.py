"""The pieces that run with the compiled package, too, are those that it can change."""

from __future__ import annotations

from pathlib import Path

from setup import compiled_modules
from tests.compiled_pieces import files, imported, name_of, read_imports


def test_each_compiled_module_is_imported_by_one_of_them(root: Path) -> None:
    """Or nobody would notice what mypyc makes of it."""
    seen, ahead = set[str](), {name_of(root / file) for file in files()}
    while ahead:
        seen |= ahead
        ahead = {target for module in ahead for target in imported(module)} - seen
    assert {file.removesuffix(".py").replace("/", ".") for file in compiled_modules()} - seen == set()


def test_who_imports_none_is_left_out() -> None:
    """Directly, through another module, through a package; and not at all."""
    assert {"tests/transport/test_inbox.py", "tests/transport/test_hearing.py"} <= set(files())
    assert "tests/laws/law_09_throttling.py" in files()
    assert "tests/transport/security/test_keys.py" not in files()


def test_imports_are_read_from_lines() -> None:
    """In parentheses, relative, in a function, under another name; and what is for types alone is none."""
    text = """
import os, a.b as c
from . import near
from ..up.side import (
    one,  # a comment, with a comma
    two as other,
)
if TYPE_CHECKING:
    from never import Never

def f():
    from late import later
"""
    assert set(read_imports(text, "p.q.module", is_package=False)) == {
        ("os", ""), ("a.b", ""), ("p.q", "near"), ("p.up.side", "one"), ("p.up.side", "two"), ("late", "later"),
    }  # fmt: skip
    assert list(read_imports("from . import near", "p.q", is_package=True)) == [("p.q", "near")]
