"""Permission file: the permissions, links and groups of a system, in a file of JSON that several processes read and change.

A change is made under a lock of its own, written beside the file, and renamed over it, so readers see the old or the new one.
Readers look for a new one at most every `LOOK_AGAIN_S`, so a revocation holds everywhere within that time. A file that cannot
be read permits nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec

from appbackplane.transport.errors import CallerError, FailedPrecondition, Status

from .table import LINK, PERMISSIONS_MAX, ClaimedGroups, Permission, PermissionTable

#: A look costs 2 us; a tenth of the second within which a revocation holds.
LOOK_AGAIN_S: Final = 0.1
#: Largest file: PERMISSIONS_MAX permissions of a thousand bytes.
FILE_BYTES_MAX: Final = 10 << 20
Result = TypeVar("Result")
log = logging.getLogger("appbackplane.permissions")


class PermissionFileError(CallerError):
    """The file of permissions is invalid, or cannot be read; the message names the file and the place."""

    status = Status.FAILED_PRECONDITION


class GuestLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A token for a guest. Its holder is the principal "link:ID". digest: SHA-256 of the token, in hexadecimal digits."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    until: float | None = None
    by: str = ""

    @property
    def principal(self) -> str:
        return f"link:{self.id}"


class Permissions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The contents of the file. groups: members by name. claimed: by user, the groups that an OpenID provider claims."""

    permissions: tuple[Permission, ...] = ()
    groups: dict[str, tuple[str, ...]] = {}
    links: tuple[GuestLink, ...] = ()
    claimed: dict[str, ClaimedGroups] = {}

    def table(self, operators: Collection[str]) -> PermissionTable:
        """The table that decides by them."""
        return PermissionTable(self.permissions, self.groups, self.claimed, operators)

    def check(self) -> None:
        """Raise ValueError, with the first problem."""
        if len(self.permissions) > PERMISSIONS_MAX or len(self.links) > PERMISSIONS_MAX:
            raise ValueError(f"more than {PERMISSIONS_MAX:,} permissions or links: revoke those that nobody needs")
        if len(self.claimed) > PERMISSIONS_MAX:
            raise ValueError(f"claimed: more than {PERMISSIONS_MAX:,} users are signed in with groups: try again later")
        seen: set[str] = set()
        for each in self.permissions:
            problem = each.problem()
            if problem is None and each.id in seen:
                problem = "another has the same id"
            if problem is not None:
                raise ValueError(f"permission {each.id!r}: {problem}")
            seen.add(each.id)

    def has(self, id: str) -> bool:
        """Whether there is a permission or a guest link of this id."""
        return any(each.id == id or each.who == f"{LINK}{id}" for each in self.permissions)

    def link_of(self, digest: str, now_s: float) -> GuestLink | None:
        """The link whose token has this digest, if it has not expired."""
        for each in self.links:
            if each.digest == digest and (each.until is None or each.until > now_s):
                return each
        return None


class PermissionFile:
    """Reads the file when it changes. Used by one thread."""

    def __init__(self, path: str | Path, operators: Collection[str] = ()) -> None:
        """`operators`: principals whose permissions need nothing behind them."""
        self.path = Path(path)
        self._operators = operators
        self.contents = Permissions()
        self._table = PermissionTable()
        self._looked_s = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        #: Counts the changes that were seen.
        self.version = 0

    def table(self, now_s: float) -> PermissionTable:
        """The permissions that hold now. `now_s`: Unix time."""
        if not 0 <= now_s - self._looked_s < LOOK_AGAIN_S:
            self._looked_s = now_s
            self._look()
        return self._table

    def look_again(self) -> None:
        """The next reader looks at the file, however short ago that was done."""
        self._looked_s = float("-inf")

    def _look(self) -> None:
        try:
            found = os.stat(self.path)
            seen = found.st_mtime_ns, found.st_ino, found.st_size
        except OSError:
            seen = None
        if seen == self._seen and self.version:
            return
        self._seen = seen
        self.version += 1
        try:
            self.contents = read(self.path)
        except PermissionFileError as error:
            log.error("%s; until it is mended, nothing is permitted but to operators", error)
            self.contents = Permissions()
        self._table = self.contents.table(self._operators)


def read(path: Path) -> Permissions:
    """The contents; none if there is no file. Raises `PermissionFileError`."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Permissions()
    except OSError as error:
        raise PermissionFileError(f"{path}: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise PermissionFileError(f"{path}: more than {FILE_BYTES_MAX:,} bytes")
    try:
        contents = msgspec.json.decode(data, type=Permissions)
        contents.check()
    except ValueError as error:  # those of msgspec as well
        raise PermissionFileError(f"{path}: {error}") from None
    return contents


def change(path: Path, function: Callable[[Permissions], tuple[Permissions, Result]]) -> Result:
    """Replace the contents by those that `function` makes of them, while no other process does.

    Returns its second result. Raises `PermissionFileError`, `FailedPrecondition` if the new contents are invalid, and
    whatever `function` raises; then nothing has changed.
    """
    with _locked(path):
        contents, result = function(read(path))
        data = msgspec.json.format(msgspec.json.encode(contents)) + b"\n"
        try:
            if len(data) > FILE_BYTES_MAX:
                raise ValueError(f"the file of permissions would have more than {FILE_BYTES_MAX:,} bytes: revoke some")
            msgspec.json.decode(data, type=Permissions).check()  # readers must be able to read it
        except ValueError as error:
            raise FailedPrecondition(str(error)) from None
        written = path.with_name(f"{path.name}.new")
        try:
            # It is nobody else's business who may do what; and O_EXCL follows no link that another user has planted.
            with contextlib.suppress(FileNotFoundError):
                written.unlink()
            fd = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(fd)
            os.replace(written, path)
            _sync_folder(path.parent)
        except OSError as error:
            raise PermissionFileError(f"{path}: cannot be written: {error.strerror}") from None
    return result


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        fd = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PermissionFileError(f"{path}: cannot be locked: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
