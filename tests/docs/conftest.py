"""A folder and a run directory for each page, and nothing of a page's systems left behind when it ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from tests.docs.forked import ForkedCommands
from tests.docs.shell import Shell, environment


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """Short, because socket paths are: where the page's systems have their run directories."""
    path = Path(tempfile.mkdtemp(prefix="abp-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def shell(tmp_path: Path, run_dir: Path) -> Iterator[Shell]:
    """In the page's folder, where `appbackplane` is a fork (forked.py)."""
    with ForkedCommands(run_dir / "bin") as forked:
        yield from shell_in(tmp_path, environment(run_dir, forked.folder))


@pytest.fixture
def own_shell(tmp_path: Path, run_dir: Path) -> Iterator[Shell]:
    """In the page's folder, where each `appbackplane` is an interpreter of its own, as a reader's is."""
    yield from shell_in(tmp_path, environment(run_dir))


def shell_in(folder: Path, variables: Mapping[str, str]) -> Iterator[Shell]:
    """What it started and left is killed."""
    with Shell(folder, variables) as shell:
        yield shell
    left = shell.left_behind()
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=10)
