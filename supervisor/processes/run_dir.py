"""Run directory: where a running system is found, and the lock that makes it one.

0700 and ours, or it is refused: the folder is all that keeps strangers from the sockets in it. Locked before any socket
is bound, because a second bind would steal a live one (TRAPS 7). The lock dies with its holder, so what a killed
supervisor left is told from what a living one uses, and is reclaimed. Only files of ours are ever removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from appbackplane.transport.addressing import backplane_socket, supervisor_socket
from appbackplane.transport.errors import FailedPrecondition

from ..logs.folder import LINK

#: Holds the pid of whoever has it locked, and on a line of its own the folder of its cgroups.
LOCK = "lock"
_BACKPLANE_SOCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*-(\d+)\.sock")


class RunDir:
    """A locked run directory. The lock is held until `close`, or until the process dies."""

    def __init__(self, path: Path) -> None:
        """Raises `FailedPrecondition` when a supervisor runs there, or the folder is not private."""
        self.path = path
        _make_private(path)
        self._lock_fd, left = _lock(path)
        #: The folder of cgroups that a killed supervisor left.
        self.cgroup_left = left
        #: Above every generation whose sockets were left here: an old process that has not noticed yet that its
        #: supervisor was killed shares no name with ours.
        self.first_generation = 1 + max(self._remove_sockets(), default=0)

    def remember(self, cgroup: str) -> None:
        """Should we be killed, the next supervisor removes this folder."""
        os.pwrite(self._lock_fd, f"{os.getpid()}\n{cgroup}\n".encode(), 0)

    def remove_socket(self, backplane: str, generation: int) -> None:
        """Of a process that has died: nobody will ever listen there again."""
        backplane_socket(self.path, backplane, generation).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove everything that is ours, and the folder if nothing else is in it."""
        self._remove_sockets()
        (self.path / LOCK).unlink(missing_ok=True)
        if (link := self.path / LINK).is_symlink():
            link.unlink()
        with suppress(OSError):  # not empty: it was the user's before it was ours
            self.path.rmdir()
        os.close(self._lock_fd)

    def _remove_sockets(self) -> list[int]:
        """Returns the generations that had one."""
        supervisor_socket(self.path).unlink(missing_ok=True)
        generations = []
        for entry in os.scandir(self.path):
            match = _BACKPLANE_SOCKET.fullmatch(entry.name)
            if match and stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                generations.append(int(match[1]))
                Path(entry.path).unlink(missing_ok=True)
        return generations


def locked_by(path: Path) -> int | None:
    """The pid that the lock file names, whether it lives or not."""
    try:
        return int((path / LOCK).read_text().split("\n")[0])
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Listener:
    """The process that serves a run directory."""

    pid: int
    uid: int


def listener(path: Path) -> Listener | None:
    """Who listens there; None: nobody. Raises PermissionError: that is not for us to know. Takes no lock: a supervisor that
    starts just now would believe in another.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(supervisor_socket(path)))
        except PermissionError:
            raise
        except (OSError, ValueError):  # nobody; or no path that could be one
            return None
        pid, uid, _ = struct.unpack(
            "3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        return Listener(pid, uid)


def running_pid(path: Path) -> int | None:
    """Whose pid, of those that we may ask; None: nobody's."""
    try:
        found = listener(path)
    except PermissionError:
        return None
    return None if found is None else found.pid


def _make_private(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
    except OSError as error:
        raise FailedPrecondition(f"run directory {path} cannot be made: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise FailedPrecondition(f"run directory {path} is not a folder of yours: choose another [system] run_dir")
    if found.st_mode & 0o077:
        raise FailedPrecondition(f"run directory {path} is open to others: chmod 700 {path}")
    above = path.parent.stat()
    if above.st_uid not in (0, os.getuid()) or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX):
        raise FailedPrecondition(
            f"{path.parent}, which holds the run directory, can be changed by others: choose another"
        )


def _lock(path: Path) -> tuple[int, str | None]:
    """The descriptor that holds the lock, and the folder of cgroups that was written there."""
    while True:
        fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise FailedPrecondition(f"already running, pid {locked_by(path)} (run directory {path})") from None
        try:
            is_same = os.path.samestat(os.fstat(fd), os.stat(path / LOCK))
        except FileNotFoundError:
            is_same = False
        if is_same:
            lines = os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace").split("\n")
            os.ftruncate(fd, 0)
            os.write(fd, b"%d\n" % os.getpid())
            return fd, lines[1] if len(lines) > 2 else None
        os.close(fd)  # its holder went down, and removed it, between our open and our lock
