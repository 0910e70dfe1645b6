"""The page in a real browser: what is live, what is done, who is let in, and that it suits a phone, a keyboard and a reader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack

import pytest

from tests.waiting import wait_until

from .browser import FOUND, NAMES, Browser, Tab, browsing
from .conftest import System
from .test_permissions import BEN, house_permitting
from .test_things import BRIGHTNESS, LAMP, TOKEN, Web, killed_and_back

pytestmark = pytest.mark.skipif(FOUND is None, reason=f"no browser here: none of {', '.join(NAMES)} is on the path")
LAMP_PAGE = "#/thing/urn%3Adev%3Alamp-1"
SLIDER = '[data-name="brightness"] input[type=range]'


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all, in which Ada is an operator."""
    with house_permitting() as system:
        yield system


def address(house: System) -> str:
    """That of the page."""
    with house.connect() as client:
        found: str = client.call("gateway.address")
        return found


InBrowser = Callable[[Callable[..., Awaitable[None]]], None]


@pytest.fixture(scope="module")
def in_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InBrowser]:
    """Run a function with as many tabs as it takes, in one browser for all. Whatever a page has thrown or was refused fails
    the test.
    """

    async def with_tabs(browser: Browser, test: Callable[..., Awaitable[None]]) -> None:
        tabs = [await browser.tab() for _ in range(test.__code__.co_argcount)]  # type: ignore[attr-defined]
        try:
            await test(*tabs)
        finally:
            for each in tabs:
                await each.close()
        assert [error for tab in tabs for error in tab.errors] == []

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        browser = runner.run(stack.enter_async_context(browsing(tmp_path_factory.mktemp("browser"))))
        try:
            yield lambda test: runner.run(with_tabs(browser, test))
        finally:
            runner.run(stack.aclose())


async def sign_in(tab: Tab, url: str, path: str = "") -> None:
    """Ada's token is typed, and the page shows the things."""
    await tab.open(url + path)
    await tab.fill("#token", TOKEN)
    await tab.click(".entry form button")
    await tab.until("document.querySelector('#connection').dataset.state === 'live'")


def test_values_are_live_and_set_and_actions_are_done(house: System, in_browser: InBrowser) -> None:
    """The page is a client of the gateway as all others are."""
    web, url = Web(house), address(house)

    async def main(tab: Tab) -> None:
        await tab.open(url)
        await tab.fill("#token", "wrong")
        await tab.click(".entry form button")
        await tab.until_text("This token is not known here.")
        await sign_in(tab, url)
        await tab.until_text("lamp-1")
        web.ask("PUT", BRIGHTNESS, 31)
        await tab.until("[...document.querySelectorAll('.card dd')].some((each) => each.textContent === '31%')")
        await tab.click('.card a[href*="lamp-1"]')
        await tab.until(f"document.querySelector('{SLIDER}').value === '31'")
        web.ask("PUT", BRIGHTNESS, 32)
        await tab.until(f"document.querySelector('{SLIDER}').value === '32'")
        await tab.until("!document.querySelector('[data-name=\"brightness\"] .chart').hidden")
        await tab.fill(SLIDER, "77")
        await tab.until(f"document.querySelector('{SLIDER}').nextSibling.textContent.startsWith('77')")
        await tab.fill('[data-name="double"] input', "21")
        await tab.click('[data-name="double"] button')
        await tab.until("document.querySelector('[data-name=\"double\"] .status').textContent === '42'")
        await tab.fill('[data-name="burst"] input', "2")
        await tab.click('[data-name="burst"] button')
        await tab.until("document.querySelectorAll('.events li time').length === 2")
        await tab.fill('[data-name="fade"] input', "55")
        await tab.click('[data-name="fade"] button[type=submit]')
        await tab.until_text("Running …")
        await tab.click('[data-name="fade"] .status button')
        await tab.until("document.querySelector('[data-name=\"fade\"] .status').dataset.mood === 'bad'")
        await tab.fill("#search", "nowhere")
        await tab.until_text("No thing matches “nowhere”.")
        await tab.fill("#search", "overheated lamp-1")
        await tab.until("document.querySelectorAll('.card').length === 1")

    in_browser(main)
    wait_until(lambda: web.ask("GET", BRIGHTNESS).body == 77, "the slider has not set the brightness")


def test_a_guest_link_lets_in_until_it_is_revoked(house: System, in_browser: InBrowser) -> None:
    """The guest sees what was shared, and a page that goes dark at once when that ends, without a request of its own."""
    web, url = Web(house), address(house)

    async def main(tab: Tab, guest: Tab) -> None:
        await sign_in(tab, url, LAMP_PAGE)
        await tab.click(".share summary")
        await tab.click(".share input[value=person]")
        await tab.fill(".share input[name=person]", "ben")
        await tab.click(".share button.primary")
        await tab.until_text("Shared with ben.")
        await tab.click(".share button.primary")
        await tab.until("document.querySelector('.access input.link')?.value")
        link = await tab.evaluate("document.querySelector('.access input.link').value")
        await guest.open(link)
        await guest.until_text("lamp-1")
        assert await guest.evaluate("location.href") == url
        assert await guest.evaluate("document.querySelectorAll('.card').length") == 1
        await guest.click(".card a")
        await guest.until_text("Properties")
        shown = await guest.evaluate("document.querySelector('main').innerText")
        assert "Actions" not in shown and await guest.evaluate(f"!document.querySelector('{SLIDER}')")
        web.ask("PUT", BRIGHTNESS, 12)
        await guest.until("document.querySelector('[data-name=\"brightness\"] .value').textContent === '12%'")
        await tab.until("document.querySelectorAll('.shared button').length === 2")
        await tab.click(".shared li:last-child button")
        await guest.until_text("This link has ended")
        assert "lamp" not in await guest.evaluate("document.documentElement.innerText")
        assert await guest.evaluate("JSON.stringify(sessionStorage)") == "{}"
        await tab.click(".shared button")
        await tab.until_text("Nobody else has been given access.")

    in_browser(main)


