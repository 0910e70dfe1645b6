"""Cgroups: makes, enters, limits and removes the groups of one system (layout: cgroup_layout.py).

A child starts in its group: the supervisor's main thread enters it, spawns, and leaves (2 us in v1, 50 us in v2; moving a
process afterwards takes 10 ms, in which it would run outside). In v2 a thread may move only within one threaded tree, so
there the supervisor itself moves into the system's folder, and out again at the end.
Groups are removed at the end. Each supervisor locks its folder, and the lock dies with it. The groups that a killed
supervisor left are removed by the next supervisor of any system that starts in the same parent group, or by the next one
of the same run directory, in whichever group that starts.
Where the machine allows no groups, `because` says why; `entered`, `folder_of` and `close` then do nothing.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .cgroup_layout import (
    BURST_FILE,
    PREFIX,
    SHARED,
    WEIGHT_FILE,
    Hierarchy,
    bandwidth_us,
    folder_name,
    folder_weight,
    hierarchies,
    is_ours,
)

#: Time for killed processes to leave their group: a throttled one took 0.9 s (TRAPS 22), and quotas are lifted before.
PATIENCE_S = 2.0
#: Poll interval of a group that is not empty yet.
_LOOK_S = 0.002


class NoGroups(Exception):
    """Groups cannot be made; the message says why."""


class Groups:
    """The groups of one system. Main thread only."""

    def __init__(self, version: int = 0, folder: Path | None = None, because: str = "") -> None:
        """Without a folder there are no groups; `because` is the reason."""
        self.version, self.folder, self.because = version, folder, because
        #: Backplanes with a group of their own.
        self._own: set[str] = set()
        self._home: Path | None = None
        self._enabled_at: Path | None = None
        self._lock_fd = -1

    def __bool__(self) -> bool:
        return self.folder is not None

    @property
    def name(self) -> str:
        """ "cgroup v1", "cgroup v2" or "none"."""
        return f"cgroup v{self.version}" if self else "none"

    def add(self, backplane: str) -> None:
        """Make a group for this backplane alone. Raises OSError."""
        folder = self._own_folder(backplane)
        folder.mkdir(exist_ok=True)
        if self.version == 2:
            _write(folder / "cgroup.type", "threaded")
        self._own.add(backplane)

    def remove(self, backplane: str) -> None:
        """Remove its own group, which is empty; if that fails now, `close` removes it."""
        self._own.discard(backplane)
        with suppress(OSError):
            self._own_folder(backplane).rmdir()

    def folder_of(self, backplane: str) -> str | None:
        """Folder of its own group; None: it is in the shared one, or there are no groups."""
        return str(self._own_folder(backplane)) if self.folder is not None and backplane in self._own else None

    @contextmanager
    def entered(self, backplane: str) -> Iterator[None]:
        """Within this context, processes are spawned into the group of `backplane`. Raises OSError."""
        if self.folder is None:
            yield
            return
        folder = self._own_folder(backplane) if backplane in self._own else self.folder / SHARED
        with _stepped(folder, self._outside(), self.version):
            yield

    def move(self, pids: Iterable[int], backplane: str) -> None:
        """Move running processes, with all their threads, into its own group. Raises OSError."""
        for pid in pids:
            with suppress(ProcessLookupError):
                _write(self._own_folder(backplane) / "cgroup.procs", str(pid))

    def members(self) -> list[int]:
        """The processes in the shared group. Raises OSError."""
        assert self.folder is not None
        # A threaded group does not list its processes; its domain lists those of the whole tree, and the supervisor.
        folder = self.folder / SHARED if self.version == 1 else self.folder
        return [pid for pid in _pids(folder / "cgroup.procs") if pid != os.getpid()]

    def weigh(self, backplane: str, weight: int) -> None:
        """Give its own group a weight, in the scale of this version. Raises OSError."""
        _write(self._own_folder(backplane) / WEIGHT_FILE[self.version], str(weight))

    def limit(self, backplane: str, percent: int | None) -> None:
        """Limit its own group to `percent` of one core; None lifts the limit. Raises OSError."""
        _limit(self._own_folder(backplane), self.version, percent)

    def close(self, say: Callable[[str], None]) -> None:
        """Remove all groups; the processes in them have ended. A group that stays is reported."""
        folder, self.folder = self.folder, None
        if folder is None:
            return
        try:
            self._leave(folder)
            _remove(folder)
            os.close(self._lock_fd)
        except OSError as error:
            say(f"cgroup {folder} is left behind: {error.strerror}")

    def _own_folder(self, backplane: str) -> Path:
        assert self.folder is not None
        return self.folder / SHARED / backplane

    def _outside(self) -> Path:
        """Group of the main thread while it is in no backplane's group."""
        assert self.folder is not None
        assert self._home is not None
        return self._home if self.version == 1 else self.folder

    # -- making -------------------------------------------------------------------------------------------------------

    def _make(self, hierarchy: Hierarchy, name: str) -> None:
        self.version, self._home = hierarchy.version, Path(hierarchy.own)
        base = self._home if self.version == 1 else _delegated(hierarchy)
        folder = base / name
        if folder in (self._home, *self._home.parents):
            raise NoGroups(f"this supervisor was started from within {folder}")
        _sweep(base)
        reclaim(folder)
        self.folder, self._lock_fd = folder, _made(folder)
        shared = folder / SHARED
        if self.version == 2:
            _write(folder / "cgroup.procs", "0")
            if "cpu" not in _words(base / "cgroup.subtree_control"):
                _write(base / "cgroup.subtree_control", "+cpu")
                self._enabled_at = base
            shared.mkdir()
            _write(shared / "cgroup.type", "threaded")
            _write(folder / "cgroup.subtree_control", "+cpu")
            _write(shared / "cgroup.subtree_control", "+cpu")
        else:
            shared.mkdir()
        _write(folder / WEIGHT_FILE[self.version], str(folder_weight(self.version, os.cpu_count() or 1)))
        with _stepped(shared, self._outside(), self.version):  # fails now, or never
            pass

    def _leave(self, folder: Path) -> None:
        if self.version != 2 or self._home is None:
            return
        if self._enabled_at is not None:
            # No process may be in a group that has controllers for its children: disable them from the inside out.
            for group in (folder / SHARED, folder, self._enabled_at):
                with suppress(FileNotFoundError):
                    _write(group / "cgroup.subtree_control", "-cpu")
        _write(self._home / "cgroup.procs", "0")


