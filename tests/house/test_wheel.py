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
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.figures import LONG, judge

from .conftest import FOLDERS, copy_sources

#: What pip calls to install, and what `build` calls for an sdist, in the folder of the sources.
WHEEL = "get_requires_for_build_wheel(), prepare_metadata_for_build_wheel(into), build_wheel(into)"
SDIST = "get_requires_for_build_sdist(), build_sdist(into)"


@dataclass(frozen=True)
class Built:
    """A checkout in which nobody may write, as it was before and after a wheel and an sdist were made of it."""

    checkout: Path
    before: dict[str, tuple[int, int]]
    after: dict[str, tuple[int, int]]
    made: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Of the sources as they are, interpreted."""
    pytest.importorskip("setuptools", reason="the extra `build` is not installed")
    folder = tmp_path_factory.mktemp("built")
    checkout, made = folder / "checkout", folder / "made"
    copy_sources(checkout)
    subprocess.run(["chmod", "-R", "a-w", checkout], check=True)
    before = state(checkout)
    build(WHEEL, checkout, made)
    build(SDIST, checkout, made)
    yield Built(checkout, before, state(checkout), made)
    subprocess.run(["chmod", "-R", "u+w", checkout], check=True)


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """When each entry was written. A file that came and went has changed its folder."""
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_mode) for path in [folder, *folder.rglob("*")]}


def build(hooks: str, sources: Path, into: Path) -> None:
    """One call of the build backend, in a process of its own as pip starts it."""
    into.mkdir(exist_ok=True)
    program = f"import sys; from setuptools.build_meta import *; into = sys.argv[1]; {hooks}"
    run = subprocess.run(
        [sys.executable, "-B", "-c", program, str(into)], cwd=sources, env=os.environ | {"APPBACKPLANE_COMPILE": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def names(folder: Path) -> list[str]:
    """Files in the only wheel of a folder."""
    (wheel,) = folder.glob("*-py3-none-any.whl")
    return sorted(zipfile.ZipFile(wheel).namelist())


def test_building_writes_nothing_beside_the_sources(built: Built) -> None:
    """A checkout that is read-only, or another user's, could not be installed."""
    assert built.after == built.before


def test_a_wheel_holds_every_module_and_nothing_else(built: Built) -> None:
    """What an earlier state of the sources left somewhere would be packed, too."""
    sources = [path.relative_to(built.checkout) for name in FOLDERS for path in (built.checkout / name).rglob("*.py")]
    packed = [name for name in names(built.made) if name.endswith(".py")]
    assert packed == sorted(f"appbackplane/{path}" for path in sources)


def test_an_sdist_makes_the_same_wheel(built: Built, tmp_path: Path) -> None:
    """Who installs from an sdist would miss a module or a template."""
    (sdist,) = built.made.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # 3.11.4 and later
        archive.extractall(tmp_path)
    (unpacked,) = tmp_path.iterdir()
    build(WHEEL, unpacked, tmp_path / "made")
    assert names(tmp_path / "made") == names(built.made)


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
        files = [name for name in packed.namelist() if not name.endswith("/")]
        assert sums == {name: "" if name == record else sum_of(packed.read(name)) for name in files}
        settings = packed.read(record.replace("RECORD", "WHEEL")).decode()
        modules = {name: packed.read(name) for name in files if name.endswith(".so")}
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
