"""The type checkers that there are, each run once over all cases; what they say, by file and line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import appbackplane.runtime

CASES = Path(__file__).parent / "cases"
#: Places to errors: ("bad.py", 31) to what is said.
Errors = dict[tuple[str, int], list[str]]
#: With nothing cached, mypy reads all of runtime: 30 s on a slow machine that does other things, too.
LIMIT_S = 300.0


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which our packages have the names that they are imported by, as scripts/check has one."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "appbackplane").mkdir()
    ours = Path(appbackplane.runtime.__file__).parent.parent
    for name in ("transport", "runtime"):
        (folder / "appbackplane" / name).symlink_to(ours / name)
    return folder


@pytest.fixture(scope="session")
def cases(workshop: Path) -> Path:
    """The workshop, with the cases in it."""
    shutil.copytree(CASES, workshop / "cases", ignore=shutil.ignore_patterns("__pycache__"))
    return workshop


@pytest.fixture(scope="session", params=["mypy", "pyright"])
def errors(request: pytest.FixtureRequest, cases: Path) -> Errors:
    """What one checker says about the cases."""
    if request.param == "mypy":
        return of_mypy(cases, request, "-p", "cases")
    return of_pyright(cases)


def of_mypy(workshop: Path, request: pytest.FixtureRequest, *what: str) -> Errors:
    """What `mypy --strict` says about a package (`-p NAME`), or about files; their names differ."""
    if not program("mypy"):
        pytest.fail("mypy is not installed: pip install -e '.[lint]'")
    (workshop / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-msgpack]\nignore_missing_imports = true\n")
    cache = request.config.cache
    assert cache is not None
    said = run(
        [program("mypy"), "--config-file=mypy.ini", f"--cache-dir={cache.mkdir('typing')}", "--show-absolute-path",
         "--python-executable", sys.executable, *what],
        workshop,
    )  # fmt: skip
    found: Errors = {}
    for line in said.splitlines():
        if match := re.match(r"(?P<path>[^:]+):(?P<line>\d+): error: (?P<text>.*)", line):
            found.setdefault((Path(match["path"]).name, int(match["line"])), []).append(match["text"])
        else:
            assert ": note: " in line or line.startswith(("Found ", "Success")), line
    return found


def of_pyright(workshop: Path) -> Errors:
    checker = program("basedpyright") or program("pyright")
    if not checker:
        pytest.skip("neither basedpyright nor pyright is installed (pip install basedpyright)")
    config = {"typeCheckingMode": "strict", "include": ["cases"], "pythonVersion": "3.11", "reportPrivateUsage": "none",
              "reportUnusedExpression": "none", "reportUnusedCallResult": "none"}  # fmt: skip
    (workshop / "pyrightconfig.json").write_text(json.dumps(config))
    said = run([checker, "--outputjson", "--pythonpath", sys.executable, "--project", "pyrightconfig.json"], workshop)
    found: Errors = {}
    for each in json.loads(said)["generalDiagnostics"]:
        if each["severity"] == "error":
            place = (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
            found.setdefault(place, []).append(each["message"])
    return found


def program(name: str) -> str:
    """Beside the interpreter, or on the path; "" where there is none."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name) or ""


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "MYPYPATH": str(folder)}
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
    assert ended.returncode in (0, 1), f"{command[0]} could not check: {ended.stdout}{ended.stderr}"
    return ended.stdout
