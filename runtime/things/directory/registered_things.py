"""Registered things: the Thing Descriptions that others have registered, with their times, until they expire.

Pure: Unix time comes in as ns, and each change goes out as a `Change`, which the caller writes to a file and announces. A
registration with a ttl expires that many seconds after it was last changed; one without lives until it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from ..description import Description
from .rfc3339 import text_of, unix_ns_of

#: RegisteredThings, and bytes of all together as JSON: they are kept in memory, where they take about five times as much.
REGISTRATIONS_MAX: Final = 10_000
BYTES_MAX: Final = 32 << 20
#: The context of `registration` and of the directory's own terms.
DISCOVERY_CONTEXT: Final = "https://www.w3.org/2022/wot/discovery"
_S: Final = 1_000_000_000
_NEVER_NS: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class RegisteredThing:
    """One description, as its producer wrote it but for the member `registration`. Times are Unix ns; `size` is in bytes."""

    id: str
    td: Mapping[str, Any]
    created_ns: int
    modified_ns: int
    ttl_s: int | float | None
    expires_ns: int | None
    size: int

    def is_expired(self, now_ns: int) -> bool:
        """Whether it counts no more."""
        return self.expires_ns is not None and self.expires_ns <= now_ns

    def document(self) -> Description:
        """What a merge patch applies to: the description with those times that its producer may set."""
        own: dict[str, Any] = {}
        if self.ttl_s is not None:
            own["ttl"] = self.ttl_s
        elif self.expires_ns is not None:
            own["expires"] = text_of(self.expires_ns)
        return {**self.td, "registration": own} if own else dict(self.td)

    def description(self) -> Description:
        """The description with its registration information."""
        times: dict[str, Any] = {}
        if self.ttl_s is not None:
            times["ttl"] = self.ttl_s
        if self.expires_ns is not None:
            times["expires"] = text_of(self.expires_ns)
        return enriched(self.td, self.created_ns, self.modified_ns, **times)


class Change(NamedTuple):
    """One change. `before` is None: it is new; `after` is None: it is gone."""

    before: RegisteredThing | None
    after: RegisteredThing | None


class DirectoryFull(Exception):
    """There is no room for another registration."""


class RegisteredThings:
    """All registrations by id. Not those of things of this system."""

    def __init__(self, kept: Iterable[RegisteredThing] = ()) -> None:
        """`kept`: those of an earlier process."""
        self.by_id = {each.id: each for each in kept}
        self._bytes = sum(each.size for each in self.by_id.values())
        #: Nothing expires before this time, so that most looks at all of them are spared.
        self._next_ns = self._first_expiry_ns()

    def planned(self, id: str, document: Mapping[str, Any], now_ns: int) -> Change:
        """The change that registers a valid description, or replaces an earlier one. Nothing is changed yet.

        Raises `DirectoryFull`.
        """
        td = {name: value for name, value in document.items() if name != "registration"} | {"id": id}
        said = document.get("registration", {})
        ttl_s = said.get("ttl")
        if ttl_s is not None:
            expires_ns: int | None = now_ns + int(ttl_s * _S)
        else:
            expires_ns = unix_ns_of(said["expires"]) if "expires" in said else None
        before = self.by_id.get(id)
        created_ns = now_ns if before is None else before.created_ns
        after = RegisteredThing(id, td, created_ns, now_ns, ttl_s, expires_ns, len(msgspec.json.encode(td)))
        if before is None and len(self.by_id) >= REGISTRATIONS_MAX:
            raise DirectoryFull(
                f"the directory has {REGISTRATIONS_MAX:,} registrations: delete some, or give them a ttl"
            )
        if self._bytes + after.size - (0 if before is None else before.size) > BYTES_MAX:
            raise DirectoryFull(f"the registrations have {BYTES_MAX >> 20} MiB: delete some, or give them a ttl")
        return Change(before, after)

    def expired(self, now_ns: int) -> list[Change]:
        """The changes that remove what has expired. Nothing is changed yet."""
        if now_ns < self._next_ns:
            return []
        self._next_ns = self._first_expiry_ns()
        return [Change(each, None) for each in self.by_id.values() if each.is_expired(now_ns)]

    def apply(self, change: Change) -> None:
        """Change it."""
        if change.before is not None:
            self._bytes -= self.by_id.pop(change.before.id).size
        if change.after is not None:
            self.by_id[change.after.id] = change.after
            self._bytes += change.after.size
            if change.after.expires_ns is not None:
                self._next_ns = min(self._next_ns, change.after.expires_ns)

    def _first_expiry_ns(self) -> int:
        return min((each.expires_ns for each in self.by_id.values() if each.expires_ns is not None), default=_NEVER_NS)


def enriched(td: Mapping[str, Any], created_ns: int, modified_ns: int, **times: Any) -> Description:
    """A description with registration information, and the context that defines it (Discovery, section 7.2.2.1.1)."""
    context = td["@context"]
    context = [context] if not isinstance(context, list) else context
    if DISCOVERY_CONTEXT not in context:
        at = sum(isinstance(each, str) for each in context[:2])
        context = [*context[:at], DISCOVERY_CONTEXT, *context[at:]]
    registration = {"created": text_of(created_ns), "modified": text_of(modified_ns), **times}
    return {**td, "@context": context, "registration": registration}
