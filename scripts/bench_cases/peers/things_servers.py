"""Servers of things by others, with the same property and action as `things`: node-wot and webthing-python, where installed.

Both run all in one event loop. webthing-python answers 201 before its action begins, so its actions are counted as they are
accepted; its loop computes each before it reads the next request.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..harness.processes import hear, started
from ..harness.systems import SCRIPTS

#: Where `npm install --prefix` puts node-wot; NODE_PATH names further folders, as everywhere in node.
NODE_FOLDER = SCRIPTS.parent / ".venv" / "node"
NODE_WOT = ("@node-wot/core@0.9.2", "@node-wot/binding-http@0.9.2")


@dataclass(frozen=True, slots=True)
class ThingServer:
    """How to read its property and to invoke its action (harness/http_load.py)."""

    port: int
    read: dict[str, Any]
    invoke: dict[str, Any]


@contextmanager
def thing_servers(action_s: float) -> Iterator[dict[str, ThingServer]]:
    """Those that are installed, by name, up and ready. For each other one a line tells how to install it."""
    found: dict[str, ThingServer] = {}
    with ExitStack() as stack:
        modules = [NODE_FOLDER / "node_modules", *map(Path, filter(None, os.environ.get("NODE_PATH", "").split(":")))]
        if shutil.which("node") and any((each / "@node-wot" / "binding-http").is_dir() for each in modules):
            port = _free_port()
            script = Path(__file__).with_name("node_wot.js")
            variables = {"NODE_PATH": ":".join(map(str, modules))}
            _wait_ready(stack.enter_context(started(["node", str(script), str(port), str(action_s)], variables)))
            read = {"method": "GET", "path": "/machine/properties/level", "ends": "\r\n0\r\n\r\n"}
            invoke = {"method": "POST", "path": "/machine/actions/crunch", "ends": "\r\n0\r\n\r\n"}
            found["node-wot"] = ThingServer(port, read, invoke)
        else:
            _tell_missing(f"node-wot: npm install --prefix {NODE_FOLDER} {' '.join(NODE_WOT)}")
        if importlib.util.find_spec("webthing") is not None:
            port = _free_port()
            command = [sys.executable, "-m", f"{__package__}.webthing_server", str(port), str(action_s)]
            _wait_ready(stack.enter_context(started(command)))
            read = {"method": "GET", "path": "/properties/level", "ends": "}"}
            invoke = {"method": "POST", "path": "/actions/crunch", "body": {"crunch": {}}, "ends": "}}"}
            found["webthing-python"] = ThingServer(port, read, invoke)
        else:
            _tell_missing("webthing-python: pip install webthing==0.15.0")
        yield found


def _tell_missing(line: str) -> None:
    print(f"not measured beside us: {line}", file=sys.stderr)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _wait_ready(child: subprocess.Popen[str]) -> None:
    while hear(child) != "ready":
        pass  # lines of its log
