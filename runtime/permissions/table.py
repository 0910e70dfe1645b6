"""Permission table: decides whether a principal may use a thing. Default: no.

A permission names a principal or a group, the things by id or by semantic type, and the kinds of access; it may end at a time.
One that was handed on by somebody who is no operator holds only while that giver has the same access, and `share`, himself: so
whatever ends for a giver, and for whatever reason, ends for all behind him. A decision costs 0.2 us where it was made before,
and some microseconds for each permission of the principal otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

import msgspec

#: Kinds of access. `read` and `write` are of properties, `invoke` of actions; `observe` is of events and of changes of
#: properties; `share` allows to hand on what one has. Each may be limited to one affordance: "invoke:flash".
KINDS: Final = ("read", "write", "invoke", "observe", "share")
#: Prefix of a permission's `who` that names a group.
GROUP: Final = "group:"
#: The principal of clients of this host that say nothing of whom they act for: programs of the user who runs the system.
LOCAL_USER: Final = "local"
#: Decisions remembered; beyond it all are forgotten. Each takes about 200 bytes.
DECISIONS_MAX: Final = 100_000
#: Most permissions, links and groups of a system: a file of some megabytes, which every backplane reads when it changes.
PERMISSIONS_MAX: Final = 10_000
#: Things or types, and kinds of access, of one permission: a decision compares with each.
THINGS_MAX: Final = 64
ACCESS_MAX: Final = 32
#: Prefix of a permission's `who` that names the holder of a guest link.
LINK: Final = "link:"

_ACCESS: Final = re.compile(rf"({'|'.join(KINDS)})(:[A-Za-z_][A-Za-z0-9._-]*)?")
#: Characters of each name in a permission.
NAME_MAX: Final = 200
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]
_RESERVED_PREFIXES: Final = ("backplane:", "client:", GROUP, LINK, "mashup:", "node:", "rule:")
#: In the place of a cap: more urgent than any.
_NO_CAP: Final = -1
_NEVER: Final = float("-inf")
_ALWAYS: Final = float("inf")


def is_reserved(user: str) -> bool:
    """Whether the name of a user would be that of a principal of another kind, such as a group or a node."""
    return user in (LOCAL_USER, "anonymous") or user.startswith(_RESERVED_PREFIXES)


def is_of_host(principal: str) -> bool:
    """Whether a principal means something on its own host alone: its clients, its processes, and the nodes that it knows."""
    return principal in ("", LOCAL_USER) or principal.startswith(("backplane:", "client:", GROUP, "node:"))


class Permission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One permission.

    who: a principal, or "group:NAME". things: ids, in which `*` stands for any text. types: semantic types, such as
    "saref:LightSwitch"; a thing of one of them is meant as well. access: kinds, each alone or with the name of one affordance.
    until: Unix time in seconds; None: until it is revoked. priority: the most urgent that calls by this permission may have.
    """

    id: _Name
    who: _Name
    access: tuple[_Name, ...]
    things: tuple[_Name, ...] = ()
    types: tuple[_Name, ...] = ()
    until: float | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    by: str = ""

    def problem(self) -> str | None:
        """What is wrong with it; None: nothing."""
        if not self.who.isprintable() or self.who in ("", GROUP, LINK) or len(self.who) > NAME_MAX:
            return f"who {self.who[:NAME_MAX]!r}: expected a user, or group:NAME, of at most {NAME_MAX} printable characters"
        bounds = (
            (self.things, THINGS_MAX, "things"),
            (self.types, THINGS_MAX, "types"),
            (self.access, ACCESS_MAX, "kinds"),
        )
        for texts, most, noun in bounds:
            if len(texts) > most:
                return f"{len(texts):,} {noun}: at most {most} in one permission"
            if any(not 0 < len(each) <= NAME_MAX for each in texts):
                return f"{noun}: expected texts of 1 to {NAME_MAX} characters"
        for each in self.access:
            if not _ACCESS.fullmatch(each):
                return f"access {each!r}: expected one of {', '.join(KINDS)}, alone or as in invoke:NAME"
        if not self.access:
            return f"it permits no access: name one of {', '.join(KINDS)}"
        if not self.things and not self.types:
            return 'it names no thing: name ids, "*" for all, or types'
        return None

    def means(self, id: str, types: Collection[str]) -> bool:
        """Whether it is about this thing."""
        return any(
            each == id or ("*" in each and _pattern(each).fullmatch(id) is not None) for each in self.things
        ) or any(each in types for each in self.types)

    def permits(self, kind: str, name: str) -> bool:
        """Whether it is about this kind of access to this affordance. An empty kind: about any."""
        return not kind or kind in self.access or f"{kind}:{name}" in self.access


