"""Drain and ordered restart on real processes: under load, at the limits, and as typed.

Each call writes its number into a file when it runs, so that what was answered, refused and done can be compared.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.transport import Client, connect
from appbackplane.transport.errors import BackplaneError, InvalidArgument, PeerDown, Unavailable
from appbackplane.transport.handles import PendingCall
from tests.figures import IS_LONG
from tests.waiting import EVERY_S, Limit, wait_until

from .conftest import LIMIT_S, RunningSystem

DONE, FAILED, WRONG = 0, 1, 2
#: To which each backplane is restarted under load.
GENERATIONS = (2, 3, 4) if IS_LONG else (2,)

MODULE = '''
"""Numbers are booked in a file: by themselves, or for somebody else."""
import os, pathlib, threading, time
from appbackplane.runtime import AppObject, Component, PeerDown, every, operation

HERE = pathlib.Path(__file__).parent
BOOK = os.open(HERE / "book", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def begin(what):
    "One more of these has begun: a byte in a file."
    with open(HERE / what, "ab") as file:
        file.write(b".")

class Clerk(AppObject):
    @operation()
    def book(self, number: int, seconds: float = 0.002) -> int:
        os.write(BOOK, b"%d\\n" % number)
        time.sleep(seconds)
        return number

    @operation(priority=6)
    def hold(self) -> None:
        begin("holding")
        while not (HERE / "gate").exists():
            time.sleep(0.01)

    @every(0.005)
    def tick(self) -> None:
        pass

class Index(Component):
    def setup(self) -> None:
        for key in "ab":
            self.add(Clerk(), key=key)

    @operation(priority=5)
    def hang(self) -> None:
        begin("hanging")
        threading.Event().wait()

    def on_down(self) -> None:
        print("index is down", flush=True)

class Query(Component):
    depends_on = ("index",)

    @operation(calls=("index.book",))
    async def ask(self, number: int, seconds: float = 0.002) -> int:
        return await self.call("index.book", number=number, seconds=seconds)

    @operation(calls=("index.book", "index.hang"))
    async def insist(self, number: int) -> int:
        try:
            return await self.call("index.hang", timeout=600)
        except PeerDown:
            return await self.call("index.book", number=number, timeout=600)

    def on_down(self) -> None:
        print("query is down", flush=True)
'''

Start = Callable[..., RunningSystem]


def run(*words: str) -> Result:
    """A command, as typed."""
    return CliRunner().invoke(main, list(words))


def error_of(result: Result, code: int) -> str:
    """The one line on standard error."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("waiting for ")]
    return line.removeprefix("appbackplane: ")


def but(result: Result) -> list[str]:
    """What it says of what was not finished."""
    return [line for line in result.stderr.splitlines() if line.startswith("but ")]


class Booked:
    """A system that books, and what became of each call."""

    def __init__(self, folder: Path, system: RunningSystem) -> None:
        self.folder, self.system = folder, system
        self.answered: set[int] = set()
        self.refused: list[tuple[int, Unavailable]] = []
        self.others: list[tuple[int, BackplaneError]] = []

    def connect(self) -> Client:
        """A client."""
        return connect(self.folder / "demo.toml", timeout=LIMIT_S)

    def done(self) -> Counter[int]:
        """How often each number was booked."""
        return Counter(int(line) for line in (self.folder / "book").read_text().split())

    def note(self, number: int, end: BackplaneError | None) -> None:
        """How a call ended."""
        if end is None:
            self.answered.add(number)
        elif isinstance(end, Unavailable):
            self.refused.append((number, end))
        else:
            self.others.append((number, end))

    def submit(self, client: Client, route: str, count: int, seconds: float) -> dict[int, PendingCall]:
        """Calls that are queued there when this returns: one that is more urgent, and sent after them, has been answered."""
        calls = {
            number: client.submit(route, number=number, seconds=seconds, timeout=LIMIT_S, priority=6, retry=False)
            for number in range(count)
        }
        place = "query" if route.startswith("query.") else "index"
        client.call(f"backplane.{place}.statistics", timeout=LIMIT_S)
        return calls

    def hold(self, client: Client) -> list[PendingCall]:
        """Keep both clerks at work, so that what is submitted now is queued, until `let_go`."""
        held = [client.submit("index.hold", key=key, timeout=2 * LIMIT_S, priority=6, retry=False) for key in "ab"]
        self.wait_begun("holding", len(held))
        return held

    def wait_begun(self, what: str, count: int = 1) -> None:
        """Until so many of these run. What is only queued when a drain reaches its limit is refused, and not cut off."""
        file = self.folder / what
        wait_until(lambda: file.exists() and file.stat().st_size >= count, f"{what}: it does not begin")

    def let_go(self, held: list[PendingCall]) -> None:
        """End what `hold` has begun."""
        (self.folder / "gate").touch()
        assert [call.exception(LIMIT_S) for call in held] == [None, None]

    def end(self, calls: dict[int, PendingCall]) -> None:
        """Wait for all."""
        for number, call in calls.items():
            self.note(number, call.exception(2 * LIMIT_S))

    def check(self) -> None:
        """Each has ended as it was done: once, or not at all."""
        done = self.done()
        assert [number for number, count in done.items() if count > 1] == [], "done twice"
        assert self.answered - set(done) == set(), "answered and not done"
        assert {number for number, _ in self.refused} & set(done) == set(), "refused and done all the same"
        assert self.others == []
        assert [error for _, error in self.refused if not error.retry_after] == [], "no word when to try again"


