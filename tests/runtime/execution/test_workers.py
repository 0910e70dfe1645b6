"""Workers: real threads and a real socket; who runs what, and who looks after the link meanwhile.

The far end is a plain `Link` in the test's thread. Operations wait for events that the test sets, so nothing depends on
how fast the machine is.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, operation, should_yield
from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.execution.clock import RealClock
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport import codec
from appbackplane.transport.envelope import CALL, REPLY, Envelope
from appbackplane.transport.errors import error_from
from appbackplane.transport.link import Link

#: Nothing here takes a second on an idle machine; a busy one gets this long.
LIMIT_S = 20.0


class Caller:
    """The test as a client: blocking, one frame a call."""

    def __init__(self, path: Path) -> None:
        self._link = Link("test-caller")
        self._peer = self._link.connect(path)
        self._clock = RealClock()
        self._last = 0
        self._answers: dict[int, Envelope] = {}

    def submit(self, route: str, *, key: str | None = None, priority: int | None = None, **arguments: Any) -> int:
        self._last += 1
        envelope = Envelope(CALL, self._last, priority, route, key, None, None, arguments)
        self._link.send(self._peer, codec.batch([codec.Encoder().encode(envelope)]))
        return self._last

    def result(self, id: int) -> Any:
        end_ns = self._clock.now_ns() + int(LIMIT_S * 1e9)
        while id not in self._answers:
            received = self._link.receive()
            if received is not None:
                for envelope in codec.decode(received[1]):
                    assert envelope.id not in self._answers, "answered twice"
                    self._answers[envelope.id] = envelope
                continue
            left_s = (end_ns - self._clock.now_ns()) / 1e9
            assert left_s > 0, f"call {id} was not answered within {LIMIT_S} s"
            select.select([self._link.fileno()], [], [], min(left_s, 1.0))
        answer = self._answers[id]
        if answer.kind == REPLY:
            return answer.body
        raise error_from(*answer.body)

    def call(self, route: str, **options: Any) -> Any:
        return self.result(self.submit(route, **options))

    def close(self) -> None:
        self._link.close()


class Gate:
    """Operations wait at it until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()

    def pass_through(self) -> None:
        self.entered.release()
        assert self.open.wait(LIMIT_S), "the test never opened the gate"

    def wait_entered(self) -> None:
        assert self.entered.acquire(timeout=LIMIT_S), "nobody came to the gate"


gate: Gate


class Hand(AppObject):
    """Does what blocks, what computes, and what is quick."""

    @operation(priority=5)
    def block(self) -> int:
        gate.pass_through()
        return threading.get_ident()

    @operation(priority=5)
    def spin(self) -> bool:
        gate.entered.release()
        while not gate.open.is_set():
            if should_yield():
                return True
        return False

    @operation(priority=1)
    def quick(self) -> str:
        return "quick"

    @operation(priority=5)
    def same(self) -> str:
        return "same"


class Hands(Component):
    """Four."""

    def setup(self) -> None:
        for number in range(4):
            self.add(Hand(), key=f"{number}")


class Running:
    """A backplane with threads, without a sentinel."""

    def __init__(self, folder: Path, threads: int, *, preempt: bool) -> None:
        config = ProcessConfig(system="t", backplane="hands", run_dir=str(folder), components=(), preempt=preempt)
        link = Link("hands-1")
        path = folder / "hands-1.sock"
        self.backplane = Backplane(config, [Hands()], clock=RealClock(), link=link)
        link.bind(path)
        engine = self.backplane.engine
        self.backplane.start(threads)
        for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
            moved = threading.Event()
            with engine.lead:
                engine.modules.move("hands", state, lambda error, moved=moved: moved.set())  # type: ignore[misc]
            assert moved.wait(LIMIT_S)
        self.caller = Caller(path)

    def close(self) -> None:
        gate.open.set()
        self.caller.close()
        assert self.backplane.stop(LIMIT_S), "a worker did not stop"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    global gate
    gate = Gate()
    started: list[Running] = []

    def start(threads: int, *, preempt: bool = True) -> Running:
        started.append(Running(tmp_path, threads, preempt=preempt))
        return started[-1]

    before = threading.active_count()
    yield start
    for running in started:
        running.close()
    assert threading.active_count() == before, "a thread was left behind"