def make(
    system: str, run_dir: Path, left: Iterable[str] = (), proc: Path = Path("/proc/self"), *, is_needed: bool = True
) -> Groups:
    """The groups of a system. `left`: folders of earlier supervisors of this run directory, which are removed.

    Not `is_needed`: no backplane is to have a group of its own. Then there is no group at all: to the rest of a busy machine, a
    system in one is as urgent as one process, however urgent its work.
    """
    name = folder_name(system, str(run_dir))
    try:
        found = hierarchies((proc / "cgroup").read_text(), (proc / "mountinfo").read_text())
    except OSError as error:
        return Groups(because=f"{error.filename}: {error.strerror}")
    reasons = []
    for hierarchy in found:
        groups = Groups()
        try:
            for each in left:
                if is_ours(each) and Path(hierarchy.mount) in Path(each).parents:
                    reclaim(Path(each))
            if not is_needed:
                return Groups(because="no group was made at start: no backplane had a cpu_limit")
            groups._make(hierarchy, name)
        except (OSError, NoGroups) as error:
            why = str(error) if isinstance(error, NoGroups) else f"{error.filename}: {error.strerror}"
            reasons.append(f"v{hierarchy.version}: {why}")
            groups.close(reasons.append)
        else:
            return groups
    return Groups(because="; ".join(reasons) or "no cgroups with the cpu controller are mounted")


def reclaim(folder: Path) -> None:
    """Remove the groups of a killed supervisor, and kill processes in them. Raises OSError, `NoGroups`: it lives."""
    try:
        lock_fd = _lock(folder)
    except FileNotFoundError:
        return
    try:
        _clear(folder)
    finally:
        os.close(lock_fd)


def lift(folder: Path) -> None:
    """Lift the limits of a system's groups, so that no process in them is slow to die."""
    for group in _inside_out(folder):
        version = 2 if (group / "cgroup.type").exists() else 1
        with suppress(OSError):  # there is no quota here
            _limit(group, version, None)


