"""Record files: the records of one kernel on the disk, a line of JSON each, in numbered files that are rotated.

Bounded in bytes and in age. A file is followed by the next one at an eighth of the bytes allowed, or of the age, so that
little more is deleted than has to be. Each line is one write to the operating system: a killed process leaves at most one line
without an end. That is the last of its file, because each process begins a file of its own. Errors are for the caller.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

#: Files that share the bounds: with more of them, less is deleted at a time beyond the need.
FILES = 8
_SUFFIX = ".jsonl"


class RecordFiles:
    """One folder, for one writer at a time; every method may raise OSError, and may be called again afterwards."""

    def __init__(self, folder: Path, size_max: int, age_max_ns: int, root: Path | None = None) -> None:
        """`root`: a folder above that has to exist; only its owner makes it. Folders below it are made."""
        self.folder = folder
        self._size_max, self._age_max_ns = size_max, age_max_ns
        self._root = root
        self._fd = -1
        #: Number, size and begin of the present file, or of the last one; no number is used twice.
        self._number = self._size = self._began_ns = 0

    def write(self, line: bytes, at_ns: int) -> None:
        """Write one line, given without its end, of the Unix time `at_ns`. Afterwards all of it is in the file, or nothing."""
        data = line + b"\n"
        is_full = self._size + len(data) > self._size_max // FILES
        if self._fd < 0 or is_full or at_ns - self._began_ns > self._age_max_ns // FILES:
            self.close()
            self._begin(at_ns)
        rest = data
        try:
            while rest:  # a disk that is nearly full takes a part
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            self.close()
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close the present file; the next line begins another."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def files(self) -> list[Path]:
        """The files in the folder, the oldest first."""
        found = [path for path in self.folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal()]
        return sorted(found, key=_number_of)

    def _begin(self, at_ns: int) -> None:
        if self._root is not None and not self._root.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._root))
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._retain(at_ns)
        self._number = max([self._number, *map(_number_of, self.files())])
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        while self._fd < 0:
            self._number += 1
            with suppress(FileExistsError):  # of the process before this one, which goes down as this one comes up
                self._fd = os.open(self.folder / f"{self._number:08d}{_SUFFIX}", flags, 0o600)
        self._size, self._began_ns = 0, at_ns

    def _retain(self, at_ns: int) -> None:
        """Before a file begins: delete files that are too old, and more until there is room for it."""
        found = []
        for path in self.files():
            with suppress(FileNotFoundError):  # somebody has removed it meanwhile
                found.append((path, path.stat()))
        left = sum(told.st_size for _, told in found)
        for path, told in found:
            if told.st_mtime_ns >= at_ns - self._age_max_ns and left <= self._size_max - self._size_max // FILES:
                break
            path.unlink(missing_ok=True)
            left -= told.st_size


def _number_of(path: Path) -> int:
    return int(path.stem)
