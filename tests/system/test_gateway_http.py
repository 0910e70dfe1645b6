"""The gateway as a server of HTTP: TLS, conditions, other origins, compression, and several properties in one write."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import shutil
import socket
import ssl
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.things.web.tls import loaded, self_signed
from tests.waiting import LIMIT_S, wait_until

from .conftest import System, ask_until
from .test_things import BRIGHTNESS, LAMP, OVERHEATED, TOKEN, TOML, Web, house_up

APP = "https://app.example"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PROPERTIES = f"{LAMP}/properties"
NEEDS_OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="the program openssl is not installed here")


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all that needs no TLS."""
    with house_up(f'{TOML}origins = ["{APP}"]') as system:
        yield system


@pytest.fixture
def web(house: System) -> Web:
    """Ada's client."""
    return Web(house)


# -- TLS --------------------------------------------------------------------------------------------------------------


def address_of(system: System) -> tuple[str, str]:
    """The gateway's host and port, and its fingerprint."""
    with system.connect() as client:
        address = ask_until(client, "gateway.address", bool)
        fingerprint = client.call("gateway.fingerprint")
    assert address.startswith("https://127.0.0.1:")
    return address.removeprefix("https://").rstrip("/"), fingerprint


@NEEDS_OPENSSL
@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_a_self_signed_certificate_stays() -> None:
    """Clients know it by its fingerprint, which is told, also after a restart; its key is nobody else's."""
    with house_up(f'{TOML}tls = "self-signed"', things=()) as system:  # a client of plain HTTP cannot ask for them
        at, fingerprint = address_of(system)
        line = system.wait_for(f"SHA-256 fingerprint is {fingerprint}")
        assert at in line
        file = Path(system.wait_for("self-signed certificate: /").rpartition(": ")[2])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.parent == Path(system.folder) / "state" / "appbackplane", "beside the log folder"
        context = ssl.create_default_context(cafile=str(file))
        with closing(http.client.HTTPSConnection(at, timeout=LIMIT_S, context=context)) as connection:

            def described() -> Any:
                connection.request("GET", LAMP, headers=BEARER)
                answer = connection.getresponse()
                td = json.loads(answer.read())
                return td if answer.status == 200 else None

            wait_until(described, "the lamp is not listed")
            used = connection.sock
            assert described()["base"] == f"https://{at}/" and connection.sock is used, "on one connection"
            assert connection.sock.selected_alpn_protocol() is None and connection.sock.version() in (
                "TLSv1.2",
                "TLSv1.3",
            )
        host, _, port = at.partition(":")
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while plain.recv(1 << 16):
                pass
        os.kill(system.pids()["web"], 9)
        system.wait_for("'web': up again")
        assert address_of(system)[1] == fingerprint


