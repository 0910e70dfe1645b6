"""Log file: the destination of every log line: lines of JSON in numbered files, the present one and its predecessors.

Whole lines, each write straight to the kernel: a kill leaves at most one line without an end, which the next writer ends.
Lines that the disk refuses are counted, and the count is logged as soon as it takes lines again. One writer a folder, held
by a lock that dies with it. Writing a batch takes about 10 us.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from appbackplane.transport.errors import FailedPrecondition

from .folder import name_of, numbers, open_folder, outdated


class LogFile:
    """The log files of one folder, for their one writer."""

    def __init__(self, folder: Path, file_bytes_max: int, files_max: int) -> None:
        """Raises `FailedPrecondition` if the folder cannot be written, others may write to it, or another system does."""
        self.folder = folder
        self._file_bytes_max, self._files_max = file_bytes_max, files_max
        #: Lines that the disk refused, and why it refused the last one.
        self.lost_count = 0
        self.problem = ""
        #: Whether the last line lacks its newline.
        self._is_torn = False
        self._fd, self._folder_fd = -1, open_folder(folder)
        self._number = self._size = 0
        try:
            fcntl.flock(self._folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._open(max(numbers(os.listdir(self._folder_fd)), default=1))
        except BlockingIOError:
            self.close()
            raise FailedPrecondition(
                f"log folder {folder}: another system writes there: give this one another name, or a `dir` for its `log`"
            ) from None
        except OSError as error:
            self.close()
            raise FailedPrecondition(f"log folder {folder} cannot be written: {error.strerror}") from error

    def write(self, lines: bytes) -> None:
        """Append whole lines, each with its newline; lines that find no room are counted."""
        if self._size and self._size + len(lines) > self._file_bytes_max:
            self._turn()
        was_torn = self._is_torn
        rest = whole = b"\n" + lines if was_torn else lines
        try:
            while rest:  # a disk that fills up takes a part
                written = os.write(self._fd, rest)
                self._is_torn = rest[written - 1 : written] != b"\n"
                self._size += written
                rest = rest[written:]
        except OSError as error:
            self.problem = error.strerror or str(error)
            self.lost_count += rest.count(b"\n") - (was_torn and len(rest) == len(whole))

    def keep(self, file_bytes_max: int, files_max: int) -> None:
        """Apply new limits; surplus files are removed when the next one begins."""
        self._file_bytes_max, self._files_max = file_bytes_max, files_max

    def put(self, name: str, data: bytes) -> None:
        """Replace a small file beside the log, atomically. Raises OSError."""
        fresh = f"{name}.new"
        with suppress(FileNotFoundError):  # left by a killed writer
            os.unlink(fresh, dir_fd=self._folder_fd)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(fresh, flags, 0o600, dir_fd=self._folder_fd), "wb") as file:
            file.write(data)
        os.replace(fresh, name, src_dir_fd=self._folder_fd, dst_dir_fd=self._folder_fd)

    def close(self) -> None:
        """Release the folder's lock, so that another writer can start."""
        for fd in (self._fd, self._folder_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._folder_fd = -1

    def _turn(self) -> None:
        """Rotate to the next file; if that fails, go on with this one."""
        with suppress(OSError):
            before = self._fd
            self._open(self._number + 1)
            os.close(before)

    def _open(self, number: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(name_of(number), flags, 0o600, dir_fd=self._folder_fd)
        self._fd, self._number = fd, number
        self._size = os.fstat(fd).st_size
        self._is_torn = self._size > 0 and os.pread(fd, 1, self._size - 1) != b"\n"
        for old in outdated(numbers(os.listdir(self._folder_fd)), number, self._files_max):
            with suppress(FileNotFoundError):
                os.unlink(name_of(old), dir_fd=self._folder_fd)
