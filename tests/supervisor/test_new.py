"""new: the project that it makes works as it stands; nothing is overwritten, and no name does harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.supervisor.commands.new import FILES, component_of
from tests.figures import LONG

from .conftest import LIMIT_S

SKELETON = Path(__file__).resolve().parents[2] / "supervisor" / "skeleton"


def new(name: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["new", name, *words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def short_folder() -> Iterator[str]:
    """For run directories: socket paths are short."""
    with tempfile.TemporaryDirectory(prefix="ab-") as path:
        yield path


@pytest.mark.parametrize("name", [pytest.param("shop", marks=LONG), "corner_shop2"])
def test_what_it_makes_passes_its_tests_and_comes_up(folder: Path, short_folder: str, name: str) -> None:
    """The first ten minutes of whoever tries this; what does not work in them is not tried again."""
    made = new(name, "--json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert told["folder"] == str(folder / name)
    assert sorted(
        str(path.relative_to(folder / name)) for path in (folder / name).rglob("*") if path.is_file()
    ) == sorted(told["files"])
    environment = {**os.environ, "XDG_RUNTIME_DIR": short_folder, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("APPBACKPLANE_SYSTEM", None)

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=folder / name, env=environment, capture_output=True, text=True,
            timeout=4 * LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "3 passed" in run("pytest", "-q", "-p", "no:cacheprovider")
    run("appbackplane.supervisor", "up", "--detach")
    try:
        assert run("appbackplane.supervisor", "call", f"{name}.greet", "person=Ada") == "Hello, Ada!\n"
    finally:
        run("appbackplane.supervisor", "down")
    project = tomllib.loads((folder / name / "pyproject.toml").read_text())["project"]
    assert project["name"] == name


def test_an_empty_folder_is_used_and_any_other_refused(folder: Path) -> None:
    """Whoever types a name twice must not lose an afternoon's work."""
    (folder / "shop").mkdir()
    assert new("shop").exit_code == 0
    (folder / "shop" / "shop.toml").write_text("mine")
    again = new("shop")
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr == "appbackplane: shop is there already, and not an empty folder: choose another name\n"
    assert (folder / "shop" / "shop.toml").read_text() == "mine"
    (folder / "market").write_text("a file")
    assert new("market").exit_code == 1


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("Shop", "small letters"), ("my-shop", "small letters"), ("1shop", "small letters"), ("../shop", "small letters"),
        ("shop_", "small letters"), ("", "small letters"), ("class", "a keyword of Python"), ("match", "a keyword of Python"),
        ("supervisor", "reserved"), ("tests", "reserved"), ("json", "hide the package"),
        ("click", "hide the package"), ("appbackplane", "hide the package"), ("a_b", "too short"),
    ],
)  # fmt: skip
def test_bad_names_are_refused_with_the_reason(folder: Path, name: str, because: str) -> None:
    """Before anything is written."""
    refused = new(name)
    assert refused.exit_code == 2
    assert because in refused.stderr
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As every error is."""

    def refuse(self: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_text", refuse)
    assert new("shop").stderr == "appbackplane: shop/README.md cannot be written: Permission denied\n"


def test_an_empty_folder_here_is_no_package(folder: Path) -> None:
    """`python -m` puts this folder on the path, where any folder counts as a package."""
    (folder / "shop").mkdir()
    words = [sys.executable, "-m", "appbackplane.supervisor", "new", "shop"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert made.returncode == 0, made.stderr
    again = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "is there already" in again.stderr


def test_every_template_is_used() -> None:
    """One that is not is shipped for nothing; one that is missing fails in front of a user."""
    assert sorted(FILES) == sorted(path.name for path in SKELETON.iterdir())
    assert component_of("corner_shop") == "CornerShop"
