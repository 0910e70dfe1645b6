"""The rule of permissions, read literally and slowly: a reference for tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from appbackplane.runtime.permissions.table import GROUP, Permission


def may(
    all: Collection[Permission],
    groups: Mapping[str, Collection[str]],
    who: str,
    id: str,
    types: Collection[str],
    kind: str,
    name: str,
    now: float,
) -> tuple[bool, int | None]:
    """Whether somebody may use an affordance, and how urgently. An empty kind: anything of the thing."""
    fitting = []
    for each in all:
        is_his = each.who == who or (each.who.startswith(GROUP) and who in groups.get(each.who.removeprefix(GROUP), []))
        is_in_time = each.until is None or now < each.until
        is_of_thing = any(fnmatchcase(id, pattern) for pattern in each.things) or bool(set(types) & set(each.types))
        is_of_kind = kind == "" or any(one in (kind, f"{kind}:{name}") for one in each.access)
        if is_his and is_in_time and is_of_thing and is_of_kind:
            fitting.append(each)
    if not fitting:
        return False, None
    caps = [each.priority for each in fitting]
    return True, None if None in caps else min(cap for cap in caps if cap is not None)
