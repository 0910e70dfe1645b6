"""An exported flow in Node-RED itself: it reads, writes, invokes, and hears changes and events. By `scripts/long things`.

Node-RED comes from npm; where that is not possible, the test is skipped with the reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from appbackplane.runtime.things.mashups.node_red import flow_of
from tests.figures import LONG
from tests.waiting import wait_until

from .conftest import System
from .test_things import BRIGHTNESS, TOKEN, Web, house_up

pytestmark = [LONG, pytest.mark.xdist_group("judges")]

NODE_RED = "node-red@4.1"
#: Seconds for npm.
INSTALL_S = 600
EVENTS = 5


@pytest.fixture(scope="module")
def node_red(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Node-RED."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed here")
    folder = tmp_path_factory.mktemp("node-red")
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", NODE_RED]
    done = subprocess.run(words, cwd=folder, timeout=INSTALL_S, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install Node-RED: {done.stderr.strip()[-300:]}")
    return folder


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """The things of test_things.py."""
    with house_up() as system:
        yield system


@contextmanager
def running(folder: Path, flow: list[dict[str, object]]) -> Iterator[tuple[str, Path]]:
    """Node-RED with a flow: its address, and the file that its debug nodes write to.

    Its port stays bound here, without a listener: with SO_REUSEADDR, which node sets as well, that keeps it free for it.
    """
    (folder / "user").mkdir(exist_ok=True)
    (folder / "flow.json").write_text(json.dumps(flow))
    said = folder / "said.txt"
    with socket.socket() as reserved, said.open("w") as out:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        words = ["node", "node_modules/node-red/red.js", "-u", "user", "-p", str(port), "flow.json"]
        process = subprocess.Popen(
            words, cwd=folder, stdout=out, stderr=out, env={**os.environ, "APPBACKPLANE_TOKEN": TOKEN}
        )
        try:
            wait_until(lambda: "Started flows" in said.read_text(), lambda: said.read_text())
            yield f"http://127.0.0.1:{port}", said
        finally:
            process.terminate()
            process.wait()


def test_a_flow_reads_writes_invokes_and_hears(house: System, node_red: Path) -> None:
    """Every row of the flow, pressed as a person would; the events without being pressed."""
    web = Web(house)
    with house.connect() as client:
        flow = flow_of(client.call("house.describe", key="urn:dev:lamp-1"), f"http://{web._at}/")
    given = {"write brightness": 44, "burst": {"count": EVENTS}, "double": {"number": 21}}
    buttons: dict[str, object] = {}
    for node in flow:
        if node["type"] == "debug":
            node["console"] = True
        if node["type"] == "inject":
            buttons[node["name"]] = node["id"]
            if node["name"] in given:
                node["payload"] = json.dumps(given[node["name"]])
    with running(node_red, flow) as (address, said):

        def press(name: str) -> None:
            request = urllib.request.Request(f"{address}/inject/{buttons[name]}", data=b"", method="POST")
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 200

        def shown(name: str) -> list[str]:
            """What the debug node of a row has written: a line after its name, or behind it."""
            return re.findall(rf"\[debug:{name}\]\s+(\S.*)", said.read_text())

        press("write brightness")
        wait_until(lambda: web.ask("GET", BRIGHTNESS).body == 44, said.read_text)
        press("read brightness")
        wait_until(lambda: shown("read brightness") == ["44"], said.read_text)
        press("double")
        wait_until(lambda: shown("double") == ["42"], said.read_text)

        def hears() -> bool:
            press("burst")
            return len(shown("overheated")) >= EVENTS

        wait_until(hears, said.read_text, every_s=1.0)
        assert [float(each) for each in shown("overheated")[:EVENTS]] == [float(number) for number in range(EVENTS)]
        level = count(45)

        def sees() -> bool:
            web.ask("PUT", BRIGHTNESS, next(level))
            return bool(shown("changes of brightness"))

        wait_until(sees, said.read_text, every_s=1.0)
