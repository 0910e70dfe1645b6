"""Records: what the processes of a run write down, each into a file of its own, so that what the dead knew is known.

A line is written in one piece, before what it says can be known otherwise: `B name` when an execution begins, `E name` when it
has ended; `P name count` before an owner posts, and `O name rejoined good failed lost` when it has rejoined all; `V text` for
what may never happen. The last line of a process that was killed may be missing; it is never half there.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

#: Where they are written: the folder, in the environment of all.
FOLDER = "REQUESTS_RUN_FOLDER"
SEED = "REQUESTS_RUN_SEED"

_file: int | None = None


def write(line: str) -> None:
    """Into this process's file."""
    global _file
    if _file is None:
        path = Path(os.environ[FOLDER]) / f"{os.getpid()}.log"
        _file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(_file, f"{line}\n".encode())


@dataclass(slots=True)
class Owned:
    """What an owner says when it has rejoined all."""

    rejoined: int
    good: int
    failed: int
    lost: int


@dataclass(slots=True)
class Records:
    """What all have written."""

    begun: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    posted: dict[str, int] = field(default_factory=dict)
    owned: dict[str, Owned] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        kind, _, said = line.partition(" ")
        match kind:
            case "B":
                self.begun[said] += 1
            case "E":
                self.ended[said] += 1
            case "P":
                name, count = said.split(" ")
                self.posted[name] = int(count)
            case "O":
                name, *counts = said.split(" ")
                self.owned[name] = Owned(*map(int, counts))
            case "V":
                self.violations.append(said)
            case _:
                raise ValueError(f"no record: {line!r}")


def read(folder: Path) -> Records:
    records = Records()
    for path in sorted(folder.glob("*.log")):
        for line in path.read_text(encoding="utf-8").splitlines():
            records.take(line)
    return records
