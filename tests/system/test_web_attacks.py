"""Attacks on a gateway, by OWASP's API security top ten of 2023, with the number of each: what applies over HTTP here.

API2 (authentication) is in test_things.py, API1 and API5 with permissions in test_permissions.py, API9 (old versions) has no
subject: there is one interface, and each Thing Description lists all of it. API10 neither: the gateway calls nobody.
"""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.waiting import LIMIT_S, wait_until

from .conftest import System
from .raw_http import exchange, request, statuses
from .test_things import BRIGHTNESS, LAMP, OVERHEATED, TOKEN, Web, house_up

PROPERTIES = f"{LAMP}/properties"


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all."""
    with house_up() as system:
        yield system


@pytest.fixture
def web(house: System) -> Web:
    """Ada's client."""
    return Web(house)


def asked(web: Web, method: str, path: str, *headers: str, body: bytes = b"") -> tuple[int, bytes]:
    """The only status of the answer to a raw request of Ada's, and the whole answer."""
    answer = exchange(web._at, request(method, path, *headers, body=body, token=TOKEN))
    (status,) = statuses(answer)
    return status, answer


# -- API1: objects of others; API3: members of theirs ------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/things/../things/urn:dev:lamp-1/../../gates", "/things/%2e%2e/%2e%2e/etc/passwd", "/things/..%2f..%2fetc%2fpasswd",
        "/things/%252e%252e%252fgates", "/things/gates", "/things/urn:appbackplane:gates:gates", "/things/house",
        f"{LAMP}/properties/__class__", f"{LAMP}/properties/level", f"{LAMP}/properties/set_brightness",
        f"{LAMP}/properties/brightness%00", f"{LAMP}/properties/%2e%2e/brightness", f"{LAMP}%00", f"{LAMP}%2f",
        f"/{LAMP}", "//evil.example/things", "/things/urn:dev:lamp-1;x=1", "/things/urn%253Adev%253Alamp-1",
        f"{LAMP}/actions/hold/../../..", "/.git/config", "/\\..\\things", f"{LAMP}/events/brightness/stream",
    ],
)  # fmt: skip
def test_a_path_leads_to_a_thing_or_nowhere(web: Web, path: str) -> None:
    """An id is compared as a whole, once decoded. Nothing is a file, an attribute or an object that is no thing."""
    status, _ = asked(web, "GET", path)
    assert status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", f"{LAMP}/actions/describe", 404), ("POST", f"{LAMP}/actions/notify_all", 404),
        ("POST", f"{LAMP}/actions/set_brightness", 404), ("POST", f"{LAMP}/actions/brightness", 404),
        ("PUT", f"{LAMP}/properties/hold", 404), ("POST", "/things/house/actions/describe", 404),
    ],
)  # fmt: skip
def test_only_affordances_can_be_used(web: Web, method: str, path: str, status: int) -> None:
    """Other operations of the same object are not for the web, whatever they are called."""
    assert asked(web, method, path, body=b"{}")[0] == status


@pytest.mark.parametrize("name", ["key", "timeout", "priority", "principal", "self", "__class__", "value", "level"])
def test_an_action_takes_its_own_parameters_and_no_others(web: Web, name: str) -> None:
    """Mass assignment: what stands beside the arguments in a call cannot be said in a body."""
    status, answer = asked(web, "POST", f"{LAMP}/actions/double", body=json.dumps({"number": 3, name: 1}).encode())
    assert status == 400 and name.encode() in answer
    assert asked(web, "PUT", PROPERTIES, body=json.dumps({"brightness": 1, name: 1}).encode())[0] == 404


def test_nobody_says_who_he_is_in_a_header(web: Web) -> None:
    """The token alone does."""
    headers = {"X_Forwarded_User": "eve", "X_Remote_User": "eve", "Principal": "local", "Forwarded": "for=local"}
    assert web.ask("GET", f"{LAMP}/properties/user", **headers).body == "ada by web"
    assert asked(web, "GET", f"{PROPERTIES}/user?principal=eve&token={TOKEN}")[1].endswith(b'"ada by web"')
    assert statuses(exchange(web._at, request("GET", f"{LAMP}?token={TOKEN}&access_token={TOKEN}"))) == [401]
    twice = request("GET", LAMP, "Authorization: Bearer guess", token=TOKEN)
    assert statuses(exchange(web._at, twice)) in ([400], [401]), "of two tokens the first one counts"


# -- API4: resources --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        request("GET", "/things?" + "a" * 100_000, token=TOKEN),
        request("GET", LAMP, "X: " + "a" * 100_000, token=TOKEN),
        request("GET", LAMP, *(f"X{number}: 1" for number in range(5_000)), token=TOKEN),
        request("G" * 100_000, LAMP, token=TOKEN),
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX:" + b" " * 1_000_000,
        b"\r\n" * 100_000 + b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_huge_head_is_refused(web: Web, data: bytes) -> None:
    """Before it is whole, or it would be kept."""
    assert set(statuses(exchange(web._at, data, is_whole=False))) <= {400, 414, 431}
    assert web.ask("GET", BRIGHTNESS).status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (BRIGHTNESS, b"[" * 500_000), (BRIGHTNESS, b'{"a":' * 100_000), (BRIGHTNESS, b"9" * 500_000), (BRIGHTNESS, b"1e999999"),
        (f"{LAMP}/properties/picture", b'"' + b"A" * 2_000_000 + b'"'), (BRIGHTNESS, b"\xef\xbb\xbf5"),
        (PROPERTIES, b"[" * 500_000),
    ],
)  # fmt: skip
def test_a_body_that_would_cost_more_than_it_says_is_refused(web: Web, path: str, body: bytes) -> None:
    """Nested, endless or large: with its status, and the gateway lives."""
    assert asked(web, "PUT", path, body=body)[0] in (400, 413)
    chunks = request("PUT", path, "Transfer-Encoding: chunked", token=TOKEN) + b"%x\r\n%s\r\n0\r\n\r\n" % (
        len(body),
        body,
    )
    assert statuses(exchange(web._at, chunks)) in ([400], [413])


