"""Workers: real threads and a real socket; who runs what, and who looks after the link meanwhile.

The far end is a plain `Link` in the test's thread. Operations wait for events that the test sets, so nothing depends on
how fast the machine is.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, every, operation, pause, should_yield
from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.execution.workers.poll_leader import QUANTUM_NS, PollLeader
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import LiveSettings, ProcessConfig
from appbackplane.runtime.testing import MemoryLink
from appbackplane.transport import codec
from appbackplane.transport.batching import SendResult
from appbackplane.transport.envelope import CALL, REPLY, Envelope
from appbackplane.transport.errors import InvalidArgument, error_from
from appbackplane.transport.link import Link
from tests.waiting import LIMIT_S, Limit, wait_until


class Caller:
    """The test as a client: blocking, one frame a call."""

    def __init__(self, path: Path) -> None:
        self._link = Link("test-caller")
        self._peer = self._link.connect(path)
        self._last = 0
        self._answers: dict[int, Envelope] = {}

    def submit(self, route: str, **options: Any) -> int:
        return self.submit_together((route, options))[0]

    def submit_together(self, *calls: tuple[str, dict[str, Any]]) -> list[int]:
        """In one frame."""
        packed, ids = [], []
        for route, options in calls:
            self._last += 1
            key, priority = options.pop("key", None), options.pop("priority", None)
            envelope = Envelope(CALL, self._last, priority, route, key, None, None, options)
            packed.append(codec.Encoder().encode(envelope))
            ids.append(self._last)
        self._link.send(self._peer, codec.batch(packed))
        return ids

    def result(self, id: int) -> Any:
        limit = Limit()
        while id not in self._answers:
            received = self._link.receive()
            if received is not None:
                for envelope in codec.decode(received[1]):
                    assert envelope.id not in self._answers, "answered twice"
                    self._answers[envelope.id] = envelope
                continue
            limit.check(f"call {id} is not answered")
            select.select([self._link.fileno()], [], [], limit.left_s)
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
gates: dict[str, Gate]


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

    @operation(priority=5)
    def ignore(self) -> str:
        """Ask, and go on whatever the answer is."""
        gate.entered.release()
        while not gate.open.is_set():
            if should_yield():
                gates["told"].entered.release()
        return "went on"

    @operation(priority=1)
    def quick(self) -> str:
        return "quick"

    @operation(priority=5)
    def same(self) -> str:
        return "same"

    @operation(priority=1)
    def stand(self, name: str) -> str:
        """Block at a gate of its own."""
        gates[name].pass_through()
        return name

    @operation(priority=1)
    async def stand_and_think(self, name: str) -> str:
        gates[name].pass_through()
        await pause(0.01)
        return "thought"

    async def rest(self, event: threading.Event) -> None:
        await pause(0.002)
        event.set()


class Ticker(AppObject):
    """Has a timer."""

    def __init__(self) -> None:
        self.ticked = threading.Event()

    @every(0.001)
    def tick(self) -> None:
        self.ticked.set()


class Hands(Component):
    """Four."""

    declares = (Ticker,)

    def setup(self) -> None:
        for number in range(4):
            self.add(Hand(), key=f"{number}")


class StoppableClock(RealClock):
    """The machine's, until a test stops it."""

    stopped_ns = 0

    def now_ns(self) -> int:
        return self.stopped_ns or RealClock.now_ns()


