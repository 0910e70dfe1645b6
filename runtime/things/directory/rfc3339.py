"""RFC 3339: times in descriptions, such as "2026-02-01T10:00:00.123Z"."""

from __future__ import annotations

import datetime
import re
from typing import Final

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def text_of(unix_ns: int) -> str:
    """The time in UTC, to the millisecond."""
    moment = _EPOCH + datetime.timedelta(microseconds=unix_ns // 1_000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix_ns_of(text: str) -> int:
    """Unix time in ns, to the microsecond. Raises ValueError for text that is no date-time."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no date-time of RFC 3339")
    fraction = found[1] or ""
    moment = datetime.datetime.fromisoformat(
        text.upper().replace(fraction, fraction[:7].ljust(7, "0") if fraction else "")
    )
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1) * 1_000
