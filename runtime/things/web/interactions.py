"""Interactions: reads and writes of properties, and actions. Each is a call, unless the last published value answers it."""

from __future__ import annotations

import asyncio
import datetime
import weakref
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport import call_checks
from appbackplane.transport.errors import BackplaneError, InvalidArgument, NotFound, UnknownRoute

from ..catalogue import CatalogueEntry
from .conditional import etag_of, is_met, tagged
from .forms import JSON, path_of
from .invocations import Invocation, Invocations
from .mirror import Mirror, asked, unreachable
from .parsing import NOTHING, from_json, json_of, priority_of, timeout_s_of
from .shared_reads import SharedReads

#: A value may have changed with the next action, so a client asks again each time.
_CACHE_CONTROL: Final = "private, no-cache"
_encode = msgspec.json.encode


class Interactions:
    """The requests for one thing."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._invocations = Invocations(_now)
        self._reads = SharedReads()
        #: Of each property that is being written under a condition: one such write at a time.
        self._conditional: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()

    def close(self) -> None:
        """Cancel the actions under way."""
        self._invocations.cancel_all()

    async def read(self, request: web.Request) -> web.Response:
        entry, name = await asked(self._mirror, request, "properties", "read")
        value = self._mirror.cached(entry, name) or await self._value(request, entry, name)
        return tagged(request, value, JSON, _CACHE_CONTROL)

    async def read_all(self, request: web.Request) -> web.Response:
        principal = request["principal"]
        entry = await self._mirror.thing(request.match_info["id"], principal, "read")
        access = self._mirror.access
        names = [name for name in entry.model.get("properties", {}) if access.permits(principal, entry, "read", name)]
        values = await asyncio.gather(*(self._value(request, entry, name) for name in names))
        body = _encode({name: msgspec.Raw(value) for name, value in zip(names, values, strict=True)})
        return tagged(request, body, JSON, _CACHE_CONTROL)

    async def _value(self, request: web.Request, entry: CatalogueEntry, name: str) -> bytes:
        cached = self._mirror.cached(entry, name)
        if cached is not None:
            return cached
        if entry.model["properties"][name].get("observable"):
            await self._mirror.ask_for_values(entry)
        priority, timeout_s = priority_of(request), timeout_s_of(request)

        async def call() -> bytes:
            return _encode(await self._call(request, entry, "read", name, {}, timeout_s=timeout_s))

        key = entry.id, entry.generation, name, request["principal"], priority, timeout_s
        return await self._reads.read(key, call)

    async def write(self, request: web.Request) -> web.Response:
        entry, name = await asked(self._mirror, request, "properties", "write")
        setter = entry.setters.get(name)
        if setter is None:
            raise web.HTTPMethodNotAllowed("PUT", ["GET"], text=f"property {name!r} is read only")
        value = await json_of(request)
        if value is NOTHING:
            raise InvalidArgument("expected the value as JSON in the body")
        condition = request.headers.get(hdrs.IF_MATCH)
        if condition is None:
            await self._write(request, entry, name, value)
            return web.Response(status=204)
        # An entity tag tells a value to those who can guess it.
        refusal = self._mirror.access.refusal(request["principal"], entry, "properties", "read", name)
        if refusal is not None:
            raise refusal
        async with self._conditional.setdefault((entry.id, name), asyncio.Lock()):
            if not is_met(condition, etag_of(await self._value(request, entry, name))):
                raise web.HTTPPreconditionFailed(text=f"property {name!r} has another value by now: read it again")
            await self._write(request, entry, name, value)
        return web.Response(status=204)

    async def write_many(self, request: web.Request) -> web.Response:
        """Write several properties, in the order of the body, each by a call of its own; the first failure ends it.

        Before the first one is written it is known that each of them exists and may be written by this user.
        """
        principal = request["principal"]
        entry = await self._mirror.thing(request.match_info["id"], principal, "write")
        if hdrs.IF_MATCH in request.headers:
            raise InvalidArgument("If-Match: a condition is for one property: PUT …/properties/NAME")
        values = await json_of(request)
        if type(values) is not dict:
            raise InvalidArgument("expected an object with the values by property as JSON in the body")
        for name in values:
            refusal = self._mirror.access.refusal(principal, entry, "properties", "write", name)
            if refusal is not None:
                raise refusal
            if name not in entry.setters:
                raise InvalidArgument(f"property {name!r} is read only: none is written")
        written: list[str] = []
        for name, value in values.items():
            try:
                await self._write(request, entry, name, value)
            except BackplaneError as error:
                done = ", ".join(written) or "none"
                message = f"property {name!r}: {error.message} (written: {done})"
                raise type(error)(message, retry_after=error.retry_after) from None
            written.append(name)
        return web.Response(status=204)

    async def _write(self, request: web.Request, entry: CatalogueEntry, name: str, value: Any) -> None:
        schemas = {"value": entry.model["properties"][name]}
        await self._call(request, entry, "write", name, {"value": value}, schemas)

    async def invoke(self, request: web.Request) -> web.Response:
        entry, name = await asked(self._mirror, request, "actions", "invoke")
        said = entry.model["actions"][name]
        arguments = await json_of(request)
        if arguments is NOTHING:
            arguments = {}
        if type(arguments) is not dict:
            raise InvalidArgument("expected the input of the action as a JSON object in the body")
        schemas = said.get("input", {}).get("properties", {})
        if said["synchronous"]:
            result = await self._call(request, entry, "invoke", name, arguments, schemas)
            if "output" not in said:
                return web.Response(status=204)
            return web.Response(body=_encode(result), content_type=JSON)
        for parameter in arguments:
            if parameter not in schemas:
                raise InvalidArgument(f"action {name!r} has no parameter {parameter!r}")
        for parameter in said.get("input", {}).get("required", ()):
            if parameter not in arguments:
                raise InvalidArgument(f"action {name!r} needs the parameter {parameter!r}")
        path = _action_path(entry.id, name)
        call = self._call(request, entry, "invoke", name, arguments, schemas, timeout_s=call_checks.TIMEOUT_MAX_S)
        begun = self._invocations.begin(path, request["principal"], call)
        return web.Response(
            status=201, body=_encode(begun.status()), content_type=JSON, headers={hdrs.LOCATION: begun.href}
        )

    async def action_statuses(self, request: web.Request) -> web.Response:
        """Those of all long actions of a thing that the user has begun, by action."""
        principal = request["principal"]
        entry = await self._mirror.thing(request.match_info["id"], principal, "invoke")
        found = {
            name: [each.status() for each in self._invocations.of(_action_path(entry.id, name), principal)]
            for name, said in entry.model.get("actions", {}).items()
            if not said["synchronous"] and self._mirror.access.permits(principal, entry, "invoke", name)
        }
        return web.Response(body=_encode(found), content_type=JSON)

    async def action_status(self, request: web.Request) -> web.Response:
        return web.Response(body=_encode(self._begun(request).status()), content_type=JSON)

    async def cancel_action(self, request: web.Request) -> web.Response:
        self._begun(request).task.cancel()
        return web.Response(status=204)

    def _begun(self, request: web.Request) -> Invocation:
        match = request.match_info
        href = f"{_action_path(match['id'], match['name'])}/{match['number']}"
        found = self._invocations.find(href, request["principal"])
        if found is None or not self._may_invoke(request["principal"], match["id"], match["name"]):
            raise NotFound(
                f"no invocation {match['number']!r} of yours: unknown, expired, or lost when the gateway ended"
            )
        return found

    def _may_invoke(self, principal: str, id: str, name: str) -> bool:
        """Whether a user may still use an action. The results of a thing that is gone are for operators alone."""
        access, entry = self._mirror.access, self._mirror.catalogue.things.get(id)
        if access.is_operator(principal) or (entry is not None and access.permits(principal, entry, "invoke", name)):
            return True
        access.refused(principal, id, "invoke", name)
        return False

    async def _call(
        self,
        request: web.Request,
        entry: CatalogueEntry,
        kind: str,
        name: str,
        arguments: dict[str, Any],
        schemas: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        for argument, schema in (schemas or {}).items():
            if argument in arguments:
                arguments[argument] = from_json(arguments[argument], schema, argument)
        timeout_s = timeout_s_of(request) if timeout_s is None else timeout_s
        operation = entry.setters[name] if kind == "write" else name
        route, key, node = f"{entry.component}.{operation}", entry.key, self._mirror.access.nodes.get(entry.node)
        if node is not None:  # which calls the operation itself (nodes/exposed_things.py)
            route, key = f"{node.name}/exposed.use", None
            arguments = {"thing": entry.home_id, "kind": kind, "name": name, "arguments": arguments}
        spec = call_checks.asked(route, key, priority_of(request), timeout_s, arguments, {}, None, False)
        spec.principal = request["principal"] if node is None else node.principal_there(request["principal"])
        try:
            return await self._mirror.client.request(spec)
        except UnknownRoute as error:
            if node is None:
                raise
            raise unreachable(node.name, error.message) from None


def _action_path(id: str, name: str) -> str:
    return f"/{path_of(id)}/actions/{quote(name, safe='')}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat()
