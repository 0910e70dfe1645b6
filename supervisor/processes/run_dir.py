"""Run directory: the place where a running system is found, and the lock that makes it the only one there.

Mode 0700 and the user's own, or it is refused: the folder alone keeps strangers from the sockets in it. Locked before any
socket is bound, because a second bind would steal a live one (TRAPS 7). The lock dies with its holder, so the remains of a
killed supervisor can be told from the files of a living one, and are reclaimed. Only files of ours are ever removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import struct
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from appbackplane.transport.addressing import backplane_socket, supervisor_socket
from appbackplane.transport.errors import FailedPrecondition
from appbackplane.transport.local_links import connected

from ..folders import is_usable, obstacle
from ..logs.folder import LINK
from . import claim, leftovers

#: Locked by the holder of the folder; its claim is in it (claim.py).
LOCK = "lock"
#: Time for processes of a killed supervisor to end by themselves; its guardian gives them the same time.
PATIENCE_NS = 1_000_000_000
#: Longest wait for a claim, which follows the lock within microseconds unless the machine is busy.
_CLAIM_S = 1.0
_LOOK_S = 0.005
#: Pid that the kernel gives for a process in another pid namespace, which cannot be seen from here.
_UNSEEN = 0
_BACKPLANE_SOCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*-(\d+)\.sock")


class RunDir:
    """A locked run directory. The lock is held until `close`, or until the process dies."""

    def __init__(self, path: Path, system: str, file: str = "") -> None:
        """`file`: the TOML of the system. Raises `FailedPrecondition` when a supervisor runs there, or the folder is not
        private, or cannot be written.
        """
        self.path = path
        check(path)
        _make_private(path)
        try:
            self._lock_fd = _lock(path)
        except OSError as error:
            raise _unwritable(path, error.strerror) from error
        before = claim.read(self._lock_fd)
        #: Killed supervisors; `reclaim` cleans up after them.
        self.left = before.lives() if before is not None else ()
        #: Names us to processes that find the folder locked, and keeps the remains known, should we be killed.
        self._claim = claim.claim(system, self.left, file)
        #: Mark that all descendants of this supervisor carry.
        self.mark = self._claim.mark
        try:
            claim.write(self._lock_fd, self._claim)
        except OSError as error:
            os.close(self._lock_fd)
            raise _unwritable(path, error.strerror) from error
        #: Above every generation whose sockets were left here: an old process that has not noticed yet that its
        #: supervisor was killed shares no name with ours.
        self.first_generation = 1

    def reclaim(self) -> list[str]:
        """End the processes and remove the sockets that killed supervisors left. Returns a line for each finding."""
        found = []
        if self.left:
            pids = ", ".join(str(life.pid) for life in self.left)
            ended = leftovers.end([life.mark for life in self.left], PATIENCE_NS)
            found.append(f"the supervisor before this one was killed (pid {pids}); {ended}")
        generations = self._remove_sockets()
        self.first_generation = 1 + max(generations, default=0)
        if generations:
            found.append(f"removed {len(generations)} socket{'s' if len(generations) > 1 else ''} left behind")
        return found

    def settle(self, cgroup: str | None) -> None:
        """The remains are gone. Should we be killed, the next supervisor removes this folder of cgroups."""
        self._claim = msgspec.structs.replace(self._claim, cgroup=cgroup, left=())
        claim.write(self._lock_fd, self._claim)

    def remove_socket(self, backplane: str, generation: int) -> None:
        """Remove the socket of a dead process; its name is never used again."""
        backplane_socket(self.path, backplane, generation).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all files of ours, and the folder if it is empty then; release the lock."""
        self._remove_sockets()
        if not self._claim.left:  # else it tells the next supervisor of remains
            (self.path / LOCK).unlink(missing_ok=True)
        if (link := self.path / LINK).is_symlink():
            link.unlink()
        with suppress(OSError):  # not empty: it was the user's before it was ours
            self.path.rmdir()
        os.close(self._lock_fd)

    def _remove_sockets(self) -> list[int]:
        """Remove all sockets of ours. Returns the generations that had one; 0 is the supervisor's."""
        generations = []
        if (ours := supervisor_socket(self.path)).is_socket():
            ours.unlink()
            generations.append(0)
        for entry in os.scandir(self.path):
            match = _BACKPLANE_SOCKET.fullmatch(entry.name)
            if match and stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                generations.append(int(match[1]))
                Path(entry.path).unlink(missing_ok=True)
        return generations


