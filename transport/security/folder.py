"""Folder: private files, read and written so that no other user can have read, changed or swapped them.

The folder is 0700 and ours, its files 0600, ours and no links, or they are refused: a file that others can write must not
decide on admission. The check is on the open descriptor, not on the name, which might mean another file a moment later. A file
is replaced whole (written beside, synced, renamed), so that readers find the old one or the new one, whichever process is
killed. Writers hold the lock: if two trust a key at the same time, both changes last.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import FailedPrecondition

#: Locked by the writer of a file. Empty; stays.
LOCK = "lock"
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe in the place of a file does not block
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW

#: Status of a file, which tells whether it still is the one that was read.
Mark = tuple[int, int, int, int, int, int]


class Folder:
    """The files of one folder. No descriptor stays open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = str(path)  # for joining paths: `mark` is called ten times a second, and with each handshake

    def make(self) -> None:
        """Make the folder if it is missing. Raises `FailedPrecondition`, as everything here does."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
        except OSError as error:
            raise FailedPrecondition(f"{self.path} cannot be made: {_reason(error)}") from error
        with self._opened():
            pass

    def mark(self, name: str) -> Mark | None:
        """The status of a file, which differs once the file was changed. None: there is no file."""
        try:
            found = os.stat(f"{self._text}/{name}", follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)

    def read(self, name: str, bytes_max: int) -> str | None:
        """The text of a file of up to `bytes_max`; None: there is no file."""
        with self._opened() as folder_fd:
            if folder_fd is None:
                return None
            try:
                fd = os.open(name, _READ, dir_fd=folder_fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise self._unreadable(name, error) from error
            try:
                self._check_file(name, os.fstat(fd))
                with open(fd, "rb", closefd=False) as file:
                    data = file.read(bytes_max + 1)
            except OSError as error:
                raise self._unreadable(name, error) from error
            finally:
                os.close(fd)
        if len(data) > bytes_max:
            raise FailedPrecondition(f"{self.path / name} has more than {bytes_max:,} bytes: it is not a key file")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise FailedPrecondition(f"{self.path / name} is not text: {error}") from error

    def write(self, name: str, text: str) -> None:
        """Write a file, or replace it, as a whole. The caller holds the lock."""
        beside = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
        with self._opened() as folder_fd:
            if folder_fd is None:
                raise FailedPrecondition(f"{self.path} has gone")
            try:
                fd = os.open(beside, _WRITE, 0o600, dir_fd=folder_fd)
                try:
                    with open(fd, "wb") as file:
                        file.write(text.encode())
                        file.flush()
                        os.fsync(file.fileno())
                    os.rename(beside, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
                except BaseException:
                    with suppress(FileNotFoundError):
                        os.unlink(beside, dir_fd=folder_fd)
                    raise
                os.fsync(folder_fd)  # or the name could be the old file's again after a power cut
            except OSError as error:
                raise FailedPrecondition(f"{self.path / name} cannot be written: {_reason(error)}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others from changes. Held for milliseconds; the kernel releases it if its holder dies."""
        self.make()
        try:
            fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise FailedPrecondition(f"{self.path / LOCK} cannot be opened: {_reason(error)}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """A descriptor of the folder, after all checks; None: it is not there."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            above = os.stat(self.path.parent)
        except FileNotFoundError:
            yield None
            return
        except NotADirectoryError as error:
            raise FailedPrecondition(f"{self.path} is not a folder, or a link to one: choose another") from error
        except OSError as error:
            raise FailedPrecondition(f"{self.path} cannot be opened: {_reason(error)}") from error
        try:
            self._check(os.fstat(fd), above)
            yield fd
        finally:
            os.close(fd)

    def _check(self, found: os.stat_result, above: os.stat_result) -> None:
        if found.st_uid != os.geteuid():
            raise FailedPrecondition(f"{self.path} is another user's (uid {found.st_uid}): choose a folder of yours")
        if found.st_mode & 0o077:
            raise FailedPrecondition(f"{self.path} is open to others: chmod 700 {self.path}")
        if above.st_uid not in (0, os.geteuid()) or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX):
            raise FailedPrecondition(
                f"{self.path.parent}, which holds the folder of the keys, can be changed by others: "
                f"chmod go-w {self.path.parent}, or choose another"
            )

    def _check_file(self, name: str, found: os.stat_result) -> None:
        path = self.path / name
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise FailedPrecondition(f"{path} is not a plain file: replace it by one")
        if found.st_uid != os.geteuid():
            raise FailedPrecondition(f"{path} is another user's (uid {found.st_uid}): replace it by one of yours")
        if found.st_mode & 0o077:
            raise FailedPrecondition(f"{path} is open to others: chmod 600 {path} (and make new keys if others had it)")

    def _unreadable(self, name: str, error: OSError) -> FailedPrecondition:
        if os.path.islink(self.path / name):
            return FailedPrecondition(f"{self.path / name} is a link: put the file itself there")
        return FailedPrecondition(f"{self.path / name} cannot be read: {_reason(error)}")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