@pytest.fixture
def booked(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Booked]]:
    """Starts it in the current folder: `booked(system, index)`, the lines of its TOML."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("APPBACKPLANE_SYSTEM", raising=False)
    systems: list[RunningSystem] = []

    def begin(system: str = "", index: str = "") -> Booked:
        systems.append(start(system, index, module=MODULE))
        systems[0].wait_up()
        return Booked(tmp_path, systems[0])

    yield begin
    for system in systems:
        if system.process.poll() is None:
            system.signal(signal.SIGTERM)
            system.wait_down()


@pytest.mark.parametrize("route", ["index.book", "query.ask"])
def test_under_load_each_call_is_answered_or_refused_with_a_hint(booked: Callable[..., Booked], route: str) -> None:
    """The reason for it all: a release during the day costs nobody a call that was taken in, and nothing is done twice."""
    one = booked()
    numbers, lock, over = iter(range(10**9)), threading.Lock(), threading.Event()

    def work() -> None:
        with one.connect() as client:
            while not over.is_set():
                with lock:
                    number = next(numbers)
                end: BackplaneError | None = None
                try:
                    client.call(route, number=number, timeout=LIMIT_S)
                except BackplaneError as error:
                    end = error
                with lock:
                    one.note(number, end)
                if end is not None:
                    over.wait(end.retry_after or 0.05)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for generation in GENERATIONS:
        for name in ("index", "query"):
            served = len(one.answered)
            restarted = run("restart", name)
            assert (restarted.exit_code, restarted.stdout) == (
                DONE,
                f"backplane {name!r} is up again, generation {generation}\n",
            ), restarted.stderr
            limit = Limit()
            while len(one.answered) < served + 20:
                limit.check("it serves again", pause_s=EVERY_S)
    over.set()
    for worker in workers:
        worker.join(LIMIT_S)
    one.check()


def test_what_was_queued_before_is_finished(booked: Callable[..., Booked]) -> None:
    """It was taken in; though timers run all the while. As JSON, it tells the generations: scripts look which one answers."""
    one = booked('drain_limit = "600s"')
    with one.connect() as client:
        calls = one.submit(client, "query.ask", 60, 0.01)
        told = json.loads(run("restart", "query", "index", "--json").stdout)
        assert told == {"system": "demo", "backplanes": {"query": 2, "index": 2}, "unfinished": []}
        one.end(calls)
    assert one.answered == set(range(60))
    one.check()
    restarts = {entry["name"]: entry["restarts"] for entry in one.system.status()["backplanes"]}
    assert restarts == {"query": 1, "index": 1}


def test_down_finishes_what_was_queued(booked: Callable[..., Booked]) -> None:
    """And whoever is needed for it stays until then: the index finishes what the queries ask it."""
    one = booked('drain_limit = "600s"')
    with one.connect() as client:
        calls = one.submit(client, "query.ask", 60, 0.01)
        one.system.signal(signal.SIGTERM)
        one.end(calls)
        assert one.system.wait_down() == 0
    assert one.answered == set(range(60))
    one.check()
    downs = [name for line in one.system.said for name in ("query", "index") if line.endswith(f"{name} is down")]
    assert downs == ["query", "index"]


def test_at_the_limit_the_rest_is_refused_with_a_hint(booked: Callable[..., Booked]) -> None:
    """A restart takes as long as was said, and whoever could not be served knows at once that nothing was begun."""
    one = booked('drain_limit = "300ms"\nstop_limit = "600s"')
    with one.connect() as client:
        held = one.hold(client)
        calls = one.submit(client, "index.book", 200, 0.0)
        with ThreadPoolExecutor(1) as pool:
            restarting = pool.submit(run, "restart", "index")
            one.end(calls)
            one.let_go(held)
            restarted = restarting.result(LIMIT_S)
        assert restarted.exit_code == DONE
    one.check()
    assert len(one.refused) == 200
    assert but(restarted) == [f"but backplane 'index': {len(one.refused)} not begun within 0.3 s, and refused"]
    assert {error.message for _, error in one.refused} == {"index.book: backplane index is being restarted; not begun"}
    line = one.system.wait_said("not begun within 0.3 s, and refused")
    assert line.endswith(f"backplane 'index': drained, but {len(one.refused)} not begun within 0.3 s, and refused")


def test_an_action_that_never_ends_ends_with_its_process(booked: Callable[..., Booked]) -> None:
    """It has `stop_limit` to end; its component's last hook runs all the same, and its caller is told."""
    one = booked('drain_limit = "100ms"\nstop_limit = "400ms"', "threads = 2")
    with one.connect() as client:
        hanging = client.submit("index.hang", timeout=LIMIT_S)
        one.wait_begun("hanging")
        since = len(one.system.said)
        restarted = run("restart", "index")
        assert restarted.exit_code == DONE, restarted.stderr
        (line,) = but(restarted)
        assert line.startswith("but backplane 'index': not ended, and cut off: index.hang")
        end = hanging.exception(LIMIT_S)
        assert isinstance(end, PeerDown), end
    one.system.wait_said("drained, but not ended, and cut off: index.hang", since)
    one.system.wait_said("backplane 'index': up again, generation 2", since)


