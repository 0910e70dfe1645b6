"""ID tokens: checks the signature and the claims of tokens that an OpenID provider has signed. Decides; no I/O.

The signature is PyJWT's concern, by the public key that the token's `kid` names; the claims are checked here, at a time that is
given (OpenID Connect Core 3.1.3.7, RFC 8725, RFC 9068). A key has one algorithm, by its type, so a token cannot choose one
for it: `none` and those with a shared secret do not exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from ...permissions.table import is_reserved
from .openid_settings import OpenIdSettings

#: The algorithm of each type of key, by its `kty` and `crv`.
ALGORITHM_OF: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
#: Seconds by which the clocks of the provider and of this host may differ.
SKEW_S: Final = 60.0
#: Longest token: browsers and servers take headers of 8 KiB, and a user with 200 groups has one of about 6.
TOKEN_CHARS_MAX: Final = 16_384
#: Most keys of a provider that are looked at. Those in use have two to ten.
KEYS_MAX: Final = 100
#: Most groups of a user, and the longest name of one: they are kept in the file of permissions.
GROUPS_MAX: Final = 200
NAME_CHARS_MAX: Final = 200
#: Types of tokens. Others, such as those of a logout, have the same signature and another purpose.
_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")

_jws = PyJWS(list(ALGORITHM_OF.values()), options={"verify_signature": True, "enforce_minimum_key_length": True})


class TokenRejected(Exception):
    """A token is not accepted. The reason is for the log; a client learns no more than that."""


class UnknownKey(TokenRejected):
    """No key of the provider has the `kid` of the token; the provider may have new keys."""


class OpenIdUser(NamedTuple):
    """A user of whom the provider has said so. Times are Unix times in seconds."""

    principal: str
    groups: tuple[str, ...]
    issued_s: float
    until_s: float


class ProviderKeys:
    """The public keys of a provider that may sign."""

    def __init__(self, keys: Iterable[Any], advertised: Iterable[str] = ()) -> None:
        """`keys`: JSON Web Keys (RFC 7517); those that do not sign are left out. `advertised`: the provider's algorithms for ID
        tokens; if it names none of ours, all of ours are accepted.
        """
        accepted = {*ALGORITHM_OF.values()} & {*advertised} or {*ALGORITHM_OF.values()}
        self._keys: list[tuple[str | None, PyJWK]] = []
        for each in [*keys][:KEYS_MAX]:
            key = _signing_key(each)
            if key is not None and key.algorithm_name in accepted:
                self._keys.append((each.get("kid"), key))

    def find(self, kid: object, algorithm: object) -> PyJWK:
        """The key for a token. Without a `kid` the provider must have only one of the algorithm. Raises `TokenRejected`."""
        if kid is not None:
            named = [key for known, key in self._keys if known == kid]
            if not named:
                raise UnknownKey("no key of the provider has the token's kid")
        else:
            named = [key for _, key in self._keys if key.algorithm_name == algorithm]
        fitting = [key for key in named if key.algorithm_name == algorithm]
        if len(fitting) != 1:
            raise TokenRejected("no single key of the provider fits the token's alg and kid")
        return fitting[0]


def is_token(text: str) -> bool:
    """Whether a bearer token may be one of a provider; others are digests' concern."""
    return text.count(".") == 2 and text.startswith("ey")


def checked_claims(
    token: str, keys: ProviderKeys, settings: OpenIdSettings, now_s: float, *, nonce: str | None = None
) -> Mapping[str, Any]:
    """The claims of a valid token. `nonce`: that of the sign-in; None: the token came as a bearer token.

    Raises `TokenRejected`, and `UnknownKey` if new keys might help.
    """
    if len(token) > TOKEN_CHARS_MAX or not token.isascii():
        raise TokenRejected(f"the token has more than {TOKEN_CHARS_MAX:,} characters, or is not ASCII")
    try:
        header = _jws.get_unverified_header(token)
        key = keys.find(header.get("kid"), header.get("alg"))
        claims = json.loads(_jws.decode(token, key, [key.algorithm_name]))
    except (PyJWTError, ValueError, RecursionError) as error:
        raise TokenRejected(f"the token is no valid JWT: {error}") from None
    if not isinstance(claims, dict):
        raise TokenRejected("the claims are no object")
    kind = str(header.get("typ", "JWT")).lower()
    if kind not in _TYPES or (nonce is not None and kind != "jwt") or "events" in claims:
        raise TokenRejected(f"a token of the type {kind!r} signs nobody in")
    _check_parties(claims, settings)
    _check_times(claims, now_s)
    if nonce is not None and claims.get("nonce") != nonce:
        raise TokenRejected("the nonce is not that of this sign-in")
    return claims


