"""A browser without a window, driven over its DevTools protocol, for test_page.py."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.waiting import LIMIT_S, wait_until

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FOUND = next(filter(None, map(shutil.which, NAMES)), None)
#: Evaluates to true once the expression does, and does not raise. A page tells nobody that an input has another value.
UNTIL = """new Promise((resolve) => {{
  const is = () => {{ try {{ return {}; }} catch {{ return false; }} }};
  const look = () => (is() ? resolve(true) : setTimeout(look, 20));
  look();
}})"""


class Tab:
    """One page, with storage of its own. `errors`: exceptions, and what its content policy has refused."""

    def __init__(self, browser: Browser, context: str, session: str) -> None:
        self._browser = browser
        self._context, self.session = context, session
        self.errors: list[str] = []
        self.loaded = asyncio.Event()

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol."""
        return await self._browser.send(method, parameters, self.session)

    async def close(self) -> None:
        """Close the page, and forget its storage. `errors` stay."""
        await self._browser.send("Target.disposeBrowserContext", {"browserContextId": self._context})

    async def open(self, url: str) -> None:
        """Go to an address, and wait until its page is loaded. One that differs in its fragment alone loads nothing."""
        self.loaded.clear()
        if "loaderId" in await self.send("Page.navigate", url=url):
            await self.loaded.wait()

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of its promise."""
        said = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in said:
            raise AssertionError(f"{expression}: {said['exceptionDetails']}")
        return said["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        try:
            async with asyncio.timeout(LIMIT_S):
                await self.evaluate(UNTIL.format(expression))
        except TimeoutError:
            shown = await self.evaluate("document.body.innerText")
            raise AssertionError(f"never true: {expression}; the page says: {shown}; errors: {self.errors}") from None

    async def until_text(self, text: str) -> None:
        """Wait until the page shows a text."""
        await self.until(f"document.body.innerText.includes({json.dumps(text)})")

    async def click(self, selector: str) -> None:
        """Click the element, once it is there."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    async def fill(self, selector: str, value: str) -> None:
        """Let an input have a value, as if it were typed."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.evaluate(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); it.value = {json.dumps(value)};"
            " it.dispatchEvent(new Event('input', {bubbles: true}));"
            " it.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    async def look(self, width: int, height: int, *, is_dark: bool = False, is_whole: bool = False) -> bytes:
        """A picture, as PNG. `is_whole`: of what lies below as well."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[feature])
        said = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=is_whole)
        return base64.b64decode(said["data"])


class ProtocolError(Exception):
    """The browser refuses a command."""


class Browser:
    """The process, and the connection to it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}

    async def send(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """A command; its result. Raises `ProtocolError`."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        await self._socket.send_str(json.dumps(message))
        return await answer

    async def tab(self) -> Tab:
        """A new page, as in a window that remembers nothing."""
        context = (await self.send("Target.createBrowserContext", {}))["browserContextId"]
        target = await self.send("Target.createTarget", {"url": "about:blank", "browserContextId": context})
        attached = await self.send("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        tab = self._tabs[attached["sessionId"]] = Tab(self, context, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            await tab.send(f"{domain}.enable")
        return tab

    async def read(self) -> None:
        """Take answers and events, until the connection ends."""
        async for message in self._socket:
            said = json.loads(message.data)
            answer = self._answers.pop(said.get("id", 0), None)
            if answer is not None and not answer.done():
                if "error" in said:
                    answer.set_exception(ProtocolError(said["error"]["message"]))
                else:
                    answer.set_result(said["result"])
            tab = self._tabs.get(said.get("sessionId", ""))
            if tab is not None and said.get("method") == "Page.loadEventFired":
                tab.loaded.set()
            elif tab is not None and said.get("method") == "Runtime.exceptionThrown":
                tab.errors.append(str(said["params"]["exceptionDetails"].get("exception", {}).get("description")))
            elif tab is not None and said.get("method") == "Log.entryAdded":
                entry = said["params"]["entry"]
                if entry["source"] != "network":  # an answer of 401 is none of the page's mistakes
                    tab.errors.append(entry["text"])


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Browser]:
    """A browser that has its files in `folder`; ended after it."""
    assert FOUND is not None
    words = [
        *(FOUND, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}", "--no-first-run"),
        *("--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--lang=en-US"),
        *(("--no-sandbox",) if os.geteuid() == 0 else ()),
    ]
    said, listening = folder / "said.txt", folder / "DevToolsActivePort"
    with said.open("w") as out, subprocess.Popen([*words, "about:blank"], stdout=out, stderr=out) as process:
        try:

            def is_listening() -> bool:
                assert process.poll() is None, said.read_text()
                return listening.exists() and "/devtools/" in listening.read_text()

            wait_until(is_listening, said.read_text)
            port, path = listening.read_text().split()
            url = f"ws://127.0.0.1:{port}{path}"
            async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as socket:
                browser = Browser(socket)
                reading = asyncio.create_task(browser.read())
                try:
                    yield browser
                finally:
                    reading.cancel()
        finally:
            process.kill()
