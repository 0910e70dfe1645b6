"""The environment of the scripts: when the package is compiled anew, and what is said when it cannot be."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .conftest import copy_sources


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A copy of the sources of a wheel, and of `scripts/bootstrap.sh`."""
    copy = tmp_path / "checkout"
    copy_sources(copy)
    (copy / "scripts").mkdir()
    (copy / "docs").mkdir()
    shutil.copy(root / "scripts/bootstrap.sh", copy / "scripts/bootstrap.sh")
    return copy


def bash(checkout: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """One command after `. bootstrap.sh`."""
    return subprocess.run(
        ["bash", "-euc", f". '{checkout}/scripts/bootstrap.sh'; {command}"],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def state_of(checkout: Path) -> str:
    """By which it is known whether what was compiled is still what is there."""
    found = bash(checkout, "state_of_sources")
    assert found.returncode == 0 and found.stdout.strip(), found.stderr
    return found.stdout


def test_the_same_sources_are_compiled_once(root: Path, checkout: Path) -> None:
    """Wherever they lie, whenever they were written, and whatever else has changed: a minute each time."""
    state = state_of(checkout)
    assert state == state_of(root)
    os.utime(checkout / "runtime" / "backplane.py", (0, 0))
    (checkout / "docs" / "page.md").write_text("new")
    assert state_of(checkout) == state


@pytest.mark.parametrize("changed", ["setup.py", "pyproject.toml", "runtime/objects/action.py", "supervisor/run.py"])
def test_other_sources_are_compiled_again(checkout: Path, changed: str) -> None:
    """A figure, or a test, of what the sources were before is worse than none."""
    state = state_of(checkout)
    with (checkout / changed).open("a") as file:
        file.write("\n# changed\n")
    assert state_of(checkout) != state


def test_a_module_that_has_another_name_is_another_state(checkout: Path) -> None:
    """The text is the same; what can be imported is not."""
    state = state_of(checkout)
    (checkout / "transport" / "topics.py").rename(checkout / "transport" / "themes.py")
    assert state_of(checkout) != state


def test_what_was_compiled_of_other_sources_is_not_used(checkout: Path) -> None:
    """The demonstration takes what there is, and never what there was."""
    python = checkout / ".venv" / "compiled" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    (python.parents[1] / "state").write_text(state_of(checkout))
    command = 'PY=before; compiled_if_made; echo "$? ${PY##*/}"'
    assert bash(checkout, command).stdout == "0 python\n"
    (checkout / "runtime" / "run.py").write_text("")
    assert bash(checkout, "compiled_if_made").returncode == 1


def test_a_build_that_fails_is_one_error_and_leaves_nothing(checkout: Path, tmp_path: Path) -> None:
    """With what to do about it; not a measurement of something else, nor half a package."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = sorted(checkout.rglob("*"))
    command = "state_of_extensions() { echo entry; }; PY=false; make_compiled state"
    run = bash(checkout, command, TMPDIR=str(scratch), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("appbackplane: compilation failed: the reason is above")
    assert "APPBACKPLANE_COMPILE=0" in run.stderr
    assert sorted(checkout.rglob("*")) == before
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "cache").exists()


#: Stands for minutes of a C compiler: copies a wheel that was made beforehand, and says that it did.
BUILD_WHEEL = 'build_wheel() { say "builds ${APPBACKPLANE_COMPILE}"; mkdir -p "$2"; cp "$WHEEL" "$2"; }'


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with one module and one extension module."""
    path = tmp_path / "appbackplane-0.1.0-py3-none-any.whl"
    info = "appbackplane-0.1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("appbackplane/transport/envelope.py", "")
        file.writestr("appbackplane/transport/envelope.so", "machine code")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: appbackplane\nVersion: 0.1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return path


def make_compiled(checkout: Path, tmp_path: Path, wheel: Path) -> list[str]:
    """What is said while the compiled package is made."""
    command = f"{BUILD_WHEEL}; PY={sys.executable}; rm -rf $COMPILED; make_compiled state"
    run = bash(checkout, command, XDG_CACHE_HOME=str(tmp_path / "cache"), WHEEL=str(wheel))
    assert run.returncode == 0, run.stderr
    (installed,) = (checkout / ".venv" / "compiled").rglob("envelope.so")
    assert installed.read_text() == "machine code"
    return [line.removeprefix("appbackplane: ") for line in run.stderr.splitlines() if line.startswith("appbackplane")]


def test_a_compiled_package_is_kept_for_the_next_checkout(checkout: Path, tmp_path: Path, wheel: Path) -> None:
    """A fresh clone of the same sources compiles nothing; one that differs in a module compiles."""
    assert "builds 1" in make_compiled(checkout, tmp_path, wheel)
    assert make_compiled(checkout, tmp_path, wheel) == ["builds 0"]
    (checkout / "supervisor" / "run.py").write_text("")  # is never compiled
    assert make_compiled(checkout, tmp_path, wheel) == ["builds 0"]
    (checkout / "runtime" / "backplane.py").write_text("")
    assert "builds 1" in make_compiled(checkout, tmp_path, wheel)


def test_a_damaged_cache_entry_is_compiled_anew_and_said(checkout: Path, tmp_path: Path, wheel: Path) -> None:
    """A full disk or a crash leaves half a file: the tests would run against it for ever."""
    make_compiled(checkout, tmp_path, wheel)
    (module,) = (tmp_path / "cache").rglob("envelope.so")
    module.write_text("half of")
    said = make_compiled(checkout, tmp_path, wheel)
    assert "is damaged: compiling anew" in said[0]
    assert "builds 1" in said
    assert make_compiled(checkout, tmp_path, wheel) == ["builds 0"]


def test_what_is_not_to_be_compiled_is_said_and_not_tried(checkout: Path) -> None:
    """Who measures must know what; `ensure_environment` is not what this is about."""
    command = "ensure_environment() { :; }; PY=python-of-the-sources; ensure_compiled '' || echo $PY"
    run = bash(checkout, command, APPBACKPLANE_COMPILE="0")
    assert run.stdout.strip() == "python-of-the-sources"
    assert run.stderr == "appbackplane: interpreted, because of APPBACKPLANE_COMPILE=0\n"


@pytest.mark.parametrize(
    ("python", "returned", "said"),
    [("true", 1, "the compiler fails"), ("echo", 0, "interpreted, because")],
    ids=["sources that do not compile", "no compiler"],
)
def test_pieces_pass_without_a_compiled_package_only_where_none_can_be_made(
    root: Path, checkout: Path, python: str, returned: int, said: str
) -> None:
    """Half of them are left out then. `PY` stands for an interpreter whose tests pass, and which names what is in the way."""
    shutil.copy(root / "scripts/test", checkout / "scripts/test")
    with (checkout / "scripts/bootstrap.sh").open("a") as file:
        file.write(f'ensure_environment() {{ :; }}; PY={python}; make_compiled() {{ give_up "the compiler fails"; }}\n')
    run = subprocess.run(
        [checkout / "scripts/test", "pieces"],
        env={name: value for name, value in os.environ.items() if name != "APPBACKPLANE_COMPILE"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == returned, run.stderr
    assert said in run.stderr


def test_a_checkout_that_cannot_be_written_is_told_before_anything_is_made(checkout: Path) -> None:
    """That of another user, or of an image; `root` may write everywhere, so the look itself is replaced."""
    run = bash(checkout, "is_read_only() { true; }; ensure_environment test")
    assert run.returncode == 1
    assert run.stderr.startswith(f"appbackplane: {checkout} cannot be written by you")
    assert "work in a clone of your own" in run.stderr
    assert not (checkout / ".venv").exists()