def test_urgent_work_runs_beside_an_action_that_does_not_end(start: Any) -> None:
    """DESIGN 5. The first run of anything may take any time, so somebody else looks after the link from the start."""
    caller = start(1).caller
    long = caller.submit("hands.block", key="0")
    gate.wait_entered()
    for _ in range(20):
        assert caller.call("hands.quick", key="1") == "quick"
    gate.open.set()
    assert isinstance(caller.result(long), int)


def test_urgent_work_runs_beside_a_computation(start: Any) -> None:
    """The same where the action never lets go of its thread by itself."""
    caller = start(1).caller
    long = caller.submit("hands.spin", key="0")
    gate.wait_entered()
    assert caller.call("hands.quick", key="1") == "quick"
    gate.open.set()
    assert isinstance(caller.result(long), bool)


def test_a_relief_runs_only_what_is_more_urgent(start: Any) -> None:
    """One thread is one thread: work of the same priority waits for the worker, or `threads` would mean nothing."""
    running = start(1)
    caller = running.caller
    long = caller.submit("hands.block", key="0")
    gate.wait_entered()
    waiting = caller.submit("hands.same", key="1")
    assert caller.call("hands.quick", key="2") == "quick"
    assert waiting not in caller._answers
    gate.open.set()
    assert caller.result(waiting) == "same"
    assert isinstance(caller.result(long), int)


def test_without_preemption_the_loop_is_a_plain_event_loop(start: Any) -> None:
    """`preempt = false`: the event architecture, one thread for all; urgent work waits for the running action."""
    running = start(1, preempt=False)
    caller = running.caller
    long = caller.submit("hands.block", key="0")
    gate.wait_entered()
    urgent = caller.submit("hands.quick", key="1")
    gate.open.set()
    assert isinstance(caller.result(long), int)
    assert caller.result(urgent) == "quick"
    assert running.backplane.engine.watch.relief is None


def test_different_objects_run_at_the_same_time(start: Any) -> None:
    """Law 1. With three workers three objects run at once, each in a thread of its own."""
    caller = start(3).caller
    calls = [caller.submit("hands.block", key=f"{number}") for number in range(3)]
    for _ in calls:
        gate.wait_entered()
    gate.open.set()
    assert len({caller.result(call) for call in calls}) == 3


def test_actions_of_one_object_never_run_at_the_same_time(start: Any) -> None:
    """Law 1. However many workers there are."""
    caller = start(3).caller
    first = caller.submit("hands.block", key="0")
    gate.wait_entered()
    second = caller.submit("hands.block", key="0")
    assert caller.call("hands.quick", key="1") == "quick"
    assert not gate.entered.acquire(blocking=False)
    gate.open.set()
    assert [isinstance(caller.result(call), int) for call in (first, second)] == [True, True]


def test_threads_are_added_and_removed_while_running(start: Any) -> None:
    """Issue: 1 to N, while running; what a removed worker ran comes to its end."""
    running = start(1, preempt=False)
    caller = running.caller
    assert caller.call("backplane.hands.threads", count=4) == 4
    calls = [caller.submit("hands.block", key=f"{number}") for number in range(3)]
    for _ in calls:
        gate.wait_entered()
    assert caller.call("backplane.hands.threads", count=1) == 1
    gate.open.set()
    assert all(isinstance(caller.result(call), int) for call in calls)
    assert caller.call("hands.quick") == "quick"
    workers = running.backplane.engine.watch.workers
    for worker in [worker for worker in workers if worker.is_stopping]:
        assert worker.join(LIMIT_S)
    assert len(running.backplane.engine.watch.workers) == 1


@pytest.mark.parametrize("count", [0, 257])
def test_a_senseless_number_of_threads_is_refused(start: Any, count: int) -> None:
    """One clear error."""
    caller = start(1).caller
    with pytest.raises(Exception, match="expected 1 to 256"):
        caller.call("backplane.hands.threads", count=count)
