"""The rule of permissions, read literally and slowly: a reference for tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from appbackplane.runtime.permissions.table import GROUP, Permission

#: A cap that is none.
FREE = -1


def may(
    all: Collection[Permission],
    groups: Mapping[str, Collection[str]],
    who: str,
    id: str,
    types: Collection[str],
    kind: str,
    name: str,
    now: float,
    operators: Collection[str] = (),
) -> tuple[bool, int | None]:
    """Whether somebody may use an affordance, and how urgently. An empty kind: anything of the thing."""

    def cap_of(who: str, kind: str, name: str, behind: frozenset[str]) -> int | None:
        """The cap of somebody's access, by any way that uses no permission twice; None: there is no such way."""
        caps: list[int] = []
        for each in all:
            is_his = each.who == who or (
                each.who.startswith(GROUP) and who in groups.get(each.who.removeprefix(GROUP), [])
            )
            is_in_time = each.until is None or now < each.until
            is_of_thing = any(fnmatchcase(id, pattern) for pattern in each.things) or bool(set(types) & set(each.types))
            is_of_kind = any(one in (kind, f"{kind}:{name}") for one in each.access)
            if not (is_his and is_in_time and is_of_thing and is_of_kind) or each.id in behind:
                continue
            own = FREE if each.priority is None else each.priority
            if each.by in ("", *operators):
                caps.append(own)
            elif cap_of(each.by, "share", "", behind | {each.id}) is not None:
                givers = cap_of(each.by, kind, name, behind | {each.id})
                if givers is not None:
                    caps.append(max(own, givers))
        return min(caps, default=None)

    if kind:
        cap = cap_of(who, kind, name, frozenset())
    else:
        asked = {(one.partition(":")[0], one.partition(":")[2]) for each in all for one in each.access}
        caps = [cap for kind, name in asked if (cap := cap_of(who, kind, name, frozenset())) is not None]
        cap = min(caps, default=None)
    return cap is not None, None if cap in (None, FREE) else cap
