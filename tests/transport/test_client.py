"""Client: blocking calls by any number of threads, without a thread of its own, over real sockets."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import caller_core, calling, connect, connect_async
from appbackplane.transport.client import Client
from appbackplane.transport.codec import FRAME_BYTES_MAX
from appbackplane.transport.envelope import CALL, CANCEL, CAST, PUBLISH, due_ns
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    PeerDown,
    SystemNotRunning,
    Unavailable,
    UnknownRoute,
)
from appbackplane.transport.handles import PendingCall, Subscription
from appbackplane.transport.inbox import Message
from appbackplane.transport.lifeline import open_lifeline
from appbackplane.transport.ways import LocalWay, way_to
from tests.transport.striking import strike_until
from tests.waiting import LIMIT_S, Span, wait_until

#: What a hook of the stand-in returns to leave a call unanswered.
NO_ANSWER = ...


@pytest.fixture
def client(stand_in: Any, run_dir: Path) -> Iterator[Client]:
    """Connected to the stand-in."""
    with connect(run_dir) as connected:
        yield connected


def in_thread(act: Callable[[], Any]) -> Callable[[], Any]:
    """Begin it in a thread of its own; what is returned waits for its end."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(act)
    pool.shutdown(wait=False)
    return lambda: future.result(LIMIT_S)


def ends_in(kind: type[BackplaneError], act: Callable[[], Any]) -> BackplaneError:
    """The error in which something ends."""
    with pytest.raises(kind) as caught:
        act()
    return caught.value


def see_newest(client: Client, stand_in: Any) -> None:
    """Wait until the client knows what the stand-in has pushed."""
    while client.directory().version < stand_in.version:
        pass


# -- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_returns_what_the_operation_returns(client: Client, stand_in: Any) -> None:
    """And says on its way all that it was told: the callee decides by it."""
    with Span() as span:
        assert client.call("query.echo", text="asyncio", n=3) == {"text": "asyncio", "n": 3}
        assert client.call("query.echo", key="k", priority=0, timeout=5.0, arguments={"key": 1}) == {"key": 1}
    plain, full = stand_in.wait_for_route("query.echo", 2)
    assert (plain.kind, plain.priority, plain.key) == (CALL, None, None)
    assert (full.priority, full.key) == (0, "k")
    for asked, seconds in ((plain, 30), (full, 5)):
        assert due_ns(asked.deadline, 0) - seconds * 1_000_000_000 in span


def test_errors_come_as_themselves(client: Client) -> None:
    """`except Busy` with its hint, and the callee's traceback where there is one."""
    with pytest.raises(Busy) as busy:
        client.call("query.busy")
    assert busy.value.retry_after == 0.125
    with pytest.raises(InternalError, match="ValueError: no") as broken:
        client.call("query.broken")
    assert broken.value.trace == "Traceback of the callee"


def test_what_is_the_callers_fault_is_said_at_once(client: Client, stand_in: Any) -> None:
    """None of these travels: the callee would drop the frame, and the caller wait for its deadline."""
    with pytest.raises(UnknownRoute, match=r"did you mean 'query\.echo'"):
        client.call("query.ecko")
    for wrong in ({"key": 5}, {"priority": -1}, {"timeout": 0}, {"arguments": [1]}):
        with pytest.raises(InvalidArgument, match=r"query\.echo|timeout"):
            client.call("query.echo", **wrong)
    with pytest.raises(InvalidArgument, match=r"query\.echo: the value of 'x' cannot be serialised"):
        client.call("query.echo", x=object())
    with pytest.raises(InvalidArgument, match=r"query\.echo: .* exceed the limit"):
        client.call("query.echo", x=b"." * FRAME_BYTES_MAX)
    assert client.call("query.echo", x="fine") == {"x": "fine"}
    assert [e.body for e in stand_in.heard if e.route == "query.echo"] == [{"x": "fine"}]


def test_a_deadline_ends_the_call_and_tells_the_callee(client: Client, stand_in: Any) -> None:
    """DESIGN 12.5."""
    with pytest.raises(DeadlineExceeded, match=r"query\.hang"):
        client.call("query.hang", timeout=0.02)
    call = stand_in.wait_for_route("query.hang")[0]
    stand_in.wait_for(lambda s: [e for e in s.heard if e.kind == CANCEL and e.id == call.id])


def test_a_death_ends_the_call_and_the_next_generation_serves(client: Client, stand_in: Any) -> None:
    """Whoever waited for the deadline instead would wait thirty seconds for nothing."""
    ended = in_thread(lambda: ends_in(PeerDown, lambda: client.call("query.hang", timeout=LIMIT_S * 10)))
    stand_in.wait_for_route("query.hang")
    stand_in.die()
    assert "query" in str(ended())
    with pytest.raises(Unavailable) as down:
        client.call("query.echo", retry=False)
    assert down.value.retry_after
    stand_in.come_back()
    see_newest(client, stand_in)
    assert client.call("query.echo", n=2) == {"n": 2}


