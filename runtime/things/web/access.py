"""Access: the part of the system that the user of a request may see. Calls are checked again where the thing lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from appbackplane.transport.errors import BackplaneError, NotFound

from ...permissions.access_control import AccessControl, denied
from ...permissions.audit import AuditLog
from ...permissions.permission_file import GuestLink, PermissionFile, Permissions
from ...process_config import PermissionPolicy
from ..catalogue import CatalogueEntry
from ..nodes.consumed_node import ConsumedNode
from .history import History

#: The kinds of access to each group of affordances.
KINDS_OF: Final = {"properties": ("read", "write", "observe"), "actions": ("invoke",), "events": ("observe",)}


class Access:
    """The permissions, as one gateway sees them. Without a policy every user may use all."""

    def __init__(
        self,
        policy: PermissionPolicy | None,
        unix_s: Callable[[], float],
        nodes: Mapping[str, ConsumedNode] = MappingProxyType({}),
    ) -> None:
        """`nodes`: other nodes, by name, which decide about their own things."""
        self.policy = policy
        self.nodes = nodes
        self.unix_s = unix_s
        self._file = None if policy is None else PermissionFile(policy.file, policy.operators)
        self._control: AccessControl | None = None
        self.audit: AuditLog | None = None
        if policy is not None and self._file is not None:
            self.audit = AuditLog(policy.audit)
            self._control = AccessControl(self._file, policy.operators, unix_s, self.audit)

    def close(self) -> None:
        """Close the audit log."""
        if self.audit is not None:
            self.audit.close()

    @property
    def file(self) -> Path | None:
        """The file of permissions."""
        return None if self._file is None else self._file.path

    def groups_of(self, principal: str) -> list[str]:
        """The groups that a user is in now, by the operator or by claim, sorted."""
        return [] if self._file is None else self._file.table(self.unix_s()).groups_of(principal, self.unix_s())

    @property
    def is_limited(self) -> bool:
        """Whether users may need permissions."""
        return self._control is not None or bool(self.nodes)

    @property
    def version(self) -> int:
        """Another number after each change of the permissions, those of other nodes included."""
        version = sum(each.permissions_count for each in self.nodes.values())
        if self._file is not None:
            self._file.table(self.unix_s())
            version += self._file.version
        return version

    def floor_of(self, principal: str, history: History) -> int:
        """The number of the newest message that a user must not get by continuing: they may not have had the permission then.

        For all but operators it is the last one before the permissions were seen to change. Whoever keeps a history asks
        from time to time, or more messages than need be count as old.
        """
        version = self.version
        if history.permissions_version != version:
            history.permissions_version, history.floor = version, history.last
        may_use_all = self.is_operator(principal) and all(each.is_operator(principal) for each in self.nodes.values())
        return 0 if may_use_all else history.floor

    def look_again(self) -> None:
        """The file has just been changed here: do not wait for the next look at it."""
        if self._file is not None:
            self._file.look_again()

    def contents(self) -> Permissions | None:
        """All permissions; None: every user may use all."""
        if self._file is None:
            return None
        self._file.table(self.unix_s())
        return self._file.contents

    def link_of(self, digest: str) -> GuestLink | None:
        """The guest link whose token has this SHA-256, in hexadecimal digits."""
        now_s, contents = self.unix_s(), self.contents()
        found = None if contents is None else contents.link_of(digest, now_s)
        if found is None:
            links = (each.link_of(digest, now_s) for each in self.nodes.values())
            found = next((link for link in links if link is not None), None)
        return found

    def is_operator(self, principal: str) -> bool:
        """Whether a user may do everything."""
        return self._control is None or self._control.is_operator(principal)

    def permits(self, principal: str, entry: CatalogueEntry, kind: str = "", name: str = "") -> bool:
        """Whether a user may use an affordance; without a `kind`: any of the thing, and so may know of it."""
        if entry.node:
            return self.nodes[entry.node].permits(principal, entry, kind, name, self.unix_s())
        return self._control is None or self._control.permits(principal, entry.id, entry.types, kind, name)

    def permits_id(self, principal: str, id: str, types: tuple[str, ...]) -> bool:
        """Whether a user may know of a thing that lives elsewhere, by its id and semantic types."""
        return self._control is None or self._control.permits(principal, id, types, "", "")

    def refused(self, principal: str, id: str, kind: str, name: str) -> None:
        """Write a refusal by this gateway into the audit log.

        A user who is no operator gets a line for an unknown id as well: else the time of the answer would tell which exist.
        """
        if self.audit is not None and not self.is_operator(principal):
            self.audit.called(self.unix_s(), principal, id, kind, name, is_permitted=False)

    def refusal(self, principal: str, entry: CatalogueEntry, group: str, kind: str, name: str) -> BackplaneError | None:
        """The error for a user who may not use an affordance, which the audit log gets, too; None: he may.

        An affordance that he may not use in any way does not exist for him. `group`: "properties", "actions" or "events".
        """
        is_known = name in entry.model.get(group, {})
        if is_known and self.permits(principal, entry, kind, name):
            return None
        self.refused(principal, entry.id, kind, name)
        if is_known and any(self.permits(principal, entry, other, name) for other in KINDS_OF[group]):
            return denied(principal, kind, name, entry.id)
        return NotFound(f"{entry.id} has no {name!r} in its {group}")
