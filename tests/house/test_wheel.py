"""Wheels: building leaves the sources as they were, and scripts/wheel packs what pip can install.

Nothing is compiled here. The compiled wheel is made from the cache that `scripts/test` fills, and its test is skipped where
that holds no build of these sources.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.figures import LONG, judge

FOLDERS = ("transport", "runtime", "supervisor", "spark")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
#: What pip and build call, in the folder of the sources.
HOOKS = """
import sys
from setuptools import build_meta
into = sys.argv[1]
build_meta.get_requires_for_build_wheel()
build_meta.prepare_metadata_for_build_wheel(into)
build_meta.build_wheel(into)
build_meta.build_sdist(into)
"""


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Iterator[Path]:
    """The sources, where nobody may write."""
    copy = tmp_path / "checkout"
    for folder in FOLDERS:
        shutil.copytree(root / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(root / name, copy / name)
    subprocess.run(["chmod", "-R", "a-w", copy], check=True)
    yield copy
    subprocess.run(["chmod", "-R", "u+w", copy], check=True)


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """When each entry was written. A file that came and went has changed its folder."""
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_mode) for path in [folder, *folder.rglob("*")]}


def build(sources: Path, into: Path) -> None:
    """A pure wheel and an sdist."""
    into.mkdir()
    run = subprocess.run(
        [sys.executable, "-B", "-c", HOOKS, str(into)], cwd=sources, env=os.environ | {"APPBACKPLANE_COMPILE": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def names(folder: Path) -> list[str]:
    """Files in the only wheel of a folder."""
    (wheel,) = folder.glob("*-py3-none-any.whl")
    return sorted(zipfile.ZipFile(wheel).namelist())


@pytest.mark.usefixtures("build_tools")
def test_building_writes_nothing_beside_the_sources(checkout: Path, tmp_path: Path) -> None:
    """A checkout that is read-only, or another user's, could not be installed."""
    before = state(checkout)
    build(checkout, tmp_path / "made")
    assert state(checkout) == before
    packed = names(tmp_path / "made")
    modules = {
        f"appbackplane/{path.relative_to(checkout)}" for name in FOLDERS for path in (checkout / name).rglob("*.py")
    }
    assert modules <= set(packed)
    assert not [name for name in packed if not name.startswith(("appbackplane/", "appbackplane-"))]


@pytest.mark.usefixtures("build_tools")
def test_an_sdist_makes_the_same_wheel(checkout: Path, tmp_path: Path) -> None:
    """Who installs from an sdist would miss a module or a template."""
    build(checkout, tmp_path / "made")
    (sdist,) = (tmp_path / "made").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("appbackplane-*")
    build(unpacked, tmp_path / "again")
    assert names(tmp_path / "again") == names(tmp_path / "made")


@pytest.fixture
def build_tools() -> None:
    """Setuptools is installed."""
    pytest.importorskip("setuptools", reason="the extra `build` is not installed")


@pytest.fixture
def packing_tools() -> None:
    """What scripts/wheel would have to download first is installed."""
    pytest.importorskip("auditwheel", reason="the extra `wheel` is not installed")


def wheel(root: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """One run of scripts/wheel."""
    return subprocess.run(
        [root / "scripts/wheel", *options], env=os.environ | variables, capture_output=True, text=True, check=False
    )


def is_cached(root: Path) -> bool:
    """Whether these sources were compiled before."""
    command = '. scripts/bootstrap.sh; [[ -d "$CACHE/$(state_of_extensions)" ]]'
    return subprocess.run(["bash", "-euc", command], cwd=root, check=False).returncode == 0


@pytest.mark.usefixtures("packing_tools")
def test_the_compiled_wheel_is_whole_stripped_and_portable(root: Path, tmp_path: Path) -> None:
    """pip refuses a wheel with a wrong RECORD, and other distributions one without a manylinux tag."""
    if not is_cached(root):
        pytest.skip("these sources have not been compiled: scripts/test does it beside the checks")
    run = wheel(root, "--into", str(tmp_path))
    assert run.returncode == 0, run.stderr
    (path,) = tmp_path.glob("*.whl")
    assert "manylinux" in path.name
    with zipfile.ZipFile(path) as packed:
        (record,) = (name for name in packed.namelist() if name.endswith(".dist-info/RECORD"))
        sums = {row[0]: row[1] for row in csv.reader(packed.read(record).decode().splitlines())}
        assert sums == {name: "" if name == record else sum_of(packed.read(name)) for name in packed.namelist()}
        settings = packed.read(record.replace("RECORD", "WHEEL")).decode()
        modules = {name: packed.read(name) for name in packed.namelist() if name.endswith(".so")}
    assert "Root-Is-Purelib: false" in settings
    assert set(re.findall(r"^Tag: .*-(\w+)$", settings, re.MULTILINE)) == set(path.stem.split("-")[-1].split("."))
    assert len(modules) > 30 and [name for name, code in modules.items() if b"\0.symtab\0" in code] == []


def sum_of(content: bytes) -> str:
    """As in RECORD."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


@pytest.mark.usefixtures("packing_tools")
@pytest.mark.parametrize(
    ("options", "variables", "exit_code", "said"),
    [
        (["--fast"], {}, 2, "no option --fast: there are --pure, --try, --into FOLDER"),
        (["--into"], {}, 2, "--into takes a folder"),
        (["--into", "/proc/wheels"], {}, 1, "/proc/wheels cannot be written to: name another folder with --into"),
        ([], {"CC": "no-such-cc"}, 1, "there is no C compiler (no-such-cc); run 'apt install gcc python3-dev', or"),
    ],
)
def test_what_is_in_the_way_is_one_line_with_the_remedy(
    root: Path, tmp_path: Path, options: list[str], variables: dict[str, str], exit_code: int, said: str
) -> None:
    """Nobody reads a build log for a forgotten package."""
    run = wheel(root, *(options or ["--into", str(tmp_path)]), **variables)
    assert run.returncode == exit_code
    (line,) = run.stderr.splitlines()
    assert said in line


@LONG
@pytest.mark.parametrize("options", [(), ("--pure",)], ids=["compiled", "pure"])
def test_from_pip_install_to_the_first_answer(root: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """A newcomer waits for this once, and decides."""
    run = wheel(root, *options, "--try", "--into", str(tmp_path))
    assert run.returncode == 0, run.stderr
    answered = re.search(r"^first call answered after ([\d.]+) s", run.stdout, re.MULTILINE)
    assert answered, run.stdout
    judge(f"first call after pip install {' '.join(options)}", float(answered[1]), 10)
