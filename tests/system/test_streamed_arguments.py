"""Streamed arguments between processes: each call ends exactly once, whoever dies, and never with a list that looks whole."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from appbackplane.transport import (
    Client,
    DeadlineExceeded,
    InvalidArgument,
    PeerDown,
    UnknownRoute,
    async_sending,
    connect_async,
    stream,
)
from tests.figures import IS_LONG
from tests.waiting import wait_until

from .conftest import LIMIT_S, System, ask_until, command, standing, wait_ready

TILL = """
[backplane.tables]
components = ["loaded:Store"]
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
[backplane.relays]
components = ["loaded:Relay"]
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
"""
#: A client program that sends so many items, and then waits to be killed.
PROGRAM = """
import sys
from appbackplane.transport import connect, stream
def rows():
    for number in range(int(sys.argv[3])):
        yield number
    print("ready", flush=True)
    sys.stdin.read()
    yield 0
connect(sys.argv[1], timeout=600).call(sys.argv[2], rows=stream(rows(), window=8), timeout=600)
"""
LOADS = ("store.load", "store.load_plainly")


#: Items after which a process dies, which has a window of 64, and with 16 of them: the first, and those around its edges.
CALLEE_DIES_AFTER = [1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1024, 2999, 3000] if IS_LONG else [1, 64, 65, 3000]
CALLER_DIES_AFTER = [0, 1, 15, 16, 17, 100] if IS_LONG else [0, 17]
CLIENT_DIES_AFTER = [0, 1, 8, 9, 100] if IS_LONG else [0, 9]


@pytest.fixture(scope="module")
def till(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all: whatever a test has killed is there again after it."""
    with standing(TILL, "loaded.py") as system:
        yield system


@pytest.fixture
def system(till: System) -> System:
    """Nothing is at work in it, and nothing has ended yet."""
    with till.connect() as client:
        ask_until(client, "relay.pid", lambda _: True)
        ask_until(client, "backplane.tables.statistics", lambda told: not told["components"]["store"]["outstanding"])
        client.call("store.forget")
    return till


class Rows:
    """Numbers from 0, as a generator; and how it ended."""

    def __init__(self, upto: int = 10**9) -> None:
        self.fetched = 0
        self.ended = ""
        self._upto = upto

    def __iter__(self) -> Iterator[int]:
        try:
            for number in range(self._upto):
                self.fetched += 1
                yield number
            self.ended = "end"
        except BaseException as error:
            self.ended = type(error).__name__
            raise


class Mistake(Exception):
    """An error of the iterator."""


def has_begun_within(fetched: Callable[[float], int]) -> bool:
    """Have a call end at its deadline while its operation runs: that is so once items were fetched. `fetched`: makes one with
    this time-out, and counts them. On a busy machine the deadline may pass before that; then another one gets more time.
    """
    return any(fetched(seconds) for seconds in (1.0, 10.0, 60.0))


def wait_alive(client: Client, route: str) -> None:
    """Until a backplane that was killed serves again."""
    ask_until(client, route, lambda _: True)


@pytest.mark.parametrize("window", [1, 7, 1024])
@pytest.mark.parametrize("route", LOADS)
def test_all_items_come_in_order(system: System, route: str, window: int) -> None:
    """From a list and from a generator; from a client, and from operations, which pass on what they get."""
    with system.connect() as client:
        # With a window of 1 each item takes a turn of both processes.
        call = partial(client.call, timeout=LIMIT_S)
        assert call(route, rows=stream(range(3000), window=window)) == [3000, 4_498_500]
        assert call(route, rows=stream(Rows(300), window=window)) == [300, 44_850]
        assert call(route, rows=stream([], window=window)) == [0, 0]
        assert call("relay.send", count=3000, route=route, window=window) == [3000, 4_498_500]
        assert call("relay.pass_on", rows=stream(range(300)), window=window) == [300, 448_500]
        assert call("relay.send_and_block", count=300) == [300, 44_850]


def test_an_answer_before_the_end_closes_the_iterator(system: System) -> None:
    """Its caller would go on to fetch what nobody reads."""
    with system.connect() as client:
        for upto in (0, 1, 7, 8, 9, 1024):
            rows = Rows()
            assert client.call("store.load", rows=stream(iter(rows), window=8), upto=upto)[0] == upto
            assert rows.ended == ("GeneratorExit" if rows.fetched else ""), "none was fetched if none was asked for"
            assert upto <= rows.fetched <= upto + 8


