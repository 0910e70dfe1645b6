"""OpenID provider: the gateway's requests to the provider, by aiohttp: its metadata, its keys, codes for tokens, and userinfo.

Answers are bounded in size and time, and redirects are not followed: the provider's metadata name each address. Metadata and
keys are kept for an hour; for a key that is unknown they are fetched again, at most every ten seconds.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec

from appbackplane.transport.errors import Unavailable

from .id_tokens import ProviderKeys, TokenRejected
from .openid_settings import OpenIdSettings, check_address

#: Seconds for one request to the provider, and bytes of its answer: those of large providers have a hundredth.
REQUEST_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 1 << 20
#: Seconds that metadata and keys are kept: a key that the provider has withdrawn is trusted no longer.
KEEP_S: Final = 3_600.0
#: Least seconds between two fetches: tokens with keys of somebody's own making must not flood the provider.
FETCH_AGAIN_S: Final = 10.0

log = logging.getLogger(__name__)


class ProviderMetadata(msgspec.Struct, frozen=True):
    """OpenID Connect Discovery 1.0, section 3: the members that are used here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    id_token_signing_alg_values_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class OpenIdProvider:
    """One provider. Used by one event loop. Its methods raise `Unavailable` if the provider does not answer as it should."""

    def __init__(
        self, settings: OpenIdSettings, secret: str, http: aiohttp.ClientSession, unix_s: Callable[[], float]
    ) -> None:
        """`secret`: that of the client; "" for a public one. `http`: without cookies."""
        self._settings = settings
        self._secret = secret
        self._http = http
        self._unix_s = unix_s
        self._known: tuple[ProviderMetadata, ProviderKeys] | None = None
        self._fetched_s = self._tried_s = float("-inf")
        self._fetching = asyncio.Lock()

    async def metadata(self) -> ProviderMetadata:
        """The addresses and abilities of the provider."""
        return (await self._current())[0]

    async def keys(self) -> ProviderKeys:
        """Its keys."""
        return (await self._current())[1]

    async def newer_keys(self, known: ProviderKeys) -> ProviderKeys:
        """Its keys, fetched again if they are still those that are `known`, unless that was just done."""
        async with self._fetching:
            now_s = self._unix_s()
            if self._known is not None and self._known[1] is known and not 0 <= now_s - self._tried_s < FETCH_AGAIN_S:
                await self._fetch(now_s)
            return known if self._known is None else self._known[1]

    async def exchange(self, code: str, verifier: str, redirect: str) -> Mapping[str, Any]:
        """The tokens for a code: id_token, access_token. Raises `TokenRejected` if the provider refuses the code."""
        metadata = await self.metadata()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
        headers = {}
        if self._secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            words = f"{quote(self._settings.client_id, safe='')}:{quote(self._secret, safe='')}"  # RFC 6749, 2.3.1
            headers["Authorization"] = f"Basic {b64encode(words.encode()).decode()}"
        else:
            form["client_id"] = self._settings.client_id
            if self._secret:
                form["client_secret"] = self._secret
        status, answer = await self._ask("POST", metadata.token_endpoint, headers, form)
        if status != 200:
            raise TokenRejected(f"the provider refuses the code: {status} {str(answer.get('error', ''))[:100]!r}")
        return answer

    async def user_info(self, access_token: str) -> Mapping[str, Any]:
        """The claims of the holder of an access token; none if the provider has no such endpoint."""
        address = (await self.metadata()).userinfo_endpoint
        if not address or not access_token.isascii() or not access_token.isprintable():
            return {}
        status, answer = await self._ask("GET", address, {"Authorization": f"Bearer {access_token}"}, None)
        if status != 200:
            raise TokenRejected(f"the provider refuses the access token: {status}")
        return answer

    async def _current(self) -> tuple[ProviderMetadata, ProviderKeys]:
        if (known := self._fresh()) is not None:  # without the lock: a provider that is slow now holds up nobody
            return known
        async with self._fetching:
            if (known := self._fresh()) is not None:
                return known
            now_s = self._unix_s()
            if 0 <= now_s - self._tried_s < FETCH_AGAIN_S:
                raise self._unavailable("it was asked just now")
            return await self._fetch(now_s)

    def _fresh(self) -> tuple[ProviderMetadata, ProviderKeys] | None:
        return self._known if 0 <= self._unix_s() - self._fetched_s < KEEP_S else None

    async def _fetch(self, now_s: float) -> tuple[ProviderMetadata, ProviderKeys]:
        self._tried_s = now_s
        issuer = self._settings.issuer
        status, answer = await self._ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration", {}, None)
        try:
            metadata = msgspec.convert(answer, ProviderMetadata)
            for address in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri):
                check_address(address.partition("?")[0], "an endpoint")
            if metadata.userinfo_endpoint:
                check_address(metadata.userinfo_endpoint.partition("?")[0], "userinfo_endpoint")
        except ValueError as error:
            raise self._unavailable(
                f"its metadata (HTTP status {status}) are not those of OpenID Connect: {error}"
            ) from None
        if metadata.issuer != issuer:
            raise self._unavailable(f"it calls itself {metadata.issuer!r}: give exactly this as openid.issuer")
        status, answer = await self._ask("GET", metadata.jwks_uri, {}, None)
        keys = answer.get("keys")
        if status != 200 or not isinstance(keys, list):
            raise self._unavailable(f"it has no keys (HTTP status {status})")
        self._known = metadata, ProviderKeys(keys, metadata.id_token_signing_alg_values_supported)
        self._fetched_s = now_s
        return self._known

    async def _ask(
        self, method: str, address: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> tuple[int, Mapping[str, Any]]:
        """The status and the object of an answer; an empty one if the body is none."""
        try:
            async with self._http.request(
                method, address, headers={"Accept": "application/json", "Accept-Encoding": "identity"} | dict(headers),
                data=form, allow_redirects=False, timeout=aiohttp.ClientTimeout(total=REQUEST_S),
            ) as response:  # fmt: skip
                body = bytearray()
                async for part in response.content.iter_chunked(1 << 16):
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise self._unavailable(f"an answer has more than {ANSWER_BYTES_MAX:,} bytes")
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise self._unavailable(f"{type(error).__name__} at {address.partition('?')[0]}") from None
        try:
            answer = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            answer = None
        return status, answer if isinstance(answer, dict) else {}

    def _unavailable(self, reason: str) -> Unavailable:
        log.warning("the OpenID provider %s: %s", self._settings.issuer, reason)
        return Unavailable("the OpenID provider does not answer: try again later", retry_after=FETCH_AGAIN_S)
