"""One generation of a process, from its spawn until it is reaped."""

from __future__ import annotations

import math
import select
import subprocess
from types import SimpleNamespace
from typing import Any

import msgspec

from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.supervisor.logs.pipes import LogPipe
from appbackplane.supervisor.processes import spawn
from appbackplane.supervisor.processes.spawn import Process
from appbackplane.supervisor.run import Supervisor

from ..conftest import LIMIT_S, is_alive


def test_its_limit_is_lifted_before_it_is_killed() -> None:
    """SIGKILL of a throttled process takes up to 0.9 s (TRAPS 22), and so does the rest of its group once it is dead."""
    popen = subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
    lived: list[bool] = []
    config = ProcessConfig(system="demo", backplane="index", run_dir="/nowhere", components=())
    process = Process(config, popen, lambda: lived.append(is_alive(popen.pid)))
    process.kill()
    assert lived == [True]
    assert select.select([process.pidfd], [], [], LIMIT_S)[0]
    assert process.reap() == -9
    assert lived == [True, False], "what is left of its group is to end, too"


def test_settings_arrive_as_they_are_written(monkeypatch: Any) -> None:
    """TOML has `inf` and `nan`, and JSON has not: a component that was given `timeout = inf` got None."""
    settings: dict[str, Any] = {
        "Index": {"timeout": math.inf, "least": -math.inf, "big": (1 << 63) - 1, "names": ["ü"]}
    }
    monkeypatch.setattr(spawn, "COMMAND", ("cat",))
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started(["cat"], options["stdin"]))
    started = lambda command, stdin: popen(command, stdin=stdin, stdout=subprocess.PIPE)  # noqa: E731
    config = ProcessConfig(
        system="demo", backplane="index", run_dir="/nowhere", components=("a:Index",), settings=settings
    )
    process = spawn.start(config)
    sent, _ = process.communicate(timeout=LIMIT_S)
    assert msgspec.msgpack.decode(sent, type=ProcessConfig) == config


popen = subprocess.Popen


def test_after_an_error_of_the_supervisor_the_last_words_are_read_before_the_pipes_are_closed() -> None:
    """They were read afterwards: the user was told of a bad descriptor, and the error itself was lost."""
    started = popen(["echo", "last words"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
    config = ProcessConfig(system="demo", backplane="index", run_dir="/nowhere", components=())
    process = Process(config, started, lambda: None)
    assert select.select([process.pidfd], [], [], LIMIT_S)[0]
    pipe, heard = LogPipe(process.stdout.fileno()), []
    logs = SimpleNamespace(bury=lambda ears: heard.extend(pipe.finish()))
    Supervisor._kill_what_lives(
        SimpleNamespace(_running={"index": SimpleNamespace(process=process, ears=None)}, _logs=logs)
    )  # type: ignore[arg-type]
    assert heard == ["last words"]
