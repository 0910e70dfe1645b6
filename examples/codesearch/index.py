"""Index a source tree, and watch it: files, rates, the lanes of the request kernel, and what failed.

    python index.py [--root PATH]

Uses the system of codesearch.toml, where it runs; else it starts one, and takes it down in the end. Exit code 0: every file
is in the index; 1: some are not, and are named, or the system is not there; 2: bad usage.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from codesearch.bar import Look, draw, line, summary
from codesearch.running import START_S_MAX, SYSTEM, Failed, System, is_running
from rich.console import Console
from rich.live import Live

from appbackplane.transport import Client, connect
from appbackplane.transport.errors import BackplaneError

#: Between two looks: on a terminal, where it is to move; elsewhere, where each is a line.
LOOK_S, LINE_S = 0.1, 1.0
#: How long a round may take: that of the largest tree anybody has.
ROUND_S_MAX = 86_400.0
#: Failures that are shown; `appbackplane call index.failures` knows as many.
SHOWN_MAX = 20


class Watch:
    """Looks at one round until its end."""

    def __init__(self, client: Client, system: System | None) -> None:
        self._client, self._system = client, system
        self._began = time.monotonic()

    def run(self, console: Console) -> Look:
        """The last look. Raises `Failed` when the system ends by itself."""
        if not console.is_terminal:
            return self._until_end(lambda look: print(line(look), flush=True), LINE_S)
        with Live(console=console, refresh_per_second=10) as live:
            return self._until_end(lambda look: live.update(draw(look)), LOOK_S)

    def _until_end(self, show: Callable[[Look], None], pause_s: float) -> Look:
        at_rest = self._client.submit("index.at_rest", timeout=ROUND_S_MAX)
        while True:
            with suppress(TimeoutError):
                at_rest.result(timeout=pause_s)
            if self._system is not None:
                self._system.check()
            look = self._look()
            show(look)
            if at_rest.done():
                at_rest.result()
                if look.progress["is_idle"] and look.progress["round_files_done"] == look.progress["round_files"]:
                    return look
                at_rest = self._client.submit("index.at_rest", timeout=ROUND_S_MAX)  # another round follows

    def _look(self) -> Look:
        return Look(self._client.call("index.progress", timeout=START_S_MAX), time.monotonic() - self._began)


def main() -> int:
    """Exit code 0: all is in the index; 1: something is not; 2: bad usage."""
    root = _root()
    signal.signal(signal.SIGTERM, _end)
    system: System | None = None
    try:
        if not is_running():
            system = System(is_echoing=False)
        with connect(SYSTEM) if system is None else system.wait_until_up() as client:
            watch = Watch(client, system)
            client.call("index.rebuild", root=root, repeat=False, timeout=START_S_MAX)
            look = watch.run(Console())
            print(summary(look), flush=True)
            failures = client.call("index.failures", timeout=START_S_MAX) if look.failed else []
            for failure in failures[-min(look.failed, SHOWN_MAX) :]:
                print(f"not indexed: {failure['file']}: {failure['reason']}", file=sys.stderr)
            return 1 if look.failed else 0
    except (Failed, BackplaneError) as error:
        print(f"code search: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if system is not None:
            system.stop()


def _root() -> str | None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", metavar="PATH", help="the tree (default: the one it had, or Python's own library)")
    root: str | None = parser.parse_args().root
    if root is None:
        return None
    top = Path(root).expanduser().resolve()
    if not top.is_dir():
        parser.error(f"--root {root}: no such folder")
    return str(top)


def _end(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
