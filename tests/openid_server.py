"""An OpenID provider of the tests: real keys and signatures, and whatever claims a test wants. It signs in without asking."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
#: By key id: the algorithm, and the private key.
SIGNING: dict[str, tuple[str, Any]] = {
    "rsa": ("RS256", RSA_KEY),
    "ec": ("ES256", EC_KEY),
    "ed": ("EdDSA", ED_KEY),
    "rsa-2": ("RS256", OTHER_RSA_KEY),
}
_ALGORITHM: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
CLIENT, SECRET = "things", "a secret: with/signs"


def public(*kids: str) -> list[dict[str, Any]]:
    """The JSON Web Keys of some keys."""
    keys = []
    for kid in kids:
        algorithm, key = SIGNING[kid]
        keys.append(json.loads(_ALGORITHM[algorithm].to_jwk(key.public_key())) | {"kid": kid, "use": "sig"})
    return keys


def signed(claims: Mapping[str, Any], by: str = "rsa", /, **header: Any) -> str:
    """A token, by a key of `SIGNING`. A `header` of None: without this one."""
    algorithm, key = SIGNING[by]
    headers = {name: value for name, value in ({"kid": by} | header).items() if value is not None}
    return jwt.encode(dict(claims), key, algorithm, headers=headers)


class OpenIdServer:
    """The provider. `claims` are those of the user who signs in; `info` those of userinfo. `requests` counts by path."""

    def __init__(self) -> None:
        self.issuer = ""
        self.kids: tuple[str, ...] = ("rsa", "ec", "ed")
        self.kid = "rsa"
        self.claims: dict[str, Any] = {}
        self.info: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.requests: dict[str, int] = {}
        self.now_s = 0.0
        self._codes: dict[str, Mapping[str, str]] = {}

    def application(self) -> web.Application:
        """Its routes."""
        application = web.Application(middlewares=[self._count])
        application.add_routes(
            [
                web.get("/.well-known/openid-configuration", self._configuration),
                web.get("/keys", self._keys),
                web.get("/authorize", self._authorize),
                web.post("/token", self._token),
                web.get("/userinfo", self._userinfo),
            ]
        )
        return application

    def id_token(self, **more: Any) -> str:
        """A token of the user."""
        times = {"iat": self.now_s, "exp": self.now_s + 300}
        return signed({"iss": self.issuer, "aud": CLIENT, "sub": "ada"} | times | self.claims | more, self.kid)

    @web.middleware
    async def _count(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests[request.path] = self.requests.get(request.path, 0) + 1
        response: web.StreamResponse = await handler(request)
        return response

    async def _configuration(self, request: web.Request) -> web.Response:
        metadata: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "EdDSA", "HS256", "none"],
        }
        return web.json_response(metadata | self.metadata)

    async def _keys(self, request: web.Request) -> web.Response:
        return web.json_response({"keys": public(*self.kids)})

    async def _authorize(self, request: web.Request) -> web.Response:
        query = request.query
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256"
        code = f"code-{len(self._codes)}"
        self._codes[code] = dict(query)
        answer = urlencode({"code": code, "state": query["state"]})
        return web.Response(status=302, headers={"Location": f"{query['redirect_uri']}?{answer}"})

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self._codes.pop(str(form["code"]), None)
        challenge = urlsafe_b64encode(sha256(str(form["code_verifier"]).encode()).digest()).rstrip(b"=").decode()
        expected = "Basic dGhpbmdzOmElMjBzZWNyZXQlM0ElMjB3aXRoJTJGc2lnbnM="
        is_right = request.headers.get("Authorization") == expected
        if not is_right or asked is None or asked["code_challenge"] != challenge:
            return web.json_response({"error": "invalid_grant"}, status=400)
        assert asked["redirect_uri"] == form["redirect_uri"]
        token = self.id_token(**({"nonce": asked["nonce"]} | self.claims))
        return web.json_response({"id_token": token, "access_token": "opaque", "token_type": "Bearer"})

    async def _userinfo(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer opaque"
        return web.json_response(self.info)
