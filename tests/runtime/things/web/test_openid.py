"""Sign-in by OpenID over HTTP: the gateway's routes against a provider of the tests, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from appbackplane.runtime.permissions.permission_file import change, read
from appbackplane.runtime.permissions.table import ClaimedGroups
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.things.web import openid_provider
from appbackplane.runtime.things.web.access import Access
from appbackplane.runtime.things.web.authentication import AttemptLimit, Authentication, digest_of
from appbackplane.runtime.things.web.credentials import IDLE_S, SESSION_S
from appbackplane.runtime.things.web.failed_attempts import FAILURES_MAX
from appbackplane.runtime.things.web.openid import OpenIdSignIn
from appbackplane.runtime.things.web.openid_provider import ANSWER_BYTES_MAX, FETCH_AGAIN_S, KEEP_S
from appbackplane.runtime.things.web.openid_settings import OpenIdSettings
from appbackplane.transport.errors import BackplaneError
from tests.openid_server import CLIENT, SECRET, OpenIdServer, signed

NOW = 1_000_000.0
SAME = {"Sec-Fetch-Site": "same-origin"}


@dataclass
class Setting:
    """A gateway's sign-in, its provider, and a browser."""

    at: str
    provider: OpenIdServer
    browser: aiohttp.ClientSession
    path: Path
    clock: Callable[[float], None]
    stop: Callable[[], None]
    opened: asyncio.Event

    async def get(self, path: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers; redirects are not followed."""
        return await self.ask("GET", path, headers)

    async def ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        """The same for any method."""
        address = path if path.startswith("http") else f"{self.at}{path}"
        async with self.browser.request(method, address, headers=headers, allow_redirects=False) as response:
            body = await response.json(content_type=None) if response.status < 300 else await response.text()
            return response.status, body, dict(response.headers)

    async def callback(self, path: str = "/sign-in") -> str:
        """Begin a sign-in, and let the provider sign in: the address to which it sends the browser."""
        status, _, headers = await self.get(path)
        assert status == 303, status
        status, _, headers = await self.get(headers["Location"])
        assert status == 302
        return headers["Location"]

    async def sign_in(self, path: str = "/sign-in") -> tuple[int, str]:
        """Sign in: the status of the callback, and where it leads."""
        status, _, headers = await self.get(await self.callback(path))
        return status, headers.get("Location", "")


@asynccontextmanager
async def setting(path: Path, *, base: str = "", user_claim: Any = "sub") -> AsyncIterator[Setting]:
    """All of them, until the test ends."""
    provider, stopping, opened, now = OpenIdServer(), asyncio.Event(), asyncio.Event(), [NOW]
    provider.now_s = NOW
    issuing = TestServer(provider.application())
    await issuing.start_server()
    provider.issuer = str(issuing.make_url("")).rstrip("/")
    settings = OpenIdSettings(provider.issuer, CLIENT, user_claim=user_claim)
    policy = PermissionPolicy(file=str(path), operators=(), audit=f"{path}.audit")

    def unix_s() -> float:
        return now[0]

    authentication = Authentication({digest_of("ey.static.token"): "tool"}, anonymous=False, limit=AttemptLimit(unix_s))
    access = Access(policy, unix_s)
    sign_in = OpenIdSignIn(settings, SECRET, authentication, access, unix_s, base=base, name="web")

    @web.middleware
    async def guard(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            return await sign_in.answer(request, handler)
        except BackplaneError as error:
            return web.Response(status=599 if error.status.name == "UNAVAILABLE" else 400, text=str(error))

    async def whoami(request: web.Request) -> web.Response:
        return web.json_response([request["principal"], sorted(request.get("groups", ()))])

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        opened.set()
        await asyncio.Event().wait()
        return response

    application = web.Application(middlewares=[guard])
    application.add_routes([*sign_in.routes(), web.get("/whoami", whoami), web.put("/write", whoami)])
    application.add_routes([web.get("/stream", stream)])
    async with sign_in.running(stopping), aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        serving = TestServer(application)
        await serving.start_server()

        def set_clock(to: float) -> None:
            now[0] = provider.now_s = to

        yield Setting(str(serving.make_url("")).rstrip("/"), provider, browser, path, set_clock, stopping.set, opened)
        stopping.set()
        await serving.close()
    await issuing.close()


def run(path: Path, test: Callable[[Setting], Awaitable[None]], **more: Any) -> None:
    """Run a test in a loop of its own."""

    async def main() -> None:
        async with setting(path / "permissions.json", **more) as given:
            await test(given)

    asyncio.run(main())


def test_a_browser_signs_in_and_out(tmp_path: Path) -> None:
    """The groups of the claim hold below HTTP from then until then."""

    async def test(web: Setting) -> None:
        web.provider.claims = {"groups": ["family"]}
        assert (await web.get("/whoami"))[0] == 401
        assert await web.sign_in("/sign-in?next=/things?limit=5") == (303, f"{web.at}/things?limit=5")
        assert (await web.get("/whoami"))[:2] == (200, ["ada", ["family"]])
        assert read(web.path).claimed == {"ada": ClaimedGroups(("family",), NOW + SESSION_S, "web")}
        status, _, headers = await web.ask("POST", "/sign-out", SAME)
        assert status == 204 and "Max-Age=0" in headers["Set-Cookie"]
        assert (await web.get("/whoami"))[0] == 401
        assert read(web.path).claimed == {}

    run(tmp_path, test)


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(tmp_path: Path) -> None:
    """Behind TLS it has the prefix that keeps it to this host."""

    async def test(web: Setting) -> None:
        _, _, headers = await web.get("/sign-in")
        assert headers["Set-Cookie"].startswith("__Host-appbackplane-sign-in=")
        assert all(word in headers["Set-Cookie"] for word in ("HttpOnly", "Secure", "SameSite=Lax", "Path=/"))
        query = parse_qs(urlsplit(headers["Location"]).query)
        assert query["redirect_uri"] == ["https://things.example/sign-in/callback"]
        assert headers["Cache-Control"] == "no-store"

    run(tmp_path, test, base="https://things.example/")


def test_a_cookie_of_plain_http_is_out_of_reach_of_scripts(tmp_path: Path) -> None:
    """And an id that somebody else has set counts for nothing: the sign-in makes a new one."""

    async def test(web: Setting) -> None:
        web.browser.cookie_jar.update_cookies({"appbackplane-session": "fixed"})
        _, _, headers = await web.get(await web.callback())
        said = headers["Set-Cookie"]
        assert said.startswith("appbackplane-session=") and "fixed" not in said
        assert "HttpOnly" in said and "SameSite=Lax" in said and "Secure" not in said

    run(tmp_path, test)


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/%5Cevil.example", "/%0d%0aX:%20y", "", "things"]
)
def test_nobody_is_led_elsewhere(tmp_path: Path, path: str) -> None:
    """An open redirect lends our name to a forged page."""

    async def test(web: Setting) -> None:
        status, _, headers = await web.get(f"/sign-in?next={path}")
        assert status == 400 and "Location" not in headers

    run(tmp_path, test)


def test_a_callback_counts_once_and_in_its_own_browser(tmp_path: Path) -> None:
    """Else an attacker signs his victim in as himself, or replays an address from a log."""

    async def test(web: Setting) -> None:
        callback = await web.callback()
        async with aiohttp.ClientSession() as other, other.get(callback, allow_redirects=False) as response:
            assert response.status == 403 and "Set-Cookie" not in response.headers
        for changed in (callback.replace("state=", "state=x"), callback.partition("?")[0], f"{callback}&error=x"):
            if changed != f"{callback}&error=x":
                assert (await web.get(changed))[0] == 403
        cookies = {each.key: each.value for each in web.browser.cookie_jar}
        assert (await web.get(callback))[0] == 303
        web.browser.cookie_jar.update_cookies(cookies)
        assert (await web.get(callback))[0] == 403, "the state has been used"
        assert web.provider.requests["/token"] == 1, "a replay does not reach the provider"

    run(tmp_path, test)


@pytest.mark.parametrize("more", ["&error=access_denied", "&iss=https://evil.example"])
def test_an_answer_of_an_error_or_of_another_provider_signs_nobody_in(tmp_path: Path, more: str) -> None:
    """RFC 9207: two providers must not be mixed up."""

    async def test(web: Setting) -> None:
        assert (await web.get(await web.callback() + more))[0] == 403
        assert "/token" not in web.provider.requests

    run(tmp_path, test)


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "other"},
        {"aud": "other"},
        {"iss": "https://evil.example"},
        {"exp": NOW - 100},
        {"sub": ""},
        {"sub": "local"},
    ],
)
def test_a_wrong_id_token_signs_nobody_in_and_says_nothing(tmp_path: Path, claims: dict[str, Any]) -> None:
    """The answer is the same for all of them."""

    async def test(web: Setting) -> None:
        web.provider.claims = claims
        status, body, _ = await web.get(await web.callback())
        assert (status, body) == (403, "the sign-in has failed: begin again at /sign-in")
        assert (await web.get("/whoami"))[0] == 401

    run(tmp_path, test)


def test_claims_may_come_from_userinfo_of_the_same_user(tmp_path: Path) -> None:
    """Some providers put no more than `sub` into the token."""

    async def test(web: Setting) -> None:
        web.provider.info = {"sub": "eve", "email": "eve@x.example", "email_verified": True}
        assert (await web.sign_in())[0] == 403
        web.provider.info = {
            "sub": "ada",
            "email": "ada@x.example",
            "email_verified": True,
            "groups": ["g"],
            "iss": "x",
        }
        assert (await web.sign_in())[0] == 303
        assert (await web.get("/whoami"))[1] == ["ada@x.example", ["g"]]

    run(tmp_path, test, user_claim="email")


def test_changes_with_a_cookie_come_from_our_own_pages(tmp_path: Path) -> None:
    """A page of another site can have a browser send a form with our cookie."""

    async def test(web: Setting) -> None:
        await web.sign_in()
        for headers, status in (
            (SAME, 200),
            ({"Origin": web.at}, 200),
            ({"Origin": web.at} | SAME, 200),
            ({}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "https://evil.example"} | SAME, 403),
            ({"Origin": web.at, "Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
        ):
            assert (await web.ask("PUT", "/write", headers))[0] == status, headers
        assert (await web.ask("POST", "/sign-out", {"Sec-Fetch-Site": "cross-site"}))[0] == 403
        assert (await web.get("/whoami"))[0] == 200

    run(tmp_path, test)


def test_sessions_end_when_they_are_idle(tmp_path: Path) -> None:
    """Also where the browser still has the cookie."""

    async def test(web: Setting) -> None:
        await web.sign_in()
        web.clock(NOW + IDLE_S - 1)
        assert (await web.get("/whoami"))[0] == 200
        web.clock(NOW + 2 * IDLE_S)
        assert (await web.get("/whoami"))[0] == 401

    run(tmp_path, test)


def test_a_stream_ends_with_its_session(tmp_path: Path) -> None:
    """Otherwise somebody who has signed out goes on to see."""

    async def test(web: Setting) -> None:
        await web.sign_in()
        async with web.browser.get(f"{web.at}/stream") as response:
            await web.opened.wait()
            assert (await web.ask("POST", "/sign-out", SAME))[0] == 204
            with pytest.raises(aiohttp.ClientError):
                await response.read()

    run(tmp_path, test)


def bearer(token: str) -> dict[str, str]:
    """The header."""
    return {"Authorization": f"Bearer {token}"}


def test_a_token_of_the_provider_is_a_bearer_token(tmp_path: Path) -> None:
    """It is verified once, until it expires; its groups count, too. The header counts before the cookie."""

    async def test(web: Setting) -> None:
        await web.sign_in()
        token = web.provider.id_token(sub="ben", groups=["staff"])
        for _ in range(3):
            assert (await web.ask("PUT", "/write", bearer(token)))[:2] == (200, ["ben", ["staff"]])
        assert set(read(web.path).claimed) == {"ben"}
        assert (await web.get("/whoami", **bearer("ey.static.token")))[1] == ["tool", []]
        for wrong in ("eyx.y.z", token[:-4], "unknown", web.provider.id_token(aud="other")):
            status, body, headers = await web.get("/whoami", **bearer(wrong))
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer") and "known bearer token" in body
        assert (await web.get("/whoami", Authorization="Basic YWRhOng="))[0] == 401
        web.clock(NOW + 1_000)
        assert (await web.get("/whoami", **bearer(token)))[0] == 401

    run(tmp_path, test)


def test_new_keys_are_fetched_for_an_unknown_one_and_not_more_often(tmp_path: Path) -> None:
    """A provider changes its keys; and others invent some."""

    async def test(web: Setting) -> None:
        assert (await web.get("/whoami", **bearer(web.provider.id_token())))[0] == 200
        assert web.provider.requests["/keys"] == 1
        web.clock(NOW + FETCH_AGAIN_S)
        web.provider.kids = ("rsa-2",)
        web.provider.kid = "rsa-2"
        assert (await web.get("/whoami", **bearer(web.provider.id_token(jti="1"))))[0] == 200
        forged = [signed({"sub": str(number)}, kid=f"k{number}") for number in range(5)]
        assert {(await web.get("/whoami", **bearer(token)))[0] for token in forged} == {401}
        assert web.provider.requests["/keys"] == 2
        web.clock(NOW + FETCH_AGAIN_S + KEEP_S)
        web.provider.kids = ()
        assert (await web.get("/whoami", **bearer(web.provider.id_token(jti="2"))))[0] == 401, "the key was withdrawn"

    run(tmp_path, test)


def test_who_guesses_is_slowed_down_and_who_is_signed_in_is_not(tmp_path: Path) -> None:
    """From the same address; the time to wait is said."""

    async def test(web: Setting) -> None:
        await web.sign_in()
        token = web.provider.id_token(sub="ben")
        assert (await web.get("/whoami", **bearer(token)))[0] == 200
        assert (await web.get("/whoami", **bearer("ey.static.token")))[0] == 200
        statuses = [(await web.get("/whoami", **bearer(f"guess{n}")))[0] for n in range(FAILURES_MAX + 1)]
        assert statuses == [401] * FAILURES_MAX + [429]
        status, _, headers = await web.get("/whoami", **bearer("eyx.y.z"))
        assert status == 429 and int(headers["Retry-After"]) > 0
        assert (await web.get("/sign-in/callback"))[0] == 429
        for good in (bearer(token), bearer("ey.static.token"), {}):
            assert (await web.get("/whoami", **good))[0] == 200

    run(tmp_path, test)


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
        {"more": "x" * ANSWER_BYTES_MAX},
    ],
)
def test_a_provider_that_is_none_signs_nobody_in(tmp_path: Path, metadata: dict[str, Any]) -> None:
    """The gateway says so, and asks again later."""

    async def test(web: Setting) -> None:
        web.provider.metadata = metadata
        for _ in range(3):
            assert (await web.get("/sign-in"))[:2] == (599, "the OpenID provider does not answer: try again later")
        assert web.provider.requests["/.well-known/openid-configuration"] == 1
        web.provider.metadata = {}
        web.clock(NOW + FETCH_AGAIN_S)
        assert (await web.sign_in())[0] == 303

    run(tmp_path, test)


def test_a_provider_that_hangs_or_leads_elsewhere_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request to it has a limit, and goes to no other host than its metadata name."""
    monkeypatch.setattr(openid_provider, "REQUEST_S", 0.01)

    async def test(web: Setting) -> None:
        async def hang(request: Any) -> Any:
            await asyncio.Event().wait()

        async def lead(request: Any) -> Any:
            raise aiohttp.web.HTTPFound(f"{web.provider.issuer}/keys")

        for number, handler in enumerate((hang, lead)):
            application = aiohttp.web.Application()
            application.router.add_get("/keys", handler)
            async with TestServer(application) as server:
                web.provider.metadata = {"jwks_uri": str(server.make_url("/keys"))}
                web.clock(NOW + number * FETCH_AGAIN_S)
                assert (await web.get("/sign-in"))[0] == 599
        assert "/keys" not in web.provider.requests

    run(tmp_path, test)


def test_claims_of_a_gateway_that_has_died_are_removed(tmp_path: Path) -> None:
    """Its sessions have died with it. At its end all are signed out, too."""

    async def test(web: Setting) -> None:
        web.provider.claims = {"groups": ["family"]}
        await web.sign_in()
        assert read(web.path).claimed

    run(tmp_path, test)
    assert read(tmp_path / "permissions.json").claimed == {}


def test_groups_that_cannot_be_written_down_sign_nobody_in(tmp_path: Path) -> None:
    """A user would have no groups; and the answer says nothing of files."""

    async def test(web: Setting) -> None:
        web.provider.claims = {"groups": ["family"]}
        callback = await web.callback()
        web.path.write_text("{")
        assert (await web.get(callback))[:2] == (
            599,
            "the gateway cannot write down the groups of its users: see its log",
        )
        token = web.provider.id_token(sub="ben", groups=["staff"])
        for _ in range(2):
            assert (await web.get("/whoami", **bearer(token)))[0] == 599
        web.path.unlink()
        assert (await web.get("/whoami", **bearer(token)))[0] == 200
        assert set(read(web.path).claimed) == {"ben"}

    run(tmp_path, test)


def test_requests_at_once_with_a_new_token_all_have_its_groups(tmp_path: Path) -> None:
    """The second must not overtake the writing that the first waits for."""

    async def test(web: Setting) -> None:
        token = web.provider.id_token(sub="ben", groups=["staff"])

        async def claimed() -> set[str]:
            assert (await web.get("/whoami", **bearer(token)))[0] == 200
            return set(read(web.path).claimed)

        assert await asyncio.gather(*(claimed() for _ in range(5))) == [{"ben"}] * 5

    run(tmp_path, test)


def test_a_sign_out_that_is_given_up_ends_the_claims_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser closes its connection when its window is closed."""
    writing, goes_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def to_thread(function: Any, *arguments: Any) -> Any:
        writing.set()
        try:
            await goes_on.wait()
            return function(*arguments)
        finally:
            if function is change or not goes_on.is_set():
                ended.set()

    async def test(web: Setting) -> None:
        web.provider.claims = {"groups": ["family"]}
        await web.sign_in()
        monkeypatch.setattr(asyncio, "to_thread", to_thread)
        request = asyncio.create_task(web.ask("POST", "/sign-out", SAME))
        await writing.wait()
        request.cancel()
        assert (await web.get("/whoami"))[0] == 401
        assert read(web.path).claimed
        goes_on.set()
        await ended.wait()
        assert read(web.path).claimed == {}

    run(tmp_path, test)