def test_a_reload_says_what_it_cut_off(booked: Callable[..., Booked]) -> None:
    """What takes a restart ends what runs, whatever the order was called."""
    one = booked('drain_limit = "100ms"\nstop_limit = "400ms"', "threads = 2")
    toml = one.folder / "demo.toml"
    toml.write_text(toml.read_text().replace("threads = 2", "threads = 2\npriorities = 7"))
    with one.connect() as client:
        hanging = client.submit("index.hang", timeout=LIMIT_S, retry=False)
        one.wait_begun("hanging")
        reloaded = run("reload", str(toml))
        assert isinstance(hanging.exception(LIMIT_S), PeerDown)
    assert reloaded.exit_code == DONE, reloaded.stderr
    (line,) = but(reloaded)
    assert line.startswith("but backplane 'index': not ended, and cut off: index.hang")


@pytest.mark.parametrize("words", [("down",), ("down", "--json")], ids=" ".join)
def test_down_says_what_it_cut_off(booked: Callable[..., Booked], words: tuple[str, ...]) -> None:
    """As a restart does. It is the last word of a supervisor that has ended when it is read."""
    one = booked('drain_limit = "100ms"\nstop_limit = "400ms"', "threads = 2")
    with one.connect() as client:
        hanging = client.submit("index.hang", timeout=LIMIT_S, retry=False)
        one.wait_begun("hanging")
        pid = one.system.process.pid
        down = run(*words)
        assert isinstance(hanging.exception(LIMIT_S), PeerDown)
    one.system.wait_down()
    assert down.exit_code == DONE, down.stderr
    if "--json" in words:
        told = json.loads(down.stdout)
        assert (told["system"], told["pid"]) == ("demo", pid)
        (line,) = told["unfinished"]
    else:
        assert down.stdout == "system 'demo' is down\n"
        line = but(down)[0].removeprefix("but ")
    assert line.startswith("backplane 'index': not ended, and cut off: index.hang")


def test_nobody_finishes_what_needs_one_that_has_died_and_waits_for_him_to_go(booked: Callable[..., Booked]) -> None:
    """Its call waits for the index to come back, and the index for it to go: both were away until the limit, and in a chain
    of four backplanes for 40 s. Nothing here ends by a limit.
    """
    one = booked('drain_limit = "600s"', 'restart = { strategy = "rest_for_one" }')
    with one.connect() as client:
        insisting = client.submit("query.insist", number=1, timeout=600, retry=False)
        client.call("backplane.query.statistics", timeout=LIMIT_S)
        restarting = threading.Thread(target=run, args=("restart", "index"))
        restarting.start()
        limit = Limit()
        while one.system.backplane("query")["state"] != "draining":
            limit.check(pause_s=EVERY_S)
        since = len(one.system.said)
        os.kill(one.system.backplane("index")["pid"], signal.SIGKILL)
        one.system.wait_said("'query': draining stopped: 'index' died", since)
        for name in ("query", "index"):
            one.system.wait_said(f"backplane {name!r}: up again, generation 2", since)
        restarting.join(LIMIT_S)
        assert not restarting.is_alive(), "the order has ended, too"
        end = insisting.exception(LIMIT_S)
        assert isinstance(end, PeerDown), end
    with one.connect() as client:
        assert client.call("query.ask", number=2, timeout=LIMIT_S) == 2


