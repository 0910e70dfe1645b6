"""Audit log: one line of JSON for each change of the permissions, each write and action by a principal, and each refusal.

Every process appends to the same file, one write a line, so lines are whole. It is bounded: at `FILE_BYTES_MAX` the file is
renamed to `NAME.1`, over the one before. Refusals beyond `REFUSALS_MAX` a second and process are counted in the next line, so
that a flood of them cannot wash the rest away.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Any, Final

import msgspec

FILE_BYTES_MAX: Final = 32 << 20
REFUSALS_MAX: Final = 10
#: Characters of the id of a thing and of an affordance that a line keeps: others send them.
_TEXT_MAX: Final = 200
_encode = msgspec.json.encode
log = logging.getLogger("appbackplane.permissions")


class AuditLog:
    """Appends to the log. Used by one thread."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._fd = -1
        self._second = 0
        self._refusals_count = 0
        self._is_reported = False

    def called(self, now_s: float, principal: str, id: str, kind: str, name: str, *, is_permitted: bool) -> None:
        """A call was admitted, or refused."""
        omitted = 0
        if int(now_s) != self._second:
            omitted = max(0, self._refusals_count - REFUSALS_MAX)
            self._second, self._refusals_count = int(now_s), 0
        if not is_permitted:
            self._refusals_count += 1
            if self._refusals_count > REFUSALS_MAX:
                return
        line: dict[str, Any] = {
            "at": now_s, "who": principal, "did": f"{kind} {name}".strip()[:_TEXT_MAX], "thing": id[:_TEXT_MAX],
            "permitted": is_permitted,
        }  # fmt: skip
        self._append(line | ({"refusals_omitted": omitted} if omitted else {}))

    def changed(self, now_s: float, principal: str, did: str, subject: Any) -> None:
        """The permissions were changed: `did` is "share", "revoke" or "claim groups"; `subject`: permission, link or groups."""
        self._append({"at": now_s, "who": principal, "did": did, "subject": subject})

    def _append(self, line: dict[str, Any]) -> None:
        try:
            fd = self._open()
            os.write(fd, _encode(line) + b"\n")
            if os.fstat(fd).st_size >= FILE_BYTES_MAX:
                with contextlib.suppress(FileNotFoundError):  # another process has just renamed it
                    if os.stat(self.path).st_ino == os.fstat(fd).st_ino:
                        os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
                self.close()
            self._is_reported = False
        except OSError as error:
            if not self._is_reported:  # not for every call, while the disk is full
                self._is_reported = True
                log.error("audit log %s: %s: calls are not written down", self.path, error.strerror)

    def _open(self) -> int:
        """The file; a new one, where another process has renamed it."""
        if self._fd >= 0 and os.fstat(self._fd).st_size >= FILE_BYTES_MAX:
            self.close()
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, 0o600)
        return self._fd

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