class Running:
    """A backplane with threads, without a sentinel."""

    def __init__(self, folder: Path, threads: int, *, preempt: bool, link: EdgeLink | None = None) -> None:
        # No tick wakes a relief that should have been woken by what has happened.
        config = ProcessConfig(
            system="t",
            backplane="hands",
            run_dir=str(folder),
            components=(),
            preempt=preempt,
            tick_ns=3_600_000_000_000,
        )
        real = Link("hands-1")
        path = folder / "hands-1.sock"
        self.hands = Hands()
        self.clock = StoppableClock()
        self.backplane = Backplane(config, [self.hands], clock=self.clock, link=link or real)
        real.bind(path)
        engine = self.backplane.engine
        self.backplane.start(threads)
        for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
            moved = threading.Event()
            with engine.lead:
                engine.lifecycle.move("hands", state, lambda error, moved=moved: moved.set())  # type: ignore[misc]
            assert moved.wait(LIMIT_S)
        self.caller = Caller(path)

    def until(self, is_so: Callable[[PollLeader], bool]) -> None:
        """Until the workers are where the test wants them."""
        poll_leader = self.backplane.engine.poll_leader
        wait_until(
            lambda: is_so(poll_leader), lambda: f"the workers do not come there: {self.picture()}", every_s=0.001
        )

    def picture(self) -> str:
        """Where they are instead."""
        engine, poll_leader = self.backplane.engine, self.backplane.engine.poll_leader
        workers = [
            f"{worker.number} runs {worker.action and worker.action.name} below {worker.below}"
            for worker in poll_leader.team
        ]
        ready, poller = engine.scheduler.ready.depths(), poll_leader.poller and poll_leader.poller.number
        return f"{workers}, {poller} polls, ready {ready}, typical {engine.statistics.of('hands.stand').typical_ns} ns"

    def until_idle(self) -> None:
        """Until a regular worker waits for messages."""
        self.until(lambda poll_leader: poll_leader.poller is not None and not poll_leader.is_relief_looking)

    def close(self) -> None:
        for each in (gate, *gates.values()):
            each.open.set()
        self.caller.close()
        assert self.backplane.stop(LIMIT_S), "a worker did not stop"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    global gate, gates
    gate, gates = Gate(), {name: Gate() for name in ("first", "second", "third", "fourth", "told")}
    started: list[Running] = []

    def start(threads: int, *, preempt: bool = True, link: EdgeLink | None = None) -> Running:
        started.append(Running(tmp_path, threads, preempt=preempt, link=link))
        return started[-1]

    before = threading.active_count()
    yield start
    for running in started:
        running.close()
    assert threading.active_count() <= before, "a thread was left behind"


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
    """Work of the same priority waits for the only worker, or `threads = 1` would not mean one thread."""
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
    assert not running.backplane.engine.poll_leader.reliefs


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
    workers = running.backplane.engine.poll_leader.workers
    for worker in [worker for worker in workers if worker.is_stopping]:
        assert worker.join(LIMIT_S)
    assert len(running.backplane.engine.poll_leader.workers) == 1


def test_what_a_relief_leaves_behind_is_done(start: Any) -> None:
    """It runs beside an action that ends first. Its own answer, and what its object has to do next, had nobody who looked
    after them once the regular worker slept: the call was never answered."""
    running = start(1)
    caller = running.caller
    long = caller.submit("hands.block", key="0")
    gate.wait_entered()
    urgent = caller.submit("hands.stand", key="1", name="first")
    gates["first"].wait_entered()
    queued = caller.submit("hands.same", key="1")
    gate.open.set()
    assert isinstance(caller.result(long), int)
    running.until_idle()
    gates["first"].open.set()
    assert caller.result(urgent) == "first"
    assert caller.result(queued) == "same"


def test_what_a_worker_that_is_taken_away_leaves_behind_is_done(start: Any) -> None:
    """The same where the object's next action waits for a worker that ends, and the others sleep."""
    running = start(2, preempt=False)
    caller = running.caller
    blocked = [caller.submit("hands.stand", key=f"{n}", name=name) for n, name in enumerate(("first", "second"))]
    for name in ("first", "second"):
        gates[name].wait_entered()
    queued = [caller.submit("hands.same", key=f"{n}") for n in range(2)]
    running.backplane.set_threads(1)
    staying = next(w for w in running.backplane.engine.poll_leader.workers if not w.is_stopping)
    names = [staying.action.arguments[0], *({"first", "second"} - {staying.action.arguments[0]})]
    for name in names:  # who stays becomes idle first
        gates[name].open.set()
        assert caller.result(blocked[["first", "second"].index(name)]) == name
        running.until_idle()
    assert [caller.result(call) for call in queued] == ["same", "same"]


def test_a_pause_ends_although_another_worker_looks_after_the_link(start: Any) -> None:
    """Whoever lies down with an earlier wake-up than the poller's tells it, or a pause lasts until the next message."""
    running = start(2, preempt=False)
    running.caller.call("hands.quick")
    running.until_idle()
    hand = running.hands.objects[0]
    for _ in range(20):
        done = threading.Event()
        hand.after(0.0, hand.rest, done)  # by a strange thread: a worker that is not the poller takes it
        assert done.wait(LIMIT_S)


