"""What the tests of the clients talk to: a stand-in for supervisor and backplane, beside us or as a process."""

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("stand_in.py")


def load_stand_in() -> Any:
    """The program beside us as a module: test folders are no packages."""
    spec = importlib.util.spec_from_file_location("transport_stand_in", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A short path: pytest's own may be longer than a socket's may be."""
    with tempfile.TemporaryDirectory(prefix="abp-") as folder:
        yield Path(folder)


@pytest.fixture
def start_stand_in(run_dir: Path) -> Iterator[Callable[[], Any]]:
    """Starts it once it is called: it serves, in a thread of this process."""
    started = []

    def start() -> Any:
        started.append(load_stand_in().StandIn(run_dir).start())
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def stand_in(start_stand_in: Callable[[], Any]) -> Any:
    """It serves."""
    return start_stand_in()


@pytest.fixture
def start_process(run_dir: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts it as a process that can be killed; as often as asked for."""
    started = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, str(PROGRAM), str(run_dir)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
