"""Claim: what the holder of a run directory writes into its lock file, for whoever finds it locked, or left behind.

A number alone says nothing: pids are given out again. With the moment at which that process began (field 22 of
/proc/PID/stat) it names one process for ever. `mark` is a random word in the environment of all that descends from this
supervisor (leftovers.py). `left` is what earlier ones left and nobody has cleaned up yet: a supervisor may be killed while
it does, and the next must find all of it.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import msgspec

#: Supervisors killed in a row, each before it had cleaned up after the one before: the oldest are forgotten.
LEFT_MAX = 64


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor may leave behind, should it be killed."""

    pid: int
    mark: str
    #: The folder of its cgroups.
    cgroup: str | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a run directory."""

    system: str
    pid: int
    #: When that process began, in clock ticks since the machine did.
    began: int
    #: The same for people, in seconds since 1970.
    since_s: float
    mark: str
    cgroup: str | None = None
    left: tuple[Life, ...] = ()
    #: The TOML that it was started with; "": an older version has not written it.
    file: str = ""

    def is_held(self) -> bool:
        """Whether the process that wrote it lives: that one, and no other with its number."""
        return began(self.pid) == self.began

    def since(self) -> str:
        """In words."""
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_s))

    def lives(self) -> tuple[Life, ...]:
        """All that its holder may have left, the latest last."""
        return (*self.left, Life(pid=self.pid, mark=self.mark, cgroup=self.cgroup))[-LEFT_MAX:]


def claim(system: str, left: tuple[Life, ...], file: str = "") -> Claim:
    """Ours."""
    pid = os.getpid()
    ticks = began(pid)
    assert ticks is not None, "we live"
    mark = secrets.token_hex(16)
    return Claim(system=system, pid=pid, began=ticks, since_s=time.time(), mark=mark, left=left, file=file)


def read(fd: int) -> Claim | None:
    """None: nothing is written there, or something else."""
    try:
        return msgspec.json.decode(os.pread(fd, os.fstat(fd).st_size, 0), type=Claim)
    except msgspec.DecodeError:  # half a claim cannot be: it is written at once, but the disk may have been full
        return None


def write(fd: int, made: Claim) -> None:
    """Over what stood there; whoever reads meanwhile reads a claim, or none."""
    data = msgspec.json.encode(made)
    before = os.fstat(fd).st_size
    os.pwrite(fd, data.ljust(before), 0)  # blanks after JSON are JSON
    os.ftruncate(fd, len(data))


def began(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine did; None: there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # the name before may hold anything
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