def test_a_pause_ends_although_its_worker_has_gone_on_to_something_long(start: Any) -> None:
    """The relief looks after the link, and slept past the end of a pause that the regular worker began meanwhile."""
    running = start(1)
    caller = running.caller
    paused = caller.submit("hands.stand_and_think", key="0", name="first")
    gates["first"].wait_entered()
    running.until(lambda poll_leader: poll_leader.is_relief_looking)
    long = caller.submit("hands.stand", key="1", name="second", priority=5)
    running.until(lambda poll_leader: running.backplane.engine.scheduler.queued_count == 1)
    gates["first"].open.set()
    gates["second"].wait_entered()
    assert caller.result(paused) == "thought"
    gates["second"].open.set()
    assert caller.result(long) == "second"


class EdgeLink(MemoryLink):
    """A link on which a message comes during a send, which uses up the edge of the descriptor as ZeroMQ's does."""

    def __init__(self) -> None:
        super().__init__()
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.sent_events: dict[int, threading.Event] = {}
        self.comes_with: dict[int, bytes] = {}

    def deliver(self, peer: bytes, frame: bytes, *, is_seen: bool = True) -> None:
        super().deliver(peer, frame)
        if is_seen:
            os.eventfd_write(self._fd, 1)

    def receive(self) -> tuple[bytes, bytes] | None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        return super().receive()

    def send(self, peer: bytes, frame: bytes) -> SendResult:
        for id in [envelope.id for envelope in codec.decode(frame)] or [0]:  # 0: an empty batch
            if (coming := self.comes_with.pop(id, None)) is not None:
                self.deliver(peer, coming, is_seen=False)
            self.sent_events.setdefault(id, threading.Event()).set()
        return super().send(peer, frame)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)


def test_a_message_that_comes_during_a_send_is_not_overlooked(start: Any, tmp_path: Path) -> None:
    """The worker that sends goes on to something long, and the one that polls sees no edge any more."""
    link = EdgeLink()
    running = start(1, link=link)

    def frame(id: int, route: str, key: str, priority: int, **arguments: Any) -> bytes:
        return codec.batch([codec.Encoder().encode(Envelope(CALL, id, priority, route, key, None, None, arguments))])

    answered = [link.sent_events.setdefault(id, threading.Event()) for id in range(5)]
    link.deliver(b"peer", frame(1, "hands.stand", "0", 1, name="first"))
    gates["first"].wait_entered()
    running.until(lambda poll_leader: poll_leader.is_relief_looking)
    link.deliver(b"peer", frame(2, "hands.block", "1", 5))  # has never run, so it may be long
    running.until(lambda poll_leader: running.backplane.engine.scheduler.queued_count == 1)
    running.until(lambda poll_leader: poll_leader.is_relief_looking)
    # Long enough for the next to be expected to be long.
    began_ns = running.backplane.engine.poll_leader.workers[0].started_ns
    running.until(lambda poll_leader: RealClock().now_ns() - began_ns > 2 * QUANTUM_NS)
    link.deliver(b"peer", frame(3, "hands.unknown", "1", 5), is_seen=False)
    link.comes_with[3] = frame(4, "hands.quick", "2", 1)
    gates["first"].open.set()
    gate.wait_entered()
    assert answered[1].wait(LIMIT_S)
    assert answered[4].wait(LIMIT_S), "nobody looked"


def test_a_message_that_comes_while_a_caller_is_looked_for_is_not_overlooked(start: Any) -> None:
    """The worker looks whether callers are there after it has found the link empty, and then it waits. Calls of four clients
    of a node stayed unread for 120 s: what comes on a connection that was not read makes no edge either."""
    link = EdgeLink()
    running = start(1, link=link)
    running.until_idle()
    engine, answered = running.backplane.engine, link.sent_events.setdefault(1, threading.Event())
    call = Envelope(CALL, 1, 1, "hands.quick", "0", None, None, {})
    link.comes_with[0] = codec.batch([codec.Encoder().encode(call)])
    with engine.lead:
        engine.callers.ask([b"peer"])
        engine.nudge()
    assert answered.wait(LIMIT_S), "nobody looked"


