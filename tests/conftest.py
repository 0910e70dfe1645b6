"""For all tests: `--tier` runs one tier alone (tiers.py), and a piece that starts a process fails.

`long` marks a test that takes too long for every run: `scripts/long` runs these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import TIERS, has_tests_of, tier_of

#: Audit events of CPython that start a process.
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
#: Characters of one section of captured output: one test raises an error of 17 MiB.
CAPTURED_MAX = 100_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this suite."""
    parser.addoption("--tier", choices=TIERS, help="run the files of this tier alone")
    parser.addoption("--long", action="store_true", help="run what is marked `long`, and nothing else")


def pytest_configure(config: pytest.Config) -> None:
    """The marks of this suite, and the guard of the pieces."""
    config.addinivalue_line("markers", "long: takes too long for every run; scripts/long runs it")
    config.addinivalue_line("markers", "systems: starts processes, in a file of pieces (tiers.py)")
    if config.getoption("tier") == "pieces":
        sys.addaudithook(_refuse_processes)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass by what belongs to another tier: it is not even imported."""
    tier = config.getoption("tier")
    return True if tier is not None and not has_tests_of(collection_path, tier) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out other tiers, and what takes long (or all else)."""
    tier, is_long = config.getoption("tier"), config.getoption("long")
    chosen = [item for item in items if _is_chosen(item, tier) and ("long" in item.keywords) == is_long]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen


def _is_chosen(item: pytest.Item, tier: str | None) -> bool:
    return tier in (None, "systems" if "systems" in item.keywords else tier_of(item.path))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make captured output fit for the pipe between a worker of pytest-xdist and its controller: UTF-8, and not megabytes."""
    report = yield
    report.sections = [(title, _sendable(text)) for title, text in report.sections]
    return report


def _sendable(text: str) -> str:
    if len(text) > CAPTURED_MAX:
        text = f"{text[:CAPTURED_MAX]}\n[{len(text) - CAPTURED_MAX} more characters]"
    return text.encode("utf-8", "backslashreplace").decode()


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS and "PYTEST_CURRENT_TEST" in os.environ:
        raise RuntimeError(f"a piece starts no process ({event}): give its file the tier `systems` in tests/tiers.py")