def test_the_page_outlives_the_processes_of_its_things(house: System, in_browser: InBrowser) -> None:
    """It shows the values of the new ones by itself."""
    web, url = Web(house), address(house)

    async def main(tab: Tab) -> None:
        await sign_in(tab, url)
        await tab.until_text("lamp-1")
        web.ask("PUT", BRIGHTNESS, 44)
        await tab.until_text("44%")
        killed_and_back(house, "things")  # its lamps have 7 again
        await tab.until(
            "[...document.querySelectorAll('.card dd')].filter((each) => each.textContent === '7%').length === 2"
        )

    in_browser(main)


def test_what_is_shared_later_appears(house: System, in_browser: InBrowser) -> None:
    """Ben's page is open while nothing is his, and shows what he gets, and no more, without a reload."""
    web, url = Web(house), address(house)

    async def main(tab: Tab) -> None:
        await tab.open(url)
        await tab.fill("#token", BEN)
        await tab.click(".entry form button")
        await tab.until_text("Nothing is shared with you")
        share = {"who": "ben", "things": ["urn:dev:lamp-1"], "access": ["read:brightness"]}
        given = [web.ask("POST", "/permissions", share).body["id"]]
        await tab.until("document.querySelectorAll('.card').length === 1")
        await tab.click(".card a")
        await tab.until("document.querySelector('[data-name=\"brightness\"]')")
        given.append(web.ask("POST", "/permissions", share | {"access": ["invoke:double"]}).body["id"])
        await tab.until("document.querySelector('[data-name=\"double\"]')")
        assert not await tab.evaluate("document.querySelector('[data-name=\"burst\"]')")
        for each in given:
            web.ask("DELETE", f"/permissions/{each}")
        await tab.until_text("This thing is gone, or is not shared with you.")

    in_browser(main)


def test_names_that_are_markup_are_text(house: System, in_browser: InBrowser) -> None:
    """The address of a page comes from anywhere, as values do."""
    url = address(house)

    async def main(tab: Tab) -> None:
        await sign_in(tab, url)
        await tab.fill("#search", "<img src=x onerror=alert(1)>")
        await tab.until_text("No thing matches “<img src=x")
        await tab.open(url + "#/thing/%E0%A4%A<script>")
        await tab.until_text("This thing is gone")

    in_browser(main)


@pytest.mark.parametrize("width", [1280, 390])
def test_it_suits_a_desk_a_phone_a_keyboard_and_a_screen_reader(
    house: System, in_browser: InBrowser, width: int
) -> None:
    """Nothing stands beyond the edge, every control has a name, and all is reached by keys."""
    url = address(house)

    async def keys(tab: Tab, key: str, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            await tab.send(
                "Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "", code=key
            )

    async def main(tab: Tab) -> None:
        await tab.look(width, 800)
        await sign_in(tab, url)
        await tab.until("document.querySelectorAll('.card').length === 2")
        await check(tab)
        await keys(tab, "/", "/")
        await tab.until("document.activeElement.id === 'search'")
        await keys(tab, "Enter", "\r")
        await tab.until("document.activeElement.closest('.card')")
        await keys(tab, "Enter", "\r")
        await tab.until("document.activeElement.tagName === 'H1' && location.hash.startsWith('#/thing/')")
        await tab.click(".share summary")
        await check(tab)
        await keys(tab, "Escape")
        await tab.until("location.hash === '#/' && document.querySelector('.card')")
        light, dark = await tab.look(width, 800), await tab.look(width, 800, is_dark=True)
        assert light != dark

    async def check(tab: Tab) -> None:
        overflow = await tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0
        tree = (await tab.send("Accessibility.getFullAXTree"))["nodes"]
        controls = (
            "button",
            "textbox",
            "searchbox",
            "checkbox",
            "switch",
            "combobox",
            "slider",
            "radio",
            "link",
            "spinbutton",
        )
        nameless = [
            json.dumps(node)
            for node in tree
            if node.get("role", {}).get("value") in controls and not node.get("name", {}).get("value")
        ]
        assert nameless == []

    in_browser(main)


def test_web_tells_where_the_page_is(house: System) -> None:
    """The verb opens it; a program asks for the address."""
    done = house.command("web", "--no-open", "--json")
    assert json.loads(done.stdout) == {"url": address(house)}, done.stderr
    assert house.command("web", "--no-open").stdout.strip() == address(house)


def test_without_anonymous_access_nothing_but_the_page_is_public(house: System) -> None:
    """A path that there is not is told as such, whoever asks."""
    stranger = Web(house, None)
    with ExitStack() as open_ones:
        page = open_ones.enter_context(stranger.open("GET", "/"))
        assert page.status == 200 and b"<main" in page.read()
    for path, status in (("/live", 401), ("/things", 401), (LAMP, 401), ("/permissions", 401), ("/nowhere", 404)):
        assert stranger.ask("GET", path).status == status
