"""Running: the system of the example, started as anybody would start it, by a program that shows something of it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

from appbackplane.transport import Client, connect
from appbackplane.transport.errors import BackplaneError

SYSTEM = "codesearch"
TOML = Path(__file__).parents[1] / "codesearch.toml"
#: How long the system may take to come up. It takes about a second; a machine under full load takes a few.
START_S_MAX = 60.0
#: How long it may take to go down before it is killed. It takes half a second; with 20 s, some were killed on a machine that
#: had ten times as much to do as it could. A second Ctrl-C kills at once.
STOP_S_MAX = 60.0


class Failed(Exception):
    """The system cannot be shown; says why."""


class System:
    """The supervisor, started as a program of its own."""

    def __init__(self, *, is_echoing: bool) -> None:
        self.lines: deque[str] = deque(maxlen=50)
        self._is_echoing = is_echoing
        # A process group of its own: Ctrl-C is for us, and we take it down in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "appbackplane.supervisor", "up", str(TOML)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_up(self) -> Client:
        """A connected client. Raises `Failed` when the system has ended, or takes too long."""
        end = time.monotonic() + START_S_MAX
        client: Client | None = None
        problem = "it does not answer"
        while time.monotonic() < end:
            self.check()
            try:
                client = client or connect(SYSTEM)
                for route in ("query.statistics", "index.progress", "host.latest"):
                    client.call(route, timeout=1.0)
                return client
            except BackplaneError as error:
                problem = str(error)
            try:
                self._process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        raise Failed(f"the system did not come up within {START_S_MAX:.0f} s: {problem}")

    def check(self) -> None:
        """Raises `Failed` when it has ended."""
        if self._process.poll() is not None:
            self._reader.join(1.0)
            said = "\n".join(self.lines) or "it said nothing"
            raise Failed(f"the system ended with exit code {self._process.returncode}:\n{said}")

    def stop(self) -> None:
        """Take it down; kill it if it does not go, or if somebody insists."""
        try:
            self._process.terminate()
            self._process.wait(STOP_S_MAX)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.kill()  # its backplanes end with it
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self.lines.append(text.rstrip())
            if self._is_echoing:
                print(f"[system] {text.rstrip()}", file=sys.stderr, flush=True)


def is_running() -> bool:
    """Whether somebody has started it already."""
    try:
        connect(SYSTEM).close()
    except BackplaneError:
        return False
    return True