def test_a_relief_that_sleeps_learns_that_it_may_run_more(start: Any) -> None:
    """What it may run depends on what the regular workers run, and that changes while it sleeps."""
    link = EdgeLink()
    running = start(2, link=link)
    queued = running.backplane.engine.scheduler

    def deliver(id: int, route: str, key: str, priority: int, *, is_seen: bool = True, **arguments: Any) -> None:
        call = Envelope(CALL, id, priority, f"hands.{route}", key, None, None, arguments)
        link.deliver(b"peer", codec.batch([codec.Encoder().encode(call)]), is_seen=is_seen)

    answered = [link.sent_events.setdefault(id, threading.Event()) for id in range(6)]
    for id, name in enumerate(("first", "second")):
        deliver(id, "stand", f"{id}", 2, name=name)
        gates[name].wait_entered()
    running.until(lambda poll_leader: poll_leader.is_relief_looking)
    deliver(2, "stand", "2", 7, name="third")
    running.until(lambda poll_leader: queued.queued_count == 1 and poll_leader.is_relief_looking)
    running.until(
        lambda poll_leader: all(RealClock().now_ns() - each.started_ns > 2 * QUANTUM_NS for each in poll_leader.workers)
    )
    gates["first"].open.set()
    gates["third"].wait_entered()
    running.until(lambda poll_leader: poll_leader.is_relief_looking)
    deliver(3, "stand", "3", 3, is_seen=False, name="fourth")
    deliver(4, "quick", "0", 3, is_seen=False)
    gates["second"].open.set()
    gates["fourth"].wait_entered()
    assert answered[4].wait(LIMIT_S), "the relief sleeps beside work that is more urgent than what runs"


def test_what_is_more_urgent_does_not_wait_for_a_relief_that_takes_long(start: Any) -> None:
    """With one relief, a call of priority 0 waited 20 ms for one of priority 1 that had overtaken bulk work of 20 ms."""
    caller = start(1).caller
    long = caller.submit("hands.block", key="0")
    gate.wait_entered()
    urgent = caller.submit("hands.stand", key="1", name="first")
    gates["first"].wait_entered()
    for _ in range(20):
        assert caller.call("hands.quick", key="2", priority=0) == "quick"
    gates["first"].open.set()
    assert caller.result(urgent) == "first"
    assert caller.call("hands.quick", key="2") == "quick"
    gate.open.set()
    assert isinstance(caller.result(long), int)


def test_a_second_relief_runs_only_what_is_more_urgent_than_the_first(start: Any) -> None:
    """Or `threads = 1` would soon mean three of everything. What it may not run goes on as soon as the first is free."""
    running = start(1)
    caller = running.caller
    long = caller.submit("hands.block", key="0")
    gate.wait_entered()
    urgent = caller.submit("hands.stand", key="1", name="first")
    gates["first"].wait_entered()
    waiting = [caller.submit("hands.quick", key="2", priority=priority) for priority in (1, 4)]
    assert caller.call("hands.quick", key="3", priority=0) == "quick"
    running.until(lambda poll_leader: poll_leader.is_relief_looking)
    assert caller.call("hands.quick", key="3", priority=0) == "quick"  # with it would have come whatever has run since
    assert not {urgent, *waiting} & caller._answers.keys()
    gates["first"].open.set()
    assert [caller.result(call) for call in (urgent, *waiting)] == ["first", "quick", "quick"]
    running.until(
        lambda poll_leader: poll_leader.is_relief_looking and any(relief.is_parked for relief in poll_leader.reliefs)
    )
    gate.open.set()
    assert isinstance(caller.result(long), int)


def test_a_second_relief_is_let_in_by_the_sentinel_once_the_first_overruns(start: Any) -> None:
    """Usually what the first runs is short: to let the second in each time would cost more than it could ever save."""
    running = start(1)
    caller, engine, poll_leader = running.caller, running.backplane.engine, running.backplane.engine.poll_leader
    engine.statistics.of("hands.stand").typical_ns = 1
    long = caller.submit("hands.block", key="0")
    gate.wait_entered()
    urgent = caller.submit("hands.stand", key="1", name="first")
    gates["first"].wait_entered()
    running_one = next(relief for relief in poll_leader.reliefs if relief.action is not None)
    for overrun_ns, is_let_in in ((QUANTUM_NS - 1, False), (QUANTUM_NS, True)):
        with engine.lead:
            poll_leader.overrun(max(running_one.started_ns, poll_leader.workers[0].started_ns) + overrun_ns)
            assert all(relief.is_active for relief in poll_leader.reliefs) is is_let_in
    assert caller.call("hands.quick", key="2", priority=0) == "quick"
    for each in (gate, gates["first"]):
        each.open.set()
    assert [caller.result(urgent), isinstance(caller.result(long), int)] == ["first", True]


