"""Problems: maps errors of calls to HTTP problem details (RFC 9457)."""

from __future__ import annotations

import math
from typing import Any, Final

from appbackplane.transport.errors import BackplaneError, Status

#: The HTTP status of each status of a call. 499 is nginx's code for a client that has closed its connection.
HTTP_STATUS: Final = {
    Status.INVALID_ARGUMENT: 400,
    Status.PERMISSION_DENIED: 403,
    Status.NOT_FOUND: 404,
    Status.FAILED_PRECONDITION: 409,
    Status.CANCELLED: 499,
    Status.INTERNAL: 500,
    Status.PEER_DOWN: 502,
    Status.RESOURCE_EXHAUSTED: 503,
    Status.UNAVAILABLE: 503,
    Status.DEADLINE_EXCEEDED: 504,
}
#: Seconds after which a caller may try again, where the error does not say.
RETRY_AFTER_S: Final = 1


def problem_of(error: BackplaneError) -> tuple[int, dict[str, Any], dict[str, str]]:
    """The HTTP status, the problem's members, and further headers of an error.

    `Retry-After` counts whole seconds, so it is rounded up; the member `retry_after` is exact.
    """
    status = HTTP_STATUS.get(error.status, 500)
    headers: dict[str, str] = {}
    name = error.status.name
    more: dict[str, Any] = {"type": f"urn:appbackplane:{name.lower()}", "title": name.replace("_", " ").capitalize()}
    if error.retry_after is not None:
        more["retry_after"] = error.retry_after
    if status == 503:
        headers["Retry-After"] = str(math.ceil(error.retry_after) if error.retry_after else RETRY_AFTER_S)
    return status, problem(status, error.message, **more), headers


def problem(status: int, detail: str, **members: Any) -> dict[str, Any]:
    """The members of a problem. Without a `type` its status alone classifies it (RFC 9457, section 4.2.1)."""
    return {"type": "about:blank", "status": status, "detail": detail} | members
