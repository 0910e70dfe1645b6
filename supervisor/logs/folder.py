"""Log folder: where a system's log lies, and its numbered files, of which the last is written.

`$XDG_STATE_HOME/appbackplane/NAME`, beside the run directory where that was chosen, or `[system] log.dir`: it outlives the
system. Each file is followed by one with the next number and is never written again. So readers are never in the way, and
never find another file under the same name. A folder that others could have planted, or can change, is refused: files below
its descriptor then meet no link of theirs.
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

from ..folders import is_usable, obstacle

#: In the run directory: link to the folder, wherever it is, while the system runs.
LINK = "log"
#: In the folder: output of a detached supervisor itself, which is empty unless it fails.
LAST_WORDS = "supervisor.err"
#: In the folder: names of backplanes and components, by which `logs` recognises a wrong one.
NAMES = "names.json"
_FILE = re.compile(r"(\d{8,})\.jsonl")


def default_folder(system: str, run_dir: Path) -> Path:
    """Log folder of a system without `log.dir`; with one, a link to it."""
    run_dir = Path(os.path.abspath(run_dir))
    if run_dir == default_run_dir(system):
        return state_home() / "appbackplane" / system
    return run_dir.with_name(run_dir.name + ".log")


def check(folder: Path) -> None:
    """Raises `FailedPrecondition` where no log could be written, as `open_folder` does. Makes nothing."""
    if os.path.exists(folder):
        fd = _opened(folder)
        present = numbers(os.listdir(fd))
        os.close(fd)
        for name in (*[name_of(number) for number in present[-1:]], LAST_WORDS):
            if not is_usable(folder / name):
                raise FailedPrecondition(
                    f"log folder {folder} cannot be written: {name} in it is not a file that can be written: remove it"
                )
    if (because := obstacle(folder)) is not None:
        raise FailedPrecondition(f"log folder {folder} cannot be written: {because}")


def open_folder(folder: Path) -> int:
    """Descriptor of the folder, made if need be; its files are opened below it. A link of the user's own is followed.

    Raises `FailedPrecondition` if it is not the user's, or others may write to it, or it cannot be written.
    """
    check(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FailedPrecondition(f"log folder {folder} cannot be written: {error.strerror}") from error
    return _opened(folder)


def _opened(folder: Path) -> int:
    try:
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
    """File name of a number; names sort as numbers do."""
    return f"{number:08}.jsonl"


def numbers(names: Iterable[str]) -> list[int]:
    """Numbers of the log files among these names, the oldest first."""
    return sorted(int(match[1]) for name in names if (match := _FILE.fullmatch(name)))


def names_in(folder: Path) -> dict[str, list[str]]:
    """Backplane to components, as last written by the system; {}: never written."""
    try:
        found = json.loads((folder / NAMES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {SUPERVISOR: [], **found} if isinstance(found, dict) else {}


def outdated(present: Iterable[int], current: int, files: int) -> list[int]:
    """Numbers of the files to remove, when `files` are kept."""
    return [number for number in present if number <= current - files]