def test_reliefs_are_bounded_and_all_of_them_come_back(start: Any) -> None:
    """Each has its long action: then what is most urgent waits, and is run by whoever is free first."""
    running = start(1)
    caller = running.caller
    names = ("first", "second", "third")
    calls = []
    for number, name in enumerate(names):
        calls.append(caller.submit("hands.stand", key=f"{number}", name=name, priority=3 - number))
        gates[name].wait_entered()
    assert [relief.action is None for relief in running.backplane.engine.poll_leader.reliefs] == [False, False]
    waiting = caller.submit("hands.quick", key="3", priority=0)
    gates["second"].open.set()
    assert caller.result(waiting) == "quick"
    for name in names:
        gates[name].open.set()
    assert [caller.result(call) for call in calls] == list(names)
    running.until_idle()
    running.until(lambda poll_leader: all(relief.is_parked for relief in poll_leader.reliefs))


def test_a_relief_does_not_stay_beside_actions_shorter_than_the_quantum(start: Any) -> None:
    """One overrun is enough to let it in. It then stayed for as long as bulk work followed, and each message that came made
    the two threads take turns at the interpreter: urgent p99 doubled, and bulk calls took 5 % longer."""
    running = start(1)
    caller, engine = running.caller, running.backplane.engine
    long = caller.submit("hands.stand", key="0", name="first")
    gates["first"].wait_entered()
    running.until(lambda poll_leader: poll_leader.is_relief_looking)
    engine.statistics.of("hands.block").typical_ns = QUANTUM_NS // 2
    bulk = caller.submit("hands.block", key="1")
    running.until(lambda poll_leader: engine.scheduler.queued_count == 1)
    gates["first"].open.set()
    assert caller.result(long) == "first"
    gate.wait_entered()
    running.until(
        lambda poll_leader: poll_leader.poller is None and all(relief.is_parked for relief in poll_leader.reliefs)
    )
    urgent = caller.submit("hands.quick", key="2")
    running.until(lambda poll_leader: RealClock().now_ns() - poll_leader.workers[0].started_ns > QUANTUM_NS)
    with engine.lead:
        engine.overrun()  # as the sentinel says when it takes longer after all
    assert caller.result(urgent) == "quick"
    gate.open.set()
    assert isinstance(caller.result(bulk), int)


def test_who_looks_often_enough_by_itself_needs_no_relief(start: Any) -> None:
    """A relief beside it is told of each message, and takes turns with it at the interpreter: 1,400 steps of indexing had it
    woken 3,300 times, which cost a tenth of what they took."""
    running = start(1)
    caller, engine, poll_leader = running.caller, running.backplane.engine, running.backplane.engine.poll_leader
    account = engine.statistics.of("hands.spin")

    account.typical_ns, account.unseen_ns = 10 * QUANTUM_NS, QUANTUM_NS // 10
    running.until(lambda poll_leader: all(relief.is_parked for relief in poll_leader.reliefs))
    spinning = caller.submit("hands.spin", key="0")
    gate.wait_entered()
    running.until(lambda poll_leader: running.clock.now_ns() - poll_leader.workers[0].started_ns > 2 * QUANTUM_NS)
    # It has looked just now, whatever else the machine does until the sentinel's turn.
    running.clock.stopped_ns = now_ns = running.clock.now_ns()
    running.until(lambda poll_leader: poll_leader.workers[0].looked_ns == now_ns)
    with engine.lead:
        engine.overrun()  # as the sentinel says, who has seen it run for longer than that
        assert poll_leader.poller is None and all(relief.is_parked for relief in poll_leader.reliefs)
    running.clock.stopped_ns = 0
    assert caller.call("hands.quick", key="1") == "quick"
    assert caller.result(spinning) is True, "it has looked, and let the urgent one through"


