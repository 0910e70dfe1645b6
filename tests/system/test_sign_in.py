"""Sign-in by OpenID: a browser, a provider of the tests, and a system whose things obey the groups of its claims."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestServer

from appbackplane.runtime.permissions.permission_file import Permissions, change, read
from appbackplane.runtime.permissions.table import Permission
from tests.openid_server import SECRET, OpenIdServer
from tests.waiting import LIMIT_S, wait_until

from .conftest import System, ask_until
from .test_things import BRIGHTNESS, LAMP, TOML, Answer, house_up, killed_and_back

#: The environment variable with the secret.
SECRET_NAME = "APPBACKPLANE_TEST_OPENID_SECRET"
USER = f"{LAMP}/properties/user"


class Browser:
    """Cookies, and redirects that are followed."""

    def __init__(self, system: System) -> None:
        with system.connect() as client:
            self.at = ask_until(client, "gateway.address", bool).rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request, and read the answer to the last redirect."""
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{self.at}{path}", data, named, method=method)
        try:
            with self._opener.open(request, timeout=LIMIT_S) as response:
                return Answer(response.status, response.headers, json.loads(response.read() or b"null"))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, json.loads(error.read() or b"null"))

    def sign_in(self) -> Any:
        """What the gateway says about its user after the sign-in."""
        return self.ask("GET", "/sign-in?next=/whoami").body


@contextmanager
def gateway_with(issuer: str, *, user_claim: str = "sub") -> Iterator[System]:
    """A house whose gateway signs in by this provider; nobody but Ada, an operator, has a permission yet."""
    client = f'client_id = "things", client_secret_env = "{SECRET_NAME}"'
    openid = f'{{ issuer = "{issuer}", {client}, user_claim = "{user_claim}" }}'
    with house_up(f'{TOML}openid = {openid}\n[permissions]\noperators = ["local", "ada"]\n') as system:
        yield system


def family_reads(system: System) -> None:
    """The one permission: that of a group without members."""
    family = Permission(id="1", who="group:family", access=("read", "write:brightness"), things=("urn:dev:lamp-1",))
    change(Path(system.folder) / "permissions.json", lambda _: (Permissions(permissions=(family,)), None))


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdServer]:
    """The provider, in a thread of its own."""
    provider, loop = OpenIdServer(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def done(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(LIMIT_S)

    async def serving() -> TestServer:
        server = TestServer(provider.application())
        await server.start_server()
        return server

    server = done(serving())
    provider.issuer = str(server.make_url("")).rstrip("/")
    provider.now_s = time.time()
    yield provider
    done(server.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def house(provider: OpenIdServer, _no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_NAME, SECRET)
        with gateway_with(provider.issuer) as system:
            family_reads(system)
            yield system


def test_a_group_of_a_claim_holds_below_http(house: System, provider: OpenIdServer) -> None:
    """The backplane of the things decides, by the file alone; and no longer than until the sign-out."""
    provider.claims = {"sub": "cid", "groups": ["family"]}
    browser, path = Browser(house), Path(house.folder) / "permissions.json"
    assert browser.ask("GET", USER).status == 401
    assert browser.sign_in() == {"principal": "cid", "groups": ["family"]}
    assert browser.ask("GET", USER).body == "cid by web"
    assert browser.ask("PUT", BRIGHTNESS, 5, Sec_Fetch_Site="cross-site").status == 403
    assert browser.ask("PUT", BRIGHTNESS, 5, Sec_Fetch_Site="same-origin").status == 204
    assert browser.ask("GET", BRIGHTNESS).body == 5
    assert read(path).claimed["cid"].groups == ("family",)
    assert browser.ask("POST", "/sign-out", Sec_Fetch_Site="same-origin").status == 204
    assert browser.ask("GET", USER).status == 401
    assert "cid" not in read(path).claimed
    assert '"claim groups"' in Path(f"{path}.audit").read_text()


def test_a_user_without_the_group_sees_nothing(house: System, provider: OpenIdServer) -> None:
    """Though the provider has signed him in."""
    provider.claims = {"sub": "dora", "groups": ["staff"]}
    browser = Browser(house)
    assert browser.sign_in() == {"principal": "dora", "groups": ["staff"]}
    assert browser.ask("GET", USER).status == 404 and browser.ask("GET", "/things").body == []


def test_a_token_of_the_provider_is_enough_for_a_program(house: System, provider: OpenIdServer) -> None:
    """From its first request on."""
    provider.claims = {}
    token = provider.id_token(sub="eve", groups=["family"])
    stranger = provider.id_token(sub="eve", groups=["family"], aud="other")
    browser = Browser(house)
    assert browser.ask("GET", USER, Authorization=f"Bearer {token}").body == "eve by web"
    assert browser.ask("GET", USER, Authorization=f"Bearer {stranger}").status == 401


def test_sessions_and_claims_end_with_the_gateway(house: System, provider: OpenIdServer) -> None:
    """A gateway that is killed cannot remove them; the next one does."""
    provider.claims = {"sub": "finn", "groups": ["family"]}
    browser, path = Browser(house), Path(house.folder) / "permissions.json"
    browser.sign_in()
    assert "finn" in read(path).claimed
    killed_and_back(house, "web")
    wait_until(lambda: read(path).claimed == {}, "the claims are still there")
    again = Browser(house)
    assert again.sign_in()["principal"] == "finn"
    browser.at = again.at
    assert browser.ask("GET", USER).status == 401
