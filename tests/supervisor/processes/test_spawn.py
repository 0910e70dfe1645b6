"""One generation of a process, from its spawn until it is reaped."""

from __future__ import annotations

import select
import subprocess

from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.supervisor.processes.spawn import Process

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
