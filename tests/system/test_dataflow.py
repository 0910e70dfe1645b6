"""Dataflow between processes: a result goes straight to the call that awaits it, and each call ends once, whoever dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from appbackplane.transport import (
    Cancelled,
    Client,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    OperandFailed,
    PeerDown,
    connect_async,
)
from tests.waiting import wait_until

from .conftest import LIMIT_S, System, ask_until, standing, wait_dead

RESTART = 'restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }'
TILL = f"""
[backplane.springs]
components = ["flowing:Source"]
{RESTART}
[backplane.drains]
components = ["flowing:Sink"]
drain_limit = "1s"
{RESTART}
"""


@pytest.fixture(scope="module")
def till(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all: whatever a test has killed is there again after it."""
    with standing(TILL, "flowing.py") as system:
        yield system


@pytest.fixture
def system(till: System) -> System:
    """Nothing waits in it."""
    with till.connect() as client:
        ask_until(client, "backplane.springs.statistics", lambda told: not told["components"]["source"]["outstanding"])
        awaiting(client, "drains", 0)
    return till


def operands(client: Client, backplane: str) -> dict[str, int]:
    told: dict[str, int] = client.call(f"backplane.{backplane}.statistics")["operands"]
    return told


def carried(client: Client) -> int:
    """Operands that the client has sent itself."""
    return client._calling.session.core.flow.carried_count


def awaiting(client: Client, backplane: str, count: int) -> None:
    """Wait until so many calls await operands there."""
    ask_until(client, f"backplane.{backplane}.statistics", lambda told: told["operands"]["awaiting"] == count)


def kill(system: System, backplane: str) -> None:
    """-9, and wait for its end."""
    pid = system.pids()[backplane]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)


def test_a_result_goes_straight_to_the_call_that_awaits_it(system: System, tmp_path: Path) -> None:
    with system.connect() as client:
        before = (operands(client, "springs")["forwarded"], operands(client, "drains")["forwarded"])
        first = client.submit("source.when", path=str(tmp_path / "go"), n=41)
        second = client.submit("sink.add", left=first)
        third = client.submit("sink.add", left=second, right=second)
        awaiting(client, "drains", 2)
        operands(client, "springs")  # read behind the order to forward, which so has come before the result
        (tmp_path / "go").touch()
        assert (first.result(LIMIT_S), second.result(LIMIT_S), third.result(LIMIT_S)) == (41, 42, 84)
        assert carried(client) == 0
        forwarded = (operands(client, "springs")["forwarded"], operands(client, "drains")["forwarded"])
        assert forwarded == (before[0] + 1, before[1] + 2)
        assert client.call("sink.add", left=client.submit("source.number", n=1)) == 2


def test_a_random_graph_gives_the_results_of_a_sequential_run(system: System) -> None:
    chance, calls, expected = Random(7), list[object](), list[int]()
    with system.connect() as client:
        for number in range(500):
            chosen = chance.randrange(max(0, number - 20), number) if number and chance.random() < 0.9 else -1
            left, value = (number, number) if chosen < 0 else (calls[chosen], expected[chosen])
            if chance.random() < 0.5:
                calls.append(client.submit("source.number", n=left))
                expected.append(value)
            else:
                calls.append(client.submit("sink.add", left=left, right=number))
                expected.append(value + number)
        assert [call.result(LIMIT_S) for call in calls] == expected  # type: ignore[attr-defined]
        assert not client._calling.session.core.flow.is_used