@pytest.mark.parametrize("route", LOADS)
def test_an_error_of_the_iterator_cancels_the_call(system: System, route: str) -> None:
    """That very error comes out of `call`; its operation does not take what came for the whole."""
    mistake = Mistake("on purpose")

    def rows() -> Iterator[int]:
        yield from range(3)
        raise mistake

    with system.connect() as client:
        with pytest.raises(Mistake) as raised:
            client.call(route, rows=stream(rows()), timeout=LIMIT_S)
        assert raised.value is mistake
        ask_until(client, "store.ended_by", lambda ended: ended == ["Cancelled"])


@pytest.mark.parametrize("route", LOADS)
def test_a_callee_that_is_killed_between_any_two_items_ends_the_call_in_peer_down(system: System, route: str) -> None:
    """Once, and the iterator is closed. An operation that sends is told Unavailable, as with any call."""
    with system.connect() as client:
        for die_after in CALLEE_DIES_AFTER:
            wait_alive(client, "store.pid")
            rows = Rows(3000)
            with pytest.raises(PeerDown):
                client.call(route, rows=stream(iter(rows), window=64), die_after=die_after, timeout=LIMIT_S)
            assert die_after <= rows.fetched <= die_after + 64
            assert rows.ended == ("end" if rows.fetched == 3000 and rows.ended == "end" else "GeneratorExit")
        wait_alive(client, "store.pid")
        assert client.call(route, rows=stream(range(100))) == [100, 4_950]


@pytest.mark.parametrize("route", LOADS)
def test_a_caller_that_is_killed_between_any_two_items_cancels_the_operation(system: System, route: str) -> None:
    """A client or a backplane; and the object serves the next, with all its items."""
    with system.connect() as client:
        count = 0
        for items in CLIENT_DIES_AFTER:
            program = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(system.run_dir), route, str(items)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            with program:
                wait_ready(program)
                program.send_signal(signal.SIGKILL)
            count += 1
            ask_until(client, "store.ended_by", lambda ended, n=count: ended == ["Cancelled"] * n)
        for die_after in CALLER_DIES_AFTER:
            wait_alive(client, "relay.pid")
            with pytest.raises(PeerDown):
                client.call("relay.send", count=3000, route=route, die_after=die_after, retry=False, timeout=LIMIT_S)
            count += 1
            ask_until(client, "store.ended_by", lambda ended, n=count: ended == ["Cancelled"] * n)
        for key in range(4):
            assert client.call(route, rows=stream(range(9)), key=f"table-{key}") == [9, 36]


def test_a_deadline_ends_both_sides(system: System) -> None:
    """While the iterator has no next item, and while the operation does not read."""

    async def items_within(seconds: float) -> int:
        count = 0

        async def rows() -> AsyncIterator[int]:
            nonlocal count
            count += 1
            yield 1
            await asyncio.Event().wait()

        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:
            with pytest.raises(DeadlineExceeded):
                await client.call("store.load", rows=stream(rows()), timeout=seconds)
        return count

    assert has_begun_within(lambda seconds: asyncio.run(items_within(seconds)))
    with system.connect() as client:

        def fetched_within(seconds: float) -> int:
            rows = Rows()
            with pytest.raises(DeadlineExceeded):
                client.call("store.load", rows=stream(iter(rows)), timeout=seconds)
            return rows.fetched

        ended = ask_until(client, "store.ended_by", bool)
        assert has_begun_within(fetched_within)
        ended = ask_until(client, "store.ended_by", lambda now: len(now) > len(ended))
        assert set(ended) <= {"DeadlineExceeded", "Cancelled"}


def test_operations_that_wait_for_items_hold_no_worker(system: System) -> None:
    """A worker each, or memory without end, would be the price of every slow caller. A plain operation blocks a thread, and
    another does its work.
    """
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(system.run_dir), route, "3"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for route in LOADS * 2
    ]  # fmt: skip
    for program in programs:
        wait_ready(program)
    with system.connect() as client:
        assert client.call("store.ended_by") == []
        wait_until(
            lambda: "its caller, which has not sent more items of 'rows'" in system.command("why", "store.load").stdout,
            "no operation awaits items",
        )
        for program in programs:
            with program:
                program.kill()
        ask_until(client, "store.ended_by", lambda ended: ended == ["Cancelled"] * 4)


def test_a_backplane_that_is_drained_reads_to_the_end(system: System) -> None:
    """Its work is finished before it goes down, and the rest of an argument belongs to it."""
    done: list[subprocess.CompletedProcess[str]] = []
    restart = threading.Thread(target=lambda: done.append(system.command("restart", "tables")))
    with system.connect() as client, system.connect() as other:

        def rows() -> Iterator[int]:
            yield from range(100)
            restart.start()
            wait_until(lambda: other.directory().backplanes["tables"].is_draining)
            yield from range(100, 3000)

        assert client.call("store.load", rows=stream(rows(), window=16), timeout=LIMIT_S) == [3000, 4_498_500]
        restart.join(LIMIT_S)
        assert done[0].returncode == 0
        assert client.call("store.load", rows=stream(range(10))) == [10, 45]


