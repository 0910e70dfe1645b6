"""The house has the rooms that DESIGN gives it, and whoever installs it gets all of them.

Setuptools cannot find packages under renamed folders, so pyproject.toml lists them by hand: a forgotten one works in the
checkout and is missing from the wheel, where nobody here would see it.
"""

import fnmatch
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import COMPILED, MIXED, TIER_OF

from .conftest import FOLDERS

#: What may lie in the root; a new entry is a decision about the whole house.
TOP_LEVEL = {*FOLDERS, "tests", "scripts", "docs", "examples"} | {
    "pyproject.toml", "setup.py", "README.md", "LICENSE", ".ci", ".gitignore",
    "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", ".github", ".pre-commit-config.yaml",
}  # fmt: skip


@pytest.fixture(scope="module")
def setuptools(root: Path) -> dict[str, Any]:
    """[tool.setuptools] of pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_only_the_rooms_of_the_house_are_in_the_root(tracked: list[Path]) -> None:
    """A stray file in the root is the first thing that a visitor sees."""
    assert {path.parts[0] for path in tracked} <= TOP_LEVEL


def test_every_folder_with_code_is_a_listed_package(root: Path, setuptools: dict[str, Any]) -> None:
    """A package that is not listed is missing from the wheel."""
    folders = {path.parent.relative_to(root) for name in FOLDERS for path in (root / name).rglob("*.py")}
    without_init = sorted(str(folder) for folder in folders if not (root / folder / "__init__.py").is_file())
    assert not without_init, "each of these folders needs an __init__.py that says what the step is"
    assert set(setuptools["packages"]) == {".".join(("appbackplane", *folder.parts)) for folder in folders}


def test_each_folder_is_mapped_and_typed(root: Path, setuptools: dict[str, Any]) -> None:
    """Without the mapping it would be importable under a name that belongs to others; without py.typed, untyped."""
    assert setuptools["package-dir"] == {f"appbackplane.{name}": name for name in FOLDERS}
    assert [name for name in FOLDERS if not (root / name / "py.typed").is_file()] == []


def test_what_is_not_code_is_shipped_as_well(tracked: list[Path], setuptools: dict[str, Any]) -> None:
    """A template or a table beside the code works in the checkout and is missing from the wheel."""
    patterns = {package: globs for package, globs in setuptools["package-data"].items()}

    def is_shipped(path: Path) -> bool:
        for depth in range(1, len(path.parts)):
            package, rest = ".".join(("appbackplane", *path.parts[:depth])), "/".join(path.parts[depth:])
            if any(fnmatch.fnmatch(rest, glob) for glob in patterns.get(package, []) + patterns.get("*", [])):
                return True
        return False

    data = [path for path in tracked if path.parts[0] in FOLDERS and path.suffix != ".py"]
    assert [str(path) for path in data if not is_shipped(path)] == [], "add it to [tool.setuptools.package-data]"


def test_each_file_that_tiers_name_is_there(root: Path) -> None:
    """A file that was moved would fall back to the pieces, and there nothing may start a process."""
    assert [path for path in (*TIER_OF, *MIXED, *COMPILED) if not (root / path).exists()] == []


def test_mixed_files_are_those_with_the_mark(root: Path) -> None:
    """A marked test in a file that is not listed would run nowhere."""
    marked = {
        path.relative_to(root).as_posix()
        for path in (root / "tests").rglob("test_*.py")
        if re.search(r"^@pytest\.mark\.systems$", path.read_text(), re.MULTILINE)
    }
    assert marked == set(MIXED)
