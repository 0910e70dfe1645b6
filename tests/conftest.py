"""For all tests: `--tier` runs one tier alone (tiers.py), and a piece that starts a process fails.

`long` marks a test that takes too long for every run: `scripts/long` runs these.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import TIERS, holds, tier_of

#: Audit events of CPython that start a process.
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this suite."""
    parser.addoption("--tier", choices=TIERS, help="run the files of this tier alone")
    parser.addoption("--long", action="store_true", help="run what is marked `long`, and nothing else")


def pytest_configure(config: pytest.Config) -> None:
    """The marks of this suite, and the guard of the pieces."""
    config.addinivalue_line("markers", "long: takes too long for every run; scripts/long runs it")
    if config.getoption("tier") == "pieces":
        sys.addaudithook(_refuse_processes)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass by what belongs to another tier: it is not even imported."""
    tier = config.getoption("tier")
    if tier is None:
        return None
    if collection_path.is_dir():
        return None if holds(collection_path, tier) else True
    return None if tier_of(collection_path) == tier else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, or all else."""
    wanted = bool(config.getoption("long"))
    left_out = [item for item in items if ("long" in item.keywords) != wanted]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if ("long" in item.keywords) == wanted]


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS and "PYTEST_CURRENT_TEST" in os.environ:
        raise RuntimeError(f"a piece starts no process ({event}): give its file the tier `systems` in tests/tiers.py")