def test_the_supervisors_routes_are_called_like_all_others(client: Client) -> None:
    """The command line is a client like any other."""
    assert client.call("supervisor.status") == {"route": "supervisor.status", "state": "primary"}
    assert client.directory().system == "stand-in"


def test_ctrl_c_ends_the_waiting_and_takes_the_call_back(client: Client, stand_in: Any) -> None:
    """And the client is as good as before: a person at a prompt goes on."""
    assert threading.current_thread() is threading.main_thread()
    struck: list[int] = []

    def strike(number: int, _frame: object) -> None:
        struck.append(number)
        raise KeyboardInterrupt

    def interrupt(_: Any) -> Any:
        strike_until(lambda: struck)
        return NO_ANSWER

    before = signal.signal(signal.SIGUSR1, strike)
    stand_in.hooks["query.hang"] = interrupt
    try:
        with pytest.raises(KeyboardInterrupt):
            client.call("query.hang")
    finally:
        signal.signal(signal.SIGUSR1, before)
    call = stand_in.wait_for_route("query.hang")[0]
    stand_in.wait_for(lambda s: [e for e in s.heard if e.kind == CANCEL and e.id == call.id])
    assert client.call("query.echo", n=1) == {"n": 1}


@pytest.mark.parametrize("ask", ["call", "submit", "cast"])
def test_a_route_that_is_newer_than_the_directory_is_found(client: Client, stand_in: Any, ask: str) -> None:
    """A `reload` adds routes; who calls one before the news of it has come would be told that it does not exist."""
    assert client.call("query.echo") == {}
    stand_in.hooks["query.new"] = lambda envelope: envelope.body
    stand_in.version += 1  # and it says nothing
    has_ended = threading.Event()
    stand_in.before_directory = lambda: wait_until(lambda: client._calling._waiting.is_led or has_ended.is_set())
    try:
        asked = getattr(client, ask)("query.new", n=1)
    finally:
        has_ended.set()
    assert {"call": lambda: asked, "submit": lambda: asked.result(), "cast": lambda: {"n": 1}}[ask]() == {"n": 1}
    stand_in.wait_for_route("query.new")


@pytest.mark.parametrize("ask", ["call", "submit", "cast"])
def test_a_route_that_is_not_known_costs_one_question_and_is_told(
    client: Client, stand_in: Any, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the supervisor does not answer."""
    ends_in(UnknownRoute, lambda: getattr(client, ask)("query.none"))
    assert len(stand_in.wait_for_route("supervisor.directory", 2)) == 2, "one when it connected"
    client._calling._fetch_again_ns = 0  # as 0.1 s later
    monkeypatch.setattr(calling, "FETCH_LIMIT_NS", 10_000_000)
    stand_in.is_silent = True
    heard_ns: list[int] = []
    stand_in.before_directory = lambda: heard_ns.append(time.monotonic_ns())
    ends_in(UnknownRoute, lambda: getattr(client, ask)("query.none"))
    asked = stand_in.wait_for_route("supervisor.directory", 3)[-1]
    assert -asked.deadline - calling.FETCH_LIMIT_NS <= heard_ns[0], "it waits so long, and not for its own deadline"
    stand_in.is_silent = False
    assert client.call("query.echo", n=1) == {"n": 1}


@pytest.mark.parametrize("ask", ["call", "submit", "cast"])
def test_a_route_that_is_asked_for_again_and_again_does_not_load_the_supervisor(
    client: Client, stand_in: Any, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that calls what nobody serves had the directory sent a thousand times a second."""
    monkeypatch.setattr(calling, "FETCH_AGAIN_NS", 10**15)
    for _ in range(5):
        ends_in(UnknownRoute, lambda: getattr(client, ask)("query.none"))
    assert client.call("query.echo", n=1) == {"n": 1}
    assert len(stand_in.wait_for_route("supervisor.directory")) == 2, "one when it connected"


@pytest.mark.parametrize("ask", ["call", "submit", "cast"])
def test_a_client_that_is_closed_while_it_looks_for_a_route_says_so(client: Client, stand_in: Any, ask: str) -> None:
    """By another thread, which has the lock meanwhile."""

    def close() -> None:
        wait_until(lambda: client._calling._waiting.is_led)
        client.close()

    stand_in.before_directory = close
    with pytest.raises(Unavailable, match="the client is closed"):
        getattr(client, ask)("query.none")


@pytest.mark.parametrize("is_submitted", [False, True])
def test_a_call_whose_end_is_lost_ends_with_its_deadline(client: Client, stand_in: Any, is_submitted: bool) -> None:
    """Ctrl-C strikes anywhere, also while one thread ends the call of another: that one would have waited for ever."""

    were_lost: list[bool] = []

    def lose(envelope: Any) -> Any:
        with client._calling._waiting.lock:
            were_lost.append(client._calling.session.core.end(envelope.id) is not None)
        return NO_ANSWER

    def ask(timeout: float) -> Any:
        if is_submitted:
            return client.submit("query.hang", timeout=timeout).result()
        return client.call("query.hang", timeout=timeout)

    stand_in.hooks["query.hang"] = lose
    # On a busy machine a deadline may pass before the end is lost.
    for count, timeout in enumerate((0.2, 2.0, 20.0), 1):
        with pytest.raises(DeadlineExceeded, match=r"query\.hang: no answer before the deadline"):
            ask(timeout)
        stand_in.wait_for_route("query.hang", count)
        if were_lost[-1]:
            return
    pytest.fail("no end was lost")


def test_many_threads_get_their_own_answers_and_no_thread_is_added(client: Client) -> None:
    """Leader and followers: whoever waits looks after the link for all."""
    threads_before = threading.active_count()
    seen: list[int] = []

    def work(worker: int) -> None:
        for n in range(150):
            assert client.call("query.echo", worker=worker, n=n) == {"worker": worker, "n": n}
        seen.append(threading.active_count())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8), timeout=LIMIT_S * 2))
    assert max(seen) <= threads_before + 8


