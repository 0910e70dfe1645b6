"""Imports of tests: each name that a test imports from another file of the tests is there.

Nobody checks the types of tests, and pytest imports a tier's tests when the tiers before it have been run: a name that has
moved would cost all their time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = {"tests", "scripts"}


def names_of(tree: ast.Module) -> set[str]:
    """All names that a module assigns, defines or imports; those of its functions as well, more than others can import."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                found |= {alias.asname or alias.name.split(".")[0] for alias in aliases}
    return found


def missing(source: Path, root: Path) -> Iterator[str]:
    """Each import of a name, or a module, that no file of the repository has."""
    for node in ast.walk(ast.parse(source.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.level or (node.module or "").split(".")[0] not in PACKAGES:
            continue
        place = root.joinpath(*str(node.module).split("."))
        module = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
        known = names_of(ast.parse(module.read_text())) if module.exists() else set()
        for name in (alias.name for alias in node.names):
            if name not in known and not (place / f"{name}.py").exists() and not (place / name).is_dir():
                yield f"{source.relative_to(root)}:{node.lineno}: {node.module} has no {name}"


def test_what_tests_import_is_there(root: Path, tracked: list[Path]) -> None:
    """Before an hour of tests has been run, and not after."""
    sources = [root / path for path in tracked if path.suffix == ".py" and path.parts[0] in PACKAGES]
    assert [line for source in sources for line in missing(source, root)] == []


@pytest.mark.parametrize("source", ["from tests.house.conftest import NOWHERE", "from tests.nowhere import ROOT"])
def test_a_name_that_is_nowhere_is_seen(source: str, root: Path, tmp_path: Path) -> None:
    """The check above would pass for ever if it saw nothing."""
    (tmp_path / "tests").symlink_to(root / "tests")
    (tmp_path / "test_it.py").write_text(source)
    assert len(list(missing(tmp_path / "test_it.py", tmp_path))) == 1
