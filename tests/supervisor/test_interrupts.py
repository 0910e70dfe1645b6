"""Ctrl-C: one line that says what goes on without the command, and the exit code of a program that SIGINT has ended."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from appbackplane.supervisor.commands import down, main, status
from appbackplane.supervisor.commands import up as up_verb
from appbackplane.supervisor.processes.run_dir import running_pid
from appbackplane.transport import Client
from appbackplane.transport.discovery import Location

from .conftest import LIMIT_S, RunningSystem
from .test_commands import DONE, error_of, folder, run

__all__ = ["folder"]
INTERRUPTED = 130


def interrupt(*_: Any, **__: Any) -> NoReturn:
    """As Python does on SIGINT."""
    raise KeyboardInterrupt


class Interrupted:
    """In the place of `select.poll`: Ctrl-C comes while it waits."""

    def __init__(self) -> None:
        self.poll = interrupt

    def register(self, *_: Any) -> None:
        """Whatever it is."""


def test_an_interrupted_command_says_so_in_one_line(kept: RunningSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a shell script that runs it stops there."""
    monkeypatch.setattr(status, "ask", interrupt)
    assert error_of(run("status"), INTERRUPTED) == "interrupted"
    monkeypatch.setattr(Client, "call", interrupt)
    assert error_of(run("call", "index.pid"), INTERRUPTED) == "interrupted"


def test_one_that_has_not_begun_does_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the first moments of `up`, before the supervisor takes its signals."""
    monkeypatch.setattr(up_verb, "load", interrupt)
    assert error_of(run("up"), INTERRUPTED) == "interrupted"
    monkeypatch.setattr(type(main), "parse_args", interrupt)
    assert error_of(run("up"), INTERRUPTED) == "interrupted"


def test_listening_ends_by_ctrl_c(kept: RunningSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no other way, so it is no failure."""
    monkeypatch.setattr(Client, "subscribe", interrupt)
    result = run("listen", "anything")
    assert (result.exit_code, result.output) == (DONE, "")


def test_a_system_goes_on_going_down_without_whoever_waits_for_it(
    folder: Path, start: Callable[..., RunningSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is said; it would be a surprise later."""
    system = start()
    system.wait_up()
    monkeypatch.setattr(down, "select", SimpleNamespace(poll=Interrupted, POLLIN=select.POLLIN))
    said = error_of(run("down"), INTERRUPTED)
    assert said == "interrupted: 'demo' is still going down (appbackplane status shows how far it is)"
    assert system.wait_down() == 0


def test_what_was_not_waited_for_at_its_start_does_not_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has thought better of it."""
    monkeypatch.setattr(up_verb, "_heard_of", interrupt)
    said = error_of(run("up", "--detach"), INTERRUPTED)
    assert said == "interrupted: 'demo' is taken down again, and no process stays"
    assert running_pid(folder / "run") is None
    assert not os.path.exists(folder / "run" / "supervisor.sock")


def test_what_keeps_a_system_from_going_down_is_told(
    folder: Path, start_alone: Callable[..., RunningSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty seconds of silence look like a command that hangs."""
    monkeypatch.setattr(down, "_SILENT_MS", 1)
    monkeypatch.setattr(down, "_PATIENT_MS", 300)
    monkeypatch.setattr(down, "ANSWER_S", LIMIT_S)
    system = start_alone(system='stop_limit = "1h"', index='settings.Index.fails = "hang"')
    system.wait_up()
    left = down._left

    def left_and_killed(location: Location) -> str:
        """Nothing ends by itself before it has been told what is left."""
        said = left(location)
        system.signal(signal.SIGTERM)
        return said

    monkeypatch.setattr(down, "_left", left_and_killed)
    result = run("down")
    assert result.exit_code == DONE
    first, second = result.stderr.splitlines()
    assert first == "waiting for 'demo' to go down"
    assert second.startswith("waiting for index, ")
    assert second.endswith(" (kill it: appbackplane down --now)")
    system.wait_down()
