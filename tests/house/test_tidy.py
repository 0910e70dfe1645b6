"""Habits that a machine can see: every module says what it is for, stays readable, and hides no error."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

#: A wall against files with two ideas; the usual is 100 to 300 lines. At 400, classes of one idea were cut into a base class
#: and its only subclass, and a reader had to open both to understand either. The longest whole class has 570 lines.
LINES_MAX = 600
#: Written in pieces, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
#: Homes and workplaces of one machine. `~`, $XDG_RUNTIME_DIR, /proc, /sys and /dev are every machine's.
OF_ONE_MACHINE = re.compile(r"(?<![\w.$}~/-])/(?:ro" r"ot|ho" r"me|wo" r"rk|Use" r"rs|m" r"nt)/\w")
TEXT = {".py", ".md", ".toml", ".sh", ".cfg", ".ini", ".txt", ".yml", ".yaml", ""}


def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), filename=str(path))


def swallowed(tree: ast.AST) -> Iterator[int]:
    """Lines where an error of any kind vanishes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            is_silent = all(isinstance(step, ast.Pass | ast.Continue) for step in node.body)
            if is_silent and any(catches_all(kind) for kind in kinds):
                yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "suppress":
            yield from [node.lineno for kind in node.args if catches_all(kind)][:1]


def catches_all(kind: ast.expr | None) -> bool:
    """Whether an except clause of this type takes everything."""
    return kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))


def test_every_module_says_what_it_is(root: Path, tracked: list[Path]) -> None:
    """A stranger opens any file and knows within a minute what it is for."""
    silent = [str(p) for p in tracked if p.suffix == ".py" and not ast.get_docstring(parse(root / p))]
    assert silent == [], "write what it is, which law it keeps, why this way, what it costs"


def test_no_file_is_too_long_for_one_idea(modules: dict[str, Path]) -> None:
    """A file of a thousand lines is read by nobody and changed by fear."""
    lines = {name: len(path.read_text().splitlines()) for name, path in modules.items()}
    assert {name: n for name, n in lines.items() if n > LINES_MAX} == {}, "look for the second idea in it"


def test_no_error_vanishes(root: Path, tracked: list[Path]) -> None:
    """`except Exception: pass` hides the one failure that somebody will look for at night."""
    found = [f"{p}:{n}" for p in tracked if p.suffix == ".py" for n in swallowed(parse(root / p))]
    assert found == [], "name the error that may happen here, or count and report it"


@pytest.mark.parametrize(
    "source",
    [
        "try: f()\nexcept: pass",
        "try: f()\nexcept Exception: pass",
        "while f():\n  try: f()\n  except (OSError, BaseException): continue",
        "with contextlib.suppress(Exception): f()",
    ],
)
def test_a_vanishing_error_is_seen(source: str) -> None:
    """The check above would pass for ever if it saw nothing."""
    assert list(swallowed(ast.parse(source)))


def test_nothing_unfinished_and_nothing_of_one_machine(root: Path, tracked: list[Path]) -> None:
    """What is not finished is an issue, not a comment; a path of my machine is a riddle on yours."""
    found = []
    for path in tracked:
        if path.suffix in TEXT and path.name != "LICENSE":
            for number, line in enumerate((root / path).read_text().splitlines(), 1):
                if UNFINISHED.search(line) or OF_ONE_MACHINE.search(line):
                    found.append(f"{path}:{number}: {line.strip()}")
    assert found == []


def test_a_path_of_one_machine_is_seen() -> None:
    """And what every machine has, or what is part of an address, is left alone."""
    assert OF_ONE_MACHINE.search(f'open("/{"home"}/ann/x")')  # in pieces: this file is checked, too
    assert OF_ONE_MACHINE.search(f"cd /{'work'}/tree")
    assert not OF_ONE_MACHINE.search("https://example.org/work/x and /proc/self and ~/home/x and a/work/x")


#: Names of two classes, both public, each in the words of its own field: a message of a topic, and one of the dispatcher.
SHARED_NAMES = {"Message"}


def test_one_name_stands_for_one_class(modules: dict[str, Path]) -> None:
    """Who searches for a class finds it, and no other."""
    places: dict[str, set[str]] = {}
    for name, path in modules.items():
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, set()).add(name)
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in SHARED_NAMES} == {}
