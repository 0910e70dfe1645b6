"""Async client: the same calls in one event loop, over real sockets."""

import asyncio
import gc
import os
import subprocess
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appbackplane.transport import async_client, caller_core, connect_async
from appbackplane.transport.async_client import AsyncClient
from appbackplane.transport.async_subscription import AsyncSubscription
from appbackplane.transport.envelope import CANCEL, CAST
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    PeerDown,
    SystemNotRunning,
    Unavailable,
    UnknownRoute,
)
from appbackplane.transport.events import Events
from appbackplane.transport.inbox import Message
from tests.waiting import LIMIT_S, wait_until


def run(run_dir: Path, act: Callable[[AsyncClient], Awaitable[None]]) -> None:
    """In a loop of its own, with a client that is connected; whatever goes wrong in a callback fails the test."""
    problems: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with asyncio.timeout(LIMIT_S * 2), await connect_async(run_dir) as client:
            await act(client)

    asyncio.run(main())
    assert problems == []


async def ends_in(kind: type[BackplaneError], awaited: Awaitable[Any]) -> BackplaneError:
    """The error in which something ends."""
    with pytest.raises(kind) as caught:
        await awaited
    return caught.value


async def other_thread(act: Callable[..., Any], *arguments: Any) -> Any:
    """Wait for the stand-in without holding up the loop."""
    return await asyncio.to_thread(act, *arguments)


def test_a_call_returns_what_the_operation_returns(stand_in: Any, run_dir: Path) -> None:
    """And errors come as themselves."""

    async def act(client: AsyncClient) -> None:
        assert await client.call("query.echo", text="asyncio", priority=0) == {"text": "asyncio"}
        assert (await ends_in(Busy, client.call("query.busy"))).retry_after == 0.125
        await ends_in(DeadlineExceeded, client.call("query.hang", timeout=0.02))
        await ends_in(UnknownRoute, client.call("query.ecko"))
        await ends_in(InvalidArgument, client.call("query.echo", x=object()))
        await ends_in(InvalidArgument, client.call("query.echo", timeout=0))
        assert (await client.directory()).system == "stand-in"

    run(run_dir, act)


def test_what_is_asked_in_one_iteration_leaves_as_one_frame(stand_in: Any, run_dir: Path) -> None:
    """DESIGN 5. And no thread is added."""

    async def act(client: AsyncClient) -> None:
        await client.call("query.echo")
        before = stand_in.frames_count
        results = await asyncio.gather(*(client.call("query.echo", n=n) for n in range(500)))
        assert results == [{"n": n} for n in range(500)]
        assert stand_in.frames_count == before + 1

    threads_before = threading.active_count()
    run(run_dir, act)
    assert threading.active_count() <= threads_before


def test_a_task_that_is_cancelled_takes_its_call_back(stand_in: Any, run_dir: Path) -> None:
    """Else the callee carries on for nobody (DESIGN 12.5)."""

    async def act(client: AsyncClient) -> None:
        await ends_in(TimeoutError, asyncio.wait_for(client.call("query.hang"), 0.02))  # type: ignore[type-var]
        future = client.submit("query.hang")
        await other_thread(stand_in.wait_for_route, "query.hang", 2)
        future.cancel()
        await other_thread(stand_in.wait_for, lambda s: len([e for e in s.heard if e.kind == CANCEL]) == 2)
        assert await client.submit("query.echo", n=1) == {"n": 1}

    run(run_dir, act)


def test_a_death_ends_the_call_and_the_next_generation_serves(stand_in: Any, run_dir: Path) -> None:
    """Though nobody asks anything meanwhile: the loop hears it."""

    async def act(client: AsyncClient) -> None:
        hung = client.submit("query.hang", timeout=LIMIT_S * 10)
        await other_thread(stand_in.wait_for_route, "query.hang")
        await other_thread(stand_in.die)
        await ends_in(PeerDown, hung)
        await ends_in(Unavailable, client.call("query.echo", retry=False))
        await other_thread(stand_in.come_back)
        while (await client.directory()).version < stand_in.version:
            await client.call("supervisor.status")
        assert await client.call("query.echo", n=2) == {"n": 2}

    run(run_dir, act)