def user_of(claims: Mapping[str, Any], settings: OpenIdSettings) -> OpenIdUser:
    """The user of valid claims. Raises `TokenRejected` if they name nobody who may be a principal."""
    name = claims.get(settings.user_claim)
    if settings.user_claim == "email" and claims.get("email_verified") is not True:
        raise TokenRejected("the provider has not verified the email address")
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= NAME_CHARS_MAX
        or not name.isprintable()
        or name != name.strip()
    ):
        raise TokenRejected(f"the claim {settings.user_claim} is no name of a user")
    if is_reserved(name):
        raise TokenRejected(f"the claim {settings.user_claim} is a name that no user may have")
    return OpenIdUser(name, _groups_of(claims, settings), float(claims["iat"]), float(claims["exp"]) + SKEW_S)


def is_complete(claims: Mapping[str, Any], settings: OpenIdSettings) -> bool:
    """Whether claims have what the settings name; else the provider's userinfo may have it."""
    wanted = [settings.user_claim, settings.groups_claim]
    if settings.user_claim == "email":
        wanted.append("email_verified")
    return all(each in claims for each in wanted if each)


def _signing_key(key: Any) -> PyJWK | None:
    if not isinstance(key, dict) or key.get("use", "sig") != "sig":
        return None
    curve = key.get("crv")
    algorithm = ALGORITHM_OF.get((str(key.get("kty")), None if curve is None else str(curve)))
    if algorithm is None or key.get("alg", algorithm) != algorithm:
        return None
    public = {name: value for name, value in key.items() if name in ("kty", "crv", "n", "e", "x", "y")}
    try:
        return PyJWK(public, algorithm)
    except (PyJWTError, ValueError, TypeError):
        return None


def _check_parties(claims: Mapping[str, Any], settings: OpenIdSettings) -> None:
    if claims.get("iss") != settings.issuer:
        raise TokenRejected("the token is of another issuer")
    said = claims.get("aud")
    audience = said if isinstance(said, list) else [said]
    if settings.client_id not in audience:
        raise TokenRejected("the token is for another client")
    # A token for several must say for whom it was made; one that says so was made for us.
    if claims.get("azp", settings.client_id if len(audience) == 1 else None) != settings.client_id:
        raise TokenRejected("the token was made for another client")
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise TokenRejected("the token has no sub")


def _check_times(claims: Mapping[str, Any], now_s: float) -> None:
    times = {name: claims.get(name) for name in ("exp", "iat", "nbf")}
    if times["nbf"] is None:
        times["nbf"] = times["iat"]
    for name, value in times.items():
        # The bound is the year 9999: others are infinite, or no time.
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 253_402_300_800:
            raise TokenRejected(f"the claim {name} is no time")
        if (value <= now_s - SKEW_S) if name == "exp" else (value > now_s + SKEW_S):
            raise TokenRejected("the token has expired" if name == "exp" else f"the claim {name} is in the future")


def _groups_of(claims: Mapping[str, Any], settings: OpenIdSettings) -> tuple[str, ...]:
    said = claims.get(settings.groups_claim, ()) if settings.groups_claim else ()
    groups = [said] if isinstance(said, str) else said
    if not isinstance(groups, list | tuple) or not all(isinstance(each, str) for each in groups):
        raise TokenRejected(f"the claim {settings.groups_claim} is no list of names")
    if len(groups) > GROUPS_MAX or any(
        not 0 < len(each) <= NAME_CHARS_MAX or not each.isprintable() for each in groups
    ):
        raise TokenRejected(
            f"the claim {settings.groups_claim} has more than {GROUPS_MAX} names, or one that is too long"
        )
    return tuple(sorted(set(groups)))