def made(folder: Path, name: str, *, ended: bool = False) -> Path:
    """A certificate with its key, by openssl; one that has ended is signed by its tool for authorities."""
    pem, key = folder / f"{name}.pem", folder / f"{name}.key"

    def openssl(*words: str) -> None:
        done = subprocess.run(
            ["openssl", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stderr

    new_key = (
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        str(key),
        "-subj",
        "/CN=x",
    )
    if not ended:
        openssl("req", "-x509", *new_key, "-days", "9", "-addext", "subjectAltName=IP:127.0.0.1", "-out", str(pem))
        return pem
    (folder / "index").touch()
    (folder / "ca.conf").write_text(
        f"[ca]\ndefault_ca=x\n[x]\ndatabase={folder}/index\nrand_serial=yes\nnew_certs_dir={folder}\ndefault_md=sha256\n"
        "policy=p\n[p]\ncommonName=supplied\n"
    )
    openssl("req", *new_key, "-new", "-out", "request")
    openssl(
        "ca", "-batch", "-config", "ca.conf", "-selfsign", "-keyfile", str(key), "-in", "request", "-out", str(pem),
        "-startdate", "20200101000000Z", "-enddate", "20210101000000Z",
    )  # fmt: skip
    return pem


@NEEDS_OPENSSL
def test_a_certificate_that_no_client_takes_is_one_line_at_the_start(tmp_path: Path) -> None:
    """Not the riddle of the first client."""
    good, other, ended = made(tmp_path, "good"), made(tmp_path, "other"), made(tmp_path, "ended", ended=True)
    assert len(loaded(str(good), str(good.with_suffix(".key"))).fingerprint) == 95
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "pkey", "-in", good.with_suffix(".key"), "-aes256", "-passout", "pass:word", "-out", locked],
        check=True,
    )
    (tmp_path / "text.pem").write_text("no certificate")
    for certificate, key, words in (
        (ended, ended.with_suffix(".key"), "ended.pem': certificate has expired: give the gateway a new one"),
        (good, other.with_suffix(".key"), "this key is not that of the certificate"),
        (good, locked, "has a password: store it without one"),
        (good, tmp_path / "text.pem", "not a certificate with its key in PEM"),
        (good, tmp_path / "none.key", "none.key' cannot be read: No such file"),
        (tmp_path / "text.pem", tmp_path / "text.pem", "no PEM certificate is in this file"),
        (tmp_path, tmp_path, "cannot be read: Is a directory"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            loaded(str(certificate), str(key))
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"x\.pem cannot be written"):
        self_signed(tmp_path / "text.pem" / "x.pem")


# -- conditions -------------------------------------------------------------------------------------------------------


def test_what_has_not_changed_is_not_sent_again(web: Web) -> None:
    """A value, all values, and descriptions, although each of these has a queue of its own."""
    web.ask("PUT", BRIGHTNESS, 20)
    for path in (BRIGHTNESS, PROPERTIES, LAMP, "/things", f"{LAMP}/properties/picture"):
        first = web.ask("GET", path)
        again = web.ask("GET", path, If_None_Match=first.headers["ETag"])
        assert (first.status, again.status, again.body) == (200, 304, None)
        assert again.headers["ETag"] == first.headers["ETag"]
    tag = web.ask("GET", BRIGHTNESS).headers["ETag"]
    web.ask("PUT", BRIGHTNESS, 21)
    changed = web.ask("GET", BRIGHTNESS, If_None_Match=tag)
    assert (changed.status, changed.body) == (200, 21)


def test_of_those_who_change_the_same_value_one_does(web: Web) -> None:
    """The others learn that theirs was made from an old one, and nothing is lost."""
    for path, values in ((BRIGHTNESS, range(30, 40)), (f"{LAMP}/properties/picture", ["AAA=", "AAE=", "AAI=", "AAM="])):
        assert web.ask("PUT", path, 29 if path == BRIGHTNESS else "AP8=").status == 204, "none of the values below"
        tag = web.ask("GET", path).headers["ETag"]
        with ThreadPoolExecutor(4) as pool:
            answers = [*pool.map(lambda value, path=path, tag=tag: web.ask("PUT", path, value, If_Match=tag), values)]
        statuses = sorted(each.status for each in answers)
        assert statuses == [204] + [412] * (len(answers) - 1)
        refused = next(each for each in answers if each.status == 412)
        assert "has another value by now: read it again" in refused.body["detail"]
        assert web.ask("PUT", path, values[0], If_Match="*").status == 204


# -- other origins ----------------------------------------------------------------------------------------------------


def test_pages_of_a_named_origin_may_use_the_gateway(web: Web) -> None:
    """Errors and streams included; a preflight needs no token. Pages of other origins get no leave."""
    asking = {"Access_Control_Request_Method": "PUT", "Access_Control_Request_Headers": "authorization"}
    stranger = Web.__new__(Web)
    stranger._at, stranger._headers = web._at, {}
    for path in (BRIGHTNESS, "/nowhere"):
        preflight = stranger.ask("OPTIONS", path, Origin=APP, **asking)
        assert (preflight.status, preflight.headers["Access-Control-Allow-Origin"]) == (204, APP)
        assert "PUT" in preflight.headers["Access-Control-Allow-Methods"]
        evil = stranger.ask("OPTIONS", path, Origin="https://evil.example", **asking)
        assert evil.headers["Access-Control-Allow-Origin"] is None and evil.headers["Vary"] == "Origin"
    assert stranger.ask("OPTIONS", BRIGHTNESS, Origin=APP).status == 401, "no preflight"
    for client, path, status in ((web, BRIGHTNESS, 200), (web, "/nowhere", 404), (stranger, BRIGHTNESS, 401)):
        answer = client.ask("GET", path, Origin=APP)
        assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (status, APP)
        assert "Access-Control-Allow-Credentials" not in answer.headers
        assert client.ask("GET", path).headers["Vary"] == "Origin"
    with closing(web.open("GET", OVERHEATED, Origin=APP)) as stream:
        assert stream.headers["Access-Control-Allow-Origin"] == APP


# -- compression ------------------------------------------------------------------------------------------------------


def test_large_answers_are_compressed_and_streams_never(web: Web) -> None:
    """The tag of a compressed answer serves as a condition, too."""
    with closing(web.open("GET", LAMP, Accept_Encoding="gzip")) as response:
        assert response.headers["Content-Encoding"] == "gzip" and "Accept-Encoding" in response.headers.get_all(
            "Vary", []
        )
        assert json.loads(gzip.decompress(response.read()))["id"] == "urn:dev:lamp-1"
        tag = response.headers["ETag"]
    assert web.ask("GET", LAMP, If_None_Match=tag).status == 304
    assert web.ask("GET", LAMP, If_None_Match=tag, Accept_Encoding="gzip").status == 304
    assert web.ask("GET", BRIGHTNESS, Accept_Encoding="gzip").headers["Content-Encoding"] is None
    with closing(web.open("GET", OVERHEATED, Accept_Encoding="gzip")) as stream:
        assert stream.headers["Content-Encoding"] is None and stream.readline() == b": open\n"


# -- several properties -----------------------------------------------------------------------------------------------


def test_several_properties_are_written_in_their_order(web: Web) -> None:
    """By the form of the description."""
    forms = {op: form for form in web.ask("GET", LAMP).body["forms"] for op in form["op"]}
    path = "/" + forms["writemultipleproperties"]["href"]
    assert web.ask("PUT", path, {"brightness": 50, "picture": "AAE="}).status == 204
    found = web.ask("GET", path).body
    assert (found["brightness"], found["picture"]) == (50, "AAE=")


@pytest.mark.parametrize(
    ("body", "status", "words", "brightness", "picture"),
    [
        ({"brightness": 60, "colour": 1}, 404, "has no 'colour' in its properties", 50, "AAE="),
        ({"brightness": 60, "user": "eve"}, 400, "property 'user' is read only: none is written", 50, "AAE="),
        (
            {"picture": "AAI=", "brightness": 101},
            400,
            "property 'brightness': .*<= 100.*(written: picture)",
            50,
            "AAI=",
        ),
        ({"brightness": 101, "picture": "AAI="}, 400, "(written: none)", 50, "AAE="),
        ({"picture": "A", "brightness": 60}, 400, "expected base64", 50, "AAE="),
        ([1], 400, "expected an object with the values by property", 50, "AAE="),
        (None, 400, "expected an object with the values by property", 50, "AAE="),
    ],
)
def test_a_write_of_several_says_how_far_it_came(
    web: Web, body: object, status: int, words: str, brightness: int, picture: str
) -> None:
    """What cannot be written at all is known before; then they are written one by one up to the first failure."""
    assert web.ask("PUT", PROPERTIES, {"brightness": 50, "picture": "AAE="}).status == 204
    answer = web.ask("PUT", PROPERTIES, body)
    assert answer.status == status
    assert all(part in answer.body["detail"] for part in words.split(".*")), answer.body
    found = web.ask("GET", PROPERTIES).body
    assert (found["brightness"], found["picture"]) == (brightness, picture)