def test_topics_are_heard_with_their_losses(stand_in: Any, run_dir: Path) -> None:
    """`async for`, `get` with a limit, and an end when it is closed."""

    async def act(client: AsyncClient) -> None:
        async with await client.subscribe("files.*") as subscription:
            await other_thread(stand_in.publish, "files.a", {"n": 1})
            await other_thread(stand_in.publish, "files.a", {"n": 2}, 3)
            heard = [await subscription.get(LIMIT_S) for _ in range(2)]
            assert heard == [Message("files.a", {"n": 1}), Message("files.a", {"n": 2}, 3)]
            assert subscription.lost_count == 3 and subscription.unconfirmed == ()
            with pytest.raises(TimeoutError):
                await subscription.get(0.01)
            listening = asyncio.create_task(listen(subscription))
            await other_thread(stand_in.publish, "files.b", {"n": 3})
            await client.call("query.echo")
        assert [message.topic for message in await listening] == ["files.b"]
        await other_thread(stand_in.wait_for, lambda s: not any(s.subscribers.values()))
        await ends_in(InvalidArgument, client.subscribe("*"))

    async def listen(subscription: Any) -> list[Message]:
        return [message async for message in subscription]

    run(run_dir, act)


def test_casts_and_messages_leave_even_if_the_program_ends(stand_in: Any, run_dir: Path) -> None:
    """A program that says something and exits has said it."""

    async def act(client: AsyncClient) -> None:
        await client.cast("query.note", n=1)
        assert await client.publish("files.changed", path="x") == 1

    run(run_dir, act)
    (cast,) = stand_in.wait_for_route("query.note")
    assert (cast.kind, cast.body) == (CAST, {"n": 1})
    assert stand_in.wait_for_route("files.changed")[0].body == {"path": "x"}
    assert stand_in.wait_for_route("backplane.query.unsubscribe"), "it closed without proof that they had come"


@pytest.mark.systems
def test_a_supervisor_that_dies_ends_everything_and_is_found_again(
    run_dir: Path, start_process: Callable[[], subprocess.Popen[str]]
) -> None:
    """Its pidfd is a reader of the loop."""
    process = start_process()

    async def act(client: AsyncClient) -> None:
        subscription = await client.subscribe("files.changed")
        listening = asyncio.create_task(subscription.get())
        hung = client.submit("query.hang", timeout=LIMIT_S * 10)
        await client.call("query.echo")
        process.kill()
        assert "gone" in str(await ends_in(PeerDown, hung))
        await ends_in(PeerDown, listening)
        await ends_in(SystemNotRunning, client.call("query.echo"))
        await ends_in(SystemNotRunning, subscription.get())
        with pytest.raises(Unavailable):
            client.submit("query.echo")
        await other_thread(start_process)
        results = await asyncio.gather(*(client.call("query.echo", n=n) for n in range(3)))
        assert results == [{"n": 0}, {"n": 1}, {"n": 2}]

    run(run_dir, act)


def test_closing_ends_all_that_is_outstanding(stand_in: Any, run_dir: Path) -> None:
    """Nobody waits on a link that is gone."""

    async def act(client: AsyncClient) -> None:
        subscription = await client.subscribe("files.changed")
        calls = [asyncio.create_task(client.call("query.hang", timeout=LIMIT_S * 10)) for _ in range(3)]
        listening = asyncio.create_task(subscription.get())
        await other_thread(stand_in.wait_for_route, "query.hang", 1)
        await client.close()
        await client.close()
        for call in calls:
            await ends_in(Cancelled, call)
        await ends_in(Unavailable, listening)
        await ends_in(Unavailable, client.call("query.echo"))
        await ends_in(Unavailable, client.cast("query.note"))

    run(run_dir, act)


def test_a_system_that_does_not_run_is_said_at_once(run_dir: Path) -> None:
    """With its place and the remedy, and nothing is left open."""

    async def main() -> None:
        with pytest.raises(SystemNotRunning, match="appbackplane up"):
            await connect_async(run_dir)

    asyncio.run(main())
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(main())
    assert len(os.listdir("/proc/self/fd")) <= before, "fewer, if what other tests have left is collected now"


def test_a_supervisor_that_does_not_answer_is_not_waited_for_for_ever(run_dir: Path, stand_in: Any) -> None:
    """It listens, and no more."""
    stand_in._answer_as_supervisor = lambda peer, envelope: None

    async def main() -> None:
        with pytest.raises(DeadlineExceeded, match="supervisor"):
            await connect_async(run_dir, timeout=0.05)

    asyncio.run(main())


