"""Completion: what TAB offers, and that it is quick and quiet."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from appbackplane.supervisor.commands import completing, main
from appbackplane.supervisor.commands.cli import VERBS
from tests.docs.pages import DOCS, table

from .conftest import LIMIT_S, TOML, RunningSystem

VARIABLE = "_APPBACKPLANE_COMPLETE"


def offered(*words: str) -> list[str]:
    """What is offered for the last word."""
    *before, incomplete = words
    found = ShellComplete(main, {}, "appbackplane", VARIABLE).get_completions(list(before), incomplete)
    return [item.value for item in found]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, without a system."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "xdg"))
    monkeypatch.delenv("APPBACKPLANE_SYSTEM", raising=False)
    return tmp_path


def test_verbs_and_options_are_offered(folder: Path) -> None:
    """All of them, in the order in which a person needs them."""
    assert offered("") == list(VERBS)
    assert offered("d") == ["down", "doctor"]
    assert "--version" in offered("--")
    assert {"--once", "--json"} <= set(offered("top", "--"))
    assert offered("top", "--sort", "q") == ["queued"]


def test_verbs_are_offered_without_importing_them(folder: Path) -> None:
    """A fifth of a second for each TAB, and it is switched off again."""
    source = (
        "import sys; from appbackplane.supervisor.commands import main; import click.shell_completion as c;"
        "print(len(c.ShellComplete(main, {}, 'appbackplane', 'X').get_completions([], '')),"
        "*(m for m in sys.modules if m.startswith('appbackplane.supervisor.commands.')))"
    )
    said = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    count, *modules = said.stdout.split()
    assert int(count) == len(VERBS)
    assert sorted(modules) == [f"appbackplane.supervisor.commands.{name}" for name in ("cli", "streams")]


def test_backplanes_and_routes_of_the_running_system_are_offered(
    kept: RunningSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the one that the line is about."""
    monkeypatch.setattr(completing, "LIMIT_S", LIMIT_S)  # of half a second: nothing is offered by a busy machine
    assert offered("top", "--backplane", "") == ["query", "index"]
    assert offered("top", "demo.toml", "--backplane", "q") == ["query"]
    assert offered("call", "index.") == ["index.echo", "index.pid"]
    assert offered("why", "-s", "demo.toml", "query.") == ["query.ask"]
    assert "backplane.index.statistics" in offered("call", "backplane.index.s")
    assert offered("status", "-s", "d") == ["demo.toml"]


def test_systems_that_run_are_offered_by_name(
    folder: Path, start: Callable[..., RunningSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those in their default run directories; the others have no name by which they are found."""
    monkeypatch.setattr("tests.supervisor.conftest.TOML", TOML.replace('run_dir = "run"\n', ""))
    system = start()
    system.run_dir = folder / "xdg" / "appbackplane" / "demo"
    system.wait_up()
    assert offered("down", "-s", "de") == ["demo", "demo.toml"]
    assert offered("top", "dem") == ["demo", "demo.toml"]
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


def test_without_a_system_nothing_is_offered_and_nothing_said(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An error in the middle of a line that somebody types is worse than no completion."""
    assert offered("call", "") == offered("top", "--backplane", "") == offered("why", "-s", "nobody", "x") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_a_script_that_is_documented(folder: Path, shell: str) -> None:
    """docs/operation.md; and bash, which is here, takes it."""
    command = Path(sys.executable).with_name("appbackplane")
    script = subprocess.run(
        [command], env={**os.environ, VARIABLE: f"{shell}_source"}, capture_output=True, text=True, timeout=LIMIT_S,
        check=True,
    ).stdout  # fmt: skip
    assert f"{VARIABLE}={shell}_complete" in script
    rows = table((DOCS / "operation.md").read_text(), "Complete it")
    (line,) = [line for name, _, line in rows if name.split()[0] == shell]
    assert f"{VARIABLE}={shell}_source appbackplane" in line
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, timeout=LIMIT_S, check=True)
