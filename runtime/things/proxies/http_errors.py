"""HTTP errors: the error of a call for a status with which a thing elsewhere answers. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Unavailable,
)

#: Seconds until the next try, where the thing does not say; and at most, whatever it says.
RETRY_AFTER_S: Final = 1.0
RETRY_AFTER_S_MAX: Final = 60.0
#: Characters of a problem's detail that are passed on.
DETAIL_MAX: Final = 300
_CALLERS: Final = {400: InvalidArgument, 404: NotFound, 413: InvalidArgument, 422: InvalidArgument}


def told_error(what: str, status: int, body: bytes, retry_after: str = "") -> BackplaneError:
    """The error for an answer that is no success. `what`: the request, such as "GET https://…". `body`: perhaps a problem."""
    said = f"{what} answers {status}" + _detail(body)
    if status in _CALLERS:
        return _CALLERS[status](said)
    if status in (401, 403):
        return Unavailable(f"{what} refuses the credentials of this system ({status})", retry_after=RETRY_AFTER_S_MAX)
    if 300 <= status < 400:
        return Unavailable(
            f"{what} redirects ({status}), and redirects are not followed", retry_after=RETRY_AFTER_S_MAX
        )
    if status in (429, 503):
        return Busy(said, retry_after=_seconds(retry_after))
    if status in (408, 504):
        return DeadlineExceeded(said)
    return FailedPrecondition(said) if 400 <= status < 500 else Unavailable(said, retry_after=_seconds(retry_after))


def _detail(body: bytes) -> str:
    try:
        detail = msgspec.json.decode(body)["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f": {detail[:DETAIL_MAX]}" if isinstance(detail, str) else ""


def _seconds(said: str) -> float:
    return min(float(said), RETRY_AFTER_S_MAX) if said.isdecimal() and len(said) < 9 else RETRY_AFTER_S