def test_calls_wait_for_room_the_most_urgent_first(
    stand_in: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand tasks that call at once must neither fill the client nor keep an urgent one behind them."""
    monkeypatch.setattr(caller_core, "OUTSTANDING_MAX", 2)

    async def act(client: AsyncClient) -> None:
        hanging = [client.submit("query.hang") for _ in range(2)]
        with pytest.raises(Busy):
            client.submit("query.echo")
        await ends_in(Busy, client.call("query.echo", timeout=0.05))
        order: list[str] = []

        async def call(name: str, **options: int) -> None:
            await client.call("query.echo", name=name, **options)
            order.append(name)

        tasks = []
        for name, options in (("any", {}), ("low", {"priority": 5}), ("high", {"priority": 0})):
            tasks.append(asyncio.create_task(call(name, **options)))
            await asyncio.sleep(0)
        taken_back = asyncio.create_task(client.call("query.echo", priority=0))
        await asyncio.sleep(0)
        taken_back.cancel()
        hanging[0].cancel()
        await asyncio.gather(*tasks)
        assert order == ["high", "low", "any"]
        hanging[1].cancel()

    run(stand_in.run_dir, act)


def test_who_waits_for_room_learns_that_the_client_is_closed(
    stand_in: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by its time-out."""
    monkeypatch.setattr(caller_core, "OUTSTANDING_MAX", 1)

    async def act(client: AsyncClient) -> None:
        hanging = client.submit("query.hang")
        waiting = [asyncio.create_task(client.call("query.echo")) for _ in range(5)]
        await asyncio.sleep(0)
        await client.close()
        assert type(hanging.exception()) is Cancelled
        for one in waiting:
            await ends_in(Unavailable, one)

    run(stand_in.run_dir, act)


def test_calls_are_made_again(stand_in: Any, run_dir: Path) -> None:
    """As those of a blocking client are; and what finds nobody waits for the next generation, unless it does not want to."""

    async def act(client: AsyncClient) -> None:
        asked: list[Any] = []

        def answer(envelope: Any) -> Any:
            asked.append(envelope)
            if len(asked) < 3:
                raise Busy("full")
            return len(asked)

        stand_in.hooks["query.flaky"] = answer
        await other_thread(stand_in.do, stand_in._push)
        while (await client.directory()).version < stand_in.version:
            await client.call("supervisor.status")
        assert await client.call("query.flaky", idempotency_key="k") == 3
        await other_thread(stand_in.die)
        while (await client.directory()).version < stand_in.version:
            await client.call("supervisor.status")
        await ends_in(Unavailable, client.call("query.echo", retry=False))
        waiting = client.submit("query.echo", n=2, retry=True)
        taken_back = client.submit("query.echo", n=3, retry=True)
        taken_back.cancel()
        await other_thread(stand_in.come_back)
        assert await waiting == {"n": 2}
        assert [e.body for e in stand_in.heard if e.route == "query.echo"] == [{"n": 2}]

    run(run_dir, act)


async def _unconfirmed(heard: AsyncSubscription) -> Any:
    return heard.unconfirmed


async def _submit(client: AsyncClient) -> Any:
    return await client.submit("query.echo")


@pytest.mark.systems
def test_whatever_a_fork_touches_of_its_parents_client_says_so(stand_in: Any, run_dir: Path) -> None:
    """It waited for a loop that does not run there."""

    async def act(client: AsyncClient) -> None:
        heard = await client.subscribe("files.*")
        touches: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            lambda: client.call("query.echo"),
            lambda: _submit(client),
            lambda: client.cast("query.note"),
            lambda: client.publish("files.changed"),
            lambda: client.subscribe("files.changed"),
            client.directory,
            client.start,
            heard.get,
            heard.__anext__,
            heard.close,
            lambda: _unconfirmed(heard),
        ]
        for number, touch in enumerate(touches):
            child = os.fork()
            if child == 0:
                try:
                    touch().send(None)
                except FailedPrecondition:
                    os._exit(7)
                finally:
                    os._exit(8)
            _, code = await other_thread(os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(code) == 7, number
        assert await client.call("query.echo") == {}, "the parent's is as good as before"

    run(run_dir, act)


def test_a_client_that_is_left_to_a_loop_that_has_ended_leaves_nothing_behind_and_is_named(
    stand_in: Any, run_dir: Path
) -> None:
    """Until then its loop holds it, as it holds any transport."""

    async def call() -> None:
        assert await (await connect_async(run_dir)).call("query.echo", n=1) == {"n": 1}

    def leave() -> None:
        asyncio.run(call())
        gc.collect()

    async def close() -> None:
        await (await connect_async(run_dir)).close()

    asyncio.run(close())
    before = len(os.listdir("/proc/self/fd"))
    with pytest.warns(ResourceWarning, match="unclosed async client of .*: close it, or use it in a `with`"):
        leave()
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, lambda: os.listdir("/proc/self/fd"))


