"""Sharing requests: permissions given and revoked on behalf of users, in the file of permissions and in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from ..process_config import PermissionPolicy
from .audit import AuditLog
from .permission_file import GuestLink, Permissions, change
from .sharing import Types, revoked, shared, without_expired
from .table import Permission

Result = TypeVar("Result")


class SharingRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST. `seconds`: how long it holds; without it, until it is revoked."""

    who: str
    things: tuple[str, ...]
    access: tuple[str, ...]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=10 * 366 * 86_400)] | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None


def give(
    policy: PermissionPolicy, asked: SharingRequest, by: str, id: str, link: GuestLink | None, types: Types, now_s: float,
    audit: AuditLog | None,
) -> dict[str, Any]:  # fmt: skip
    """Give a permission under this id, and a guest link if it is for one: the permission. Raises as `sharing.shared` does.

    It waits for the lock of the file, and for the disk.
    """
    permission = Permission(
        id=id, who=asked.who if link is None else link.principal, access=asked.access, things=asked.things,
        until=None if asked.seconds is None else now_s + asked.seconds, priority=asked.priority, by=by,
    )  # fmt: skip
    given = _changed(
        policy,
        lambda contents: shared(without_expired(contents, now_s), permission, policy.operators, types, now_s, link),
    )
    told: dict[str, Any] = msgspec.to_builtins(given)
    if audit is not None:
        audit.changed(now_s, by, "share", told)
    return told


def take_back(policy: PermissionPolicy, id: str, by: str, types: Types, now_s: float, audit: AuditLog | None) -> None:
    """End a permission or a link, and all that was handed on by it. Raises `NotFound`."""
    ended = _changed(policy, lambda contents: revoked(contents, id, by, policy.operators, types, now_s))
    if audit is not None:
        for each in ended:
            audit.changed(now_s, by, "revoke", msgspec.to_builtins(each))


def _changed(policy: PermissionPolicy, function: Callable[[Permissions], tuple[Permissions, Result]]) -> Result:
    return change(Path(policy.file), function)
