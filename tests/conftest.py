"""For all tests: `--tier` runs one tier alone (tiers.py), a piece that starts a process fails, and the environment is one
(environment.py), as are the examples of hypothesis (profiles.py).
"""

from __future__ import annotations

import gc
import multiprocessing.util
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import environment, profiles
from tests.tiers import TIERS, has_tests_of, tier_of
from tests.waiting import LIMIT_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

assert profiles  # imported before any test: it sets the default of hypothesis
#: Audit events of CPython that start a process.
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
#: Characters of one section of captured output: one test raises an error of 17 MiB.
CAPTURED_MAX = 100_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this suite."""
    parser.addoption("--tier", choices=TIERS, help="run the files of this tier alone")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The environment, the marks of this suite, and the guard of the pieces."""
    environment.set_up(config)
    config.addinivalue_line("markers", "systems: starts processes, in a file of pieces (tiers.py)")
    if config.getoption("tier") == "pieces":
        sys.addaudithook(_refuse_processes)
        multiprocessing.util.spawnv_passfds = _refuse_spawn  # what `spawn` starts raises no audit event


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass by what belongs to another tier: it is not even imported."""
    tier = config.getoption("tier")
    return True if tier is not None and not has_tests_of(collection_path, tier) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other tiers, and put the others in order."""
    tier = config.getoption("tier")
    chosen, others = [], []
    for item in items:
        (chosen if _is_chosen(item, tier) else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.parts)  # all workers in the same order, wherever they began
        items.sort(key=lambda item: not _is_begun_first(item))
        for item in items:
            if config.option.loadgroup and (mark := item.get_closest_marker("xdist_group")):
                _name_group(item, mark.args[0])


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker begins to collect at another file of a folder. In a new checkout the files are read with their assertions
    rewritten, which takes 8 s; so each worker rewrites a part, and finds the rest written.
    """
    report = yield
    if isinstance(collector, pytest.Dir) and (worker := getattr(collector.config, "workerinput", None)):
        first = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would look through all modules and tests again and again; and exempt them
    from its later looks: those of a test that calls it took 0.15 s each.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove what the run has left."""
    environment.clean_up(session.config, exitstatus)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep together, in one worker of pytest-xdist, the tests that share something expensive: a module's system, a JVM."""
    if isinstance(item, pytest.Function) and (group := _group_of(item)):
        item.add_marker(pytest.mark.xdist_group(group))


def _name_group(item: pytest.Item, group: str) -> None:
    """Put the group into the id, where pytest-xdist looks for it: its own way, in 3.8, has no effect with pytest 9.2."""
    node: Any = item
    if not item.nodeid.endswith(f"@{group}"):
        node._nodeid = f"{item.nodeid}@{group}"
        if hasattr(item, "_id"):
            node._id = type(node._id).parse(node._nodeid)
    assert item.nodeid.endswith(f"@{group}"), "pytest-xdist cannot keep tests together that share a system or a JVM"


def _group_of(item: pytest.Function) -> str | None:
    if "spark" in item.fixturenames:
        return "spark"
    # What begins with an underscore costs nothing: it sets something.
    used = [found[-1] for name, found in item._fixtureinfo.name2fixturedefs.items() if not name.startswith("_")]
    is_shared = any(each.scope in ("module", "package", "session") and each.baseid for each in used)
    return item.path.as_posix() if is_shared else None


def _is_begun_first(item: pytest.Item) -> bool:
    """Whether it takes long, as a limit of its own tells, and shares nothing: else all workers would wait for it in the end."""
    return item.get_closest_marker("timeout") is not None and item.get_closest_marker("xdist_group") is None


def _is_chosen(item: pytest.Item, tier: str | None) -> bool:
    return tier in (None, "systems" if "systems" in item.keywords else tier_of(item.path))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests, with two tasks at a time, in a process beside this one: starting it takes longer than most."""
    pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")
    from appbackplane.spark.session import SHORT_LIVED, session_with

    settings = {name.replace("_", "."): value for name, value in SHORT_LIVED.items()}
    # As long as a hang may take: with Spark's 15 s, results were lost on a machine that did much else.
    settings["spark.python.authenticate.socketTimeout"] = f"{LIMIT_S:g}s"
    started = session_with(settings, "local[2]", "tests")
    yield started
    started.stop()


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


def _refuse_spawn(*arguments: Any) -> int:
    raise RuntimeError(
        "a piece starts no process (multiprocessing): give its file the tier `systems` in tests/tiers.py"
    )