def test_threads_send_iterators_by_one_client(system: System) -> None:
    """Each iterates in its own thread, without the lock of the client; and an iterator may call by the same client."""
    with system.connect() as client, ThreadPoolExecutor(4) as threads:

        def rows() -> Iterator[int]:
            for number in range(500):
                if number % 100 == 0:
                    assert client.call("store.pid") > 0
                yield number

        def load(key: int) -> Any:
            return client.call("store.load", rows=stream(rows(), window=7), key=f"table-{key}", timeout=LIMIT_S)

        assert [*threads.map(load, [*range(4)] * 3)] == [[500, 124_750]] * 12


def test_an_asyncio_program_sends_iterators(system: System) -> None:
    """Of both kinds, several at a time; and what is left is closed."""
    ended: list[str] = []
    begun = asyncio.Event()

    async def rows(upto: int) -> AsyncIterator[int]:
        try:
            for number in range(upto):
                yield number
            ended.append("end")
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    async def mistaken() -> AsyncIterator[int]:
        yield 1
        raise Mistake

    async def endless() -> AsyncIterator[int]:
        try:
            begun.set()
            yield 1
            await asyncio.Event().wait()
        finally:
            ended.append("interrupted")

    async def program() -> None:
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:

            async def load(key: int, items: Any) -> Any:
                rows = stream(items, window=16)
                return await client.call("store.load", key=f"table-{key}", rows=rows, timeout=LIMIT_S)

            found = await asyncio.gather(*(load(n, rows(2000) if n % 2 else range(2000)) for n in range(4)))
            assert found == [[2000, 1_999_000]] * 4
            assert ended == ["end", "end"]
            assert await client.call("store.load", rows=stream(rows(10**9)), upto=5) == [5, 10]
            assert ended.pop() == "GeneratorExit"
            with pytest.raises(Mistake):
                await load(0, mistaken())
            sources = Rows()
            assert await client.call("store.load", rows=stream(iter(sources)), upto=5) == [5, 10]
            assert sources.ended == "GeneratorExit"
            assert await client.call("store.load", rows=stream(endless()), upto=1) == [1, 1]
            assert ended.pop() == "interrupted", "the answer has not waited for the next item"
            begun.clear()
            task = asyncio.create_task(load(0, endless()))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended.pop() == "interrupted"

    asyncio.run(program())
    with system.connect() as client:
        ask_until(client, "store.ended_by", lambda ended: sorted(ended) == ["Cancelled"] * 2 + ["end"] * 7)


def test_an_answer_survives_the_cleanup_of_the_iterator(system: System, caplog: pytest.LogCaptureFixture) -> None:
    """An exception of it is logged; the end of the program is not held up."""

    def untidy(error: BaseException) -> Iterator[int]:
        try:
            yield from range(10**9)
        finally:
            raise error

    with system.connect() as client:
        wait_alive(client, "store.pid")
        assert client.call("store.load", rows=stream(untidy(Mistake("in finally"))), upto=5) == [5, 10]
        assert "in finally" in caplog.text
        with pytest.raises(KeyboardInterrupt):
            client.call("store.load", rows=stream(untidy(KeyboardInterrupt())), upto=5)

        def late_within(seconds: float) -> int:
            count = 0

            def late() -> Iterator[int]:
                nonlocal count
                yield 1
                count += 1
                wait_until(lambda: client.call("store.pid") and not client._calling.session.outstanding_count)
                raise Mistake("behind the deadline")

            with pytest.raises(DeadlineExceeded):
                client.call("store.load", rows=stream(late()), timeout=seconds)
            return count

        assert has_begun_within(late_within)
        assert "behind the deadline" in caplog.text


