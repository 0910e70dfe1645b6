"""Log settings: `log = {...}` of [system], with sizes as people write them. Pure.

A system has one log: what all of its backplanes and the supervisor say, in files that take turns. What it may cost is known
beforehand: `files` times `file_size` on the disk, and a `ring` of memory a backplane.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB)")
#: Below this a file holds a few long lines, and turning costs more than writing; above, nothing reads it in a moment.
FILE_BYTES_MIN, FILE_BYTES_MAX = 65_536, 1 << 30
#: Bounds of log_ring.py, which a module that touches nothing may not import; a test holds them together.
RING_BYTES_MIN, RING_BYTES_MAX = 131_072, 1 << 30


class Size(int):
    """Bytes; in the TOML "16MiB", "500KB" or a number of bytes."""


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """log = {...} of [system]."""

    #: Of the root logger in every backplane; --debug is DEBUG.
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    #: The folder; None: see folder.py.
    dir: str | None = None
    #: A file that has grown to this is followed by the next.
    file_size: Size = Size(16 << 20)
    #: So many are kept, the one that is written among them: together a week of a chatty system, and no disk is filled.
    files: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    #: What a backplane may have said that has not been read: five thousand lines, a tenth of a second of the worst flood.
    ring: Size = Size(1 << 20)
    #: What a log call does when the ring is full: lose the line, which is counted, or wait until there is room.
    when_full: Literal["lose", "wait"] = "lose"


def size_bytes(value: Any) -> int:
    """Bytes of "16MiB" or of a whole number. Raises ValueError that says what was expected."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        return round(float(match[1]) * _UNITS[match[2]])
    raise ValueError('Expected a size above 0: "16MiB", "500KB" or a number of bytes')


def in_words(size: int) -> str:
    """As a person would write it."""
    for unit in ("GiB", "MiB", "KiB"):
        if size >= _UNITS[unit] and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return f"{size}B"


def problems(settings: LogSettings) -> list[tuple[str, str]]:
    """Keys whose values do not do, and why."""
    found = []
    bounds = (("file_size", FILE_BYTES_MIN, FILE_BYTES_MAX), ("ring", RING_BYTES_MIN, RING_BYTES_MAX))
    for key, least, most in bounds:
        if not least <= (value := getattr(settings, key)) <= most:
            found.append((key, f"expected {in_words(least)} to {in_words(most)}, got {in_words(value)}"))
    if settings.dir is not None and (not settings.dir or "\0" in settings.dir):
        found.append(("dir", f"expected a path, got {settings.dir!r}"))
    return found
