"""The demonstration: index a source tree at full load, search it all the while, and see how long the searches take.

    python live.py [--for SECONDS] [--root PATH]

Starts the system of codesearch.toml as anybody would (`appbackplane up`), connects as a client, calls `query.search` at
priority 0 every 10 ms with names that were just read, and shows once a second how long the answers took beside what
the indexing got done. Ends with Ctrl-C, or after --for seconds; takes the system down with it.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from codesearch.figures import BulkMeter, Latencies, Second, Throughput, line, summary
from codesearch.running import START_S_MAX, STOP_S_MAX, SYSTEM, Failed, System, is_running
from codesearch.view import draw
from rich.console import Console
from rich.live import Live

from appbackplane.transport import Client, connect
from appbackplane.transport.errors import BackplaneError

#: How often the system is searched: a hundred times a second is a busy office, and 2 % of one core.
SEARCH_INTERVAL_NS = 10_000_000
#: Searches that have not been answered by then have failed.
SEARCH_TIMEOUT_S = 2.0
#: What is searched for until the index tells of names it has read.
WORDS = ("self", "path", "encode", "Thread", "dataclass", "gather", "__init__", "OrderedDict", "maxsize", "isinstance")


class Searcher(threading.Thread):
    """Searches at a steady pace, with a connection of its own."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.words: Sequence[str] = WORDS
        self.text = ""
        self.hits: list[dict[str, Any]] = []
        self.errors_count = 0
        self.last_error = ""
        self._latencies = Latencies()
        self._ending = threading.Event()

    def take(self) -> Latencies:
        """The latencies since the last look."""
        taken, self._latencies = self._latencies, Latencies()
        return taken

    def end(self) -> None:
        """Search no more."""
        self._ending.set()
        self.join(SEARCH_TIMEOUT_S + 1.0)

    def run(self) -> None:
        """Search, until told to end."""
        with connect(SYSTEM) as client:
            self._run(client)

    def _run(self, client: Client) -> None:
        due_ns = previous_ns = time.perf_counter_ns()
        while not self._ending.is_set():
            now_ns = time.perf_counter_ns()
            if now_ns < due_ns and self._ending.wait((due_ns - now_ns) / 1e9):
                return
            # One that was due while the one before was still waiting for its answer counts from when it was due, or slow
            # answers would hide themselves by asking less often.
            began_ns = due_ns if due_ns < previous_ns else time.perf_counter_ns()
            self._search(client, began_ns)
            previous_ns = time.perf_counter_ns()
            due_ns += SEARCH_INTERVAL_NS

    def _search(self, client: Client, began_ns: int) -> None:
        text = random.choice(self.words)
        try:
            self.hits = client.call("query.search", text=text, limit=20, priority=0, timeout=SEARCH_TIMEOUT_S)
            self.text = text
        except BackplaneError as error:
            self.errors_count, self.last_error = self.errors_count + 1, str(error)
            self._ending.wait(0.05)  # what fails at once must not be asked in a tight loop
        else:
            self._latencies.record(time.perf_counter_ns() - began_ns)


class Show:
    """Looks once a second at both sides."""

    def __init__(self, system: System, client: Client, console: Console) -> None:
        self._system, self._client, self._console = system, client, console
        self._searcher = Searcher()
        self._urgent, self._bulk = Latencies(), BulkMeter()
        self._progress: dict[str, Any] = {}
        self._rounds_before = 0

    def run(self, seconds: float | None) -> None:
        """Until Ctrl-C, or for so long; then the summary. Raises `Failed` when the system ends by itself."""
        self._look()
        self._rounds_before = self._progress["round"] - 1
        began = time.monotonic()
        self._searcher.start()
        try:
            if self._console.is_terminal:
                with Live(console=self._console, refresh_per_second=4) as live:
                    self._every_second(began, seconds, live)
            else:
                self._every_second(began, seconds, None)
        except KeyboardInterrupt:
            pass
        self._searcher.end()
        self._urgent.add(self._searcher.take())
        self._look()
        rounds = self._progress["round"] - self._rounds_before
        print(summary(self._urgent, self._searcher.errors_count, self._bulk.total, rounds), flush=True)
        if self._searcher.errors_count:
            print(f"last failure: {self._searcher.last_error}", flush=True)

    def _every_second(self, began: float, seconds: float | None, live: Live | None) -> None:
        number = 0
        while seconds is None or number + 1 <= seconds:
            number += 1
            time.sleep(max(0.0, began + number - time.monotonic()))
            self._system.check()
            second = self._look(number)
            if live is not None:
                live.update(draw(second))
            else:
                print(line(second), flush=True)
        if seconds is not None:
            time.sleep(max(0.0, began + seconds - time.monotonic()))

    def _look(self, number: int = 0) -> Second:
        now, host, searcher = self._searcher.take(), {}, self._searcher
        bulk = Throughput()
        self._urgent.add(now)
        try:
            self._progress = self._client.call("index.progress", timeout=5.0)
            bulk = self._bulk.update(self._progress, time.monotonic_ns())
            searcher.words = self._client.call("index.recent", timeout=5.0) or WORDS
            host = self._client.call("host.latest", timeout=5.0)
        except BackplaneError as error:  # a part of it restarts: the next second may show it
            searcher.last_error = str(error)
        return Second(
            elapsed_s=number,
            urgent=now,
            urgent_total=self._urgent,
            errors_count=searcher.errors_count,
            text=searcher.text,
            hits=searcher.hits,
            bulk=bulk,
            progress=self._progress,
            host=host,
            said=self._system.lines[-1] if self._system.lines else "",
        )


def main() -> int:
    """Exit code 0: shown and taken down; 1: the system did not come up, or ended by itself; 2: bad usage."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, _end)
    sys.setswitchinterval(0.0005)  # drawing must not hold up the searches that it tells of
    console = Console()
    if is_running():
        print(f"a system named {SYSTEM!r} runs already: appbackplane down -s {SYSTEM}", file=sys.stderr)
        return 1
    system = System(is_echoing=not console.is_terminal)
    try:
        with system.wait_until_up() as client:
            # Again and again: the load has to last as long as the show.
            client.call("index.rebuild", root=arguments.root, repeat=True, timeout=START_S_MAX)
            Show(system, client, console).run(arguments.seconds)
            client.call(
                "index.rest", timeout=STOP_S_MAX
            )  # a kernel that goes down with requests warns that they are lost
    except (Failed, BackplaneError) as error:
        print(f"code search: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        system.stop()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--for", dest="seconds", type=float, metavar="SECONDS", help="end after so long (default: Ctrl-C)"
    )
    parser.add_argument("--root", metavar="PATH", help="the tree to index (default: Python's own library)")
    arguments = parser.parse_args()
    if arguments.seconds is not None and not arguments.seconds > 0:
        parser.error(f"--for {arguments.seconds:g}: expected a number of seconds above 0")
    if arguments.root is not None:
        root = Path(arguments.root).expanduser().resolve()
        if not root.is_dir():
            parser.error(f"--root {arguments.root}: no such folder")
        arguments.root = str(root)
    return arguments


def _end(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
