"""Orphans: processes that a backplane's own children left, even those that escaped by a session of their own.

The supervisor adopts them (PR_SET_CHILD_SUBREAPER, TRAPS 21). While the system runs it only reaps dead ones: a daemon that a
living backplane started is that backplane's affair. After the system's end they are killed, because nothing of it may be
left behind.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
from collections.abc import Collection
from contextlib import suppress

import psutil

from .leftovers import ROUNDS_MAX

_PR_SET_CHILD_SUBREAPER = 36
#: How long all of them together may take to die; SIGKILL takes a millisecond unless they are stuck in the kernel.
_PATIENCE_MS = 1_000


def adopt() -> None:
    """From now on orphans of this process's descendants become its children."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def bury(known: Collection[int]) -> None:
    """Reap dead adopted processes; each process in `known` is reaped by its owner."""
    with suppress(ChildProcessError):
        while True:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if dead is None or dead.si_pid in known:
                return
            os.waitpid(dead.si_pid, os.WNOHANG)


def kill_all(known: Collection[int]) -> list[int]:
    """Kill adopted processes and their children. Returns the pids that would not die."""
    stuck: set[int] = set()
    for _ in range(ROUNDS_MAX):
        children = {child.pid for child in psutil.Process().children()} - set(known) - stuck
        if not children:
            break
        for pid in children:
            if not _kill(pid):
                stuck.add(pid)
    return sorted(stuck)


def _kill(pid: int) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        os.kill(pid, signal.SIGKILL)  # a child of ours that is not reaped: the number is still its own
        death = select.poll()
        death.register(pidfd, select.POLLIN)
        if not death.poll(_PATIENCE_MS):
            return False
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        return True
    finally:
        os.close(pidfd)
