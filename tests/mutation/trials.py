"""Trials: runs of tests in copies of the tree, each with one mutation or with none, several at a time.

A trial is a fork of this process, which has imported pytest and what the product needs, and nothing of the product: that saves
three quarters of the second that a run takes. It ends without looking back: threads that wait for ever end with it.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutation.mutation import Mutation
from tests.tiers import ROOT, tier_of

#: A mutation may make a program that never ends. If it computes, CPU time is what counts, since a machine may be busy: the
#: slowest trial takes some seconds of it.
CPU_LIMIT_S = 60
#: If it waits, in one test; or, in all, where pytest-timeout cannot interrupt it, as it never comes back to Python.
LIMIT_S = 600
LIMIT_OF_TRIAL_S = 3 * LIMIT_S
#: What the product and its tests import of others: not again in each of 200 trials.
IMPORTED_ONCE = (
    "asyncio", "click", "concurrent.futures.thread", "execnet", "hypothesis.stateful", "hypothesis.strategies", "msgspec",
    "psutil", "ssl", "yaml", "zmq",
)  # fmt: skip


class Trial(NamedTuple):
    """Files of tests of one tier, and what is broken before they run."""

    tests: tuple[str, ...]
    mutation: Mutation | None = None


class Outcome(NamedTuple):
    """How a trial ended."""

    #: pytest's exit code.
    code: int | None
    #: The first test that failed, and why.
    failed: str = ""
    why: str = ""

    @property
    def is_noticed(self) -> bool:
        """Whether a test has failed or has not ended, and nothing else has gone wrong."""
        return self.code in (pytest.ExitCode.TESTS_FAILED, -signal.SIGXCPU)

    @property
    def verdict(self) -> str:
        """One word, unless pytest itself failed."""
        if self.is_noticed:
            return "hangs" if not self.failed or "Timeout" in self.why else "noticed"
        return "SURVIVES" if self.code == pytest.ExitCode.OK else f"BROKEN (pytest ended with {self.code})"


class _Running(NamedTuple):
    trial: Trial
    tree: Path
    original: str
    process: BaseProcess
    told: Connection

    def end(self) -> Outcome:
        self.process.join()
        try:
            failed, why = self.told.recv()
        except EOFError:
            failed, why = "", ""
        if self.trial.mutation is not None:
            (self.tree / self.trial.mutation.file).write_text(self.original)
        return Outcome(self.process.exitcode, failed, why)


class _FirstFailure:
    """A plugin of pytest: tells the parent which test has failed. A piece has nothing to clean up, and ends at once: what is
    broken may keep it from ever ending."""

    def __init__(self, told: Connection, tier: str) -> None:
        self._told, self._is_piece = told, tier == "pieces"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._told.send((report.nodeid, report.longreprtext[-1000:]))
            if self._is_piece:
                os._exit(pytest.ExitCode.TESTS_FAILED)


def prepare() -> None:
    """Import what each trial needs, before the first fork."""
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    gc.freeze()


def in_trees(trials: Iterable[Trial], trees: list[Path]) -> Iterator[tuple[Trial, Outcome]]:
    """Run each trial, as many at a time as there are trees; in the order in which they end."""
    todo, free, running = [*trials], [*trees], dict[int, _Running]()
    todo.reverse()
    while todo or running:
        while todo and free:
            begun = _begin(todo.pop(), free.pop())
            running[begun.process.sentinel] = begun
        for sentinel in wait(running):
            ended = running.pop(sentinel)  # type: ignore[call-overload]
            yield ended.trial, ended.end()
            free.append(ended.tree)


def _begin(trial: Trial, tree: Path) -> _Running:
    mutation, original = trial.mutation, ""
    if mutation is not None:
        path = tree / mutation.file
        original = path.read_text()
        assert original.count(mutation.text) == 1, f"{mutation.file}: {mutation.text!r} is not there, or not once"
        path.write_text(original.replace(mutation.text, mutation.replacement))
    told, tell = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_run, args=(trial, tree, tell))
    process.start()
    tell.close()
    return _Running(trial, tree, original, process, told)


def _run(trial: Trial, tree: Path, tell: Connection) -> None:
    """In the fork: only what is in the tree is imported, and what failed tests leave behind is removed with it."""
    faulthandler.dump_traceback_later(LIMIT_OF_TRIAL_S, exit=True)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, 2 * CPU_LIMIT_S))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "appbackplane")]:
        del sys.modules[name]
    os.chdir(tree)
    sys.path[:0] = [str(tree / "links"), str(tree)]
    sys.path[:] = [path for path in sys.path if not path.startswith(str(ROOT / "tests")) and path != str(ROOT)]
    sys.dont_write_bytecode = trial.mutation is not None
    os.environ |= {"PYTHONPATH": f"{tree / 'links'}:{tree}", "TMPDIR": str(tree.parent), "APPBACKPLANE_MUTATED": "1"}
    tempfile.tempdir = None
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", f"--timeout={LIMIT_S}"]
    tier = tier_of(ROOT / trial.tests[0])
    code = pytest.main([*options, "--tier", tier, *trial.tests], [_FirstFailure(tell, tier)])
    package = sys.modules.get("appbackplane.transport")  # None: the tests of an example need nothing of the product
    assert package is None or (package.__file__ or "").startswith(str(tree)), package
    os._exit(code)
