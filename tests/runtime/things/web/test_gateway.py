"""The gateway's settings, its authentication, and how it reads requests; without sockets and without a system."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from appbackplane.runtime import InvalidArgument
from appbackplane.runtime.things.web.authentication import Authentication
from appbackplane.runtime.things.web.gateway import Gateway
from appbackplane.runtime.things.web.parsing import from_json, priority_of, timeout_s_of
from appbackplane.transport import call_checks

DIGEST = "a" * 64
LONG = ("wait=" + "9" * 5_000, None)
BYTES = {"type": "string", "contentEncoding": "base64"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"basic": True, "anonymous": True},
            "basic = true: with anonymous = true no user signs in: leave one of them out",
        ),
        ({"listen": "8080"}, "listen = '8080': expected HOST:PORT, such as 127.0.0.1:8080"),
        ({"listen": "127.0.0.1:http"}, "expected HOST:PORT"),
        ({"listen": "127.0.0.1:70000"}, "expected HOST:PORT"),
        ({"listen": "0.0.0.0:8080"}, "without TLS the gateway listens on a loopback address alone: use 127.0.0.1:8080"),
        ({"listen": "[::]:8080"}, "loopback address alone"),
        ({"listen": "example.com:80"}, "loopback address alone"),
        ({"announce": True}, "announce = true needs the address that other hosts reach"),
        ({"base": "things.example"}, "base = 'things.example': expected an address with a slash at its end"),
        ({"tokens": {"ada": "secret"}}, r"tokens.ada: expected the SHA-256 of the token, 64 hexadecimal digits"),
        ({"tokens": {"group:staff": DIGEST}}, "tokens: 'group:staff' is no name of a user"),
        ({"tokens": {"local": DIGEST}}, "tokens: 'local' is no name of a user"),
        ({"tokens": {"ada": DIGEST, "eve": DIGEST.upper()}}, "tokens.eve: ada has the same token"),
    ],
)
def test_bad_settings_are_refused_with_the_remedy(settings: dict[str, Any], words: str) -> None:
    """When the backplane starts, not at the first request."""
    with pytest.raises(ValueError, match=words):
        Gateway(**settings)


@pytest.mark.parametrize("listen", ["127.0.0.1:8080", "localhost:0", "[::1]:8080", "127.9.9.9:1"])
def test_loopback_addresses_are_taken(listen: str) -> None:
    """All of 127.0.0.0/8 is this host."""
    assert Gateway(listen=listen).address() == ""


@pytest.mark.parametrize(
    ("host", "origin", "is_served"),
    [
        ("localhost:8080", None, True),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", True),
        ("[::1]:8080", None, True),
        ("rebound.example:8080", None, False),
        ("localhost:8080", "https://evil.example", False),
        ("localhost:8080", "http://localhost:9090", False),
        ("localhost:8080", "null", False),
    ],
)
def test_without_tokens_no_other_site_gets_in(host: str, origin: str | None, is_served: bool) -> None:
    """A page of any site can have a browser send requests to this host."""
    authentication = Authentication({}, anonymous=True)
    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    request = make_mocked_request("POST", "/things", headers=headers)
    if is_served:
        assert authentication.principal_of(request) == "anonymous"
        return
    with pytest.raises(web.HTTPForbidden):
        authentication.principal_of(request)


@pytest.mark.parametrize(
    ("header", "priority"), [("u=0", 0), ("i, u=7", 7), ("u=8", None), ("u=-1", None), ("u=2, u=3", 2), ("", None)]
)
def test_the_priority_of_a_request_is_that_of_its_header(header: str, priority: int | None) -> None:
    """RFC 9218 has eight, as backplanes do by default; others are as if there were none."""
    assert priority_of(make_mocked_request("GET", "/", headers={"Priority": header})) == priority


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("wait=5", 5.0),
        ("respond-async, wait=10", 10.0),
        ("wait=0", None),
        ("wait=1e3", None),
        ("wait=99999", None),
        ("wait=" + "9" * 5_000, None),
    ],
)
def test_a_client_says_how_long_it_waits(header: str, seconds: float | None) -> None:
    """RFC 7240; the call ends by then."""
    expected = call_checks.TIMEOUT_DEFAULT_S if seconds is None else seconds
    assert timeout_s_of(make_mocked_request("GET", "/", headers={"Prefer": header})) == expected


def test_a_known_token_names_its_user_and_others_nobody() -> None:
    """Whatever else is allowed: a wrong token is no anonymous request."""
    digest = hashlib.sha256(b"secret").hexdigest()
    for anonymous in (False, True):
        authentication = Authentication({digest: "ada"}, anonymous=anonymous)
        assert authentication.principal_of(with_token("Bearer secret")) == "ada"
        for wrong in ("Bearer guess", "Basic secret", "Bearer"):
            with pytest.raises(web.HTTPUnauthorized):
                authentication.principal_of(with_token(wrong))
    with pytest.raises(web.HTTPUnauthorized):
        Authentication({digest: "ada"}, anonymous=False).principal_of(make_mocked_request("GET", "/"))


@pytest.mark.parametrize(
    ("credentials", "headers", "user"),
    [
        ("ada:secret", {}, "ada"),
        (":secret", {}, "ada"),
        ("ada:secret", {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}, "ada"),
        ("ada:secret", {"Origin": "http://localhost"}, "ada"),
        ("eve:secret", {}, web.HTTPUnauthorized),
        ("ada:guess", {}, web.HTTPUnauthorized),
        ("ada", {}, web.HTTPUnauthorized),
        ("\udcff", {}, web.HTTPUnauthorized),
        ("ada:secret", {"Origin": "https://evil.example"}, web.HTTPForbidden),
        ("ada:secret", {"Sec-Fetch-Site": "cross-site"}, web.HTTPForbidden),
    ],
)
def test_a_token_is_the_password_of_its_user(credentials: str, headers: dict[str, str], user: Any) -> None:
    """Where the gateway accepts passwords. Browsers keep them, so pages of other sites are kept out."""
    digest, text = hashlib.sha256(b"secret").hexdigest(), credentials.encode("utf-8", "surrogateescape")
    authentication = Authentication({digest: "ada"}, anonymous=False, is_basic=True, origins=["https://app.example"])
    request = with_token(f"Basic {b64encode(text).decode()}", **headers)
    if isinstance(user, str):
        assert authentication.principal_of(request) == user
        assert authentication.principal_of(with_token("Bearer secret")) == user
        return
    with pytest.raises(user):
        authentication.principal_of(request)


def with_token(authorization: str, **headers: str) -> web.Request:
    """A request of somebody who says that."""
    return make_mocked_request("GET", "/", headers={"Host": "localhost", "Authorization": authorization, **headers})


def test_a_page_of_another_site_is_known_by_its_fetch_metadata() -> None:
    """A picture of it sends no origin."""
    authentication = Authentication({}, anonymous=True)
    request = make_mocked_request("GET", "/things", headers={"Host": "localhost", "Sec-Fetch-Site": "cross-site"})
    with pytest.raises(web.HTTPForbidden):
        authentication.principal_of(request)


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ("AAH/", BYTES, b"\x00\x01\xff"),
        ("AAH/", {"type": "string"}, "AAH/"),
        ("AAH/", {"oneOf": [BYTES, {"type": "null"}]}, b"\x00\x01\xff"),
        (None, {"oneOf": [BYTES, {"type": "null"}]}, None),
        (["AAH/"], {"type": "array", "items": BYTES}, [b"\x00\x01\xff"]),
        (
            {"a": "AAH/", "b": "AAH/"},
            {"properties": {"a": BYTES}, "additionalProperties": False},
            {"a": b"\x00\x01\xff", "b": "AAH/"},
        ),
        ({"a": "AAH/"}, {"type": "object", "additionalProperties": BYTES}, {"a": b"\x00\x01\xff"}),
    ],
)
def test_bytes_are_base64_in_json_wherever_they_are(value: Any, schema: Any, expected: Any) -> None:
    """As they were written when they were read."""
    assert from_json(value, schema, "x") == expected


@pytest.mark.parametrize("text", ["A", "é", "####"])
def test_text_that_is_no_base64_is_a_bad_argument(text: str) -> None:
    """Whatever the library makes of it."""
    with pytest.raises(InvalidArgument, match="argument 'x': expected base64"):
        from_json(text, BYTES, "x")