@pytest.mark.parametrize(
    ("query", "status"),
    [("limit=99999999", 200), ("limit=1e9", 400), ("offset=999999999", 200), ("limit=-1", 400), ("limit=", 400)],
)
def test_a_page_is_bounded_whatever_is_asked_for(web: Web, query: str, status: int) -> None:
    """A thousand things at most."""
    assert asked(web, "GET", f"/things?{query}")[0] == status


def test_connections_up_to_the_limit_of_descriptors_shut_nobody_out(house: System, web: Web) -> None:
    """Mute ones make room. Where all are busy, others wait, and the gateway neither dies nor forgets them."""
    pid = house.pids()["web"]
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    host, _, port = web._at.rpartition(":")
    since = len(house.said)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (128, before[1]))
    try:
        with ExitStack() as held:
            for number in range(400):
                mute = held.enter_context(socket.create_connection((host, int(port)), timeout=LIMIT_S))
                mute.sendall(b"GET /things HTTP/1.1\r\nX: "[: number % 30])
            for value in range(5):
                assert web.ask("PUT", BRIGHTNESS, value).status == 204 and web.ask("GET", BRIGHTNESS).body == value
        with ExitStack() as held:
            streams = [
                held.enter_context(socket.create_connection((host, int(port)), timeout=LIMIT_S)) for _ in range(200)
            ]
            for stream in streams:
                stream.sendall(request("GET", OVERHEATED, token=TOKEN))
            told = "requests are under way on all connections"
            wait_until(lambda: any(told in line for line in house.said[since:]), "the log does not say it")
            late = held.enter_context(socket.create_connection((host, int(port)), timeout=LIMIT_S))
            late.sendall(request("GET", BRIGHTNESS, token=TOKEN))
            for stream in streams:
                stream.close()
            assert late.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert house.pids()["web"] == pid


# -- API7 and API8: forged requests, and what is between client and gateway ------------------------------------------


@pytest.mark.parametrize("host", ["", "a b", "evil.example/x", "evil.example:99999999", "[::1", "a\x00b", "x@y"])
def test_a_host_that_is_none_is_refused(web: Web, host: str) -> None:
    """Addresses in descriptions are made of it."""
    assert asked(web, "GET", LAMP, f"Host: {host}")[0] == 400


def test_a_request_reaches_no_other_server(web: Web) -> None:
    """Of an absolute address the path counts; nothing is fetched, and no answer redirects."""
    for path in ("http://169.254.169.254/things", "http://evil.example/things", "gopher://evil.example/things"):
        status, answer = asked(web, "GET", path)
        assert (status == 200 and b"urn:dev:lamp-1" in answer) or status in (400, 404)
    assert asked(web, "CONNECT", "evil.example:443")[0] in (400, 404, 405)


@pytest.mark.parametrize(
    "smuggled",
    [
        "Content-Length: 3\r\nContent-Length: 4", "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: xchunked",
        "Transfer-Encoding:\x0bchunked", "Transfer-Encoding: chunked, identity", "Content-Length: +3", "Content-Length: 0x3",
        "Content-Length : 3", "Content-Length: 3 4", "Content-Length: -0", "X: 1\r\n Content-Length: 3",
    ],
)  # fmt: skip
def test_two_readings_of_one_request_are_refused(web: Web, smuggled: str) -> None:
    """A proxy may read it in the other way, and the rest as the request of somebody else."""
    hidden = request("PUT", BRIGHTNESS, body=b"99", token=TOKEN)
    assert web.ask("PUT", BRIGHTNESS, 7).status == 204
    data = (
        f"PUT {BRIGHTNESS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{smuggled}\r\n\r\n".encode()
    )
    answer = exchange(web._at, data + b"0\r\n\r\n" + hidden)
    assert 204 not in statuses(answer), answer
    assert web.ask("GET", BRIGHTNESS).body == 7


@pytest.mark.parametrize("name", ["x%0d%0aSet-Cookie: a=b", "%0aX: 1", "<script>alert(1)</script>", "%e2%80%a8"])
def test_a_name_comes_back_as_json_and_never_as_a_header(web: Web, name: str) -> None:
    """Header injection, and text that a browser would run."""
    status, answer = asked(web, "GET", f"{PROPERTIES}/{name.replace(' ', '%20')}")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert status == 404 and b"set-cookie" not in head.lower() and b"\nX:" not in head
    assert b"application/problem+json" in head and json.loads(body)["status"] == 404


def test_errors_tell_nothing_of_the_inside(web: Web) -> None:
    """Neither of files nor of versions."""
    for method, path, body in (
        ("PUT", BRIGHTNESS, b"{"),
        ("GET", "/nowhere", b""),
        ("POST", f"{LAMP}/actions/double", b"[]"),
    ):
        _, answer = asked(web, method, path, body=body)
        assert not [word for word in (b"Traceback", b".py", b"File ", b"/usr", b"site-packages") if word in answer]


def test_every_answer_is_what_it_says(web: Web) -> None:
    """A browser must not guess that JSON is a page, and no page may show it in a frame."""
    with closing(web.open("GET", OVERHEATED)) as stream:
        assert stream.headers["X-Content-Type-Options"] == "nosniff"
    for path in (LAMP, BRIGHTNESS, "/nowhere"):
        assert web.ask("GET", path).headers["X-Content-Type-Options"] == "nosniff"