class ClaimedGroups(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The groups of a signed-in user, as an OpenID provider claims them. until: Unix time in seconds at which they end. by: the
    gateway where the user is signed in.
    """

    groups: tuple[_Name, ...]
    until: float
    by: str = ""


_NO_CLAIM: Final = ClaimedGroups((), _NEVER)


@lru_cache(PERMISSIONS_MAX)
def _pattern(things: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in things.split("*")), re.DOTALL)


class AccessDecision(NamedTuple):
    """`until_s`: the Unix time at which it ends. `priority`: the most urgent that the call may have; None: any."""

    until_s: float
    priority: int | None


_DENIED: Final = AccessDecision(_NEVER, None)
PERMITTED: Final = AccessDecision(_ALWAYS, None)


class PermissionTable:
    """All permissions of a system, at one time."""

    def __init__(
        self,
        permissions: Iterable[Permission] = (),
        groups: Mapping[str, Collection[str]] | None = None,
        claimed: Mapping[str, ClaimedGroups] | None = None,
        operators: Collection[str] = (),
    ) -> None:
        """`groups`: the members of each. `claimed`: by user, the groups that the user is in beside them for a time.
        `operators`: what they have given needs nothing behind it, as what was written into the file by hand.
        """
        self._trusted = frozenset((*operators, ""))
        #: By id of a thing: what others than operators have handed on. They name things by their ids alone.
        self._handed_on: dict[str, list[Permission]] = {}
        permissions = tuple(permissions)
        for each in permissions:
            if each.by not in self._trusted:
                for id in each.things:
                    self._handed_on.setdefault(id, []).append(each)
        self._by_who: dict[str, list[Permission]] = {}
        for each in permissions:
            self._by_who.setdefault(each.who, []).append(each)
        self._groups: dict[str, list[str]] = {}
        for group, members in (groups or {}).items():
            for member in members:
                self._groups.setdefault(member, []).append(f"{GROUP}{group}")
        self._claimed = claimed or {}
        self._known: dict[tuple[str, str, str, str, tuple[str, ...]], AccessDecision] = {}

    def of(self, principal: str) -> list[Permission]:
        """The permissions of a principal and of the groups that it is in. Those of a claimed group end when the claim does."""
        found = list(self._by_who.get(principal, ()))
        for group in self._groups.get(principal, ()):
            found += self._by_who.get(group, ())
        claimed = self._claimed.get(principal, _NO_CLAIM)
        for name in claimed.groups:
            group = f"{GROUP}{name}"
            if group not in self._groups.get(principal, ()):
                found += [_ending(each, claimed.until) for each in self._by_who.get(group, ())]
        return found

    def groups_of(self, principal: str, now_s: float) -> list[str]:
        """The names of the groups that a principal is in, sorted."""
        found = {group.removeprefix(GROUP) for group in self._groups.get(principal, ())}
        claimed = self._claimed.get(principal, _NO_CLAIM)
        if claimed.until > now_s:
            found.update(claimed.groups)
        return sorted(found)

    def decide(
        self, principal: str, id: str, types: tuple[str, ...], kind: str, name: str, now_s: float
    ) -> AccessDecision:
        """Whether `principal` may use an affordance: the decision's `until_s` is later than `now_s` then.

        An empty `kind`: whether it may use anything of the thing, and so may know of it.
        """
        asked = principal, id, kind, name, types
        found = self._known.get(asked)
        if found is None or (found.until_s != _NEVER and found.until_s <= now_s):
            if len(self._known) >= DECISIONS_MAX:
                self._known.clear()
            found = self._known[asked] = self._decide(principal, id, types, kind, name, now_s)
        return found

    def is_backed(self, permission: Permission, types: Mapping[str, tuple[str, ...]], now_s: float) -> bool:
        """Whether the giver of a permission has any of it himself. `types`: of each thing, by its id."""
        if permission.by in self._trusted:
            return True
        asked = [(id, *each.partition(":")[::2]) for id in permission.things for each in permission.access]
        return any(
            permission.id in self._backed(id, types.get(id, ()), kind, name, now_s)[kind, name]
            for id, kind, name in asked
        )

    def _decide(
        self, principal: str, id: str, types: tuple[str, ...], kind: str, name: str, now_s: float
    ) -> AccessDecision:
        if not kind:
            return self._decide_any(principal, id, types, now_s)
        backed = self._backed(id, types, kind, name, now_s)
        cap = self._cap(principal, id, types, kind, name, now_s, backed[kind, name])
        if cap is None:
            return _DENIED
        # The first end of all that was looked at is the end of the decision: then it is made again, by what is left.
        behind = self._handed_on.get(id, ())
        looked_at = [*self.of(principal), *behind]
        for giver in {each.by for each in behind}:
            looked_at += self.of(giver)
        ends = [
            each.until for each in looked_at if each.until is not None and each.until > now_s and each.means(id, types)
        ]
        return AccessDecision(min(ends, default=_ALWAYS), None if cap == _NO_CAP else cap)

    def _decide_any(self, principal: str, id: str, types: tuple[str, ...], now_s: float) -> AccessDecision:
        """Whether a principal may use anything of a thing."""
        found = set[AccessDecision]()
        for each in self.of(principal):
            if each.means(id, types):
                for access in each.access:
                    kind, _, name = access.partition(":")
                    found.add(self.decide(principal, id, types, kind, name, now_s))
        found = {each for each in found if each.until_s > now_s}
        if not found:
            return _DENIED
        priorities = [each.priority for each in found]
        return AccessDecision(
            min(each.until_s for each in found),
            None if None in priorities else min(each for each in priorities if each is not None),
        )

    def _cap(
        self, principal: str, id: str, types: tuple[str, ...], kind: str, name: str, now_s: float, backed: Mapping[str, int]
    ) -> int | None:  # fmt: skip
        """The most urgent priority of a principal's calls, `_NO_CAP`: any; None: the principal has no such access."""
        caps = [
            (_NO_CAP if each.priority is None else each.priority) if each.by in self._trusted else backed[each.id]
            for each in self.of(principal)
            if (each.by in self._trusted or each.id in backed)
            and (each.until is None or each.until > now_s)
            and each.permits(kind, name)
            and each.means(id, types)
        ]
        return min(caps, default=None)

    def _backed(
        self, id: str, types: tuple[str, ...], kind: str, name: str, now_s: float
    ) -> dict[tuple[str, str], dict[str, int]]:
        """The permissions for this thing that were handed on by givers who have it: by access, the cap of each by its id.

        A least fixed point from what operators have given, so two who share with each other do not back each other.
        """
        sharing: dict[str, int] = {}
        backed = {("share", ""): sharing, (kind, name): sharing if kind == "share" else {}}
        handed_on = [each for each in self._handed_on.get(id, ()) if each.until is None or each.until > now_s]
        is_new = bool(handed_on)
        while is_new:
            is_new = False
            for each in handed_on:
                if self._cap(each.by, id, types, "share", "", now_s, sharing) is None:
                    continue
                for (asked, of), known in backed.items():
                    cap = self._cap(each.by, id, types, asked, of, now_s, known) if each.permits(asked, of) else None
                    if cap is not None:
                        cap = cap if each.priority is None else max(cap, each.priority)
                        if each.id not in known or cap < known[each.id]:
                            known[each.id] = cap
                            is_new = True
        return backed


def _ending(permission: Permission, until: float) -> Permission:
    """The permission, which ends at `until` at the latest."""
    return msgspec.structs.replace(
        permission, until=until if permission.until is None else min(until, permission.until)
    )
