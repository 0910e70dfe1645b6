"""Sharing: the rules by which permissions are given and revoked. Pure.

Operators may permit everything. Others may hand on what they have themselves, with the access `share`: things by id, no access
that they lack, and no longer. What was handed on holds only while its giver has it (table.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, NotFound, PermissionDenied

from .permission_file import GuestLink, Permissions
from .table import LINK, Permission, PermissionTable

#: Permissions that one user who is no operator may have given: nobody else finds the file full.
GIVEN_MAX: Final = 200
#: By id of a thing: its semantic types, by which a giver may have the permission.
Types = Mapping[str, tuple[str, ...]]


def shared(
    contents: Permissions,
    permission: Permission,
    operators: Collection[str],
    types: Types,
    now_s: float,
    link: GuestLink | None = None,
) -> tuple[Permissions, Permission]:
    """The contents with one more permission, given by its `by`, and with the guest link that it is for.

    Its end and its priority are those of the giver's own permission where that has less. Raises `InvalidArgument`, and
    `PermissionDenied` if the giver may not give it.
    """
    problem = permission.problem()
    if problem is not None:
        raise InvalidArgument(problem)
    if permission.until is not None and permission.until <= now_s:
        raise InvalidArgument("it would have ended already: give a time in the future")
    if permission.who.startswith(LINK) and (link is None or link.principal != permission.who):
        raise InvalidArgument(
            f"who {permission.who!r}: a guest link has its permission from the start: make another link"
        )
    if permission.by not in operators:
        if sum(each.by == permission.by for each in contents.permissions) >= GIVEN_MAX:
            raise FailedPrecondition(f"{permission.by} has given {GIVEN_MAX} permissions: revoke some first")
        permission = _handed_on(contents.table(operators), permission, types, now_s)
    links = contents.links if link is None else (*contents.links, msgspec.structs.replace(link, until=permission.until))
    return msgspec.structs.replace(contents, permissions=(*contents.permissions, permission), links=links), permission


def revoked(
    contents: Permissions, id: str, by: str, operators: Collection[str], types: Types, now_s: float
) -> tuple[Permissions, list[Permission]]:
    """The contents without a permission or link, and the permissions that end. Raises `NotFound`: there is none of `by`."""
    ending = [
        each
        for each in contents.permissions
        if (each.id == id or each.who == f"link:{id}") and (by in operators or each.by == by)
    ]
    if not ending:
        raise NotFound(f"no permission or link {id!r} of yours: `appbackplane things shared` lists them")
    ended = {each.id for each in ending}
    left = [each for each in contents.permissions if each.id not in ended]
    table = msgspec.structs.replace(contents, permissions=tuple(left)).table(operators)
    behind = [each for each in left if not table.is_backed(each, types, now_s)]
    ended |= {each.id for each in behind}
    gone = {each.who for each in (*ending, *behind)}
    links = tuple(each for each in contents.links if each.principal not in gone)
    permissions = tuple(each for each in left if each.id not in ended)
    return msgspec.structs.replace(contents, permissions=permissions, links=links), ending + behind


def without_expired(contents: Permissions, now_s: float) -> Permissions:
    """The contents without the permissions and links that have ended."""
    return msgspec.structs.replace(
        contents,
        permissions=tuple(each for each in contents.permissions if each.until is None or each.until > now_s),
        links=tuple(each for each in contents.links if each.until is None or each.until > now_s),
    )


def _handed_on(table: PermissionTable, permission: Permission, types: Types, now_s: float) -> Permission:
    giver, until, priority = permission.by, permission.until, permission.priority
    if permission.types or any("*" in id for id in permission.things):
        raise PermissionDenied(f"{giver} may share things by their ids alone; operators by type and pattern")
    for id in permission.things:
        for each in ("share", *permission.access):
            kind, _, name = each.partition(":")
            found = table.decide(giver, id, types.get(id, ()), kind, name, now_s)
            if found.until_s <= now_s:
                raise PermissionDenied(f"{giver} may not share {each} of {id}")
            if found.until_s != float("inf"):
                until = found.until_s if until is None else min(until, found.until_s)
            if found.priority is not None:
                priority = found.priority if priority is None else max(priority, found.priority)
    return msgspec.structs.replace(permission, until=until, priority=priority)
