"""Log settings: `log = {...}` of [system], with sizes as people write them. Pure.

A system has one log, for all of its backplanes and the supervisor, in rotated files. The cost is bounded: `files` times
`file_size` on the disk, and a `ring` of memory a backplane.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB)")
#: More than any bound of a size: what is larger is refused by that.
_SIZE_MAX = 1 << 62
#: A smaller file holds a few long lines, and rotation costs more than writing; a larger one cannot be read in a moment.
FILE_BYTES_MIN, FILE_BYTES_MAX = 65_536, 1 << 30
#: Bounds of log_ring.py, which a pure module may not import; a test keeps them equal.
RING_BYTES_MIN, RING_BYTES_MAX = 131_072, 1 << 30


class Size(int):
    """Bytes; in the TOML "16MiB", "500KB" or a number of bytes."""


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[system] log = {...}: level, files and ring sizes of the log."""

    #: Level of the root logger in every backplane; --debug makes it DEBUG.
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    #: The folder; None: see folder.py.
    dir: str | None = None
    #: A file of this size is followed by the next.
    file_size: Size = Size(16 << 20)
    #: Files kept, with the one being written: together a week of a chatty system, and no disk is filled.
    files: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    #: Unread lines of a backplane: five thousand of them, a tenth of a second of the worst flood.
    ring: Size = Size(1 << 20)
    #: Behaviour of a log call while the ring is full: lose the line, which is counted, or wait until there is room.
    when_full: Literal["lose", "wait"] = "lose"


def size_bytes(value: Any) -> int:
    """Bytes of "16MiB" or of a whole number. Raises ValueError with the expected form."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = float(match[1]) * _UNITS[match[2]]
        return round(min(size, _SIZE_MAX))  # 400 digits are infinite
    raise ValueError('Expected a size above 0: "16MiB", "500KB" or a number of bytes')


def in_words(size: int) -> str:
    """`size` as a person would write it, as in "16MiB"."""
    for unit in ("GiB", "MiB", "KiB"):
        if size >= _UNITS[unit] and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return f"{size}B"


def problems(settings: LogSettings) -> list[tuple[str, str]]:
    """(key, problem) of each invalid value."""
    found = []
    bounds = (("file_size", FILE_BYTES_MIN, FILE_BYTES_MAX), ("ring", RING_BYTES_MIN, RING_BYTES_MAX))
    for key, least, most in bounds:
        if not least <= (value := getattr(settings, key)) <= most:
            found.append((key, f"expected {in_words(least)} to {in_words(most)}, got {in_words(value)}"))
    if settings.dir is not None and (not settings.dir or "\0" in settings.dir):
        found.append(("dir", f"expected a path, got {settings.dir!r}"))
    elif settings.dir is not None:
        try:
            Path(settings.dir).expanduser()
        except RuntimeError:  # raised by pathlib
            found.append(("dir", f"no home folder of {settings.dir.partition('/')[0]!r}"))
    return found
