"""Log folder: where a system's log lies, and the numbered files in it, which take turns.

`$XDG_STATE_HOME/appbackplane/NAME`, beside the run directory where that was chosen, or `[system] log.dir`: it stays when the
system has gone. Each file is followed by one with the next number and is never written again, so that whoever reads or
follows is never in the way and never finds another file under the same name. Where others could have planted it, or can
change it, it is refused: what is written below its descriptor then meets no link of theirs.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from appbackplane.transport.addressing import SUPERVISOR, default_run_dir, state_home
from appbackplane.transport.errors import FailedPrecondition

#: In the run directory: leads to the folder, wherever it is, while the system runs.
LINK = "log"
#: In the folder: what a detached supervisor itself prints, which is nothing unless it fails.
LAST_WORDS = "supervisor.err"
#: In the folder: which names there are to ask for.
NAMES = "names.json"
_FILE = re.compile(r"(\d{8,})\.jsonl")


def default_folder(system: str, run_dir: Path) -> Path:
    """Where the log of a system lies that says nothing of it; or, where it says something, a link to that."""
    run_dir = Path(os.path.abspath(run_dir))
    if run_dir == default_run_dir(system):
        return state_home() / "appbackplane" / system
    return run_dir.with_name(run_dir.name + ".log")


def open_folder(folder: Path) -> int:
    """A descriptor of the folder, made if need be; everything in it is opened below this. A link of the user's own is followed.

    Raises `FailedPrecondition` where it is not the user's, or others may write there.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = folder.lstat().st_uid == os.getuid()
        fd = os.open(folder.resolve(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise FailedPrecondition(f"log folder {folder} cannot be written: {error.strerror}") from error
    found = os.fstat(fd)
    if is_ours and found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return fd
    os.close(fd)
    if is_ours and found.st_uid == os.getuid():
        raise FailedPrecondition(f"log folder {folder} can be changed by others: chmod go-w {folder}")
    raise FailedPrecondition(
        f"log folder {folder} is not a folder of yours: remove it, or choose another, [system] log = {{ dir = … }}"
    )


def name_of(number: int) -> str:
    """Sorts as it is counted."""
    return f"{number:08}.jsonl"


def numbers(names: Iterable[str]) -> list[int]:
    """Of the files of the log among these names, the oldest first."""
    return sorted(int(match[1]) for name in names if (match := _FILE.fullmatch(name)))


def names_in(folder: Path) -> dict[str, list[str]]:
    """Backplane to components, as of the last time that the system was up; {} if nobody has written it down."""
    try:
        found = json.loads((folder / NAMES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {SUPERVISOR: [], **found} if isinstance(found, dict) else {}


def outdated(present: Iterable[int], current: int, files: int) -> list[int]:
    """Those that have had their turn, when `files` are kept."""
    return [number for number in present if number <= current - files]