def test_a_follower_takes_over_when_the_leader_has_what_it_came_for(client: Client, stand_in: Any) -> None:
    """Without the hand-over it would sleep until its deadline."""
    waiting: list[Any] = []

    def hold(envelope: Any) -> Any:
        waiting.append(envelope)
        return NO_ANSWER

    stand_in.hooks["query.hang"] = hold
    first = in_thread(lambda: client.call("query.hang", n=1, timeout=LIMIT_S * 10))
    stand_in.wait_for_route("query.hang")
    second = in_thread(lambda: client.call("query.hang", n=2, timeout=LIMIT_S * 10))
    stand_in.wait_for_route("query.hang", 2)
    stand_in.answer_later(waiting[0], "first")
    assert first() == "first"
    stand_in.answer_later(waiting[1], "second")
    assert second() == "second"


def test_a_followers_deadline_holds_though_the_leader_waits_longer(client: Client, stand_in: Any) -> None:
    """The leader went to sleep before it knew of the follower."""
    leader = in_thread(lambda: ends_in(PeerDown, lambda: client.call("query.hang", timeout=LIMIT_S * 10)))
    stand_in.wait_for_route("query.hang")
    with pytest.raises(DeadlineExceeded):
        client.call("query.hang", timeout=0.05)
    stand_in.die()
    leader()


# -- submit -----------------------------------------------------------------------------------------------------------


def test_a_submitted_call_leaves_at_once(client: Client, stand_in: Any) -> None:
    """Nobody waits for it here: if it left with the result only, nothing would run side by side."""
    pending = client.submit("query.echo", n=1)
    stand_in.wait_for_route("query.echo")
    assert pending.result(LIMIT_S) == {"n": 1} == pending.result()
    assert pending.done() and pending.exception() is None and "done" in repr(pending)


def test_done_looks_and_never_waits(client: Client, stand_in: Any) -> None:
    """There is no thread that would look in the meantime."""
    hung, quick = client.submit("query.hang"), client.submit("query.echo")
    stand_in.wait_for_route("query.echo")
    while not quick.done():
        pass
    assert not hung.done() and "outstanding" in repr(hung)


def test_waiting_for_a_result_may_end_before_the_call(client: Client) -> None:
    """Two limits: how long I wait here, and how long the work may take."""
    pending = client.submit("query.hang", timeout=LIMIT_S)
    with pytest.raises(TimeoutError, match="still outstanding"):
        pending.result(0.01)
    assert pending.cancel()
    pending = client.submit("query.hang", timeout=0.2)
    with pytest.raises(DeadlineExceeded):
        pending.result()
    assert isinstance(pending.exception(), DeadlineExceeded)


def test_a_call_may_be_taken_back(client: Client, stand_in: Any) -> None:
    """And the callee is told; a second time, or when it has ended, it is too late."""
    pending, ended = client.submit("query.hang"), client.submit("query.echo")
    ended.result()
    assert pending.cancel() and not pending.cancel() and not ended.cancel()
    with pytest.raises(Cancelled):
        pending.result()
    stand_in.wait_for(lambda s: [e for e in s.heard if e.kind == CANCEL])


