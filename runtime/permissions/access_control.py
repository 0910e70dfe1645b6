"""Access control: refuses what the permissions do not allow, before a call is queued.

The principal of a request is the one on whose behalf a backplane makes it. A request without one is made by code of the system
itself, which may do everything, by a client of this host ("local"), or by another node (its source).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from appbackplane.transport.errors import PermissionDenied
from appbackplane.transport.topics import overlap

from ..process_config import PermissionPolicy
from .audit import AuditLog
from .permission_file import PermissionFile
from .table import LOCAL_USER, PERMITTED, AccessDecision, PermissionTable
from .thing_ids import NOTIFICATIONS, id_of, types_of


class TablePort(Protocol):
    """Keeps the table."""

    def table(self, now_s: float) -> PermissionTable: ...


class AuditPort(Protocol):
    """Keeps what was done and refused."""

    def called(self, now_s: float, principal: str, id: str, kind: str, name: str, *, is_permitted: bool) -> None: ...


class AccessControl:
    """Decides for one process. Each thread that asks has its own."""

    def __init__(
        self, tables: TablePort, operators: Collection[str], unix_s: Callable[[], float], audit: AuditPort | None = None
    ) -> None:
        """`operators`: principals that may do everything."""
        self._tables = tables
        self._operators = frozenset(operators)
        self._unix_s = unix_s
        self._audit = audit

    def check(
        self, component: str, key: str | None, object: Any, access: Sequence[tuple[str, str]], source: str,
        principal: str | None,
    ) -> int | None:  # fmt: skip
        """Raise `PermissionDenied` unless the caller of a request has all `access`: (kind, name of the affordance).

        `object`: the thing, None if there is none: the error reads the same. Returns the most urgent priority that the call
        may have; None: any.
        """
        caller = principal_of(source, principal)
        if caller is None:
            return None
        id, types = id_of(component, key), types_of(object)
        now_s = self._unix_s()
        most_urgent = None
        for kind, name in access:
            found = self._decide(caller, id, types, kind, name, now_s)
            is_permitted = found.until_s > now_s
            if self._audit is not None and (not is_permitted or kind in ("write", "invoke")):
                self._audit.called(now_s, caller, id, kind, name, is_permitted=is_permitted)
            if not is_permitted:
                raise denied(caller, kind, name, id)
            if found.priority is not None and (most_urgent is None or found.priority > most_urgent):
                most_urgent = found.priority
        return most_urgent

    def check_topic(self, topic: str, source: str, principal: str | None) -> None:
        """Raise `PermissionDenied` unless the caller may subscribe to a topic: that of things tells of all of them."""
        caller = principal_of(source, principal)
        if caller is not None and not self.is_operator(caller) and overlap(topic, NOTIFICATIONS):
            raise denied(caller, "observe", "", "all things")

    def permits(self, principal: str, id: str, types: tuple[str, ...], kind: str = "", name: str = "") -> bool:
        """Whether a principal may use an affordance; without `kind`: any of the thing."""
        now_s = self._unix_s()
        return self._decide(principal, id, types, kind, name, now_s).until_s > now_s

    def caller_of(self, source: str, principal: str | None) -> str | None:
        """On whose behalf a request is made, and so all that it calls in turn; None: code of this system acts for itself."""
        return principal_of(source, principal)

    def is_operator(self, principal: str) -> bool:
        return principal in self._operators

    def _decide(
        self, principal: str, id: str, types: tuple[str, ...], kind: str, name: str, now_s: float
    ) -> AccessDecision:
        if principal in self._operators:
            return PERMITTED
        return self._tables.table(now_s).decide(principal, id, types, kind, name, now_s)


def access_control_of(policy: PermissionPolicy, unix_s: Callable[[], float]) -> AccessControl:
    """The access control of one thread. `unix_s`: the Unix time in seconds."""
    return AccessControl(
        PermissionFile(policy.file, policy.operators), policy.operators, unix_s, AuditLog(policy.audit)
    )


def principal_of(source: str, principal: str | None) -> str | None:
    """On whose behalf a request is made; None: code of this system acts for itself. `source`: as in intake/sources.py."""
    if principal is not None:
        return principal
    if source.startswith("client:"):
        return LOCAL_USER
    return source if source.startswith("node:") else None


def denied(principal: str, kind: str, name: str, id: str) -> PermissionDenied:
    asked = f"{kind} {name}".strip()
    return PermissionDenied(f"{principal} may not {asked} of {id}: an owner permits it by `appbackplane things share`")