def test_promises_and_circles(system: System) -> None:
    with system.connect() as client, system.connect() as other:
        seed = client.promise("seed")
        first = client.submit("sink.add", left=seed)
        second = client.submit("source.number", n=first)
        with pytest.raises(FailedPrecondition, match="a circle that nobody can ever fill: promise 'seed' would follow"):
            seed.follows(second)
        with pytest.raises(InvalidArgument, match="promise 'seed' of another client"):
            other.submit("sink.add", left=seed)
        seed.set(5)
        assert second.result(LIMIT_S) == 6
        theirs = other.promise("theirs")
    with system.connect() as client:
        with pytest.raises(InvalidArgument, match="promise 'theirs' of a closed client"):
            client.submit("sink.add", left=theirs)
        lost = client.submit("sink.add", left=client.promise("lost"))
        error = lost.exception(LIMIT_S)
        assert isinstance(error, OperandFailed) and "nobody can fill it any more" in error.message
        failing = client.submit("source.fail", n=3)
        try:
            failed = client.submit("sink.add", left=failing).exception(LIMIT_S)
        except OperandFailed as early:  # it has failed by now
            failed = early
        assert "sink.add: operand 'left', source.fail, has failed: InternalError: " in str(failed)


def test_closing_a_client_ends_calls_that_wait(system: System) -> None:
    client = system.connect()
    promise = client.promise()
    call = client.submit("sink.add", left=promise)
    client.close()
    assert isinstance(call.exception(LIMIT_S), Cancelled)
    with pytest.raises(Exception, match="the client is closed"):
        promise.set(1)


def test_a_killed_callee_of_the_operand(system: System, tmp_path: Path) -> None:
    """The call ends in an error that names the operand, and its callee forgets it."""
    with system.connect() as client:
        first = client.submit("source.when", path=str(tmp_path / "never"), n=1)
        second = client.submit("sink.add", left=first)
        awaiting(client, "drains", 1)
        kill(system, "springs")
        assert isinstance(first.exception(LIMIT_S), PeerDown)
        error = second.exception(LIMIT_S)
        assert isinstance(error, OperandFailed) and "operand 'left', source.when, has failed: PeerDown" in str(error)
        awaiting(client, "drains", 0)


def test_a_killed_callee_of_the_waiting_call(system: System, tmp_path: Path) -> None:
    """What cannot have begun waits at the caller for the next generation; what may have begun ends, unless it is idempotent."""
    with system.connect() as client:
        promise = client.promise()
        first = client.submit("source.when", path=str(tmp_path / "go"), n=1)
        kept = client.submit("sink.add", left=first, right=promise, timeout=LIMIT_S)
        repeatable = client.submit("sink.again", left=first, timeout=LIMIT_S)
        doubtful = client.submit("sink.add", left=first, timeout=LIMIT_S)
        awaiting(client, "drains", 3)
        kill(system, "drains")
        assert isinstance(doubtful.exception(LIMIT_S), PeerDown)
        (tmp_path / "go").touch()
        assert first.result(LIMIT_S) == 1
        promise.set(10)
        assert (kept.result(LIMIT_S), repeatable.result(LIMIT_S)) == (11, 2)
        assert client.call("sink.sums", timeout=LIMIT_S) == [11]


def test_a_killed_client_leaves_nothing(system: System, tmp_path: Path) -> None:
    with system.connect() as client:
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(system.run_dir), str(tmp_path / "never")],
            stdout=subprocess.PIPE,
            text=True,
        )
        with program:
            awaiting(client, "drains", 10)
            program.kill()
        awaiting(client, "drains", 0)


PROGRAM = """
import sys
from appbackplane.transport import connect
client = connect(sys.argv[1], timeout=120)
first = client.submit("source.when", path=sys.argv[2], n=1, timeout=600)
calls = [client.submit("sink.add", left=first, timeout=600) for _ in range(10)]
calls[-1].result()
"""


def test_cancel_and_deadline(system: System, tmp_path: Path) -> None:
    with system.connect() as client:
        first = client.submit("source.when", path=str(tmp_path / "never"), n=1)
        cancelled = client.submit("sink.add", left=first)
        behind = client.submit("sink.add", left=cancelled)
        awaiting(client, "drains", 2)
        assert cancelled.cancel()
        assert isinstance(behind.exception(LIMIT_S), OperandFailed)
        awaiting(client, "drains", 0)
        expired = client.submit("sink.add", left=first, timeout=0.2).exception(LIMIT_S)
        assert isinstance(expired, DeadlineExceeded) and "'left' of source.when" in expired.message
        awaiting(client, "drains", 0)
        assert first.cancel()


