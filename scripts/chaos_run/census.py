"""Census: what a system holds at one instant, in numbers that can be compared with those of another instant.

Processes of its session (whoever is not the supervisor or a backplane of its own is an orphan), descriptors by kind, threads,
sockets in the run directory, groups, and files in the temporary folder that is its own. From /proc: nothing is asked of those
that are counted.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Opened when one has to be boosted for the first time, and kept: one a limited group, however often that is restarted.
WHEN_NEEDED = ("file cpu.shares", "file cpu.weight")
_GENERATION = re.compile(r"\d+")


def of_process(pid: int | str) -> dict[str, Any]:
    """Descriptors by kind, threads, and resident bytes."""
    return {"fds": fds(pid), "threads": threads(pid), "resident": resident(pid)}


def fds(pid: int | str) -> dict[str, int]:
    """How many of each kind: "socket", "pipe", "anon_inode:[eventfd]", "memfd", "file NAME"."""
    kinds: Counter[str] = Counter()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            kinds[kind_of(os.readlink(f"/proc/{pid}/fd/{fd}"))] += 1
    for kind in WHEN_NEEDED:
        kinds.pop(kind, None)
    return dict(sorted(kinds.items()))


def kind_of(target: str) -> str:
    """Of a descriptor, by what /proc says it leads to."""
    if target.startswith("anon_inode:"):
        return target.removeprefix("anon_inode:").strip("[]")
    if target.startswith("/memfd:"):
        return "memfd"
    if target.startswith("/"):
        return f"file {target.rpartition('/')[2]}"
    return target.partition(":")[0]


def threads(pid: int | str) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def resident(pid: int | str) -> int:
    """Bytes of memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def processes_of(session: int) -> dict[int, str]:
    """Pid to state, as in /proc/PID/stat, of all that belong to a session; zombies are among them."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                after_name = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(after_name[3]) == session:
                    found[int(entry)] = after_name[0]
    return found


def children_of(pid: int) -> set[int]:
    """Direct ones, by all of its threads."""
    found: set[int] = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with suppress(FileNotFoundError):
            found |= set(map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()))
    return found


def shared_memory_of(pid: int) -> list[str]:
    """Files in /dev/shm that it maps."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line})


def abstract_sockets(pids: Iterable[int]) -> list[str]:
    """Names without a file that these processes listen on: they would be open to everybody."""
    held = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                held.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return sorted(line[7] for line in lines if len(line) > 7 and line[7][0] == "@" and f"socket:[{line[6]}]" in held)


def groups_below(folder: Path | None) -> list[str]:
    """Groups, from that of the system on; none, where it has none or has gone."""
    if folder is None or not folder.is_dir():
        return []
    return sorted(str(path.relative_to(folder.parent)) for path in (folder, *folder.rglob("*")) if path.is_dir())


def group_of(run_dir: Path) -> Path | None:
    """The folder of the system's groups, as its lock says."""
    lines = (run_dir / "lock").read_text().splitlines()
    return Path(lines[1]) if len(lines) > 1 and lines[1] else None


def of_system(supervisor: int, backplanes: Mapping[str, int], run_dir: Path, scratch: Path) -> dict[str, Any]:
    """All of it. Two of these are equal if nothing has leaked, but for "memory", which is only to stay below a bound."""
    known = {supervisor, *backplanes.values()}
    living = processes_of(supervisor)
    sockets = [path.name for path in run_dir.iterdir() if path.is_socket()]
    return {
        "orphans": sorted(set(living) - known),
        "dead, not buried": sorted(pid for pid, state in living.items() if state == "Z"),
        "children of the supervisor": len(children_of(supervisor)),
        "fds": {"supervisor": fds(supervisor)} | {name: fds(pid) for name, pid in backplanes.items()},
        "threads": {"supervisor": threads(supervisor)} | {name: threads(pid) for name, pid in backplanes.items()},
        "sockets in the run directory": sorted(_GENERATION.sub("N", name) for name in sockets),
        "abstract sockets": abstract_sockets(known),
        "groups": groups_below(group_of(run_dir)),
        "shared memory": [path for pid in sorted(known) for path in shared_memory_of(pid)],
        "temporary files": sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*")),
        "memory": {"supervisor": resident(supervisor)} | {name: resident(pid) for name, pid in backplanes.items()},
    }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is not as it was, a line each; memory left out."""
    lines = []
    for what in before:
        if what != "memory" and before[what] != after[what]:
            lines += [f"{what}: {line}" for line in _differ(before[what], after[what])]
    return lines


def _differ(before: Any, after: Any) -> list[str]:
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return [f"{before} before, {after} after"]
    lines = []
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            lines += [f"{key}: {line}" for line in _differ(before.get(key, 0), after.get(key, 0))]
    return lines
