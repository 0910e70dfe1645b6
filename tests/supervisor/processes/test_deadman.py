"""Deadman: who is not there when the moment comes is killed by the kernel, and with it who asked to die with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.waiting import LIMIT_S

PROGRAM = """
import ctypes, os, signal, subprocess, sys, time
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.supervisor.processes.deadman import Deadman

deadman = Deadman()
what, left_ns = sys.argv[1], int(sys.argv[2])
deadman.set(RealClock.boot_ns() + left_ns)
if what == "unset":
    deadman.set(None)
if what == "later":
    deadman.set(RealClock.boot_ns() + 10**12)
if what == "child":
    pid = os.fork()
    if not pid:
        os.write(1, b"forked")
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
if what == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
if what in ("unset", "later", "child"):
    # Another alarm of the kernel, for a later moment: once it has come, the deadman's would have.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, left_ns / 1e9 * 2)
    signal.sigwait({signal.SIGALRM})
    sys.exit(0)
while True:
    pass
"""


#: The moment may come before a busy machine has let the program say otherwise, or fork: then another one gets more time.
LEFT_NS = (200_000_000, 2_000_000_000, 20_000_000_000)


def end_of(what: str, left_ns: int) -> int:
    """The exit code of a process; it is not sent anything."""
    return subprocess.run([sys.executable, "-c", PROGRAM, what, str(left_ns)], timeout=LIMIT_S, check=False).returncode


@pytest.mark.parametrize("what", ["busy", "stopped"])
@pytest.mark.parametrize("left_ns", [100_000_000, -1_000_000_000])
def test_the_kernel_kills_whoever_is_not_there(what: str, left_ns: int) -> None:
    """Who computes, and who is stopped and could not be told anything; at once, where the moment is over."""
    assert end_of(what, left_ns) == -signal.SIGKILL


@pytest.mark.parametrize("what", ["unset", "later"])
def test_who_says_otherwise_in_time_lives(what: str) -> None:
    """As often as it likes."""
    assert any(end_of(what, left_ns) == 0 for left_ns in LEFT_NS)


def test_a_child_is_not_concerned() -> None:
    """A timer is not inherited: who is forked is not killed by it."""
    assert any(outlives_its_parent(left_ns) for left_ns in LEFT_NS), "it is not forked in time"


def outlives_its_parent(left_ns: int) -> bool:
    """Whether the child is still there, stopped, once its parent has been killed; False: the parent was, before it forked."""
    words = [sys.executable, "-c", PROGRAM, "child", str(left_ns)]
    with subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.wait(LIMIT_S) == -signal.SIGKILL
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            assert process.stdout is not None
            assert process.stdout.read() == b"", "it has died with its parent"
            return False
    return True


UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork")
HAS_NAMESPACES = (
    shutil.which("unshare") is not None
    and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False, timeout=LIMIT_S).returncode == 0
)


@pytest.mark.skipif(not HAS_NAMESPACES, reason="no PID namespace can be made here")
def test_process_1_of_a_container_is_refused() -> None:
    """The kernel would not kill it: it would be primary beside another, and say nothing."""
    words = [*UNSHARE, sys.executable, "-c", PROGRAM, "unset", "0"]
    told = subprocess.run(words, timeout=LIMIT_S, check=False, capture_output=True, text=True)
    assert told.returncode == 1
    assert "FailedPrecondition" in told.stderr and "run it below an init" in told.stderr, told.stderr
