"""Directory API: the requests for Thing Descriptions, those of this system's things and registered ones (W3C WoT Discovery).

Both stand in one list by id. Things of this system are read only here: their descriptions are derived. Before a user lists,
finds or is told of a description, `describe` decides about a thing of this system, and `visible` about a registered one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport.errors import BackplaneError, InvalidArgument, PermissionDenied

from ..catalogue import CatalogueEntry
from ..description import Description
from ..directory.attribute_search import search_of
from ..directory.jsonpath_search import found_by
from ..directory.merge_patch import merged
from ..directory.registered_things import (
    DISCOVERY_CONTEXT,
    Change,
    DirectoryFull,
    RegisteredThing,
    enriched,
)
from ..directory.registration_file import RegistrationFile
from ..directory.rfc3339 import text_of
from ..directory.validation import DEPTH_MAX, Fault, faults_of, is_too_deep
from .access import Access
from .conditional import etag_of, tagged
from .directory_description import JSON_LD, MERGE_PATCH, PROBLEM, TD, WELL_KNOWN, directory_description
from .directory_events import DirectoryEvents, OwnThing, Record
from .forms import JSON, path_of
from .mirror import Mirror, pause, unknown_thing
from .parsing import NOTHING, json_of, natural_of
from .problems import problem
from .thing_page import PAGE_HEADERS, page_of, wants_page

#: Descriptions in one answer, unless the client asks for fewer.
PAGE_MAX: Final = 1_000
#: Largest description, bytes: a description with a hundred properties has 50 KB.
TD_BYTES_MAX: Final = 256 << 10
#: Seconds between two looks for things that have come or gone, and for registrations that have expired.
LOOK_S: Final = 0.25
#: Seconds between two listings of all things while somebody subscribes to their coming and going.
LIST_S: Final = 2.0
#: Descriptions that are made in one go; then other requests have their turn.
BATCH: Final = 50
#: Searches by JSONPath that run or wait. Each takes a thread for up to some seconds, so they run one by one.
SEARCHES_MAX: Final = 16

_TD_TYPES: Final = (TD, JSON, JSON_LD)
_NO_STORE: Final = {hdrs.CACHE_CONTROL: "private, no-store"}  # each description has a queue of its own for messages
_encode = msgspec.json.encode
log = logging.getLogger(__name__)

#: What a user sees of a description; None: the user must not learn of it.
Visible = Callable[[str, Description], Description | None]


def everything(principal: str, description: Description) -> Description | None:
    """Each user sees all."""
    return description


class DirectoryApi:
    """The directory of one gateway. Used by one event loop."""

    def __init__(
        self,
        mirror: Mirror,
        file: RegistrationFile,
        epoch: str,
        *,
        unix_ns: Callable[[], int],
        base_of: Callable[[web.Request], str],
        describe: Callable[[web.Request, CatalogueEntry, str], Description | None],
        security: str,
        visible: Visible = everything,
        may_register: Callable[[str], bool] = lambda principal: True,
        access: Access | None = None,
    ) -> None:
        """`unix_ns`: the clock. `base_of`: the gateway's address, as the client knows it. `describe`: makes the description of
        a thing of this system with a queue for long polling, or None if the user must not learn of it. `epoch` names the
        gateway's process in ids of events and queues. `may_register`: whether a user may change the directory. `access`: the
        permissions; None: every user may use all.
        """
        self._access = Access(None, lambda: 0.0) if access is None else access
        self._mirror, self._file, self._unix_ns = mirror, file, unix_ns
        self._base_of, self._describe_own, self._security, self._visible = base_of, describe, security, visible
        self._may_register = may_register
        self._registrations = file.things
        self._events = DirectoryEvents(epoch, self._description, self._access)
        self._own: dict[str, OwnThing] = {}
        #: The listing that `_own` was made of. What the first one has is not announced.
        self._seen = mirror.catalogue.things
        self._is_first = True
        self._searching = asyncio.Lock()
        self._searches = 0
        self._epoch = epoch

    def add_routes(self, application: web.Application) -> None:
        """All but those of one thing's interactions."""
        thing = "/things/{id}"
        application.add_routes(
            [
                web.get("/things", self.list_all),
                web.post("/things", self.create),
                web.get(thing, self.retrieve),
                web.put(thing, self.put),
                web.patch(thing, self.patch),
                web.delete(thing, self.delete),
                web.get("/search", self.search),
                web.get("/search/jsonpath", self.search_jsonpath),
                web.get("/search/{language:sparql|xpath}", self.search_unsupported),
                web.get("/events", self._events.open),
                web.get("/events/{kind}", self._events.open),
                web.get(WELL_KNOWN, self.describe_directory),
            ]
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Announce what comes, goes and expires, until the server stops."""
        loop = asyncio.get_running_loop()
        listed_s = loop.time()
        while not stopping.is_set():
            try:
                if self._events.has_subscribers and loop.time() - listed_s >= LIST_S:
                    listed_s = loop.time()
                    with suppress(BackplaneError):
                        await self._mirror.refresh(is_thorough=True)
                self._look()
                self._events.look_at_permissions()
            except Exception:  # the edge: a failure here would end all announcements
                log.exception("what has come and gone is not announced")
            await pause(stopping, LOOK_S)

    def close(self) -> None:
        """End all subscriptions."""
        self._events.close()

    # -- what is there ------------------------------------------------------------------------------------------------

    def _look(self) -> int:
        """Take note of what has come, gone and expired since the last look. Returns the time, Unix ns."""
        now_ns = self._unix_ns()
        for change in self._registrations.expired(now_ns):
            try:
                self._file.write(change)
            except sqlite3.Error as error:  # the disk is full: it is expired when it is read again, too
                log.warning("%s has expired, and stays in the file: %s", change.before and change.before.id, error)
            self._make(change)
        things = self._mirror.catalogue.things
        if things is not self._seen:
            self._compare(things.values(), now_ns)
            self._seen, self._is_first = things, False
        return now_ns

    def _compare(self, entries: Iterable[CatalogueEntry], now_ns: int) -> None:
        own: dict[str, OwnThing] = {}
        same: dict[tuple[int, int], bool] = {}  # things of one class share a model, so few are compared
        for entry in entries:
            before = self._own.get(entry.id)
            if before is not None:
                models = before.entry.model, entry.model
                key = id(models[0]), id(models[1])
                if key not in same:
                    same[key] = models[0] == models[1]
                if same[key] and before.entry.place == entry.place:
                    own[entry.id] = OwnThing(entry, before.created_ns, before.modified_ns)
                    continue
            own[entry.id] = OwnThing(entry, now_ns if before is None else before.created_ns, now_ns)
            if not self._is_first:
                self._events.add(before, own[entry.id])
        for gone in self._own.keys() - own.keys():
            self._events.add(self._own[gone], None)
        self._own = own

    def _apply(self, change: Change) -> None:
        """Keep a change, make it, and announce it."""
        try:
            self._file.write(change)
        except sqlite3.Error as error:
            raise web.HTTPInsufficientStorage(text=f"the registration cannot be kept: {error}") from None
        self._make(change)

    def _make(self, change: Change) -> None:
        self._registrations.apply(change)
        self._events.add(change.before, change.after)

    def _new_queue(self) -> str:
        return f"{self._epoch}.{os.urandom(8).hex()}"

    def _description(self, request: web.Request, record: Record, queue: str = "") -> Description | None:
        """What the user of a request sees of a thing; None: nothing. `queue`: that of long polling; "": a new one."""
        if isinstance(record, RegisteredThing):
            return self._visible(request["principal"], record.description())
        own = self._describe_own(request, record.entry, queue or self._new_queue())
        return None if own is None else enriched(own, record.created_ns, record.modified_ns)

    def _record(self, id: str) -> Record | None:
        return self._own.get(id) or self._registrations.by_id.get(id)

    async def _records(self) -> list[Record]:
        """All, by id."""
        await self._mirror.refresh(is_thorough=True)
        self._look()
        both: dict[str, Record] = self._registrations.by_id | self._own
        return [both[id] for id in sorted(both)]

    async def _descriptions(
        self, request: web.Request, records: Sequence[Record], queue: str = ""
    ) -> list[Description]:
        found = []
        for number, record in enumerate(records, 1):
            if (description := self._description(request, record, queue)) is not None:
                found.append(description)
            if number % BATCH == 0:
                await _turn()
        return found

    # -- reading ------------------------------------------------------------------------------------------------------

    async def list_all(self, request: web.Request) -> web.Response:
        records, queue = await self._records(), self._new_queue()
        offset, limit = _page_of(request)
        if self._visible is everything:
            page = await self._descriptions(request, records[offset : offset + limit], queue)
            return self._paged(request, page, len(records), queue, f"{self._epoch}-{self._events.last}")
        return await self._page(request, await self._descriptions(request, records, queue), queue)

    async def _page(self, request: web.Request, found: Sequence[Description], queue: str) -> web.Response:
        """The page of a list that the user sees all of. Its state tells of no change that is hidden from the user."""
        offset, limit = _page_of(request)
        if not _is_part(request, len(found)):
            return self._paged(request, found, len(found), queue, "")
        digest = blake2b(digest_size=9)
        for number, each in enumerate(found, 1):
            digest.update(_encode(each).replace(queue.encode(), b""))
            if number % BATCH == 0:
                await _turn()
        return self._paged(request, found[offset : offset + limit], len(found), queue, digest.hexdigest())

    def _paged(
        self, request: web.Request, page: Sequence[Description], total: int, queue: str, state: str
    ) -> web.Response:
        """A page of a list. `total`: the length of the whole list. `queue`: of its descriptions. `state`: of the list, so that
        a client knows whether two pages belong together.
        """
        form = request.query.get("format", "array")
        if form not in ("array", "collection"):
            raise InvalidArgument(f"format={form!r}: expected array or collection")
        offset, limit = _page_of(request)

        def link(offset: int) -> str:
            others = [(name, value) for name, value in request.query.items() if name not in ("offset", "limit")]
            return f"{request.path}?{urlencode([('offset', offset), ('limit', limit), *others])}"

        has_more = 0 < limit < total - offset
        body: Any = page
        if form == "collection":
            body = {
                "@context": DISCOVERY_CONTEXT,
                "@type": "ThingCollection",
                "total": total,
                "@id": link(offset),
                **({"next": link(offset + limit)} if has_more else {}),
                "members": page,
            }
        data = _encode(body)
        response = tagged(request, data, JSON_LD, _NO_STORE[hdrs.CACHE_CONTROL], _etag_without(queue, data))
        if has_more:
            response.headers.add(hdrs.LINK, f'<{link(offset + limit)}>; rel="next"')
        if _is_part(request, total):
            response.headers.add(hdrs.LINK, f'<{request.path}>; rel="canonical"; etag="{state}"')
        return response

    async def retrieve(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        if id not in self._registrations.by_id or id in self._mirror.catalogue.things:
            await self._mirror.thing(id, request["principal"])  # it is listed again if it is unknown, or has moved
        now_ns = self._look()
        record, queue = self._record(id), self._new_queue()
        found = None if record is None else self._description(request, record, queue)
        if found is None:
            self._access.refused(request["principal"], id, "describe", "")
            raise unknown_thing(id)
        if wants_page(request.headers.get(hdrs.ACCEPT, "")):
            page = page_of(found, f"{self._base_of(request)}{path_of(id)}")
            return web.Response(body=page, content_type="text/html", charset="utf-8", headers=_NO_STORE | PAGE_HEADERS)
        etag = _etag_without(queue, _encode(found))
        found["registration"] = found.get("registration", {}) | {"retrieved": text_of(now_ns)}
        answer = tagged(request, _encode(found), TD, _NO_STORE[hdrs.CACHE_CONTROL], etag)
        answer.headers[hdrs.VARY] = hdrs.ACCEPT
        return answer

    async def describe_directory(self, request: web.Request) -> web.Response:
        found = directory_description(self._base_of(request), security=self._security)
        return web.Response(body=_encode(found), content_type=TD, headers=_NO_STORE)

    # -- searching ----------------------------------------------------------------------------------------------------

    async def search(self, request: web.Request) -> web.Response:
        query, queue, principal = request.query, self._new_queue(), request["principal"]
        search = search_of(
            query.get("text", ""), query.get("type", ""), query.get("place", ""), query.getall("where", [])
        )
        found = [
            each
            for each in await self._descriptions(request, await self._records(), queue)
            if search.matches(each, lambda name, id=each["id"]: self._value(principal, id, name))  # type: ignore[misc]
        ]
        return await self._page(request, found, queue)

    def _value(self, principal: str, id: str, name: str) -> Any:
        """The last published value of an observable property of a thing of this system; None: it is not known to this user."""
        own = self._own.get(id)
        if own is None or not self._access.permits(principal, own.entry, "read", name):
            return None
        if own.entry.node and self._access.nodes[own.entry.node].problem:
            return None
        value = self._mirror.published(own.entry, name)
        return None if value is None else msgspec.json.decode(value)

    async def search_jsonpath(self, request: web.Request) -> web.Response:
        if self._searches >= SEARCHES_MAX:
            raise web.HTTPServiceUnavailable(text="too many searches: try again later", headers={hdrs.RETRY_AFTER: "1"})
        # A client that goes away cannot stop a thread, so its search keeps its turn until it has ended.
        searching = asyncio.create_task(self._found_by(request, request.query.get("query", "")))
        searching.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return web.Response(body=await asyncio.shield(searching), content_type=JSON, headers=_NO_STORE)

    async def _found_by(self, request: web.Request, query: str) -> bytes:
        self._searches += 1
        try:
            async with self._searching:
                descriptions = await self._descriptions(request, await self._records())
                return await asyncio.to_thread(found_by, query, descriptions)
        finally:
            self._searches -= 1

    async def search_unsupported(self, request: web.Request) -> web.Response:
        raise web.HTTPNotImplemented(text="this directory searches by /search/jsonpath and /search alone")

    # -- registering --------------------------------------------------------------------------------------------------

    async def create(self, request: web.Request) -> web.Response:
        document = await self._document_of(request, _TD_TYPES)
        if "id" in document:
            return _invalid([Fault("id", "a description with an id is registered by PUT /things/ID")])
        id = f"urn:uuid:{uuid.uuid4()}"
        return self._register(id, document) or web.Response(status=201, headers={hdrs.LOCATION: id})

    async def put(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        document = await self._document_of(request, _TD_TYPES)
        if document.get("id") != id:
            return _invalid([Fault("id", f"expected {id!r}, as in the path; without an id: POST /things")])
        before = await self._before(request)
        if before is None and id in self._registrations.by_id:
            raise web.HTTPForbidden(text=f"you may not register {id!r}")
        return self._register(id, document) or web.Response(status=201 if before is None else 204)

    async def patch(self, request: web.Request) -> web.Response:
        patch = await self._document_of(request, (MERGE_PATCH,))
        before = await self._before(request)
        if before is None:
            raise unknown_thing(request.match_info["id"])
        document = merged(before.document(), patch)
        if document.get("id") != before.id:
            return _invalid([Fault("id", f"expected {before.id!r}, as in the path: an id cannot be changed")])
        if is_too_deep(document) or len(_encode(document)) > TD_BYTES_MAX:
            raise _too_large()
        return self._register(before.id, document) or web.Response(status=204)

    async def delete(self, request: web.Request) -> web.Response:
        self._expect_registrar(request)
        before = await self._before(request)
        if before is None:
            raise unknown_thing(request.match_info["id"])
        self._apply(Change(before, None))
        return web.Response(status=204)

    def _expect_registrar(self, request: web.Request) -> None:
        """Before anything is looked up, so that the answer tells nothing of what is there."""
        if not self._may_register(request["principal"]):
            self._access.refused(request["principal"], request.match_info.get("id", ""), "register", "")
            raise PermissionDenied("only operators may register, change and delete descriptions")

    async def _document_of(self, request: web.Request, types: Sequence[str]) -> Description:
        self._expect_registrar(request)
        return await _document_of(request, types)

    async def _before(self, request: web.Request) -> RegisteredThing | None:
        """The registration in the path, if the user sees it. Raises HTTPMethodNotAllowed for a thing of this system."""
        id = request.match_info["id"]
        await self._mirror.refresh(is_thorough=False)
        self._look()
        record = self._record(id)
        seen = None if record is None else self._description(request, record)
        if isinstance(record, OwnThing):
            if seen is None:
                raise web.HTTPForbidden(text=f"you may not register {id!r}")
            raise web.HTTPMethodNotAllowed(
                request.method, [hdrs.METH_GET],
                text=f"{id!r} is a thing of this system: its description is derived from its class, and read only here",
            )  # fmt: skip
        return None if seen is None else record

    def _register(self, id: str, document: Description) -> web.Response | None:
        """Register a description. Returns the answer if it is refused."""
        now_ns = self._unix_ns()
        if faults := faults_of(document, now_ns):
            return _invalid(faults)
        try:
            self._apply(self._registrations.planned(id, document, now_ns))
        except DirectoryFull as error:
            raise web.HTTPInsufficientStorage(text=str(error)) from None
        return None


def _etag_without(queue: str, body: bytes) -> str:
    """The entity tag of descriptions, which differ by nothing else than their queues if nothing has changed."""
    return etag_of(body.replace(queue.encode(), b""))


async def _document_of(request: web.Request, types: Sequence[str]) -> Description:
    """The body, an object. Raises `InvalidArgument`, HTTPUnsupportedMediaType or HTTPRequestEntityTooLarge."""
    if hdrs.CONTENT_TYPE in request.headers and request.content_type not in types:
        raise web.HTTPUnsupportedMediaType(text=f"expected the Content-Type {' or '.join(types)}")
    if (request.content_length or 0) > TD_BYTES_MAX:
        raise _too_large()
    document = await json_of(request)
    if document is NOTHING or not isinstance(document, dict):
        raise InvalidArgument("expected a JSON object in the body")
    if is_too_deep(document) or len(await request.read()) > TD_BYTES_MAX:
        raise _too_large()
    return document


def _too_large() -> web.HTTPRequestEntityTooLarge:
    text = f"a description has at most {TD_BYTES_MAX >> 10} KiB and is nested at most {DEPTH_MAX} deep"
    return web.HTTPRequestEntityTooLarge(TD_BYTES_MAX, text=text)


def _is_part(request: web.Request, total: int) -> bool:
    """Whether the answer may be a part of a list of this length."""
    return "limit" in request.query or "offset" in request.query or total > PAGE_MAX


def _page_of(request: web.Request) -> tuple[int, int]:
    return natural_of(request, "offset", 0), min(PAGE_MAX, natural_of(request, "limit", PAGE_MAX))


def _invalid(faults: Iterable[Fault]) -> web.Response:
    """Validation errors (Discovery, section 7.2.2.4)."""
    errors = [each._asdict() for each in faults]
    first = "; ".join(f"{each['field']}: {each['description']}" for each in errors[:3])
    detail = f"the Thing Description is not valid: {first}"
    return web.Response(
        status=400,
        body=_encode(problem(400, detail, title="Bad Request", validationErrors=errors)),
        content_type=PROBLEM,
    )


async def _turn() -> None:
    """Let other requests have their turn."""
    loop = asyncio.get_running_loop()
    turn: asyncio.Future[None] = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn
