"""How a system ends: in order, at once, and with nothing left."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
from pathlib import Path

import pytest

from tests.launching import COMMAND

from .conftest import (
    AS_TYPED,
    LIMIT_S,
    Up,
    assert_nothing_left,
    command,
    environment,
    lay_out,
    wait_dead,
)

TOWER = """
[backplane.top]
components = ["components:Top"]
[backplane.middle]
components = ["components:Middle"]
[backplane.middle.settings.Middle]
{middle}
[backplane.bottom]
components = ["components:Bottom"]
"""
BOTTOM = TOWER[TOWER.index("[backplane.bottom]") :]
IN_ORDER = ["top goes down", "middle goes down", "bottom goes down"]


def going_down(said: list[str]) -> list[str]:
    """The hooks, in the order in which they ran."""
    return [line.partition(" | ")[2].strip() for line in said if "goes down" in line]


def test_ctrl_c_stops_everything_in_reverse_order_of_dependency(up: Up) -> None:
    """Nobody loses what it stands on before it has put away its own; and the terminal's signal must not kill any."""
    system = up(TOWER.format(middle=""))
    system.interrupt()
    assert system.wait_down() == 0
    assert going_down(system.said) == IN_ORDER
    assert system.said[-1].endswith("| down"), system.said


def in_terminal(toml: Path) -> tuple[int, int]:
    """`up`, as a person types it; (pid, the terminal's other end)."""
    pid, terminal = pty.fork()
    if pid == 0:
        for number in (signal.SIGHUP, signal.SIGINT):  # as in a person's shell, whatever started the tests ignores
            signal.signal(number, signal.SIG_DFL)
        os.execve(sys.executable, [*COMMAND, "up", str(toml)], {**environment(toml.parent), "TERM": "dumb"})
    said = b""
    while b"is up, pid" not in said:
        said += os.read(terminal, 65_536)
    return pid, terminal


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_ctrl_c_on_a_real_terminal(folder: Path) -> None:
    """The key itself: the kernel sends the signal to whatever is in the foreground there."""
    pid, terminal = in_terminal(lay_out(folder, "demo", TOWER.format(middle="")))
    os.write(terminal, b"\x03")
    said = b""
    try:
        while more := os.read(terminal, 65_536):
            said += more
    except OSError:  # how a terminal says that nobody has it open any more
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert going_down(said.decode().splitlines()) == IN_ORDER
    assert_nothing_left(pid, folder / "appbackplane" / "demo")


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_a_terminal_that_is_closed_takes_its_system_down(folder: Path) -> None:
    """Nobody sees it any more, and nobody could end it; in order all the same, and with nowhere to write to."""
    pid, terminal = in_terminal(lay_out(folder, "demo", BOTTOM))
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert_nothing_left(pid, folder / "appbackplane" / "demo")


def test_a_second_ctrl_c_kills_at_once_though_a_hook_hangs(up: Up) -> None:
    """Who presses it twice does not want to wait for `stop_limit`."""
    system = up('stop_limit = "1h"\n' + TOWER.format(middle="hangs = true"))
    pids = system.pids()
    system.interrupt()
    system.wait_for("middle goes down")
    system.interrupt()
    assert system.wait_down() == 1
    assert going_down(system.said) == IN_ORDER[:2]
    assert all(not Path(f"/proc/{pid}").exists() for pid in pids.values())


def test_ctrl_c_while_it_comes_up_ends_it(begin: Up, folder: Path) -> None:
    """A person who has typed the wrong name does not wait until it is up. One backplane would never be, however late we are."""
    (folder / "slow.py").write_text("print('imports', flush=True)\nimport signal\nwhile True:\n    signal.pause()\n")
    slow = '[backplane.slow]\ncomponents = ["slow:Slow"]\n'
    system = begin(TOWER.format(middle="") + slow, prefix=AS_TYPED)
    system.wait_for("imports")
    system.interrupt()
    assert system.wait_down() == 0
    assert not any("is up, pid" in line for line in system.said)


def test_a_child_in_a_session_of_its_own_ends_with_its_system(up: Up) -> None:
    """What a component started and forgot would hold ports and devices for ever."""
    system = up(TOWER.format(middle="leaves = true"))
    child = int(system.wait_for(" | left behind: ").rpartition(" ")[2])
    os.kill(child, 0)
    system.interrupt()
    assert system.wait_down() == 0
    wait_dead(child)


def test_down_by_the_command_line_comes_back_when_nothing_is_left(up: Up) -> None:
    """A script that takes a system down and starts it again must not meet the old one."""
    system = up(BOTTOM)
    ended = system.command("down")
    assert (ended.returncode, ended.stdout) == (0, "system 'demo' is down\n"), ended.stderr
    assert not system.run_dir.exists()
    assert system.process.wait(LIMIT_S) == 0
    again = up(BOTTOM)
    assert again.status()["state"] == "up"


def test_a_detached_system_ends_on_command(folder: Path) -> None:
    """`up --detach` gives the prompt back once it is up; nobody is attached any more."""
    toml = str(lay_out(folder, "demo", TOWER.format(middle="")))
    started = command(folder, "up", toml, "--detach", "--json")
    assert started.returncode == 0, started.stderr
    pid = json.loads(started.stdout)["pid"]
    try:
        assert json.loads(command(folder, "status", "--json").stdout)["state"] == "up"
    finally:
        ended = command(folder, "down")
    assert ended.returncode == 0, ended.stderr
    assert_nothing_left(pid, folder / "appbackplane" / "demo")
    logged = [json.loads(line)["message"] for line in command(folder, "logs", "demo", "--json").stdout.splitlines()]
    assert [message for message in logged if "goes down" in message] == IN_ORDER