def test_who_looks_and_goes_on_all_the_same_is_relieved(start: Any) -> None:
    """It asks all the time, and so hears that somebody waits, but does not let him."""
    running = start(1)
    caller, engine = running.caller, running.backplane.engine
    account, quick = engine.statistics.of("hands.ignore"), engine.statistics.of("hands.quick")

    account.typical_ns, account.unseen_ns = 10 * QUANTUM_NS, QUANTUM_NS // 10
    running.until(lambda poll_leader: all(relief.is_parked for relief in poll_leader.reliefs))
    ignoring = caller.submit("hands.ignore", key="0")
    gate.wait_entered()
    urgent = caller.submit("hands.quick", key="1")
    gates["told"].wait_entered()
    running.until(lambda poll_leader: running.clock.now_ns() - poll_leader.workers[0].looked_ns > 2 * QUANTUM_NS)

    def has_been_served(poll_leader: PollLeader) -> bool:
        with engine.lead:
            engine.overrun()  # as the sentinel says, again and again
        return bool(quick.run.count)

    running.until(has_been_served)
    assert caller.result(urgent) == "quick"
    gate.open.set()
    assert caller.result(ignoring) == "went on"


def test_the_timers_of_an_object_that_is_added_by_a_strange_thread_fire(start: Any) -> None:
    """The workers sleep with nothing to wake up for; now there is something."""
    running = start(1)
    running.caller.call("hands.quick")
    running.until_idle()
    ticker = Ticker()
    running.hands.add(ticker)
    assert ticker.ticked.wait(LIMIT_S)


def test_the_end_is_bounded_although_the_lead_is_held(start: Any) -> None:
    """User code that runs in the lead (make_room) and never ends must not keep the process from ending."""
    running = start(1)
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with running.backplane.engine.lead:
            held.set()
            over.wait(LIMIT_S)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(LIMIT_S)
    assert not running.backplane.stop(0.05)
    over.set()
    holder.join()


def test_what_is_configured_while_it_runs_holds_at_once(start: Any) -> None:
    """What a restart would change, without one; what is left out stays as it was."""
    running = start(1)
    backplane, engine = running.backplane, running.backplane.engine
    scheduler = engine.scheduler
    before = scheduler.ticks.period_ns
    settings = LiveSettings(threads=2, quotas=(0, 7), cpu_limit=5000, cpu_exempt=1, slow_action_ns=10**10)
    backplane.configure(settings)
    assert backplane.threads_count == 2
    assert scheduler.quotas.full[1:] == [7] * (scheduler.priorities - 1)
    assert (scheduler.budget.limit_percent, scheduler.budget.exempt) == (5000, 1)
    assert engine.reports.slow_actions.threshold_ns == 10**10
    assert scheduler.ticks.period_ns == before
    backplane.configure(LiveSettings(tick_ns=10**9, cpu_limit=None))
    assert (scheduler.ticks.period_ns, scheduler.budget.period_ns) == (10**9, 10**9)
    assert scheduler.budget.limit_percent is None
    with pytest.raises(InvalidArgument, match="given for"):
        backplane.configure(LiveSettings(threads=4, quotas=(1,) * (scheduler.priorities + 1)))
    assert backplane.threads_count == 2, "all of it or nothing"


def test_a_limit_that_is_lifted_lets_go_what_waited_for_the_tick(start: Any) -> None:
    """A backplane whose budget is spent sleeps until its tick, which here is an hour off: it is woken."""
    running = start(1)
    backplane, scheduler = running.backplane, running.backplane.engine.scheduler
    backplane.configure(LiveSettings(cpu_limit=1))
    with backplane.engine.lead:
        scheduler.budget.charge(3600 * 10**9)
    call = running.caller.submit("hands.same", key="0")
    running.until(lambda poll_leader: scheduler.queued_count == 1 and poll_leader.poller is not None)
    backplane.configure(LiveSettings(cpu_limit=None))
    assert running.caller.result(call) == "same"


@pytest.mark.parametrize("count", [0, 257])
def test_a_senseless_number_of_threads_is_refused(start: Any, count: int) -> None:
    """One clear error."""
    caller = start(1).caller
    with pytest.raises(Exception, match="expected 1 to 256"):
        caller.call("backplane.hands.threads", count=count)
