"""OpenID sign-in: the routes of the authorization code flow with PKCE, and the users of requests with a session or a token.

`/sign-in` sends a browser to the provider, `/sign-in/callback` takes its code, and a cookie names the session from then on. A
token that the provider has signed for this client is accepted as a bearer token, too. The files beside this one decide:
sign_in_attempts.py, id_tokens.py, credentials.py. The groups of users are written into the file of permissions, so that
admission in every backplane knows them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import aiohttp
from aiohttp import hdrs, web

from appbackplane.transport.errors import BackplaneError, InvalidArgument, Unavailable

from ...permissions.audit import AuditLog
from ...permissions.claims import with_claims, without_claims_by
from ...permissions.permission_file import LOOK_AGAIN_S, Permissions, change, read
from .access import Access
from .authentication import Authentication, digest_of, unauthorized
from .credentials import SESSION_S, Credential, Credentials
from .id_tokens import OpenIdUser, TokenRejected, UnknownKey, checked_claims, is_complete, is_token, user_of
from .mirror import pause
from .openid_provider import OpenIdProvider
from .openid_settings import OpenIdSettings
from .sign_in_attempts import ATTEMPT_S, SignInAttempt, SignInAttempts, is_own_path, sealed

#: Seconds between two looks for sessions whose time is over.
SWEEP_S: Final = 1.0
#: The paths that need no user, and the path to go to after a sign-in that names none.
OPEN_PATHS: Final = ("/sign-in", "/sign-in/callback")
NEXT: Final = "/whoami"
#: Methods that change nothing.
_SAFE: Final = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
_SESSION, _ATTEMPT = "appbackplane-session", "appbackplane-sign-in"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


class OpenIdSignIn:
    """Signs users in at one provider. Used by one event loop."""

    def __init__(
        self, settings: OpenIdSettings, secret: str, authentication: Authentication, access: Access,
        unix_s: Callable[[], float], *, base: str = "", name: str = "gateway", audit: AuditLog | None = None,
    ) -> None:  # fmt: skip
        """`secret`: the client's. `authentication`: of users without a session and without a token of the provider. `base`: the
        address of the gateway, with a slash at its end; "": that of the request. `name`: the gateway, in the permissions' file.
        """
        self._settings = settings
        self._secret = secret
        self._authentication = authentication
        self._limit = authentication.limit
        self._access = access
        self._unix_s = unix_s
        self._base = base
        self._name = name
        self._audit = audit
        key = secrets.token_bytes(32)
        self._key, self._attempts = key, SignInAttempts(key)
        self._credentials = Credentials()
        #: The requests under way of each credential that only read: they end with it.
        self._reading: dict[Credential, set[asyncio.Task[Any]]] = {}
        self._writing = asyncio.Lock()
        #: The writing under way, by the credential that waits for it, or by itself.
        self._tasks: dict[Credential | asyncio.Task[None], asyncio.Task[None]] = {}

    @asynccontextmanager
    async def running(self, stopping: asyncio.Event) -> AsyncIterator[None]:
        """Within it users are signed in; at its end all are signed out. `stopping`: set before it."""
        self._stopping = stopping
        await self._forget_claims()
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
            self._provider = OpenIdProvider(self._settings, self._secret, http, self._unix_s)
            sweeping = asyncio.create_task(self._sweep())
            try:
                yield
            finally:
                sweeping.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                await self._forget_claims()

    def routes(self) -> list[web.RouteDef]:
        """GET /sign-in?next=PATH, GET /sign-in/callback and POST /sign-out."""
        return [
            web.get("/sign-in", self._begin, allow_head=False),
            web.get("/sign-in/callback", self._finish, allow_head=False),
            web.post("/sign-out", self._sign_out),
        ]

    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The answer to a request, on behalf of its user.

        Raises HTTPUnauthorized, HTTPForbidden and HTTPTooManyRequests. Streams and polls end with the session of their user.
        """
        if request.path in OPEN_PATHS:
            return await handler(request)
        credential = await self._credential_of(request)
        if credential is None:
            request["principal"] = self._authentication.principal_of(request)
            return await handler(request)
        request["principal"], request["groups"] = credential.user.principal, credential.user.groups
        request["credential"] = credential
        if request.method not in _SAFE:
            return await handler(request)
        task = asyncio.current_task()
        assert task is not None
        tasks = self._reading.setdefault(credential, set())
        tasks.add(task)
        try:
            return await handler(request)
        except asyncio.CancelledError:
            if credential.is_ended:
                raise ConnectionResetError("the user has signed out") from None
            raise
        finally:
            tasks.discard(task)
            if not tasks:
                self._reading.pop(credential, None)

    # -- routes -------------------------------------------------------------------------------------------------------

    async def _begin(self, request: web.Request) -> web.Response:
        path = request.query.get("next", NEXT)
        if not is_own_path(path):
            raise InvalidArgument("next: expected a path of this gateway, such as /things")
        endpoint = (await self._provider.metadata()).authorization_endpoint
        attempt = SignInAttempt(
            state=secrets.token_urlsafe(32), nonce=secrets.token_urlsafe(32), verifier=secrets.token_urlsafe(48), next=path,
            redirect=f"{self._root(request)}sign-in/callback", until_s=self._unix_s() + ATTEMPT_S,
        )  # fmt: skip
        query = {
            "response_type": "code", "client_id": self._settings.client_id, "redirect_uri": attempt.redirect,
            "scope": " ".join(self._settings.scopes), "state": attempt.state, "nonce": attempt.nonce,
            "code_challenge": attempt.challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        response = _redirect(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}")
        self._set_cookie(request, response, _ATTEMPT, sealed(attempt, self._key), ATTEMPT_S)
        return response

    async def _finish(self, request: web.Request) -> web.Response:
        self._limit.check(request)
        try:
            attempt = self._attempts.open(
                self._cookie(request, _ATTEMPT), request.query.get("state", ""), self._unix_s()
            )
            if attempt is None:
                raise TokenRejected("the sign-in was not begun in this browser, has expired, or has been used")
            user = await self._user_of_code(request.query, attempt)
        except TokenRejected as error:
            self._limit.failed(request)
            log.info("a sign-in has failed: %s", error)
            raise web.HTTPForbidden(text="the sign-in has failed: begin again at /sign-in") from None
        secret = secrets.token_urlsafe(32)
        former = self._session_of(request)
        now_s = self._unix_s()
        session, ended = self._credentials.add_session(_session_digest(secret), user, now_s)
        await self._settle(ended if former is None else [*ended, former], session)
        response = _redirect(f"{self._root(request).rstrip('/')}{attempt.next}")
        self._set_cookie(request, response, _SESSION, secret, SESSION_S)
        self._set_cookie(request, response, _ATTEMPT, "", 0.0)
        return response

    async def _sign_out(self, request: web.Request) -> web.Response:
        session = self._session_of(request)
        is_ours = request.get("credential") is session
        response = web.Response(status=204, headers={hdrs.CACHE_CONTROL: "no-store"})
        if session is not None and is_ours:
            await self._settle([session])
            self._set_cookie(request, response, _SESSION, "", 0.0)
        return response

    # -- users --------------------------------------------------------------------------------------------------------

    async def _credential_of(self, request: web.Request) -> Credential | None:
        """The session or the token of a request; None: it has neither. A header `Authorization` counts before a cookie."""
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme:
            token = token.strip()
            if scheme.lower() != "bearer" or not is_token(token) or self._authentication.is_known(token):
                return None
            return await self._credential_of_token(request, token)
        session = self._session_of(request)
        if session is not None and request.method not in _SAFE:
            self._expect_same_origin(request)
        return session

    async def _credential_of_token(self, request: web.Request, token: str) -> Credential:
        digest = digest_of(token)
        found = self._credentials.find(digest, self._unix_s())
        if found is None:
            self._limit.check(request)
            try:
                user = user_of(await self._claims_of(token), self._settings)
            except TokenRejected as error:
                self._limit.failed(request)
                log.info("a token is refused: %s", error)
                raise unauthorized() from None
            found = self._credentials.find(digest, self._unix_s())  # another request may have come with it
        if found is None:
            found, ended = self._credentials.add_token(digest, user, self._unix_s())
            await self._settle(ended, found)
        elif (task := self._tasks.get(found)) is not None:  # its groups are being written
            await asyncio.shield(task)
        return found

    async def _user_of_code(self, query: Mapping[str, str], attempt: SignInAttempt) -> OpenIdUser:
        """The user whom the provider has signed in. Raises `TokenRejected`."""
        metadata = await self._provider.metadata()
        issuer = query.get("iss", None if metadata.authorization_response_iss_parameter_supported else metadata.issuer)
        if issuer != metadata.issuer:  # RFC 9207: the answer of another provider
            raise TokenRejected("the answer is of another issuer")
        code = query.get("code", "")
        if not code or "error" in query:
            raise TokenRejected(f"the provider answers {query.get('error', 'without a code')[:100]!r}")
        answer = await self._provider.exchange(code, attempt.verifier, attempt.redirect)
        claims = await self._claims_of(str(answer.get("id_token", "")), attempt.nonce)
        if not is_complete(claims, self._settings) and isinstance(answer.get("access_token"), str):
            info = await self._provider.user_info(answer["access_token"])
            if info and info.get("sub") != claims["sub"]:  # OpenID Connect Core 5.3.2: a token of somebody else
                raise TokenRejected("the userinfo is another user's")
            claims = {**info, **claims}
        return user_of(claims, self._settings)

    async def _claims_of(self, token: str, nonce: str | None = None) -> Mapping[str, Any]:
        keys = await self._provider.keys()
        try:
            return checked_claims(token, keys, self._settings, self._unix_s(), nonce=nonce)
        except UnknownKey:
            keys = await self._provider.newer_keys(keys)
            return checked_claims(token, keys, self._settings, self._unix_s(), nonce=nonce)

    def _session_of(self, request: web.Request) -> Credential | None:
        secret = self._cookie(request, _SESSION)
        return self._credentials.find(_session_digest(secret), self._unix_s()) if secret else None

    # -- ends and claims ----------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """End the sessions whose time is over, until the gateway stops. An open stream keeps its session in use."""
        while not self._stopping.is_set():
            await pause(self._stopping, SWEEP_S)
            now_s = self._unix_s()
            for credential in self._reading:
                credential.used_s = now_s
            try:
                await self._settle(self._credentials.end_expired(now_s))
            except BackplaneError as error:
                log.warning("%s", error)

    async def _settle(self, ended: Iterable[Credential], added: Credential | None = None) -> None:
        """End the requests of credentials that have ended, and write down the groups of their users, and of the one `added`.

        After it every backplane knows them. It goes on if the request that waits for it is given up. Raises `Unavailable` if
        they cannot be written; then the one that was added has ended.
        """
        users = set() if added is None else {added.user.principal}
        for credential in ended:
            self._credentials.end(credential)
            for task in self._reading.get(credential, ()):
                task.cancel()
            users.add(credential.user.principal)
        if self._access.file is None or not users:
            return
        task = asyncio.create_task(self._write(users))
        self._tasks[added or task] = task
        task.add_done_callback(lambda _: self._tasks.pop(added or task))
        try:
            await asyncio.shield(task)
        except Unavailable:
            if added is not None:
                self._credentials.end(added)
            raise

    async def _write(self, users: set[str]) -> None:
        """Write down the groups of these users."""
        async with self._writing:
            wanted = {user: self._credentials.claims_of(user, self._name) for user in users}
            now_s = self._unix_s()

            def apply(contents: Permissions) -> Permissions:
                for user, claims in wanted.items():
                    contents = with_claims(contents, user, claims, now_s)
                return contents

            if not await self._change_claims(apply):
                return
        if self._audit is not None:
            for user, claims in wanted.items():
                self._audit.changed(now_s, user, "claim groups", [] if claims is None else claims.groups)
        await pause(self._stopping, LOOK_AGAIN_S)  # the longest that a backplane takes to see it

    async def _forget_claims(self) -> None:
        """Remove the claims that this gateway has written: its sessions do not outlive its process."""
        with suppress(BackplaneError):  # it is logged, and they end by themselves
            await self._change_claims(lambda contents: without_claims_by(contents, self._name))

    async def _change_claims(self, function: Callable[[Permissions], Permissions]) -> bool:
        """Change the file. False: there is nothing to change. Raises `Unavailable`."""
        path = self._access.file
        if path is None:
            return False
        try:
            contents = await asyncio.to_thread(read, path)
            if function(contents) == contents:
                return False
            await asyncio.to_thread(change, path, lambda contents: (function(contents), None))
        except BackplaneError as error:
            log.error("the groups of signed-in users are not written down: %s", error)
            raise Unavailable("the gateway cannot write down the groups of its users: see its log") from None
        return True

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    def _root(self, request: web.Request) -> str:
        return self._base or f"{request.scheme}://{request.host}/"

    def _expect_same_origin(self, request: web.Request) -> None:
        """Refuse what a page of another site has sent with our cookie. A browser says at least one of the two."""
        root = urlsplit(self._root(request))
        origin, site = request.headers.get(hdrs.ORIGIN), request.headers.get("Sec-Fetch-Site")
        is_ours = origin is None or origin.lower() == f"{root.scheme}://{root.netloc}".lower()
        if not is_ours or site not in (None, "same-origin") or (origin is None and site is None):
            raise web.HTTPForbidden(text="with a session, changes are accepted from pages of this gateway alone")

    def _cookie(self, request: web.Request, name: str) -> str:
        return request.cookies.get(self._cookie_name(request, name), "")

    def _cookie_name(self, request: web.Request, name: str) -> str:
        # Browsers take cookies of this prefix over TLS alone, and from this host alone.
        return f"__Host-{name}" if self._root(request).startswith("https:") else name

    def _set_cookie(self, request: web.Request, response: web.Response, name: str, value: str, age_s: float) -> None:
        full = self._cookie_name(request, name)
        response.set_cookie(
            full, value, max_age=int(age_s), path="/", httponly=True, samesite="Lax", secure=full.startswith("__Host-")
        )


def _session_digest(secret: str) -> str:
    return f"session {digest_of(secret)}"


def _redirect(address: str) -> web.Response:
    headers = {hdrs.LOCATION: address, hdrs.CACHE_CONTROL: "no-store", "Referrer-Policy": "no-referrer"}
    return web.Response(status=303, headers=headers)
