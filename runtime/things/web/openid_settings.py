"""OpenID settings: the provider that signs users in, and the claims that name them and their groups. Decides; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

#: Hosts on which a provider may be reached without TLS, to try things out.
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class OpenIdSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The setting `openid` of the gateway.

    issuer: the provider's address, without a slash at its end unless the provider has one. client_secret_env: the environment
    variable with the client's secret; "": a public client, which has none. user_claim: the claim that is the principal.
    groups_claim: a list of texts, or one text; "": no groups.
    """

    issuer: _Text
    client_id: _Text
    client_secret_env: str = ""
    user_claim: Literal["sub", "email", "preferred_username"] = "sub"
    groups_claim: str = "groups"
    scopes: tuple[_Text, ...] = ("openid", "profile", "email")


def openid_settings(given: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[OpenIdSettings, str]:
    """The settings, and the client's secret, which is "" for a public client. Raises ValueError."""
    try:
        settings = msgspec.convert(given, OpenIdSettings)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"openid: {error}; expected issuer, client_id and, for most providers, client_secret_env"
        ) from None
    check_address(settings.issuer, "openid.issuer")
    if "openid" not in settings.scopes or any(not each.isascii() or " " in each for each in settings.scopes):
        raise ValueError('openid.scopes: expected single words, "openid" among them: ["openid", "email"]')
    secret = ""
    if settings.client_secret_env:
        secret = environment.get(settings.client_secret_env, "")
        if not secret:
            raise ValueError(
                f"openid.client_secret_env: there is no environment variable {settings.client_secret_env!r}: set it to the"
                " client's secret, where the supervisor is started"
            )
    return settings, secret


def check_address(address: str, name: str) -> None:
    """Raise ValueError unless an address has TLS, or is on this host."""
    try:
        parts = urlsplit(address)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
    except ValueError:
        is_safe = False
    if not is_safe or not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"{name} = {address!r}: expected an address such as https://id.example; http is for this host alone"
        )
