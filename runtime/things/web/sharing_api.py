"""Sharing API: permissions and guest links, given and revoked over HTTP by those who may (permissions/sharing.py)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport import call_checks
from appbackplane.transport.errors import InvalidArgument, NotFound

from ...permissions.permission_file import GuestLink, Permissions
from ...permissions.sharing_requests import SharingRequest, give, take_back
from ...process_config import PermissionPolicy
from ..nodes.consumed_node import ConsumedNode
from .access import Access
from .forms import JSON
from .mirror import Mirror, unreachable
from .parsing import NOTHING, json_of

#: `who` of a request for a guest link.
LINK: Final = "link"
#: Entropy of a link's token: nobody guesses one.
TOKEN_BYTES: Final = 32
#: Seconds that another node has to change its permissions: it waits for the lock of the file, and for the disk.
SHARE_S: Final = 10.0
_encode = msgspec.json.encode


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
        """The permissions that the user has given; to an operator, all. Those of other nodes have the member `node`."""
        contents, principal, access = self._access.contents(), request["principal"], self._access
        self._expect_permissions()
        told = [] if contents is None else _given(contents, principal, is_operator=access.is_operator(principal))
        for node in access.nodes.values():
            if node.is_limited:
                for each in _given(node.contents, principal, is_operator=node.is_operator(principal)):
                    each["things"] = [node.id_here(id) for id in each.get("things", ())]
                    told.append(each | {"node": node.name})
        return web.Response(body=_encode(told), content_type=JSON)

    async def share(self, request: web.Request) -> web.Response:
        """Give a permission, or a guest link, whose token is in the answer and nowhere else."""
        self._expect_permissions()
        body = await json_of(request)
        try:
            asked = msgspec.convert(None if body is NOTHING else body, SharingRequest)
        except msgspec.ValidationError as error:
            raise InvalidArgument(str(error)) from None
        principal, now_s = request["principal"], self._access.unix_s()
        id, token, digest = secrets.token_hex(4), "", None
        if asked.who == LINK:
            token = secrets.token_urlsafe(TOKEN_BYTES)
            digest = hashlib.sha256(token.encode()).hexdigest()
        node = self._node_of(asked, principal)
        if node is not None:
            asked.things = tuple(self._mirror.catalogue.things[thing].home_id for thing in asked.things)
            arguments = {"request": msgspec.to_builtins(asked), "id": id, "digest": digest}
            given = await self._ask(node, "share", principal, arguments)
        else:
            link = None if digest is None else GuestLink(id=id, digest=digest, by=principal)
            policy, audit = self._own_policy(), self._access.audit
            # In a thread: it waits for the lock and for the disk.
            given = await asyncio.to_thread(give, policy, asked, principal, id, link, self._types(), now_s, audit)
            self._access.look_again()  # who has shared sees it listed, and the new token is known
        told = {name: given[name] for name in ("id", "who", "until") if given.get(name) is not None}
        body = told | ({"token": token} if token else {})
        headers = {hdrs.LOCATION: f"/permissions/{id}", hdrs.CACHE_CONTROL: "no-store"}
        return web.Response(status=201, body=_encode(body), content_type=JSON, headers=headers)

    async def revoke(self, request: web.Request) -> web.Response:
        """End a permission or a link, and all that was handed on by it."""
        self._expect_permissions()
        id, principal = request.match_info["permission"], request["principal"]
        contents = self._access.contents()
        is_own = contents is not None and contents.has(id)
        node = None if is_own else next((each for each in self._access.nodes.values() if each.has_given(id)), None)
        if node is not None:
            await self._ask(node, "revoke", principal, {"id": id})
        else:
            policy, audit, now_s = self._own_policy(), self._access.audit, self._access.unix_s()
            await asyncio.to_thread(take_back, policy, id, principal, self._types(), now_s, audit)
            self._access.look_again()
        return web.Response(status=204)

    def _node_of(self, asked: SharingRequest, principal: str) -> ConsumedNode | None:
        """The node that decides about these things; None: this one. Raises `InvalidArgument` if there are several.

        A thing that the user may not know of counts as one that does not exist.
        """
        found = [self._mirror.catalogue.things.get(id) for id in asked.things]
        names = {each.node if each is not None and self._access.permits(principal, each) else "" for each in found}
        if len(names) > 1:
            raise InvalidArgument("things of several nodes: each node decides about its own, so share them one by one")
        return self._access.nodes.get(names.pop() if names else "")

    async def _ask(self, node: ConsumedNode, verb: str, principal: str, arguments: dict[str, Any]) -> Any:
        """Have a node change its permissions on behalf of a user."""
        if node.problem:
            raise unreachable(node.name, node.problem)
        spec = call_checks.asked(f"{node.name}/exposed.{verb}", None, None, SHARE_S, arguments, {}, None, False)
        spec.principal = node.principal_there(principal)
        return await self._mirror.client.request(spec)

    def _expect_permissions(self) -> None:
        """Raise `NotFound` if neither this node has permissions, nor one whose things are served here."""
        if self._access.policy is None and not any(each.is_limited for each in self._access.nodes.values()):
            raise _no_permissions()

    def _own_policy(self) -> PermissionPolicy:
        if self._access.policy is None:
            raise _no_permissions()
        return self._access.policy

    def _types(self) -> dict[str, tuple[str, ...]]:
        return {id: entry.types for id, entry in self._mirror.catalogue.things.items()}


def _no_permissions() -> NotFound:
    return NotFound("this system has no permissions: everybody who is let in may use all things")


def _given(contents: Permissions, principal: str, *, is_operator: bool) -> list[dict[str, Any]]:
    """The permissions that a user sees."""
    return [msgspec.to_builtins(each) for each in contents.permissions if is_operator or each.by == principal]
