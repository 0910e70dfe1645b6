"""Which pieces run a second time, with the compiled package: those that import a compiled module, at however many removes.

    python -m tests.compiled_pieces       their files, for pytest

Imports are read from the lines of the files: 0.3 s for the whole repository. What is imported for types alone does not count;
of a package, only the module that the imported name comes from. A line of a docstring that reads like an import counts, too:
it adds a file, and leaves none out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from setup import compiled_modules
from tests.tiers import COMPILED, ROOT, tier_of

FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t].*\n|\n)+", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*(?:from (\S+) import (\([^)]*\)|.*)|import (.*))", re.MULTILINE)
OURS = ("transport", "runtime", "supervisor", "spark")


def files() -> list[str]:
    """The files of pieces, relative to the root, that compiled code can change."""
    found = [path for folder in COMPILED for path in sorted((ROOT / folder).rglob("*.py")) if is_of_tests(path)]
    return [path.relative_to(ROOT).as_posix() for path in found if tier_of(path) == "pieces" and runs_compiled(path)]


def is_of_tests(path: Path) -> bool:
    """Whether pytest collects it (`python_files`)."""
    return path.name.startswith(("test_", "law_"))


def runs_compiled(path: Path) -> bool:
    """Whether a file imports a module that setup.py compiles, or imports one that does."""
    compiled = {file.removesuffix(".py").replace("/", ".") for file in compiled_modules()}
    seen, ahead = set[str](), {name_of(path)}
    while ahead:
        seen |= ahead
        ahead = {target for module in ahead for target in imported(module)} - seen
    return not seen.isdisjoint(compiled)


def name_of(path: Path) -> str:
    """A module's full name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((("appbackplane",) if parts[0] in OURS else ()) + parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    """All modules of the packages and the tests."""
    return {name_of(path): path for folder in (*OURS, "tests") for path in (ROOT / folder).rglob("*.py")}


@cache
def imported(module: str) -> frozenset[str]:
    """The modules that a module imports, packages left out: they gather names for users."""
    found = {source_of(start, name) for start, name in imports(module)}
    return frozenset(name for name in found if name in modules() and modules()[name].name != "__init__.py")


def source_of(start: str, name: str) -> str:
    """Where a name that is imported from `start` comes from."""
    if f"{start}.{name}" in modules():
        return f"{start}.{name}"
    if start in modules() and modules()[start].name == "__init__.py":
        return next((source_of(inner, name) for inner, other in imports(start) if other == name), start)
    return start


@cache
def imports(module: str) -> list[tuple[str, str]]:
    """Each import of a module, as (module, name); the name is "" where it imports a whole module."""
    return list(read_imports(modules()[module].read_text(), module, is_package=modules()[module].name == "__init__.py"))


def read_imports(text: str, module: str, *, is_package: bool) -> Iterator[tuple[str, str]]:
    """The imports in a text."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for source, names, whole in IMPORT.findall(FOR_TYPES.sub("", text)):
        if whole:
            yield from ((name.split()[0], "") for name in whole.split(",") if name.strip())
            continue
        dots = len(source) - len(source.lstrip("."))
        start = ".".join([*package[: len(package) - dots + 1], source[dots:]]).rstrip(".") if dots else source
        for line in names.strip("()").splitlines():
            for name in line.split("#")[0].split(","):
                if words := name.split():
                    yield start, words[0]


if __name__ == "__main__":
    print(*files())