def test_an_asyncio_program_gets_the_answer_whatever_its_iterator_makes_of_the_end(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    """But a task that is cancelled while its iterator is closed is cancelled."""
    closing = asyncio.Event()

    async def interrupted() -> AsyncIterator[int]:
        yield 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError("my connection was interrupted") from None

    def untidy() -> Iterator[int]:
        try:
            yield from range(10**9)
        finally:
            raise Mistake("in finally")

    async def slow_to_close() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            closing.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise OSError("cut short") from None

    async def program() -> None:
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:
            assert await client.call("store.load", rows=stream(interrupted()), upto=1) == [1, 1]
            assert "my connection was interrupted" in caplog.text
            assert await client.call("store.load", rows=stream(untidy()), upto=5) == [5, 10]
            assert "in finally" in caplog.text
            with pytest.raises(DeadlineExceeded):
                await client.call("store.load", rows=stream(interrupted()), timeout=0.3)
            load: Any = client.call("store.load", rows=stream(slow_to_close()), upto=5)
            task = asyncio.ensure_future(load)
            await closing.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(program())


def test_an_asyncio_program_takes_any_async_iterable(system: System) -> None:
    """Its iterator needs `__anext__` alone, as in `async for`; and what can be iterated in both ways is awaited."""

    class Counting:
        def __init__(self) -> None:
            self.count = 0

        async def __anext__(self) -> int:
            if self.count == 3:
                raise StopAsyncIteration
            self.count += 1
            return self.count

    class Able:
        def __aiter__(self) -> Any:
            return Counting()

    class Both(Able):
        def __iter__(self) -> Iterator[int]:
            raise Mistake("it would block the event loop")

    async def program() -> None:
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:
            for items in (Able(), Both()):
                assert await client.call("store.load", rows=stream(items)) == [3, 6]  # type: ignore[arg-type]

    asyncio.run(program())


def test_a_slow_generator_does_not_stop_the_event_loop(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run between any two of its steps, if each takes longer than the loop may stand still."""
    monkeypatch.setattr(async_sending, "FETCH_S", 0.0)
    turns = 0
    seen: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(50):
            seen.append(turns)
            yield number

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def program() -> None:
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:
            task = asyncio.create_task(turn())
            assert await client.call("store.load", rows=stream(numbers())) == [50, 1225]
            task.cancel()

    asyncio.run(program())
    assert len(set(seen)) == 50


def test_a_call_that_is_refused_has_not_touched_the_iterator(system: System) -> None:
    """So it is retried as a call without a stream is; and its user can use the iterator for another call."""
    with system.connect() as client:
        rows = (number for number in range(10))
        with pytest.raises(UnknownRoute):
            client.call("store.lod", rows=stream(rows))
        with pytest.raises(InvalidArgument, match="unknown argument 'rws'"):
            client.call("store.load", rws=stream(rows))
        with pytest.raises(InvalidArgument, match=r"argument 'upto': expected `int`, got `str`"):
            client.call("store.load", rows=stream(rows), upto="many")
        os.kill(client.call("store.pid"), signal.SIGKILL)
        wait_alive(client, "store.pid")
        assert client.call("store.load", rows=stream(rows)) == [10, 45]


def test_the_command_sends_the_lines_of_its_input(system: System) -> None:
    """As they come; a line that is no JSON is a mistake of the user, and its operation takes nothing for the whole."""

    def load(given: str, *words: str) -> subprocess.CompletedProcess[str]:
        return command(system.folder, "call", "--stream-in", "rows", "store.load", *words, given=given)

    ran = load("1\n2\n 3 \n4")
    assert (json.loads(ran.stdout), ran.stderr, ran.returncode) == ([4, 10], "", 0)
    assert json.loads(load("").stdout) == [0, 0]
    assert json.loads(load("1\n2\n3\n", "upto=2").stdout) == [2, 3]
    for given, problem in {
        "1\ntwo\n3\n": "standard input, line 2: expected one JSON value a line, got 'two'",
        "1\n\n3\n": "standard input, line 2: expected one JSON value a line, got ''",
        "[" * 100_000: "standard input, line 1: nested too deep",
    }.items():
        ran = load(given)
        assert problem in ran.stderr
        assert (ran.stdout, ran.returncode) == ("", 2)
    ran = load('"x"\n')
    assert "store.load: argument 'rows', item 0: expected `int`, got `str`" in ran.stderr
    assert (ran.stdout, ran.returncode) == ("", 1)


MISPLACED: list[tuple[str, Callable[[Client], Any]]] = [
    ("two", lambda client: client.call("store.load", rows=stream([1]), upto=stream([1]))),
    ("nested", lambda client: client.call("store.load", rows=[stream([1])])),
    ("submitted", lambda client: client.submit("store.load", rows=stream([1]))),
    ("cast", lambda client: client.cast("store.load", rows=stream([1]))),
    ("streamed", lambda client: client.stream("store.load", rows=stream([1]))),
    ("keyed", lambda client: client.call("store.load", rows=stream([1]), idempotency_key="once")),
    ("none", lambda client: client.call("store.load", rows=[1])),
    ("async", lambda client: client.call("store.load", rows=stream(_asynchronous()))),
]


async def _asynchronous() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("misplace", [call for _, call in MISPLACED], ids=[name for name, _ in MISPLACED])
def test_a_stream_where_none_can_be_is_refused(system: System, misplace: Callable[[Client], Any]) -> None:
    """With the route and the argument, before anything has begun."""
    with system.connect() as client:
        with pytest.raises(InvalidArgument, match=r"^store\.load: .*'rows'"):
            misplace(client)
        assert client.call("store.ended_by") == []