def test_a_drain_waits_for_operands_and_then_refuses(system: System, tmp_path: Path) -> None:
    """A call that awaits operands is accepted work. At the limit of the drain it has not begun, so it is refused; its caller
    keeps it, and sends it to the next generation.
    """
    with system.connect() as client:
        order = {"backplanes": ["drains"], "timeout": LIMIT_S, "now": False, "rolling": False, "force": False}
        promise = client.promise()
        first = client.submit("source.when", path=str(tmp_path / "go"), n=1)
        soon = client.submit("sink.add", left=first)
        awaiting(client, "drains", 1)
        before = client.call("sink.pid")
        restart = client.submit("supervisor.restart", timeout=LIMIT_S, arguments=order)
        # On a busy machine the drain may be over before it is seen: then the call has been sent to the next generation.
        wait_until(lambda: client.directory().backplanes["drains"].is_draining or restart.done())
        (tmp_path / "go").touch()
        assert soon.result(LIMIT_S) == 2
        restart.result(LIMIT_S)
        after = ask_until(client, "sink.pid", lambda pid: pid != before)
        late = client.submit("sink.add", left=promise, timeout=LIMIT_S)
        awaiting(client, "drains", 1)
        restart = client.submit("supervisor.restart", timeout=LIMIT_S, arguments=order)
        restart.result(LIMIT_S)
        ask_until(client, "sink.pid", lambda pid: pid != after)
        promise.set(7)
        assert late.result(LIMIT_S) == 8


def test_why_names_the_operand(system: System, tmp_path: Path) -> None:
    with system.connect() as client:
        first = client.submit("source.when", path=str(tmp_path / "never"), n=1)
        client.submit("sink.add", left=first)
        awaiting(client, "drains", 1)
        told = system.command("why", "sink.add")
        assert "it awaits operand 'left' of source.when" in told.stdout


def test_on_asyncio(system: System, tmp_path: Path) -> None:
    """The same, with futures."""

    async def run() -> None:
        async with (
            await connect_async(system.run_dir, timeout=LIMIT_S) as client,
            await connect_async(system.run_dir, timeout=LIMIT_S) as other,
        ):
            promise = client.promise("p")
            first = client.submit("source.when", path=str(tmp_path / "go"), n=1)
            second = client.submit("sink.add", left=first, right=promise)
            third = asyncio.ensure_future(client.call("sink.add", left=second))
            doomed = client.submit("sink.add", left=first)
            with pytest.raises(FailedPrecondition, match="a circle that nobody can ever fill"):
                promise.follows(second)
            with pytest.raises(InvalidArgument, match=r"source\.when of another client"):
                other.submit("sink.add", left=first)
            with pytest.raises(InvalidArgument, match="takes no promises"):
                await client.cast("sink.add", left=first)
            doomed.cancel()
            (tmp_path / "go").touch()
            promise.set(10)
            assert (await first, await second, await third) == (1, 11, 12)
            with pytest.raises(OperandFailed, match="it was cancelled"):
                client.submit("sink.add", left=doomed)
            with pytest.raises(OperandFailed, match="nobody can fill it any more"):
                await client.submit("sink.add", left=client.promise("lost"))
            with pytest.raises(OperandFailed, match="no 3 today"):
                await client.call("sink.add", left=client.submit("source.fail", n=3))
            failed = client.submit("source.fail", n=3)
            await asyncio.wait([failed])
            following = client.promise()
            behind = client.submit("sink.add", left=following)
            following.follows(failed)
            with pytest.raises(OperandFailed, match="no 3 today"):  # it has ended, though the loop has not turned since
                client.submit("sink.add", left=behind)
            await asyncio.wait([behind])
            following, number = client.promise(), client.submit("source.number", n=4)
            following.follows(number)
            assert await client.call("sink.add", left=following) == 5
            assert await number == 4  # its value may be at the sink, and the sum here, before its own reply
            assert not client._session.core.flow.is_used

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))