def check(path: Path) -> None:
    """Raises `FailedPrecondition` where no supervisor could use this run directory. Makes nothing.

    A supervisor that serves there is no obstacle: its system can be checked, too.
    """
    because = obstacle(path)
    if not os.path.lexists(path):
        if because is not None:
            raise FailedPrecondition(f"run directory {path} cannot be made: {because}")
        if os.path.exists(path.parent):
            _judge_parent(path)
        return
    _judge(path, path.lstat())
    if because is not None:
        raise _unwritable(path, because)
    is_ours = {
        LOCK: is_usable(path / LOCK),
        LINK: (path / LINK).is_symlink() or not (path / LINK).exists(),
        supervisor_socket(path).name: supervisor_socket(path).is_socket() or not supervisor_socket(path).exists(),
    }
    for name in [name for name, ours in is_ours.items() if not ours]:
        raise FailedPrecondition(
            f"run directory {path} cannot be used: {name} in it was not made by a supervisor: remove it, or "
            "choose another [system] run_dir"
        )


def already_running(path: Path, pid: int | None = None) -> FailedPrecondition:
    """Error that names the holder in one line; `pid` if its claim cannot be read."""
    held = _holder(path)
    if held is None:
        return FailedPrecondition(f"already running, pid {pid or 'unknown'} (run directory {path})")
    started_from = f", started from {held.file}" if held.file else ""
    return FailedPrecondition(
        f"system {held.system!r} is already running, pid {held.pid} "
        f"(run directory {path}, since {held.since()}{started_from})"
    )


def _unwritable(path: Path, because: str | None) -> FailedPrecondition:
    return FailedPrecondition(
        f"run directory {path} cannot be written: {because}: make room there, or choose another [system] run_dir"
    )


def _holder(path: Path) -> claim.RunDirClaim | None:
    """Claim of the holder, once it is written: that comes a moment after the lock, over the claim of a killed supervisor."""
    end_s = time.monotonic() + _CLAIM_S
    while (found := holder(path)) is None and time.monotonic() <= end_s and (path / LOCK).exists():
        time.sleep(_LOOK_S)
    return found


def holder(path: Path) -> claim.RunDirClaim | None:
    """Claim of the supervisor that holds the lock, although it may not listen yet; None: nobody."""
    try:
        with open(path / LOCK, "rb") as file:
            found = claim.read(file.fileno())
    except OSError:
        return None
    return found if found is not None and found.is_held() else None


class RunDirServer(msgspec.Struct, frozen=True):
    """The process that serves a run directory."""

    pid: int
    uid: int


def listener(path: Path) -> RunDirServer | None:
    """The process that listens there; None: nobody. Raises PermissionError if we may not know. Takes no lock: a supervisor that
    starts just now would believe in another. Never blocks: where its queue is full, the claim identifies the process.
    """
    try:
        probe = connected(supervisor_socket(path), lambda probe: probe.setblocking(False))
    except PermissionError:
        raise
    except BlockingIOError:
        held = holder(path)
        return RunDirServer(_UNSEEN if held is None else held.pid, path.stat().st_uid)
    except (OSError, ValueError):  # nobody listens; or no path that could be a socket
        return None
    with probe:
        pid, uid, _ = struct.unpack(
            "3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        return RunDirServer(pid, uid)


def running_pid(path: Path) -> int | None:
    """Pid of the process that listens there; None: nobody, or we may not know."""
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
    _judge(path, found)


def _judge(path: Path, found: os.stat_result) -> None:
    """Raises `FailedPrecondition` for a folder that strangers own, can enter or can replace. `found`: its lstat."""
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise FailedPrecondition(f"run directory {path} is not a folder of yours: choose another [system] run_dir")
    if found.st_mode & 0o077:
        raise FailedPrecondition(f"run directory {path} is open to others: chmod 700 {path}")
    _judge_parent(path)


def _judge_parent(path: Path) -> None:
    # Two, where it is a link, whose owner may redirect it.
    above, entry = path.parent.stat(), path.parent.lstat()
    is_owned = {above.st_uid, entry.st_uid} <= {0, os.getuid()}
    if not is_owned or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX):
        raise FailedPrecondition(
            f"{path.parent}, which holds the run directory, can be changed by others: choose another"
        )


def _lock(path: Path) -> int:
    """Lock the folder, and return the lock's descriptor."""
    while True:
        fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise already_running(path) from None
        try:
            is_same = os.path.samestat(os.fstat(fd), os.stat(path / LOCK))
        except FileNotFoundError:
            is_same = False
        if is_same:
            return fd
        os.close(fd)  # its holder went down, and removed it, between our open and our lock
