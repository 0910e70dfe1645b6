"""Sharing API: permissions and guest links, given and revoked over HTTP by those who may (permissions/sharing.py)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from typing import Annotated, Any, Final

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport.errors import InvalidArgument, NotFound

from ...permissions.permission_file import GuestLink, Permissions, change
from ...permissions.sharing import revoked, shared, without_expired
from ...permissions.table import Permission
from .access import Access
from .forms import JSON
from .mirror import Mirror
from .parsing import NOTHING, json_of

#: `who` of a request for a guest link.
LINK: Final = "link"
#: Entropy of a link's token: nobody guesses one.
TOKEN_BYTES: Final = 32
_encode = msgspec.json.encode


class SharingRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST. `seconds`: how long it holds; without it, until it is revoked."""

    who: str
    things: tuple[str, ...]
    access: tuple[str, ...]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=10 * 366 * 86_400)] | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None


class SharingApi:
    """The handlers. Without permissions in this system each raises `NotFound`."""

    def __init__(self, mirror: Mirror, access: Access) -> None:
        self._mirror = mirror
        self._access = access

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/permissions", self.list_all),
            web.post("/permissions", self.share),
            web.delete("/permissions/{permission}", self.revoke),
        ]

    async def list_all(self, request: web.Request) -> web.Response:
        """The permissions that the user has given; to an operator, all."""
        contents, principal = self._contents(), request["principal"]
        told = [
            _told(each) for each in contents.permissions if each.by == principal or self._access.is_operator(principal)
        ]
        return web.Response(body=_encode(told), content_type=JSON)

    async def share(self, request: web.Request) -> web.Response:
        """Give a permission, or a guest link, whose token is in the answer and nowhere else."""
        self._contents()
        body = await json_of(request)
        try:
            asked = msgspec.convert(None if body is NOTHING else body, SharingRequest)
        except msgspec.ValidationError as error:
            raise InvalidArgument(str(error)) from None
        principal, now_s = request["principal"], self._access.unix_s()
        id, token, link = secrets.token_hex(4), "", None
        if asked.who == LINK:
            token = secrets.token_urlsafe(TOKEN_BYTES)
            link = GuestLink(id=id, digest=hashlib.sha256(token.encode()).hexdigest(), by=principal)
        permission = Permission(
            id=id, who=asked.who if link is None else link.principal, access=asked.access, things=asked.things,
            until=None if asked.seconds is None else now_s + asked.seconds, priority=asked.priority, by=principal,
        )  # fmt: skip
        given = await self._change(
            "share",
            principal,
            lambda contents, operators, types: shared(
                without_expired(contents, now_s), permission, operators, types, now_s, link
            ),
        )
        told = {"id": given.id, "who": given.who} | ({} if given.until is None else {"until": given.until})
        body = told | ({"token": token} if token else {})
        headers = {hdrs.LOCATION: f"/permissions/{given.id}", hdrs.CACHE_CONTROL: "no-store"}
        return web.Response(status=201, body=_encode(body), content_type=JSON, headers=headers)

    async def revoke(self, request: web.Request) -> web.Response:
        """End a permission or a link, and all that was handed on by it."""
        self._contents()
        id, principal, now_s = request.match_info["permission"], request["principal"], self._access.unix_s()
        await self._change(
            "revoke",
            principal,
            lambda contents, operators, types: revoked(contents, id, principal, operators, types, now_s),
        )
        return web.Response(status=204)

    def _contents(self) -> Permissions:
        contents = self._access.contents()
        if contents is None:
            raise NotFound("this system has no permissions: everybody who is let in may use all things")
        return contents

    async def _change(self, did: str, principal: str, function: Any) -> Any:
        """Change the file, and write it into the audit log; the second result of `function`."""
        policy, path, audit = self._access.policy, self._access.file, self._access.audit
        assert policy is not None and path is not None and audit is not None
        types = {id: entry.types for id, entry in self._mirror.catalogue.things.items()}
        # In a thread: it waits for the lock and for the disk.
        changed = await asyncio.to_thread(change, path, lambda contents: function(contents, policy.operators, types))
        self._access.look_again()  # who has shared sees it listed, and the new token is known
        for each in changed if isinstance(changed, list) else [changed]:
            audit.changed(self._access.unix_s(), principal, did, _told(each))
        return changed


def _told(permission: Permission) -> Any:
    return msgspec.to_builtins(permission)
