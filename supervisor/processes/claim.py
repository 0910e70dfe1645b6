"""Claim: the content of a run directory's lock file: the process that holds it, and the remains of earlier holders.

A pid alone identifies nothing: pids are used again. With the moment at which that process began (field 22 of
/proc/PID/stat) it names one process for ever. `mark` is a random word in the environment of all descendants of this
supervisor (leftovers.py). `left` lists earlier supervisors whose remains have not been cleaned up: a supervisor may be
killed while it does that, and the next must find all of them.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import msgspec

#: Supervisors killed in a row, each before it had cleaned up after the one before; the oldest are forgotten.
LEFT_MAX = 64


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """Marks by which the remains of a killed supervisor are found."""

    pid: int
    mark: str
    #: Folder of its cgroups; None: it had none.
    cgroup: str | None = None


class RunDirClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a run directory."""

    system: str
    pid: int
    #: Start of that process, in clock ticks since the machine started.
    began: int
    #: The same for people, in seconds since 1970.
    since_s: float
    mark: str
    cgroup: str | None = None
    left: tuple[Life, ...] = ()
    #: The TOML that it was started with; "": an older version has not written it.
    file: str = ""

    def is_held(self) -> bool:
        """Whether the process that wrote it lives: that one, and no other with its pid."""
        return began(self.pid) == self.began

    def since(self) -> str:
        """Local date and time of the start, for people."""
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_s))

    def lives(self) -> tuple[Life, ...]:
        """All supervisors whose remains may exist, the holder last."""
        return (*self.left, Life(pid=self.pid, mark=self.mark, cgroup=self.cgroup))[-LEFT_MAX:]


def claim(system: str, left: tuple[Life, ...], file: str = "") -> RunDirClaim:
    """A claim of this process, with a new mark."""
    pid = os.getpid()
    ticks = began(pid)
    assert ticks is not None, "we live"
    mark = secrets.token_hex(16)
    return RunDirClaim(system=system, pid=pid, began=ticks, since_s=time.time(), mark=mark, left=left, file=file)


def read(fd: int) -> RunDirClaim | None:
    """The claim in a lock file; None: it is empty, or holds something else."""
    try:
        return msgspec.json.decode(os.pread(fd, os.fstat(fd).st_size, 0), type=RunDirClaim)
    except msgspec.DecodeError:  # never half written, since that is one call; but the disk may have been full
        return None


def write(fd: int, made: RunDirClaim) -> None:
    """Replace the claim; a process that reads meanwhile finds a claim, or none."""
    data = msgspec.json.encode(made)
    before = os.fstat(fd).st_size
    os.pwrite(fd, data.ljust(before), 0)  # blanks after JSON are JSON
    os.ftruncate(fd, len(data))


def began(pid: int) -> int | None:
    """Start of a process, in clock ticks since the machine started; None: there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # the name before may hold anything
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
