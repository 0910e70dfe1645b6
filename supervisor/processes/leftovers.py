"""Leftovers: finds and ends the processes of a killed supervisor, and no others.

All descendants of a supervisor carry its mark in their environment: a random word, which no other process has. Found are
marked processes, their children (with any environment), and members of a process group that one of these leads. Each is held
by a pidfd before it is examined, so a signal goes to the process that was examined, even if its pid is used again. Not found:
a process that has cleared its environment, lost its parents, and left its group; the system's cgroups, where there are any,
still hold it (cgroups.reclaim). A search among 300 processes takes 10 ms.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import dataclass

#: Environment variable of the mark. Several words: one of each supervisor above, where systems were started within others.
VARIABLE = "APPBACKPLANE_MARK"
#: Killing one may reveal its children. A process that forks faster than this is not stopped by signals at all.
ROUNDS_MAX = 32
#: How long all of them together may take to die of SIGKILL, which takes a millisecond unless they are stuck in the kernel.
_DEATH_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class _Stat:
    parent: int
    group: int


@dataclass(frozen=True, slots=True)
class EndedProcesses:
    """How the processes that were found have ended."""

    #: Ended by themselves, once their supervisor was gone.
    alone: int = 0
    by_force: int = 0
    #: Pids of processes that do not die.
    stuck: tuple[int, ...] = ()

    def __add__(self, later: EndedProcesses) -> EndedProcesses:
        return EndedProcesses(self.alone + later.alone, self.by_force + later.by_force, later.stuck)

    def __bool__(self) -> bool:
        return bool(self.alone or self.by_force or self.stuck)

    def __str__(self) -> str:
        if not self:
            return "none of its processes left"
        count = self.alone + self.by_force + len(self.stuck)
        said = f"{count} process{'es' if count != 1 else ''} left: {self.alone} ended alone, {self.by_force} killed"
        return said + (f", still there: {', '.join(map(str, self.stuck))}" if self.stuck else "")


def environment(mark: str) -> dict[str, str]:
    """Environment of a child, by which it is found."""
    return {VARIABLE: " ".join(filter(None, (os.environ.get(VARIABLE), mark)))}


def end(marks: Collection[str], patience_ns: int, on_held: Callable[[], None] = lambda: None) -> EndedProcesses:
    """Wait `patience_ns` for the found processes to end by themselves, and kill the rest. Returns once they are dead or stuck.

    `on_held`: called once all are found that can be, before any process by which another is known has to end.
    """
    by_force: set[int] = set()
    with closing(_Held(marks)) as held:
        held.look()
        on_held()
        held.wait(time.monotonic_ns() + patience_ns)
        for _ in range(ROUNDS_MAX):
            held.look()
            alive = held.alive()
            if not alive:
                break
            for pid in alive:
                with suppress(ProcessLookupError):  # it has just ended, and its number cannot mislead a pidfd
                    signal.pidfd_send_signal(held.pidfds[pid], signal.SIGKILL)
            by_force |= alive
            if not held.wait(time.monotonic_ns() + _DEATH_NS):
                break
        stuck = held.alive()
        return EndedProcesses(len(held.pidfds.keys() - by_force), len(by_force - stuck), tuple(sorted(stuck)))


def find(marks: Collection[str]) -> list[int]:
    """Pids of marked processes and their relatives that live now; any of them may end at any time."""
    with closing(_Held(marks)) as held:
        held.look()
        return sorted(held.pidfds)


class _Held:
    """Found processes, each held by a pidfd. They stay held even when the relative by which one was known ends."""

    def __init__(self, marks: Collection[str]) -> None:
        self._words = {mark.encode() for mark in marks}
        self.pidfds: dict[int, int] = {}

    def look(self) -> None:
        """Add processes that are new, or were not seen."""
        if not self._words:
            return
        others: dict[int, _Stat] = {}
        for name in os.listdir("/proc"):
            if not name.isdigit() or (pid := int(name)) == os.getpid() or pid in self.pidfds:
                continue
            with suppress(OSError):  # it has ended, or is another user's
                if self._is_marked(pid):
                    self._hold(pid, lambda pid=pid: self._is_marked(pid))  # type: ignore[misc]
                else:
                    others[pid] = _stat(pid)
        # Descendants of found processes, and members of a group that one of these leads.
        while near := [pid for pid, stat in others.items() if self._relative(stat)]:
            for pid in near:
                seen = others.pop(pid)
                with suppress(OSError):
                    # Unchanged while held, and its relative lives: so the number is still that relative's.
                    self._hold(pid, lambda pid=pid, seen=seen: _stat(pid) == seen and self._relative(seen))  # type: ignore[misc]

    def alive(self) -> set[int]:
        """Pids of those that have not ended."""
        return {pid for pid, fd in self.pidfds.items() if not is_dead(fd)}

    def wait(self, until_ns: int) -> bool:
        """Wait until all have ended, or until then. False: some live on."""
        waiting = select.poll()
        alive = {self.pidfds[pid] for pid in self.alive()}
        for fd in alive:
            waiting.register(fd, select.POLLIN)
        while alive:
            dead = {fd for fd, _ in waiting.poll(max(0.0, (until_ns - time.monotonic_ns()) / 1e6))}
            if not dead:
                return False
            for fd in dead:
                waiting.unregister(fd)
            alive -= dead
        return True

    def close(self) -> None:
        """Close the pidfds; the processes are not affected."""
        for fd in self.pidfds.values():
            os.close(fd)

    def _hold(self, pid: int, is_ours: Callable[[], bool]) -> None:
        """Hold `pid` if `is_ours`, which is asked with its pidfd open, and so of this very process. Raises OSError."""
        fd = os.pidfd_open(pid)
        try:
            if is_ours() and not is_dead(fd):
                self.pidfds[pid], fd = fd, -1
        finally:
            if fd >= 0:
                os.close(fd)

    def _is_marked(self, pid: int) -> bool:
        return bool(self._words & _marks(pid))

    def _relative(self, stat: _Stat) -> bool:
        """Whether its parent, or the leader of its group, is held and lives."""
        return any(pid in self.pidfds and not is_dead(self.pidfds[pid]) for pid in (stat.parent, stat.group))


def _marks(pid: int) -> set[bytes]:
    with open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == VARIABLE.encode():
                return set(value.split())
    return set()


def _stat(pid: int) -> _Stat:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()  # the name before may hold anything
    return _Stat(int(fields[1]), int(fields[2]))


def is_dead(pidfd: int) -> bool:
    """Whether this process has ended; it may not be reaped yet."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