def test_a_burst_travels_together(client: Client, stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN 5. A frame a call halves the throughput."""
    monkeypatch.setattr(calling, "BURST_GAP_NS", 10**12)
    monkeypatch.setattr(calling, "IDLE_NS", 10**12)  # a host that stops for 20 ms has it look, and send what it has
    before = stand_in.frames_count
    pending = [client.submit("query.echo", n=n) for n in range(1000)]
    assert [p.result(LIMIT_S)["n"] for p in pending] == list(range(1000))
    eager, gather = calling.BURST_EAGER, calling.GATHER_MAX
    assert stand_in.frames_count - before <= eager + (1000 - eager) // gather + 1


def test_what_has_gathered_can_be_sent(client: Client, stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a program that submits much and then computes for long."""
    monkeypatch.setattr(calling, "BURST_GAP_NS", 10**12)
    count = calling.BURST_EAGER + calling.GATHER_MAX // 2
    pending = [client.submit("query.echo", n=n) for n in range(count)]
    client.flush()
    stand_in.wait_for_route("query.echo", count)
    assert pending[-1].result() == {"n": count - 1}


# -- room -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def three_outstanding(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls that nobody answers, as many as the client may have."""
    monkeypatch.setattr(caller_core, "OUTSTANDING_MAX", 3)
    return [client.submit("query.hang") for _ in range(3)]


def test_who_submits_too_much_is_slowed_and_then_told(client: Client, three_outstanding: list[Any]) -> None:
    """A client that submits faster than it is served would keep a table of all of it."""
    with pytest.raises(Busy, match="3 calls of this client are outstanding"):
        client.submit("query.hang", timeout=0.05)
    assert client.call("query.echo", n=1) == {"n": 1}, "a blocking call has nothing to wait for"


def test_who_waits_for_room_goes_on_when_there_is_some(client: Client, three_outstanding: list[Any]) -> None:
    """As soon as any of the calls has ended, by whichever thread."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.submit, "query.echo", n=2)
        three_outstanding[1].cancel()
        assert waiting.result(LIMIT_S).result() == {"n": 2}


def test_who_waits_for_room_learns_that_the_client_is_closed(client: Client, three_outstanding: list[Any]) -> None:
    """Closing ends everything that waits."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.submit, "query.echo", n=2)
        client.close()
        assert isinstance(waiting.exception(LIMIT_S), Unavailable)


def test_large_calls_are_counted_by_their_bytes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few thousand calls of a megabyte each are more than a few thousand calls."""
    monkeypatch.setattr(caller_core, "OUTSTANDING_BYTES_MAX", 1000)
    hanging = client.submit("query.hang", body=b"x" * 1000)
    with pytest.raises(Busy):
        client.submit("query.hang", timeout=0.05)
    hanging.cancel()
    assert client.submit("query.echo", n=3).result() == {"n": 3}


# -- casts and topics -------------------------------------------------------------------------------------------------


def test_a_cast_and_a_message_leave_even_if_the_program_ends(stand_in: Any, run_dir: Path) -> None:
    """The command line publishes and exits."""
    with connect(run_dir) as client:
        client.cast("query.note", priority=2, n=1)
        assert client.publish("files.changed", path="x") == 1
        assert client.publish("nobody.hears") == 0
    (cast,) = stand_in.wait_for_route("query.note")
    (message,) = stand_in.wait_for_route("files.changed")
    assert (cast.kind, cast.priority, cast.body) == (CAST, 2, {"n": 1})
    assert (message.kind, message.id, message.body) == (PUBLISH, 1, {"path": "x"})
    assert stand_in.wait_for_route("backplane.query.unsubscribe"), "it closed without proof that they had come"


def test_what_is_published_after_subscribing_is_heard(client: Client, stand_in: Any) -> None:
    """TRAPS 10, the slow joiner. And a gap is seen."""
    with client.subscribe("files.*") as subscription:
        stand_in.publish("files.changed", {"n": 1})
        stand_in.publish("files.changed", {"n": 2}, lose=3)
        stand_in.publish("other", {})
        assert next(subscription) == Message("files.changed", {"n": 1})
        assert subscription.get(LIMIT_S) == Message("files.changed", {"n": 2}, 3)
        assert subscription.lost_count == 3 and subscription.unconfirmed == ()
        with pytest.raises(TimeoutError):
            subscription.get(0.01)
        assert subscription.try_get() is None
        stand_in.publish("files.gone", {})
        while (message := subscription.try_get()) is None:
            pass
        assert message.topic == "files.gone"
    stand_in.wait_for(lambda s: not any(s.subscribers.values()))
    assert list(subscription) == [], "a closed one ends its loop"
    with pytest.raises(Unavailable, match="closed"):
        subscription.get()


def test_a_new_generation_is_heard_too(client: Client, stand_in: Any) -> None:
    """Without subscribing again by hand."""
    subscription = client.subscribe("files.changed")
    stand_in.die()
    stand_in.come_back()
    client.directory()
    while not stand_in.do(lambda: bool(stand_in.subscribers)):
        client.directory()
    stand_in.publish("files.changed", {"n": 1})
    assert subscription.get(LIMIT_S) == Message("files.changed", {"n": 1})


def test_a_listener_and_callers_share_the_link(client: Client, stand_in: Any) -> None:
    """A thread that listens for ever leads; the others' answers come through it."""
    subscription = client.subscribe("files.changed")
    heard = in_thread(lambda: [next(subscription).body["n"] for _ in range(20)])
    for n in range(20):
        assert client.call("query.echo", n=n) == {"n": n}
        stand_in.publish("files.changed", {"n": n})
    assert heard() == list(range(20))


def test_a_backplane_that_does_not_confirm_holds_nobody_up_for_ever(client: Client, stand_in: Any) -> None:
    """One frozen backplane must not keep a client from hearing the others; who is missing can be seen."""

    stand_in._answer, answer = lambda peer, e: None, stand_in._answer
    subscription = client.subscribe("files.changed", timeout=0.05)
    assert subscription.unconfirmed == ("query",)
    stand_in._answer = answer
    subscription.close()


def test_what_is_no_topic_is_refused(client: Client) -> None:
    """At once."""
    with pytest.raises(InvalidArgument):
        client.subscribe("*")
    with pytest.raises(InvalidArgument):
        client.publish("files.*")


# -- beginning and end ------------------------------------------------------------------------------------------------


def test_a_system_that_does_not_run_is_said_with_its_place_and_the_remedy(run_dir: Path) -> None:
    """The first error that everybody meets; and it comes at once."""
    with pytest.raises(SystemNotRunning) as caught:
        connect(run_dir)
    assert str(run_dir) in str(caught.value) and "appbackplane up" in str(caught.value)
    toml = run_dir / "shop.toml"
    toml.write_text('[system]\nname = "shop"\nrun_dir = "."')
    with pytest.raises(SystemNotRunning, match=f"'shop' .*{toml}"):
        connect(toml)


def test_a_system_is_found_by_name_and_by_toml(stand_in: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN 8."""
    toml = run_dir / "shop.toml"
    toml.write_text('[system]\nname = "shop"\nrun_dir = "."')
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_dir))
    (run_dir / "appbackplane").mkdir()
    (run_dir / "appbackplane" / "shop").symlink_to(run_dir)
    for target in (toml, str(toml), str(run_dir), "shop"):
        with connect(target) as client:
            assert client.call("query.echo") == {}


def test_a_supervisor_that_does_not_answer_is_not_waited_for_for_ever(run_dir: Path, stand_in: Any) -> None:
    """It listens, and no more."""
    stand_in._answer_as_supervisor = lambda peer, envelope: None
    with pytest.raises(DeadlineExceeded, match="supervisor"):
        connect(run_dir, timeout=0.05)


@pytest.mark.systems
def test_a_supervisor_that_dies_ends_everything_and_is_found_again(
    run_dir: Path, start_process: Callable[[], subprocess.Popen[str]]
) -> None:
    """ZeroMQ would say nothing. A program that lives longer than its system must not be started again for it."""
    process = start_process()
    client = connect(run_dir)
    subscription = client.subscribe("files.changed")
    calls = [
        in_thread(lambda: ends_in(PeerDown, lambda: client.call("query.hang", timeout=LIMIT_S * 10))),
        in_thread(lambda: ends_in(PeerDown, subscription.get)),
    ]
    pending = client.submit("query.hang", timeout=LIMIT_S * 10)
    assert client.call("query.echo", n=1) == {"n": 1}
    waiting = client._calling._waiting
    wait_until(lambda: waiting.is_led and waiting._followers, "the other threads do not wait")
    process.kill()
    assert isinstance(pending.exception(LIMIT_S), PeerDown)
    for ended in calls:
        assert "gone" in str(ended())
    with pytest.raises(SystemNotRunning):
        client.call("query.echo")
    with pytest.raises(SystemNotRunning):
        subscription.get()
    start_process()
    assert client.call("query.echo", n=2) == {"n": 2}
    client.close()


@pytest.mark.systems
def test_a_program_that_was_busy_elsewhere_hears_first_that_the_system_is_gone(
    run_dir: Path, start_process: Callable[[], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it says anything: a call to the dead would end in `PeerDown`, as if it might have run."""
    process = start_process()
    client = connect(run_dir)
    client.call("query.echo")
    process.kill()
    process.wait()
    monkeypatch.setattr(calling, "IDLE_NS", -1)
    with pytest.raises(SystemNotRunning):
        client.call("query.echo")
    start_process()
    assert client.call("query.echo", n=2) == {"n": 2}
    client.close()


def test_closing_ends_all_that_is_outstanding(stand_in: Any, run_dir: Path) -> None:
    """In other threads, too: nobody waits on a link that is gone."""
    client = connect(run_dir)
    subscription = client.subscribe("files.changed")
    waits = [
        in_thread(lambda: ends_in(Cancelled, lambda: client.call("query.hang", timeout=LIMIT_S * 10))) for _ in range(3)
    ]
    listens = in_thread(lambda: list(subscription))
    stand_in.wait_for_route("query.hang", 3)
    client.close()
    client.close()
    for wait in waits:
        wait()
    assert listens() == []
    for act in (lambda: client.call("query.echo"), lambda: client.cast("query.note"), client.directory, client.start):
        with pytest.raises(Unavailable, match="closed"):
            act()


def test_clients_leave_nothing_behind(stand_in: Any, run_dir: Path) -> None:
    """A server that connects for every request would run out of descriptors."""
    with connect(run_dir) as client:
        client.call("query.echo")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with connect(run_dir) as client:
            client.call("query.echo")
    wait_for_descriptors(before)


def drop(held: list[Any]) -> None:
    """Let go of it, and have it collected."""
    held.clear()
    gc.collect()


def wait_for_descriptors(count: int) -> None:
    """The stand-in lets go of its ends when it notices."""
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= count, lambda: os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_client_that_is_dropped_leaves_nothing_behind_and_is_named(
    stand_in: Any, run_dir: Path, is_connected: bool
) -> None:
    """Two descriptors of each stayed for ever: with a limit of 1,024 the 439th could not connect."""
    with connect(run_dir) as client:
        client.call("query.echo")
    before = len(os.listdir("/proc/self/fd"))
    left: list[Any] = [connect(run_dir) if is_connected else Client(way_to(run_dir, None, time.monotonic_ns))]
    with pytest.warns(ResourceWarning, match="unclosed client of .*: close it, or use it in a `with`"):
        drop(left)
    wait_for_descriptors(before)


def test_a_pending_call_keeps_a_client_that_is_dropped(stand_in: Any, run_dir: Path) -> None:
    """Whoever holds the one needs the other no more."""
    pending = [connect(run_dir).submit("query.echo", n=1)]
    gc.collect()
    assert pending[0].result() == {"n": 1}
    with pytest.warns(ResourceWarning):
        drop(pending)


def test_a_client_that_is_closed_is_not_named(stand_in: Any, run_dir: Path) -> None:
    gc.collect()  # what other tests have left
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        connect(run_dir).close()
        gc.collect()
    assert said == []


def test_what_a_client_costs_is_what_the_page_says(stand_in: Any, run_dir: Path) -> None:
    """docs/concepts/clients.md: two threads and nine descriptors, and one for each backplane it calls."""
    fds, threads = (len(os.listdir(f"/proc/self/{each}")) for each in ("fd", "task"))
    for is_called in (False, True):
        with connect(run_dir) as client:
            if is_called:
                client.call("query.echo")
            # The stand-in is in this process: it accepts on its end what the client connects on its own.
            sockets = 1 + is_called
            assert len(os.listdir("/proc/self/fd")) == fds + 8 + 2 * sockets
            assert len(os.listdir("/proc/self/task")) == threads + 2
        wait_for_descriptors(fds)
        wait_until(
            lambda: len(os.listdir("/proc/self/task")) <= threads
        )  # a thread that was joined may not be gone yet


@pytest.mark.systems
@pytest.mark.parametrize("is_async", [False, True])
def test_whoever_has_no_descriptor_left_is_told_so(start_process: Any, run_dir: Path, is_async: bool) -> None:
    """In our words, wherever in a connection it happens, with the remedy; and then all that was opened is closed."""
    start_process()
    ended = subprocess.run(
        [sys.executable, "-c", SPENT, str(run_dir), str(int(is_async))], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert set(ended.stdout.splitlines()) == {"FailedPrecondition", "connected"}


#: Leaves one descriptor more with each attempt, until one succeeds.
SPENT = """
import asyncio, gc, os, resource, sys
from appbackplane.transport import FailedPrecondition, connect, connect_async

async def by_loop():
    async with await connect_async(sys.argv[1]):
        print("connected")

async def attempt(loop_too):
    if loop_too:
        await by_loop()
    else:
        with connect(sys.argv[1]):
            print("connected")

async def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    for left in range(12):
        gc.collect()
        taken = []
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            for fd in taken[-left:] if left else ():
                os.close(fd)
            del taken[len(taken) - left:]
        try:
            await attempt(sys.argv[2] == "1")
            return
        except FailedPrecondition as error:
            assert "no file descriptor is left" in str(error) and "ulimit -n" in str(error), error
            print("FailedPrecondition")
        finally:
            for fd in taken:
                os.close(fd)
    raise AssertionError("it never connects")

asyncio.run(main())
"""


@pytest.mark.systems
def test_a_fork_is_told_to_connect_itself(client: Client) -> None:
    """TRAPS 11. With its parent's link it would send into nothing and wait."""
    assert client.call("query.echo") == {}
    child = os.fork()
    if child == 0:
        try:
            client.call("query.echo")
        except FailedPrecondition:
            client.close()
            os._exit(7)
        os._exit(8)
    _, code = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(code) == 7
    assert client.call("query.echo") == {}, "the parent's is as good as before"


TOUCHED_IN_A_FORK: dict[str, Callable[[Client, PendingCall, Subscription], Any]] = {
    "done": lambda client, pending, heard: pending.done(),
    "result": lambda client, pending, heard: pending.result(),
    "exception": lambda client, pending, heard: pending.exception(1.0),
    "cancel": lambda client, pending, heard: pending.cancel(),
    "submit": lambda client, pending, heard: client.submit("query.echo"),
    "cast": lambda client, pending, heard: client.cast("query.note"),
    "publish": lambda client, pending, heard: client.publish("files.changed"),
    "subscribe": lambda client, pending, heard: client.subscribe("files.changed"),
    "directory": lambda client, pending, heard: client.directory(),
    "start": lambda client, pending, heard: client.start(),
    "flush": lambda client, pending, heard: client.flush(),
    "get": lambda client, pending, heard: heard.get(),
    "try_get": lambda client, pending, heard: heard.try_get(),
    "next": lambda client, pending, heard: next(heard),
    "unconfirmed": lambda client, pending, heard: heard.unconfirmed,
    "close": lambda client, pending, heard: heard.close(),
}


@pytest.mark.systems
@pytest.mark.parametrize("is_locked", [False, True])
@pytest.mark.parametrize("touch", TOUCHED_IN_A_FORK.values(), ids=TOUCHED_IN_A_FORK)
def test_whatever_a_fork_touches_of_its_parents_client_says_so(
    client: Client, stand_in: Any, touch: Callable[[Client, PendingCall, Subscription], Any], is_locked: bool
) -> None:
    """It looked at its parent's link for ever, or waited for a lock that a thread of its parent's had held."""
    stand_in.hooks["query.echo"] = lambda envelope: NO_ANSWER
    heard = client.subscribe("files.*")
    pending = client.submit("query.echo", timeout=LIMIT_S)
    lock = client._calling._waiting.lock
    with ThreadPoolExecutor(1) as pool:
        if is_locked:
            pool.submit(lock.acquire).result(LIMIT_S)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(LIMIT_S))  # ends it where it waits for ever
            try:
                touch(client, pending, heard)
            except FailedPrecondition:
                os._exit(7)
            finally:
                os._exit(8)
        if is_locked:
            pool.submit(lock.release).result(LIMIT_S)
    _, code = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(code) == 7
    assert pending.cancel(), "the parent's goes on"


@pytest.mark.systems
def test_a_result_that_had_come_before_a_fork_is_there_in_the_child(client: Client) -> None:
    """It needs no link."""
    pending = client.submit("query.echo", text="x")
    assert pending.result() == {"text": "x"}
    child = os.fork()
    if child == 0:
        os._exit(7 if pending.done() and pending.result() == {"text": "x"} else 8)
    _, code = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(code) == 7


# -- made again -------------------------------------------------------------------------------------------------------


def flaky(failures: int) -> Callable[[Any], Any]:
    """Fails so often, then answers with how often it was asked."""
    asked = []

    def answer(envelope: Any) -> Any:
        asked.append(envelope)
        if len(asked) <= failures:
            raise Busy("full")
        return len(asked)

    return answer


@pytest.mark.parametrize("is_submitted", [False, True])
def test_what_bears_a_key_is_made_again(client: Client, stand_in: Any, is_submitted: bool) -> None:
    """In the same words; who waits for it does not notice."""
    stand_in.hooks["query.flaky"] = flaky(3)
    stand_in.do(stand_in._push)
    see_newest(client, stand_in)
    if is_submitted:
        assert client.submit("query.flaky", n=1, idempotency_key="k").result() == 4
    else:
        assert client.call("query.flaky", n=1, idempotency_key="k") == 4
    said = stand_in.wait_for_route("query.flaky", 4)
    assert {(e.idempotency_key, e.deadline) for e in said} == {("k", said[0].deadline)}
    assert len({e.id for e in said}) == 4 and all(e.body == {"n": 1} for e in said)


def test_who_does_not_want_it_made_again_is_told(client: Client, stand_in: Any) -> None:
    """And what may have begun is not, by itself."""
    stand_in.hooks["query.flaky"] = flaky(2)
    stand_in.do(stand_in._push)
    see_newest(client, stand_in)
    assert ends_in(Busy, lambda: client.call("query.flaky", idempotency_key="k", retry=False)).attempts == 1
    assert ends_in(Busy, lambda: client.call("query.flaky")).attempts == 1
    assert client.call("query.flaky") == 3


def test_one_thread_alone_sees_that_there_is_room(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the answers that make room itself: told of none, it would wait for more until its time is over."""
    monkeypatch.setattr(caller_core, "OUTSTANDING_MAX", 3)
    pending = [client.submit("query.echo", n=n, timeout=LIMIT_S) for n in range(12)]
    assert [call.result()["n"] for call in pending] == list(range(12))


def test_what_is_submitted_waits_for_the_next_generation(client: Client, stand_in: Any) -> None:
    """It has certainly not begun, as a call has not: it ended in Unavailable. What waits together goes in its order."""
    stand_in.die()
    see_newest(client, stand_in)
    with pytest.raises(Unavailable):
        client.submit("query.echo", retry=False)
    waiting = [client.submit("query.echo", n=n, timeout=LIMIT_S) for n in range(20)]
    stand_in.come_back()
    assert [call.result() for call in waiting] == [{"n": n} for n in range(20)]
    assert [said.body["n"] for said in stand_in.wait_for_route("query.echo", 20)] == list(range(20))


def test_what_a_place_refuses_is_submitted_again(client: Client, stand_in: Any) -> None:
    """Its component did not serve yet: it ended in Unavailable, though it had certainly not begun."""
    asked: list[Any] = []

    def answer(envelope: Any) -> Any:
        asked.append(envelope)
        if len(asked) == 1:
            error = Unavailable("query is start", retry_after=0.001)
            error.is_refused = True
            raise error
        return "served"

    stand_in.hooks["query.late"] = answer
    stand_in.do(stand_in._push)
    see_newest(client, stand_in)
    assert client.submit("query.late", timeout=LIMIT_S).result() == "served"


def test_a_route_that_may_yet_be_registered_is_waited_for(client: Client, stand_in: Any) -> None:
    """While a system started, clients were told that routes of it do not exist, and a web application answered 404."""
    stand_in.missing = ("late",)
    stand_in.do(stand_in._push)
    see_newest(client, stand_in)
    with pytest.raises(Unavailable, match=r"'query\.late' is not known yet: late still to register") as caught:
        client.call("query.late", retry=False)
    assert caught.value.retry_after
    waiting = in_thread(lambda: client.call("query.late", timeout=LIMIT_S))
    pending = client.submit("query.late", timeout=LIMIT_S)
    assert not pending.done()
    stand_in.missing = ()
    stand_in.hooks["query.late"] = lambda envelope: "served"
    stand_in.do(stand_in._push)
    assert (waiting(), pending.result()) == ("served", "served")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_system_that_is_not_up_yet_is_waited_for(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, start_stand_in: Callable[[], Any], is_async: bool
) -> None:
    """Who starts a program beside its system need not write the loop: as long as `timeout` says, and not by default."""
    looked = threading.Event()

    def open_way(way: LocalWay) -> int | None:
        try:
            return open_lifeline(way._location)
        except SystemNotRunning:
            looked.set()
            raise

    async def call() -> Any:
        async with await connect_async(run_dir, timeout=LIMIT_S) as client:
            return await client.call("query.echo", n=1)

    def connect_and_call() -> Any:
        with connect(run_dir, timeout=LIMIT_S) as client:
            return client.call("query.echo", n=1)

    monkeypatch.setattr(LocalWay, "open", open_way)
    for impatient in ({}, {"timeout": 0.001}):
        ends_in(SystemNotRunning, lambda given=impatient: connect(run_dir, **given))  # type: ignore[misc]
    looked.clear()
    waiting = in_thread((lambda: asyncio.run(call())) if is_async else connect_and_call)
    assert looked.wait(LIMIT_S)
    start_stand_in()
    assert waiting() == {"n": 1}


@pytest.mark.parametrize("key", ["", "x" * 256, 7])
def test_an_idempotency_key_that_is_none_is_refused_at_once(client: Client, key: Any) -> None:
    """The callee would drop the frame."""
    with pytest.raises(InvalidArgument, match=r"query\.echo: idempotency_key must be a string of 1 to 255"):
        client.call("query.echo", idempotency_key=key)


def test_a_call_waits_for_the_next_generation(client: Client, stand_in: Any) -> None:
    """Nothing has been sent, so whatever it is, it does no harm."""
    stand_in.die()
    see_newest(client, stand_in)
    waiting = in_thread(lambda: client.call("query.echo", n=2, timeout=LIMIT_S))
    pending = client.submit("query.echo", n=3, timeout=LIMIT_S, retry=True)
    assert not pending.done()
    stand_in.come_back()
    assert (waiting(), pending.result()) == ({"n": 2}, {"n": 3})


def test_a_call_that_waits_to_be_made_again_is_taken_back(client: Client, stand_in: Any) -> None:
    """And leaves nothing behind."""
    stand_in.die()
    see_newest(client, stand_in)
    pending = client.submit("query.echo", n=3, timeout=LIMIT_S, retry=True)
    assert pending.cancel() and isinstance(pending.exception(), Cancelled)
    assert client._calling.session.outstanding_count == 0