def test_a_route_that_is_newer_than_the_directory_is_found(stand_in: Any, run_dir: Path) -> None:
    """All who look for it at the same time ask once."""

    async def act(client: AsyncClient) -> None:
        assert await client.call("query.echo") == {}
        stand_in.hooks["query.new"] = lambda envelope: envelope.body
        stand_in.version += 1
        calls = [client.call("query.new", n=n) for n in range(3)]
        assert await asyncio.gather(*calls) == [{"n": n} for n in range(3)]
        assert len(stand_in.wait_for_route("supervisor.directory")) == 2, "one when it connected"
        stand_in.hooks["query.newer"] = lambda envelope: envelope.body
        stand_in.version += 1
        client._fetch_again_ns = 0  # as 0.1 s later
        await client.cast("query.newer")
        await other_thread(stand_in.wait_for_route, "query.newer")
        await ends_in(UnknownRoute, client.call("query.none"))
        await ends_in(UnknownRoute, client.cast("query.none"))
        assert await client.call("query.echo", n=1) == {"n": 1}

    run(run_dir, act)


def test_a_route_that_is_asked_for_again_and_again_does_not_load_the_supervisor(
    stand_in: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that calls what nobody serves had the directory sent a thousand times a second."""
    monkeypatch.setattr(async_client, "FETCH_AGAIN_NS", 10**15)

    async def act(client: AsyncClient) -> None:
        for _ in range(5):
            await ends_in(UnknownRoute, client.call("query.none"))
            await ends_in(UnknownRoute, client.cast("query.none"))
        assert await client.call("query.echo", n=1) == {"n": 1}
        assert len(stand_in.wait_for_route("supervisor.directory")) == 2, "one when it connected"

    run(run_dir, act)


def test_a_client_that_is_closed_while_it_looks_for_a_route_says_so(stand_in: Any, run_dir: Path) -> None:
    """By another task."""

    async def act(client: AsyncClient) -> None:
        asked = [asyncio.ensure_future(client.call("query.none")), asyncio.ensure_future(client.cast("query.none"))]
        loop, closing = asyncio.get_running_loop(), asyncio.Event()
        stand_in.before_directory = lambda: loop.call_soon_threadsafe(closing.set)
        await closing.wait()
        await client.close()
        for each in asked:
            with pytest.raises(Unavailable, match="the client is closed"):
                await each

    run(run_dir, act)


def test_a_turn_that_takes_long_puts_no_deadline_off(
    stand_in: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer is set from when the turn has ended, not from when it began."""

    async def act(client: AsyncClient) -> None:
        loop = asyncio.get_running_loop()
        clock, pauses = [1_000_000_000], list[float]()
        deliver, later = client._deliver, loop.call_later

        def deliver_late(events: Events) -> None:
            clock[0] += 1_000_000_000
            deliver(events)

        def call_later(pause_s: float, *rest: Any) -> asyncio.TimerHandle:
            pauses.append(pause_s)
            return later(pause_s, *rest)

        monkeypatch.setattr(async_client, "time", SimpleNamespace(monotonic_ns=lambda: clock[0]))
        monkeypatch.setattr(client, "_deliver", deliver_late)
        monkeypatch.setattr(loop, "call_later", call_later)
        call = asyncio.create_task(client.call("query.hang", timeout=600))
        while not pauses:
            await asyncio.sleep(0)
        assert client._timer_ns == clock[0] + round(pauses[-1] * 1e9)
        call.cancel()
        monkeypatch.undo()

    run(run_dir, act)
