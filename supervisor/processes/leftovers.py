"""Leftovers: the processes of a supervisor that has been killed, found and ended, and nobody else's.

All that descends from a supervisor carries its mark in its environment: a random word, which a stranger has only by
descent. Found are those that carry it, the children of these (whatever they did to their environment), and whoever is in
the process group of one. Each is held by a pidfd from before it is looked at, so what is signalled is what was looked
at, however often its number is given out. Not found: who has cleared its environment, and lost its parents, and left
its group; the system's cgroups, where there are any, still hold that one (cgroups.reclaim). A look at 300 processes takes
10 ms.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

#: Several words: one of each supervisor above, where a system was started from within another.
VARIABLE = "APPBACKPLANE_MARK"
#: Killing one may reveal its children. A process that forks faster than this is not stopped by signals at all.
_ROUNDS_MAX = 32
#: How long all of them together may take to die of SIGKILL, which takes a millisecond unless they are stuck in the kernel.
_DEATH_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class _Stat:
    parent: int
    group: int


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of those that were found."""

    #: By themselves, once their supervisor was gone.
    alone: int = 0
    by_force: int = 0
    #: Pids of those that do not die.
    stuck: tuple[int, ...] = ()

    def __add__(self, later: Ended) -> Ended:
        return Ended(self.alone + later.alone, self.by_force + later.by_force, later.stuck)

    def __bool__(self) -> bool:
        return bool(self.alone or self.by_force or self.stuck)

    def __str__(self) -> str:
        if not self:
            return "none of its processes left"
        count = self.alone + self.by_force + len(self.stuck)
        said = f"{count} process{'es' if count != 1 else ''} left: {self.alone} ended alone, {self.by_force} killed"
        return said + (f", still there: {', '.join(map(str, self.stuck))}" if self.stuck else "")


def environment(mark: str) -> dict[str, str]:
    """What a child is given, so that it is found."""
    return {VARIABLE: " ".join(filter(None, (os.environ.get(VARIABLE), mark)))}


def end(marks: Collection[str], patience_ns: int) -> Ended:
    """Wait `patience_ns` for those that still live to end by themselves, and kill the rest. Returns when none is left."""
    alone: set[int] = set()
    by_force: set[int] = set()
    stuck: set[int] = set()
    until_ns = time.monotonic_ns() + patience_ns
    with _found(marks) as pidfds:
        alive = _wait_for(pidfds, until_ns)
        alone.update(pidfds.keys() - alive)
    for _ in range(_ROUNDS_MAX):
        with _found(marks) as pidfds:
            alive = set(pidfds) - stuck
            if not alive:
                break
            for pid in alive:
                with suppress(ProcessLookupError):  # it has just ended, and its number cannot mislead a pidfd
                    signal.pidfd_send_signal(pidfds[pid], signal.SIGKILL)
            lasting = _wait_for({pid: pidfds[pid] for pid in alive}, time.monotonic_ns() + _DEATH_NS)
            stuck |= lasting
            by_force |= alive - lasting
    return Ended(len(alone - by_force), len(by_force), tuple(sorted(stuck)))


def find(marks: Collection[str]) -> list[int]:
    """The pids of those that live now; any of them may end at any time."""
    with _found(marks) as pidfds:
        return sorted(pidfds)


@contextmanager
def _found(marks: Collection[str]) -> Iterator[dict[int, int]]:
    """Their pids, and a pidfd each."""
    pidfds: dict[int, int] = {}
    try:
        if marks:
            stats = _look(marks, pidfds)
            _add_relatives(pidfds, stats)
        yield pidfds
    finally:
        for fd in pidfds.values():
            os.close(fd)


def _look(marks: Collection[str], pidfds: dict[int, int]) -> dict[int, _Stat]:
    """Fill in those that carry a mark; parent and group of all others."""
    words = {mark.encode() for mark in marks}
    others: dict[int, _Stat] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or (pid := int(name)) == os.getpid():
            continue
        try:
            is_marked = bool(words & _marks(pid))
            stat = _stat(pid)
            if not is_marked:
                others[pid] = stat
                continue
            fd = os.pidfd_open(pid)
        except OSError:  # it has ended, or is another user's
            continue
        # Held now: what is read from here on is of this very process, or of nobody.
        if _is_still(fd, lambda pid=pid: bool(words & _marks(pid))):  # type: ignore[misc]
            pidfds[pid] = fd
        else:
            os.close(fd)
    return others


def _add_relatives(pidfds: dict[int, int], others: dict[int, _Stat]) -> None:
    """Children of those found, and theirs; and members of a group that one of those found leads."""
    leaders = set(pidfds)
    while True:
        near = {pid for pid, stat in others.items() if stat.parent in pidfds or stat.group in leaders}
        if not near:
            return
        for pid in near:
            seen = others.pop(pid)
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                continue
            kin = pidfds[seen.parent] if seen.parent in pidfds else pidfds[seen.group]
            # Unchanged while held, and its relative lives: so the number is still that relative's.
            if _is_still(fd, lambda pid=pid, seen=seen: _stat(pid) == seen) and not _is_dead(kin):  # type: ignore[misc]
                pidfds[pid] = fd
            else:
                os.close(fd)


def _is_still(pidfd: int, is_so: Callable[[], bool]) -> bool:
    try:
        return is_so() and not _is_dead(pidfd)
    except OSError:
        return False


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


def _wait_for(pidfds: dict[int, int], until_ns: int) -> set[int]:
    """Those that live on at that time."""
    alive = dict(pidfds)
    poll = select.poll()
    for fd in alive.values():
        poll.register(fd, select.POLLIN)
    while alive:
        left_ms = max(0.0, (until_ns - time.monotonic_ns()) / 1e6)
        dead = {fd for fd, _ in poll.poll(left_ms)}
        if not dead:
            break
        for pid in [pid for pid, fd in alive.items() if fd in dead]:
            poll.unregister(alive.pop(pid))
    return set(alive)


def _is_dead(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
