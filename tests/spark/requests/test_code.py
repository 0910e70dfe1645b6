"""Code: the user's modules come to where they are executed, or it is said why they cannot."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from appbackplane.spark.requests import code
from appbackplane.spark.requests.code import archive, folders_of
from appbackplane.transport.errors import FailedPrecondition


def known(monkeypatch: pytest.MonkeyPatch, name: str, file: Path | None) -> None:
    """As if it had been imported from there."""
    module = ModuleType(name)
    if file is not None:
        module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, name, module)


def test_folders_are_those_that_modules_are_imported_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not those that they lie in: `shapes.round` is not found in `shapes/`."""
    known(monkeypatch, "flat", tmp_path / "one" / "flat.py")
    known(monkeypatch, "shapes", tmp_path / "two" / "shapes" / "__init__.py")
    known(monkeypatch, "shapes.round", tmp_path / "two" / "shapes" / "round.py")
    found = folders_of(
        ["flat:A", "shapes:B", "shapes.round:C", f"{msgspec.__name__}:Struct", f"{json.__name__}:JSONDecoder"]
    )
    assert found == (str(tmp_path / "one"), str(tmp_path / "two"))


def test_what_nobody_else_can_import_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its requests would fail, with an import error from another machine."""
    known(monkeypatch, "typed_in", None)
    for where, said in {
        "__main__:Add": "is part of the program itself",
        "json:make.<locals>.Add": "is defined inside a function",
        "typed_in:Add": "its module is not a file",
    }.items():
        with pytest.raises(FailedPrecondition, match=f"^{where} ?.*{said}.* no Spark worker can import it"):
            folders_of([where])


def test_an_archive_holds_all_python_files_and_no_others(tmp_path: Path) -> None:
    """Neighbours are imported, too; an environment beside them is not theirs."""
    folder, to = tmp_path / "app", tmp_path / "to"
    for name in (
        "a.py",
        "b/__init__.py",
        "b/c.py",
        "b/data.csv",
        "__pycache__/a.py",
        ".git/hook.py",
        "env/x.py",
        "env/pyvenv.cfg",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    to.mkdir()
    made = archive([str(folder)], to / "made.zip")
    assert made is not None
    with zipfile.ZipFile(made) as found:
        assert sorted(found.namelist()) == ["a.py", "b/__init__.py", "b/c.py"]
        assert found.read("b/c.py") == b"b/c.py"
    assert archive([str(tmp_path / "none")], to) is None


def test_a_home_directory_is_not_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """To each worker, before the first request."""
    monkeypatch.setattr(code, "FILES_MAX", 2)
    for number in range(3):
        (tmp_path / f"m{number}.py").touch()
    with pytest.raises(
        FailedPrecondition, match=r"3 Python files, 0 MiB, is too large to send .* set code = \"installed\""
    ):
        archive([str(tmp_path)], tmp_path)