def _clear(folder: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    lift(folder)
    while pids := _all_pids(folder):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end_s:
            raise OSError(0, f"process {pids[0]} in it does not end", str(folder))
        time.sleep(_LOOK_S)
    _remove(folder)


def _sweep(base: Path) -> None:
    """Remove empty folders of killed supervisors, of other systems too; folders with processes in them stay."""
    for folder in base.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or not empty
            lock_fd = _locked(folder)
            if lock_fd is not None:
                try:
                    for group in _inside_out(folder):
                        group.rmdir()
                finally:
                    os.close(lock_fd)


def _made(folder: Path) -> int:
    """Make and lock a folder, and return the lock's descriptor. A sweep that removes it between the two repeats both."""
    while True:
        folder.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            return _lock(folder)


def _lock(folder: Path) -> int:
    """Lock a folder, and return the lock's descriptor. Waits for a sweep of another supervisor, which holds it for a moment.

    Raises `NoGroups` where a living supervisor holds it, and OSError.
    """
    end_s = time.monotonic() + PATIENCE_S
    while (lock_fd := _locked(folder)) is None:
        if time.monotonic() > end_s:
            raise NoGroups(f"{folder} is in use by another supervisor")
        time.sleep(_LOOK_S)
    return lock_fd


def _locked(folder: Path) -> int | None:
    """Lock a folder, and return the lock's descriptor; None: another process holds it. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(folder)):  # not removed between our open and our lock
            return fd
    except BlockingIOError:
        os.close(fd)
        return None
    os.close(fd)
    raise FileNotFoundError(2, "removed by another supervisor that starts", str(folder))


def _delegated(hierarchy: Hierarchy) -> Path:
    """The group in v2 below which groups can be made, and into which the supervisor can move: its own, if it is alone in it;
    else the nearest one above that has the cpu controller enabled already. Others' settings are left alone.
    """
    own, mount = Path(hierarchy.own), Path(hierarchy.mount)
    is_cpu_here = "cpu" in _words(own / "cgroup.controllers")
    if is_cpu_here and os.access(own, os.W_OK) and _pids(own / "cgroup.procs") == [os.getpid()]:
        return own
    for group in (own, *own.parents):
        if "cpu" in _words(group / "cgroup.subtree_control"):
            for path in (group, group / "cgroup.procs"):
                if not os.access(path, os.W_OK):
                    raise NoGroups(f"{path} may not be written (systemd: Delegate=yes)")
            return group
        if group == mount:
            break
    if not is_cpu_here:
        raise NoGroups(f"{own} has no cpu controller")
    raise NoGroups(f"{own} holds other processes, and no group above it hands on the cpu controller")


@contextmanager
def _stepped(into: Path, back: Path, version: int) -> Iterator[None]:
    """Keep this thread, and processes that it spawns, in another group."""
    threads = "tasks" if version == 1 else "cgroup.threads"
    _write(into / threads, "0")
    try:
        yield
    finally:
        _write(back / threads, "0")


def _limit(folder: Path, version: int, percent: int | None) -> None:
    burst_file = folder / BURST_FILE[version]
    may_burst = burst_file.exists()
    wanted = bandwidth_us(percent, may_burst=may_burst)
    if may_burst:
        _write(burst_file, "0")  # a quota below the old burst is refused
    if version == 1:
        # A quota above what the old period allows is refused, and so is a period that makes the old quota too large.
        _write(folder / "cpu.cfs_quota_us", "-1")
        _write(folder / "cpu.cfs_period_us", str(wanted.period))
        if wanted.quota >= 0:
            _write(folder / "cpu.cfs_quota_us", str(wanted.quota))
    else:
        _write(folder / "cpu.max", f"{wanted.quota if wanted.quota >= 0 else 'max'} {wanted.period}")
    if wanted.burst:
        _write(burst_file, str(wanted.burst))


def _inside_out(folder: Path) -> list[Path]:
    """A group and all below it, the deepest first."""
    return [Path(path) for path, _, _ in os.walk(folder, topdown=False)]


def _all_pids(folder: Path) -> list[int]:
    pids = set()
    for group in _inside_out(folder):
        with suppress(OSError):  # a threaded group: its domain lists them
            pids.update(_pids(group / "cgroup.procs"))
    # 0: a process that cannot be seen from here, in another namespace.
    return sorted(pids - {0, os.getpid()})


def _remove(folder: Path) -> None:
    """Remove a group and all below it, as soon as they are empty. Raises OSError."""
    end_s = time.monotonic() + PATIENCE_S
    for group in _inside_out(folder):
        while True:
            try:
                group.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > end_s:
                    raise
            time.sleep(_LOOK_S)


def _pids(path: Path) -> list[int]:
    return [int(word) for word in _words(path)]


def _words(path: Path) -> list[str]:
    return path.read_text().split()


def _write(path: Path, text: str) -> None:
    """Write in one system call, as the kernel requires."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(fd)
