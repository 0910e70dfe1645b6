"""Streams between processes: each ends exactly once, in its last item or in a status, whoever dies, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appbackplane.transport import (
    BackplaneError,
    Client,
    DeadlineExceeded,
    InvalidArgument,
    PeerDown,
    Unavailable,
    connect_async,
)
from tests.figures import IS_LONG

from .conftest import LIMIT_S, System, ask_until, command, standing, wait_ready

TILL = """
[backplane.store]
components = ["streamed:Rows"]
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
[backplane.relays]
components = ["streamed:Relay"]
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
"""
#: A client program that reads so many items of a stream, and then waits to be killed.
PROGRAM = """
import sys
from appbackplane.transport import connect
client = connect(sys.argv[1], timeout=600)
stream = client.stream(sys.argv[2], upto=100_000, window=8, timeout=600)
for _ in range(int(sys.argv[3])):
    next(stream)
print("ready", flush=True)
sys.stdin.read()
"""
#: How each stream of the tests ends in its callee if nothing but its reader ends it.
CLOSED = ("GeneratorExit", "Cancelled")


#: Items after which a process dies: with a window of 64 the first ones, and those around its edge.
CALLEE_DIES_AFTER = [*range(12), 63, 64, 65, 1023, 1024, 1025] if IS_LONG else [0, 1, 64, 65]
READER_DIES_AFTER = (1, 4, 8, 9, 100) if IS_LONG else (1, 9)


@pytest.fixture(scope="module")
def till(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all: whatever a test has killed is there again after it."""
    with standing(TILL, "streamed.py") as system:
        yield system


@pytest.fixture
def system(till: System) -> System:
    """Nothing is at work in it, and nothing has ended yet."""
    with till.connect() as client:
        ask_until(client, "backplane.relays.statistics", lambda told: not told["components"]["relay"]["outstanding"])
        ask_until(client, "backplane.store.statistics", lambda told: not told["components"]["rows"]["outstanding"])
        client.call("rows.forget")
    return till


def read(client: Client, route: str, **options: Any) -> tuple[list[Any], BackplaneError | None]:
    """All items of a stream, and the error in which it ended; None: in its last item."""
    found: list[Any] = []
    try:
        for item in client.stream(route, timeout=LIMIT_S, **options):
            found.append(item)
    except BackplaneError as error:
        return found, error
    return found, None


def wait_alive(client: Client, route: str = "rows.pid") -> None:
    """Until a backplane that was killed serves again."""
    ask_until(client, route, lambda _: True)


@pytest.mark.parametrize("window", [1, 7, 1024])
def test_all_items_come_in_order(system: System, window: int) -> None:
    """From a backplane, and through another one."""
    with system.connect() as client:
        assert read(client, "rows.count", upto=3000, window=window) == ([[n, ""] for n in range(3000)], None)
        assert read(client, "relay.tens", upto=3000, window=window) == ([10 * n for n in range(3000)], None)
        assert client.call("relay.total", upto=3000) == 4_498_500


def test_an_asyncio_program_reads_streams(system: System) -> None:
    """Several at a time, and one that it leaves."""

    async def program() -> None:
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:

            async def total(key: str) -> int:
                return sum([number async for number, _ in client.stream("rows.count", upto=2000, key=key)])

            assert await asyncio.gather(*(total(f"table-{n}") for n in range(4))) == [1_999_000] * 4
            async for number, _ in client.stream("rows.count", upto=1_000_000):
                if number == 50:
                    break
            async with client.stream("rows.count", upto=1_000_000) as stream:
                assert await anext(stream) == [0, ""]
            assert [item async for item in stream] == []
            with pytest.raises(InvalidArgument, match="upto"):
                await anext(client.stream("rows.count", upto="many"))

    asyncio.run(program())
    with system.connect() as client:
        ended = ask_until(client, "rows.ended_by", lambda ended: len(ended) == 6)
    assert sorted(ended) == ["GeneratorExit"] * 2 + ["end"] * 4


def test_a_stream_that_an_asyncio_program_reads_ends_at_its_deadline(system: System) -> None:
    """In its status, and the generator with it."""

    async def items_within(seconds: float) -> int:
        count = 0
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:
            try:
                async for _ in client.stream("rows.count", upto=10**9, timeout=seconds):
                    count += 1
            except DeadlineExceeded:
                return count
        raise AssertionError("it has not ended at its deadline")

    # On a busy machine the deadline may pass before the first item comes; then another stream gets more time.
    assert any(asyncio.run(items_within(seconds)) for seconds in (0.5, 5.0, 50.0)), "no item comes before the deadline"
    with system.connect() as client:
        assert {*ask_until(client, "rows.ended_by", bool)} == {"GeneratorExit"}


@pytest.mark.parametrize(("route", "broken"), [("rows.count", PeerDown), ("relay.tens", Unavailable)])
def test_a_callee_that_is_killed_between_any_two_items_ends_the_stream_in_a_status(
    system: System, route: str, broken: type[BackplaneError]
) -> None:
    """What came before are the first items, each once; then PEER_DOWN, and never an end that looks complete. An operation
    that passes the stream on has not died itself: it is UNAVAILABLE, as with a call.
    """
    expected: Callable[[int], Any] = {"rows.count": lambda n: [n, ""], "relay.tens": lambda n: 10 * n}[route]
    with system.connect() as client:
        for die_after in CALLEE_DIES_AFTER:
            wait_alive(client)
            found, error = read(client, route, upto=3000, die_after=die_after, window=64)
            assert found == [expected(n) for n in range(len(found))]
            assert die_after - 2 * 64 <= len(found) <= die_after
            assert isinstance(error, broken), error
        wait_alive(client)
        assert read(client, route, upto=100) == ([expected(n) for n in range(100)], None)


@pytest.mark.parametrize("route", ["rows.count", "relay.tens"])
def test_a_reader_that_is_killed_between_any_two_items_ends_the_generator(system: System, route: str) -> None:
    """Down the whole chain, and the object serves the next."""
    with system.connect() as client:
        for number, items in enumerate(READER_DIES_AFTER):
            program = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(system.run_dir), route, str(items)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            with program:
                wait_ready(program)
                program.send_signal(signal.SIGKILL)
            ended = ask_until(client, "rows.ended_by", lambda ended, n=number: len(ended) > n)
            assert set(ended) <= set(CLOSED)
        for key in range(4):
            assert read(client, "rows.count", upto=3, key=f"table-{key}")[1] is None


def test_a_reader_that_sleeps_costs_the_callee_no_worker(system: System) -> None:
    """A worker each, or memory without end, would be the price of every slow reader."""
    with system.connect() as client:
        streams = [client.stream("rows.count", upto=10**9, key=f"table-{n}", timeout=600) for n in range(4)]
        assert [next(stream) for stream in streams] == [[0, ""]] * 4
        assert client.call("rows.ended_by") == []
        for stream in streams:
            stream.close()
        ask_until(client, "rows.ended_by", lambda ended: ended == ["GeneratorExit"] * 4)


def test_the_command_prints_an_item_a_line(system: System) -> None:
    """As JSON, for jq and for scripts."""
    ran = command(system.folder, "call", "--stream", "rows.count", "upto=3", "text=x")
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [[0, "x"], [1, "x"], [2, "x"]]
    assert ran.returncode == 0
    ran = command(system.folder, "call", "rows.count", "upto=3")
    assert "rows.count is a generator" in ran.stderr
    assert ran.returncode == 1
