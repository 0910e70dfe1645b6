"""`move` as typed, `up --detach` of a system that is not whole, and what `status` shows of it: real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.supervisor.processes.run_dir import running_pid
from appbackplane.transport.errors import InvalidArgument

from .conftest import LIMIT_S, MODULE, TOML, RunningSystem

DONE, FAILED, WRONG = 0, 1, 2


def run(*words: str) -> Result:
    """A command, as typed."""
    return CliRunner().invoke(main, list(words))


def error_of(result: Result, code: int) -> str:
    """The one line on standard error."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("waiting for ")]
    return line.removeprefix("appbackplane: ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, and in it a system whose index cannot load until it is mended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("APPBACKPLANE_SYSTEM", raising=False)
    (tmp_path / "demo.py").write_text(MODULE.replace('self.fails == "hook"', 'not os.path.exists("mended")'))
    (tmp_path / "demo.toml").write_text(TOML.format(system="", index="restart = { max = 0 }"))
    yield tmp_path
    pid = running_pid(tmp_path / "run")
    if pid is not None:
        os.kill(pid, signal.SIGKILL)


def test_a_component_and_what_depends_on_it_and_back(kept: RunningSystem) -> None:
    """It comes back when all are there, and says where that is; calls follow."""
    moved = run("move", "down", "index")
    assert (moved.exit_code, moved.stdout) == (DONE, "query=down, index=down\n"), moved.stderr
    assert "is not served while" in error_of(run("call", "index.echo", "text=x"), FAILED)
    shown = run("status").stdout
    assert "index: index is ordered to be down (appbackplane move)" in shown
    told = json.loads(run("move", "primary", "index", "--json").stdout)
    assert told == {"system": "demo", "components": {"query": "primary", "index": "primary"}}
    assert run("call", "index.echo", "text=x").stdout == "x\n"


def test_the_whole_system(kept: RunningSystem) -> None:
    """Without a component. `status` says where the system is to be when that is not primary."""
    assert run("move", "secondary").stdout == "query=secondary, index=secondary\n"
    assert run("status").stdout.startswith("system 'demo': up (secondary), pid ")
    assert run("move", "primary").exit_code == DONE
    assert json.loads(run("status", "--json").stdout)["role"] == "primary"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("move", WRONG, "Missing argument 'STATE'. Choose from: primary, secondary, down (see "),
        ("move sideways", WRONG, "'sideways' is not one of 'primary', 'secondary', 'down'"),
        ("move initializing index", WRONG, "'initializing' is not one of"),
        ("move down index query", WRONG, "Got unexpected extra argument (query)"),
        ("move down --timeout 0", WRONG, "Invalid value for '--timeout'"),
        ("move down --timeout soon", WRONG, "'soon' is not a valid float"),
        ("move down indx", FAILED, "no component or backplane 'indx' (did you mean 'index'?)"),
        ("move down -s nobody", FAILED, "system 'nobody' is not running"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_the_right_exit_code(
    kept: RunningSystem, words: str, code: int, said: str
) -> None:
    """A script must tell its own mistake from a system that fails."""
    assert said in error_of(run(*words.split()), code)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"state": "initializing", "timeout": 1},
        {"state": "down", "component": 7, "timeout": 1},
        {"state": "down"},
        {"state": "down", "timeout": True},
        {"state": "down", "timeout": "1"},
        {"state": "down", "timeout": float("nan")},
        {"state": "down", "timeout": 1e300},
    ],
)
def test_a_body_that_makes_no_sense_is_refused(kept: RunningSystem, body: dict[str, object]) -> None:
    """Programs ask too; and nothing they say may stop the supervisor."""
    with pytest.raises(InvalidArgument, match=r"supervisor\.move: (state|component|timeout): expected"):
        kept.ask("supervisor.move", body)


def test_a_detached_system_that_is_not_whole_runs_and_says_so(folder: Path) -> None:
    """A person, or a script, must not take it for whole; and must not lose the rest of it for one component."""
    words = [sys.executable, "-m", "appbackplane.supervisor"]
    detached = subprocess.run([*words, "up", "--detach"], capture_output=True, text=True, timeout=2 * LIMIT_S)
    assert detached.returncode == FAILED
    assert "system 'demo' is up" in detached.stdout
    said = [line for line in detached.stderr.splitlines() if line.startswith("appbackplane: ")]
    (line,) = said
    assert line.startswith("appbackplane: but backplane 'index': component 'index' did not become initializing: ")
    assert line.endswith("cannot load; waiting for it: query")
    shown = run("status").stdout
    assert "system 'demo': degraded" in shown
    assert "index: index did not become initializing" in shown
    assert "cannot load; given up (appbackplane move primary index tries it again); waiting for it: query" in shown
    assert "query: query waits for index" in shown
    (folder / "mended").touch()
    assert run("move", "primary", "index").stdout == "query=primary, index=primary\n"
    assert run("status").stdout.startswith("system 'demo': up, pid ")
    assert run("down").exit_code == DONE


def test_progress_is_shown_for_what_takes_over_a_second(
    start: Callable[..., RunningSystem], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On standard error; and what does not end in time says where it is."""
    monkeypatch.chdir(tmp_path)
    system = start('stop_limit = "1h"', '[backplane.index.settings.Index]\nfails = "hang"')
    system.wait_up()
    assert run("move", "down", "query").exit_code == DONE  # it needs the index, and goes first
    result = run("move", "down", "index", "--timeout", "1.5")
    assert "waiting for 'index' to become down" in result.stderr
    said = error_of(result, FAILED)
    assert said == ("component 'index' is not down yet, and the move goes on: 'index' is still in its hook of down")
    system.signal(signal.SIGTERM)
    system.wait_said("SIGTERM: going down")
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 1
