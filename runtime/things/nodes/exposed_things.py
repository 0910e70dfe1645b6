"""Exposed things: the component by which the things of this node are served by the gateways of other nodes.

A user's request is called on here under the principal that the other node names, if `[permissions] nodes` trusts it to
(runtime/peers/inward.py), so admission decides about it in the thing's own process. News are told by long polling.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from itertools import islice
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec

from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    FailedPrecondition,
    NotFound,
    PermissionDenied,
    error_from,
)

from ...execution.workers.replies import Replies
from ...execution.workers.user_functions import current
from ...objects.app_object import AppObject
from ...objects.component import Component
from ...objects.operation import every, operation, subscribe
from ...permissions.audit import AuditLog
from ...permissions.permission_file import GuestLink, PermissionFile
from ...permissions.sharing_requests import SharingRequest, give, take_back
from ...permissions.thing_ids import NOTIFICATIONS
from ...process_config import PermissionPolicy
from ..catalogue import Catalogue, CatalogueEntry, things_route
from ..property_cache import PropertyCache
from .news import (
    ANSWER_BYTES_MAX,
    ANSWER_MESSAGES_MAX,
    ExposedListing,
    KnownNews,
    NewsFeed,
    NodeNews,
    NodePermissions,
    PublishedValues,
    property_message,
)

#: Seconds between two looks at the routing table and the file of permissions: a revocation holds at other nodes 0.1 s, one look
#: and half a second later (permission_file.LOOK_AGAIN_S, streams.REVOKE_S).
LOOK_EVERY_S: Final = 0.25
#: Looks between two listings of all things, as things come and go while their backplanes stay.
LOOKS_PER_LISTING: Final = 20
#: Looks without a gateway that asks for news, after which nothing is listed any more: half a minute.
LOOKS_IDLE_MAX: Final = 120
#: Seconds that a backplane has to list its things.
LIST_S: Final = 5.0
#: Seconds that a gateway waits for news. A node that is gone is noticed by its heartbeats, and not by this.
NEWS_S: Final = 10.0
#: Gateways that wait for news at a time: one for each of 64 nodes, and as many that have just been killed.
READERS_MAX: Final = 128


class ExposedThings(Component):
    """Add it to any one backplane: `components = ["appbackplane.runtime.things.nodes:ExposedThings"]`."""

    component_name = "exposed"

    def setup(self) -> None:
        self._exposure = Exposure()
        self.add(self._exposure)

    def on_initializing(self) -> None:
        """Know where the permissions are."""
        self._exposure.open(self._platform.permissions)

    def on_down(self) -> None:
        """Let waiting gateways ask again, elsewhere or later."""
        self._exposure.close()


class Exposure(AppObject):
    """Answers the gateways of other nodes."""

    interleaves = True

    def __init__(self) -> None:
        #: Names this process in what gateways know.
        self._epoch = os.urandom(8).hex()
        self._catalogue = Catalogue()
        self._listing, self._listing_number = ExposedListing(), 0
        self._feed = NewsFeed()
        #: For searches at gateways: reads of these things are calls.
        self._values = PropertyCache()
        self._lost_count = 0
        self._readers = Replies(self)
        self._readers_count = 0
        self._looks_count = 0
        #: Looks since a gateway has asked for news.
        self._idle_looks_count = 0
        self._directory: Directory | None = None
        self._policy: PermissionPolicy | None = None
        self._file: PermissionFile | None = None
        self._audit: AuditLog | None = None
        self._permissions_number = 0

    def open(self, policy: PermissionPolicy | None) -> None:
        """`policy`: where the permissions are; None: every user may use all things."""
        self._policy = policy
        if policy is not None:
            self._file = PermissionFile(policy.file, policy.operators)
            self._audit = AuditLog(policy.audit)

    def close(self) -> None:
        self._wake()
        if self._audit is not None:
            self._audit.close()

    # -- what is told -------------------------------------------------------------------------------------------------

    @operation(export=True, idempotent=True, priority=2)
    async def news(self, known: KnownNews) -> NodeNews:
        """The news behind what a gateway knows, as soon as there are any; without any in `NEWS_S`, an empty answer.

        Raises `PermissionDenied` for callers that may not speak for users.
        """
        self._expect_trusted()
        self._idle_looks_count = 0
        if not self._listing_number:
            raise Busy("the things of this node are being listed", retry_after=LOOK_EVERY_S)
        found = self._news_after(known)
        if found.known == known:
            if len(self._readers) >= READERS_MAX:
                raise Busy(f"{READERS_MAX} gateways wait for news already, the maximum", retry_after=1.0)
            self._readers_count += 1
            try:
                await self._readers.wait(self._readers_count, timeout=NEWS_S)
            except DeadlineExceeded:
                return found
            found = self._news_after(known)
        return found

    def _news_after(self, known: KnownNews) -> NodeNews:
        is_new = known.epoch != self._epoch
        messages, number, is_gap = self._feed.after(self._feed.last if is_new else known.number)
        now = KnownNews(self._epoch, number, self._listing_number, self._permissions_number)
        has_listing = is_new or known.listing != now.listing
        has_permissions = is_new or known.permissions != now.permissions
        return NodeNews(
            now, messages, is_new or is_gap,
            listing=self._listing if has_listing else None,
            is_limited=self._file is not None,
            permissions=self._permissions() if has_permissions else None,
        )  # fmt: skip

    def _permissions(self) -> NodePermissions | None:
        policy = self._policy
        if policy is None or self._file is None:
            return None
        return NodePermissions(self._file.contents, policy.operators)

    @operation(export=True, idempotent=True, priority=4)
    def values(self, after: str = "") -> PublishedValues:
        """The last published values of the things whose ids follow `after`, by id, as many as an answer has room for.

        Raises `PermissionDenied` as `news` does.
        """
        self._expect_trusted()
        things, found, size = self._listing.things, list[dict[str, Any]](), 0
        for each in islice(things, bisect_right(things, after, key=attrgetter("id")), None):
            for name in self._listing.models[each.model].get("properties", {}):
                value = self._values.get(each.id, name, each.process)
                if value is not None:
                    size += len(value)
                    found.append(property_message(each.id, each.process, name, msgspec.json.decode(value)))
            if size >= ANSWER_BYTES_MAX or len(found) >= ANSWER_MESSAGES_MAX:
                return PublishedValues(tuple(found), each.id)
        return PublishedValues(tuple(found))

    @subscribe(NOTIFICATIONS, priority=2)
    def hear(self, thing: str, process: str, kind: str, name: str, data: Any, is_known: bool) -> None:
        """A thing has told something (thing_ids.NOTIFICATIONS)."""
        self._feed.add(
            {"thing": thing, "process": process, "kind": kind, "name": name, "data": data, "is_known": is_known}
        )
        if kind == "property" and is_known:
            self._values.put(thing, name, process, msgspec.json.encode(data))
        elif kind == "property":
            self._values.drop(thing, name)
        self._wake()

    @every(LOOK_EVERY_S, priority=2)
    async def look(self) -> None:
        """List the things of backplanes that have started, and sometimes of all; and look at the permissions."""
        self._idle_looks_count += 1
        if self._idle_looks_count > LOOKS_IDLE_MAX and not len(self._readers):
            return
        is_changed = await self._list_things()
        if self._platform.topics_lost_count != self._lost_count:
            self._lost_count = self._platform.topics_lost_count
            self._feed.lose()
            self._values.clear()
            is_changed = True
        self._ask_for_values()
        if self._file is not None:
            self._file.table(self._now_s())
            if self._file.version != self._permissions_number:
                self._permissions_number = self._file.version
                is_changed = True
        if is_changed:
            self._wake()

    async def _list_things(self) -> bool:
        """Ask the backplanes for their things; whether there are others than before."""
        directory = self._platform.directory
        asked = self._catalogue.to_ask(directory, is_thorough=self._looks_count % LOOKS_PER_LISTING == 0)
        self._looks_count += 1
        if not asked and directory is self._directory:
            return False
        self._directory = directory
        answers: list[Any] = []
        for place in asked:
            try:
                answers.append(await self.call(things_route(place), timeout=LIST_S))
            except BackplaneError as error:
                answers.append(error)
        self._catalogue.take(directory, asked, answers)
        listing = ExposedListing.of(self._catalogue.things[id] for id in sorted(self._catalogue.things))
        if listing == self._listing and self._listing_number:
            return False
        self._listing, self._listing_number = listing, self._listing_number + 1
        return True

    def _ask_for_values(self) -> None:
        """Have new things publish their observable properties."""
        for each in self._catalogue.things.values():
            if each.is_observable and each.is_cached and self._values.is_to_ask(each.id, each.process):
                try:
                    self.cast(f"{each.component}.notify_all", key=each.key)
                except BackplaneError:  # it is asked again at the next look
                    self._values.ask_again(each.id, each.process)

    def _wake(self) -> None:
        for reader in self._readers:
            self._readers.put(reader)

    # -- what is done -------------------------------------------------------------------------------------------------

    @operation(export=True)
    async def use(
        self, thing: str, kind: Literal["read", "write", "invoke"], name: str, arguments: dict[str, Any]
    ) -> Any:
        """Read or write a property, or invoke an action, on behalf of the user for whom the other node calls.

        Raises `NotFound`, and as the thing does.
        """
        self._expect_trusted()
        entry = self._catalogue.things.get(thing)
        operation = None if entry is None else _operation_of(entry, kind, name)
        if entry is None or operation is None:
            raise NotFound(f"{thing} has nothing to {kind} that is called {name!r}")
        try:
            return await self.request(f"{entry.component}.{operation}", arguments, key=entry.key)
        except BackplaneError as error:  # raised anew it reaches the caller as it is (execution/actions/failures.py)
            raise error_from(error.status, error.message, error.retry_after) from None

    @operation(export=True)
    def share(self, request: SharingRequest, id: str, digest: str | None = None) -> dict[str, Any]:
        """Give a permission for things of this node, on behalf of a user (permissions/sharing_requests.py): the permission.

        `digest`: that of a guest link's token, which its `id` names. Raises as `shared` does.
        """
        policy, principal = self._expect_sharing()
        link = None if digest is None else GuestLink(id=id, digest=digest, by=principal)
        given = give(policy, request, principal, id, link, self._types(), self._now_s(), self._audit)
        self._has_shared()
        return given

    @operation(export=True)
    def revoke(self, id: str) -> None:
        """End a permission or link, on behalf of the user who has given it. Raises `NotFound`."""
        policy, principal = self._expect_sharing()
        take_back(policy, id, principal, self._types(), self._now_s(), self._audit)
        self._has_shared()

    def _has_shared(self) -> None:
        """Tell it now: the gateway that has asked shows it."""
        if self._file is not None:
            self._file.look_again()
            self._file.table(self._now_s())
            self._permissions_number = self._file.version
            self._wake()

    def _types(self) -> dict[str, tuple[str, ...]]:
        return {id: each.types for id, each in self._catalogue.things.items()}

    def _now_s(self) -> float:
        return self._platform.unix_ns() / 1e9

    def _expect_sharing(self) -> Any:
        self._expect_trusted()
        policy, principal = self._policy, current().principal
        if policy is None:
            raise FailedPrecondition("this node has no permissions: everybody who is let in may use all things")
        return policy, principal

    def _expect_trusted(self) -> None:
        """Raise `PermissionDenied` for a caller that is no node, or that may not say on whose behalf it calls."""
        source, policy = current().source, self._policy
        name = source.removeprefix("node:").partition("/")[0] if source.startswith("node:") else ""
        if not name:
            raise PermissionDenied("the exposed things are for the gateways of other nodes: call the things themselves")
        if policy is not None and name not in policy.nodes:
            raise PermissionDenied(
                f"node {name!r} may not speak for its users here: add it to nodes = [...] of [permissions] in this node's TOML"
            )


def _operation_of(entry: CatalogueEntry, kind: str, name: str) -> str | None:
    """The operation of the thing's component; None: it has no such affordance."""
    if kind == "write":
        return entry.setters.get(name)
    return name if name in entry.model.get("properties" if kind == "read" else "actions", {}) else None