def test_while_it_drains_it_is_seen_and_asked(booked: Callable[..., Booked]) -> None:
    """A person wants to know what it is at; new calls are refused without a journey."""
    one = booked('drain_limit = "600s"')
    with one.connect() as client:
        held = one.hold(client)
        calls = one.submit(client, "index.book", 100, 0.0)
        restarting = threading.Thread(target=run, args=("restart", "index"))
        restarting.start()
        limit = Limit()
        while (state := one.system.backplane("index")["state"]) != "draining":
            assert state == "up"
            limit.check(pause_s=EVERY_S)
        assert "draining" in run("status").stdout
        with one.connect() as other, pytest.raises(Unavailable, match="finishes what it has, and goes down") as refused:
            other.call("index.book", number=1_000, retry=False)
        assert refused.value.retry_after
        assert client.call("backplane.index.statistics", timeout=LIMIT_S)["queues"]["actions"] > 0
        # In the 0.75 s that it is given, or the next time.
        statistics = wait_until(lambda: one.system.status(statistics=True)["backplanes"][1]["statistics"])
        assert statistics["backplane"] == "index", "served by the sentinel"
        one.let_go(held)
        one.end(calls)
        restarting.join(LIMIT_S)
    assert one.answered == set(range(100))
    one.check()


def test_a_name_that_is_none_is_said_with_the_nearest(kept: RunningSystem) -> None:
    """And nothing of what was listed with it is begun."""
    assert error_of(run("restart", "query", "indx"), FAILED) == "no backplane 'indx' (did you mean 'index'?)"
    assert "Missing argument 'BACKPLANE...'" in error_of(run("restart"), WRONG)
    assert "is not in the range" in error_of(run("restart", "index", "--timeout", "0"), WRONG)
    assert {entry["generation"] for entry in kept.status()["backplanes"]} == {1}


def test_now_kills_it(booked: Callable[..., Booked]) -> None:
    """Who cannot wait: what it had is lost, as with any death, and told so."""
    one = booked()
    with one.connect() as client:
        one.hold(client)
        calls = one.submit(client, "index.book", 100, 0.0)
        assert run("restart", "--now", "index").exit_code == DONE
        ends = [call.exception(LIMIT_S) for call in calls.values()]
    assert isinstance(ends[-1], PeerDown)
    assert one.system.backplane("index")["reason"] == "killed: ordered to restart at once"


def test_one_that_was_given_up_is_started_again(booked: Callable[..., Booked]) -> None:
    """Without it, the whole system would have to go down for what has been mended."""
    one = booked("", "restart = { max = 0 }")
    os.kill(one.system.backplane("index")["pid"], signal.SIGKILL)
    one.system.wait_said("given up")
    restarted = run("restart", "index")
    assert (restarted.exit_code, restarted.stdout) == (DONE, "backplane 'index' is up again, generation 2\n")
    with one.connect() as client:
        assert client.call("query.ask", number=1, timeout=LIMIT_S) == 1


def test_its_time_over_it_says_what_is_missing_and_goes_on(booked: Callable[..., Booked]) -> None:
    """A script that waits has an end; what was ordered is not taken back by that."""
    one = booked('drain_limit = "600s"', "threads = 2")
    with one.connect() as client:
        calls = one.submit(client, "index.book", 1, 0.0)
        hanging = client.submit("index.hang", timeout=2 * LIMIT_S, retry=False)
        client.call("backplane.index.statistics", timeout=LIMIT_S)
        limit, timeout_s = Limit(), 1.0
        while (said := error_of(run("restart", "index", f"--timeout={timeout_s}"), FAILED)).endswith("was restarted"):
            limit.check(said)  # its new process is constructed first, and that takes longer here
            timeout_s *= 2
        assert said == "backplane 'index' is not up again yet, and its restart goes on: it is draining"
        os.kill(one.system.backplane("index")["pid"], signal.SIGKILL)
        assert isinstance(hanging.exception(LIMIT_S), PeerDown)
        one.end(calls)
    one.system.wait_said("backplane 'index': up again, generation 2")
    one.check()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"backplanes": "index", "timeout": 1}, "backplanes: expected a list of names, got 'index'"),
        ({"backplanes": [], "timeout": 1}, "backplanes: expected 1 to 256 names, got 0"),
        ({"backplanes": ["index"], "timeout": -1}, "timeout: expected 0 to 86400 seconds, got -1"),
    ],
)
def test_nonsense_is_refused(kept: RunningSystem, body: dict[str, object], words: str) -> None:
    """The route is open to any client."""
    with pytest.raises(InvalidArgument, match=words):
        kept.ask("supervisor.restart", body)
