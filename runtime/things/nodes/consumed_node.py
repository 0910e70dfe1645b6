"""Consumed node: another node as a gateway sees it: its things, and the permissions by which it decides about its users.

The gateway shows to each user what the node's own permissions let them see. The node decides about each call again. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...permissions.permission_file import GuestLink, Permissions
from ...permissions.table import LINK, PermissionTable
from ..catalogue import CatalogueEntry
from .news import ExposedListing, KnownNews, NodeNews, NodePermissions

#: Begins the ids of things that were added without a URI of their own; several nodes may have the same.
_OWN: Final = "urn:appbackplane:"


class ConsumedNode:
    """One other node."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: What is known of it.
        self.known = KnownNews()
        self.things: tuple[CatalogueEntry, ...] = ()
        #: Why it cannot be reached; "": it can be.
        self.problem = "it has not answered yet"
        self.is_limited = True
        self.contents, self._operators = Permissions(), frozenset[str]()
        self._table = PermissionTable()
        #: Counts the changes of its permissions that were seen.
        self.permissions_count = 0

    def take(self, news: NodeNews) -> tuple[bool, Sequence[dict[str, Any]]]:
        """Take news: whether other things are known with them, and the notifications, of things as they are called here."""
        self.known, self.problem, self.is_limited = news.known, "", news.is_limited
        if news.permissions is not None:
            self._take_permissions(news.permissions)
        if news.listing is not None:
            self.things = tuple(self._entries(news.listing))
        return news.listing is not None, self.messages_here(news.messages)

    def messages_here(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Notifications of the node's things, as they are called here."""
        return [each | {"thing": self.id_here(each["thing"])} for each in messages]

    def permits(self, principal: str, entry: CatalogueEntry, kind: str, name: str, now_s: float) -> bool:
        """Whether the node lets a user use an affordance; without a `kind`: any of the thing."""
        if self.is_operator(principal):
            return True
        principal = self.principal_there(principal)
        return self._table.decide(principal, entry.home_id, entry.types, kind, name, now_s).until_s > now_s

    def is_operator(self, principal: str) -> bool:
        """Whether a user may do everything there."""
        return not self.is_limited or principal in self._operators

    def id_here(self, id: str) -> str:
        """The id by which a thing of the node is known here."""
        return f"{_OWN}{self.name}/{id.removeprefix(_OWN)}" if id.startswith(_OWN) else id

    def link_of(self, digest: str, now_s: float) -> GuestLink | None:
        """The node's guest link whose token has this digest. Its holder is `link:ID@NODE` here, and so nobody that this node,
        or a third one, knows.
        """
        found = self.contents.link_of(digest, now_s)
        return None if found is None else GuestLink(f"{found.id}@{self.name}", found.digest, found.until, found.by)

    def principal_there(self, principal: str) -> str:
        """The principal for which the node is asked. Holders of other links are nobody there: `link:ID@` is none."""
        if not principal.startswith(LINK):
            return principal
        known = principal.removesuffix(f"@{self.name}")
        return known if known != principal else f"{principal}@"

    def has_given(self, id: str) -> bool:
        """Whether the node has a permission or a link of this id."""
        return self.contents.has(id)

    def _take_permissions(self, said: NodePermissions) -> None:
        self.contents, self._operators = said.contents, frozenset(said.operators)
        self._table = said.contents.table(said.operators)
        self.permissions_count += 1

    def _entries(self, listing: ExposedListing) -> list[CatalogueEntry]:
        found = []
        for each in listing.things:
            model = listing.models[each.model]
            types = tuple(kind for kind in model.get("@type", ()) if kind != "tm:ThingModel")
            found.append(
                CatalogueEntry(
                    self.id_here(each.id), "", None, "", 0, each.process, types, model, dict.fromkeys(each.writable, ""),
                    is_cached=each.is_cached, place=each.place, node=self.name, home_id=each.id,
                )
            )  # fmt: skip
        return found
