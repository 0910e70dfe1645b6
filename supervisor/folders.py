"""Folders: why a folder could not be made or used, found out without making anything.

`appbackplane check` asks before a start, `up` asks before it makes the folder: by the same function, so that both refuse the
same. The answer is of this moment; whoever makes the folder afterwards still meets errors of its own.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def obstacle(folder: Path) -> str | None:
    """Why files could not be made in this folder, or in the folder once it was made; None: they could."""
    for there in (folder, *folder.parents):
        try:
            found = there.stat()
        except FileNotFoundError:
            if there.is_symlink():
                return f"{there} is a link to nothing"
            continue
        except OSError as error:
            return error.strerror
        if not stat.S_ISDIR(found.st_mode):
            return os.strerror(errno.ENOTDIR)
        if os.statvfs(there).f_flag & os.ST_RDONLY:
            return os.strerror(errno.EROFS)
        needed = os.W_OK | os.X_OK | (os.R_OK if there == folder else 0)
        return None if os.access(there, needed) else os.strerror(errno.EACCES)
    return None


def is_usable(file: Path) -> bool:
    """Whether this is a file that can be read and written, or is not there."""
    try:
        return stat.S_ISREG(file.lstat().st_mode) and os.access(file, os.R_OK | os.W_OK)
    except FileNotFoundError:
        return True
