"""Forked commands: to whoever types one it is what the installed script is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.docs import forked
from tests.docs.forked import SCRIPT, ForkedCommands
from tests.docs.shell import environment
from tests.waiting import LIMIT_S, wait_until

SAY = """import os, sys
print(sys.argv, os.getcwd(), os.environ["SAID"], sys.path[0])
print(sys.stdin.read(), file=sys.stderr)
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def variables(run_dir: Path) -> dict[str, str]:
    """Of a shell whose first `appbackplane` is a fork."""
    return environment(run_dir, run_dir / "bin")


def typed(line: str, variables: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """One line, with "given" as its input."""
    return subprocess.run(
        ["bash", "-c", line], env=variables, cwd=folder, input="given", capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip


def test_a_fork_is_what_the_script_is(
    tmp_path: Path, run_dir: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words, folder, variables, streams and exit code; or the pages would show what no reader sees."""
    program = tmp_path / "program"
    program.write_text(SAY)
    monkeypatch.setattr(forked, "SCRIPT", program)
    with ForkedCommands(run_dir / "bin"):
        said = [
            typed(f"SAID='a b' CODE=3 {each} \"x  y\" ''", variables, tmp_path)
            for each in ("appbackplane", f"{sys.executable} {program}")
        ]
    assert [each.returncode for each in said] == [3, 3]
    assert said[0].stdout == said[1].stdout != ""
    assert said[0].stderr == said[1].stderr == "given\n"


def test_the_installed_script_is_run_with_its_errors(tmp_path: Path, run_dir: Path, variables: dict[str, str]) -> None:
    """As a fork, and, where the interpreter would read a variable, in one of its own."""
    with ForkedCommands(run_dir / "bin"):
        for before in ("", "PYTHONUTF8=1 "):
            said = typed(f"{before}appbackplane stauts", variables, tmp_path)
            own = typed(f"{before}{SCRIPT} stauts", variables, tmp_path)
            assert (said.returncode, said.stdout, said.stderr) == (own.returncode, own.stdout, own.stderr)
            assert said.returncode == 2


def test_whoever_is_killed_takes_its_fork_along(
    tmp_path: Path, run_dir: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no other parent, and would outlive its page."""
    program, told = tmp_path / "program", tmp_path / "pid"
    program.write_text(f"import os, signal\nopen({str(told)!r}, 'w').write(f'{{os.getpid()}} ')\nsignal.pause()\n")
    monkeypatch.setattr(forked, "SCRIPT", program)
    with ForkedCommands(run_dir / "bin") as commands:
        client = subprocess.Popen([commands.folder / "appbackplane"], env=variables, cwd=tmp_path)
        wait_until(lambda: told.exists() and told.read_text().endswith(" "), "it has not begun")
        pid = int(told.read_text())
        assert pid != client.pid and psutil.pid_exists(pid)
        os.kill(client.pid, 9)
        assert client.wait() == -9
        wait_until(lambda: not psutil.pid_exists(pid), "the fork has stayed")
