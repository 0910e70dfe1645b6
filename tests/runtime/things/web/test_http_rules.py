"""Rules of HTTP that the gateway keeps: conditions, other origins, compression, and how far it may be reached."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from appbackplane.runtime.things.web import parsing
from appbackplane.runtime.things.web.authentication import Authentication
from appbackplane.runtime.things.web.compression import COMPRESS_BYTES_MIN, THREAD_BYTES_MIN, accepts_gzip, compress
from appbackplane.runtime.things.web.conditional import etag_of, etag_of_gzip, is_met, is_unchanged, tagged
from appbackplane.runtime.things.web.cross_origin import checked_origins, headers_for, is_preflight
from appbackplane.runtime.things.web.gateway import Gateway

APP = "https://app.example"
TAG = etag_of(b"7")


@pytest.mark.parametrize(
    ("header", "same", "meets"),
    [
        (None, False, True),
        ("*", True, True),
        (TAG, True, True),
        (f'"other", {TAG}', True, True),
        (f"W/{TAG}", True, False),
        (etag_of_gzip(TAG), True, True),
        (etag_of(b"8"), False, False),
        (TAG[1:-1], False, False),
        ("", False, False),
    ],
)
def test_conditions_compare_entity_tags(header: str | None, same: bool, meets: bool) -> None:
    """RFC 9110, 13.1: If-None-Match takes weak tags for equal, If-Match does not; both take a list."""
    assert (is_unchanged(header, TAG), is_met(header, TAG)) == (same, meets)


def test_an_answer_that_the_client_has_is_not_sent_again() -> None:
    """With its tag, so that the next request can ask again."""
    request = make_mocked_request("GET", "/", headers={"If-None-Match": TAG})
    answer = tagged(request, b"7", "application/json", "no-cache")
    assert (answer.status, answer.body, answer.headers["ETag"]) == (304, None, TAG)
    assert tagged(request, b"8", "application/json", "no-cache").status == 200


def test_only_the_named_origins_may_read() -> None:
    """And every answer differs by origin, for caches."""
    assert headers_for(APP, (), preflight=False) == {}
    assert headers_for("https://evil.example", {APP}, preflight=True) == {"Vary": "Origin"}
    assert headers_for(None, {APP}, preflight=False) == {"Vary": "Origin"}
    found = headers_for(APP, {APP}, preflight=False)
    assert found["Access-Control-Allow-Origin"] == APP and "ETag" in found["Access-Control-Expose-Headers"]
    found = headers_for(APP, {APP}, preflight=True)
    assert "PUT" in found["Access-Control-Allow-Methods"] and "Authorization" in found["Access-Control-Allow-Headers"]
    assert not any("Credentials" in name for name in found)
    asking = {"Origin": APP, "Access-Control-Request-Method": "PUT"}
    assert is_preflight("OPTIONS", asking) and not is_preflight("GET", asking) and not is_preflight("OPTIONS", {})


@pytest.mark.parametrize(
    "origin", ["*", "null", "https://app.example/", "app.example", "https://App.example", "file://x", 5]
)
def test_an_origin_that_no_browser_sends_is_refused(origin: Any) -> None:
    """It would never match, and nobody would know why."""
    with pytest.raises(ValueError, match=r"origins: .* is no origin: expected SCHEME://HOST:PORT"):
        Gateway(origins=[origin])
    assert checked_origins([APP, "http://[::1]:8080"]) == {APP, "http://[::1]:8080"}


def test_a_page_of_a_named_origin_needs_no_token_in_the_anonymous_mode() -> None:
    """From any other site it still gets nothing."""
    authentication = Authentication({}, anonymous=True, origins={APP})
    headers = {"Host": "localhost", "Sec-Fetch-Site": "cross-site"}
    assert (
        authentication.principal_of(make_mocked_request("GET", "/", headers=headers | {"Origin": APP})) == "anonymous"
    )
    for origin in ("https://evil.example", "null"):
        with pytest.raises(web.HTTPForbidden):
            authentication.principal_of(make_mocked_request("GET", "/", headers=headers | {"Origin": origin}))
    rebound = headers | {"Origin": APP, "Host": "rebound.example"}
    with pytest.raises(web.HTTPForbidden):
        authentication.principal_of(make_mocked_request("GET", "/", headers=rebound))


@pytest.mark.parametrize(
    ("header", "accepts"),
    [
        ("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("", False), ("br", False), ("gzip;q=0", False),
        ("gzip; q=0.000, *", False), ("*;q=0", False), ("*;q=0, gzip", True), ("gzip;q=0.001", True),
    ],
)  # fmt: skip
def test_what_a_client_accepts(header: str, accepts: bool) -> None:
    """RFC 9110, 12.5.3; a quality of 0 is a refusal."""
    assert accepts_gzip(header) is accepts


@pytest.mark.parametrize("size", [COMPRESS_BYTES_MIN, COMPRESS_BYTES_MIN + 1, THREAD_BYTES_MIN + 1])
def test_large_answers_are_compressed_where_that_is_accepted(size: int) -> None:
    """With a tag of their own: a strong tag stands for bytes."""

    def answered(response: web.StreamResponse, accepted: str = "gzip") -> web.StreamResponse:
        asyncio.run(compress(make_mocked_request("GET", "/", headers={"Accept-Encoding": accepted}), response))
        return response

    response = answered(web.Response(body=b"x" * size, headers={"ETag": TAG}))
    assert isinstance(response, web.Response) and isinstance(response.body, bytes)
    if size == COMPRESS_BYTES_MIN:
        assert response.body == b"x" * size and "Vary" not in response.headers
        return
    assert gzip.decompress(response.body) == b"x" * size
    assert (response.headers["Content-Encoding"], response.headers["ETag"]) == ("gzip", etag_of_gzip(TAG))
    plain = answered(web.Response(body=b"x" * size, headers={"ETag": TAG}), accepted="br")
    assert isinstance(plain, web.Response) and plain.body == b"x" * size and plain.headers["ETag"] == TAG
    assert plain.headers["Vary"] == response.headers["Vary"] == "Accept-Encoding"
    assert "Content-Encoding" not in answered(web.StreamResponse()).headers


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tls": "yes"}, "tls = 'yes': expected \"self-signed\""),
        ({"key": "k.pem"}, "key = 'k.pem': it belongs to a given `certificate`"),
        ({"key": "k.pem", "certificate": "c.pem", "tls": "self-signed"}, "key = 'k.pem'"),
        ({"certificate": "none.pem"}, "certificate = 'none.pem' cannot be read: No such file"),
        ({"listen": "example.com:443", "tls": "self-signed"}, "expected an IP address: 0.0.0.0"),
        (
            {"listen": "0.0.0.0:443", "tls": "self-signed", "anonymous": True},
            "anonymous = true would serve whoever reaches",
        ),
        ({"listen": "0.0.0.0:80", "insecure": True, "anonymous": True}, "anonymous = true would serve whoever reaches"),
    ],
)
def test_settings_that_would_open_too_much_are_refused(settings: dict[str, Any], words: str) -> None:
    """When the backplane starts."""
    with pytest.raises(ValueError, match=words):
        Gateway(**settings)


@pytest.mark.parametrize("settings", [{"tls": "self-signed"}, {"insecure": True}])
def test_other_hosts_are_served_with_tls_or_by_name(settings: dict[str, Any]) -> None:
    """And by no accident."""
    assert Gateway(listen="0.0.0.0:0", **settings).fingerprint() == ""


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a client could hold a request, and its connection, for ever."""
    monkeypatch.setattr(parsing, "BODY_S", 0.01)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        protocol = BaseProtocol(loop)
        protocol.connection_made(asyncio.Transport())
        payload = StreamReader(protocol, 1 << 16, loop=loop)
        payload.feed_data(b"[1,")
        with pytest.raises(web.HTTPRequestTimeout):
            await parsing.json_of(make_mocked_request("PUT", "/", payload=payload))

    asyncio.run(main())
