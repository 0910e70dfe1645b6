"""Stress: real threads, real links, everything at once, from one seed.

Two phases take turns. In the *crowd*, clients send whatever there is (short, blocking, computing, awaiting, pausing,
raising, cancelled, too late) while threads come and go, work is posted from foreign threads and another backplane dies and
comes back: each call must end exactly once, run at most once, and never beside another of its object. But a crowd heals:
whoever sleeps too long is woken by somebody else's message. So in the *quiet*, one action blocks until something else
has happened, which only a worker that wakes when it should can bring about; a lost wake-up is then a standstill.

`STRESS_ROUNDS` (for each configuration, default 4) and `STRESS_SEED` make it longer, or the same again.
"""

from __future__ import annotations

import os
import random
import select
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, checkpoint, every, operation, pause, should_yield
from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.execution.sentinel.sentinel import Sentinel
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport import codec
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import BOOST, CALL, CANCEL, REPLY, Envelope, reply, status
from appbackplane.transport.errors import Busy, FailedPrecondition, Status
from appbackplane.transport.link import Link
from tests.waiting import Limit

ROUNDS = int(os.environ.get("STRESS_ROUNDS", "4"))
SEED = int(os.environ.get("STRESS_SEED", "0"))
#: Everything here takes milliseconds; what has not moved for this long on a busy machine will never move.
STANDSTILL_S = 30.0
#: How long a crowd lasts before it is quiet again.
CROWD_S = 0.4
MEMBERS = 8
SECOND_NS = 1_000_000_000


class Book:
    """What happened, and what must not have."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.progress = 0
        self.ran: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()

    def problem(self, text: str) -> None:
        self.problems.append(text)

    def began(self, token: str) -> None:
        self.progress += 1
        self.ran[token] += 1
        if self.ran[token] > 1:
            self.problem(f"{token} ran {self.ran[token]} times")


class Gate:
    """An operation stands at it until the test lets it through."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()


class Posted(Action):
    """Work that comes by no link."""

    __slots__ = ("done",)

    def __init__(self, object: AppObject, priority: int) -> None:
        super().__init__(object, "crowd.posted", priority)
        self.done = threading.Event()

    def run(self) -> Outcome:
        assert isinstance(self.object, Member)
        with self.object.alone("posted"):
            self.done.set()
        return Outcome.DONE


class Member(AppObject):
    """Does what operations do, and notices who is with it."""

    def __init__(self, book: Book, gates: dict[str, Gate]) -> None:
        self.book, self.gates = book, gates
        self.running: str | None = None

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Law 1: also while a coroutine awaits, nothing else of the object runs."""
        if self.running is not None:
            self.book.problem(f"{what} runs on {self.name} beside {self.running}")
        self.running = what
        try:
            yield
        finally:
            self.running = None
            self.book.progress += 1

    @operation(priority=3)
    def quick(self, token: str, gate: str | None = None) -> str:
        """Usually short, so that nobody expects it to take long when it does."""
        self.book.began(token)
        with self.alone(token):
            if gate is not None:
                self.stand_at(gate)
        return token

    @operation(priority=5)
    def hold(self, token: str, gate: str) -> str:
        self.book.began(token)
        with self.alone(token):
            self.stand_at(gate)
        return token

    def stand_at(self, name: str) -> None:
        gate = self.gates[name]
        gate.entered.set()
        if not gate.open.wait(3 * STANDSTILL_S):
            self.book.problem(f"gate {name} was never opened")

    @operation(priority=4)
    def sleep(self, token: str, seconds: float) -> str:
        self.book.began(token)
        with self.alone(token):
            time.sleep(seconds)
        return token

    @operation(priority=6)
    def spin(self, token: str, seconds: float) -> str:
        self.book.began(token)
        with self.alone(token):
            end = time.thread_time() + seconds
            while time.thread_time() < end and not should_yield():
                pass
        return token

    @operation(priority=2)
    def fail(self, token: str) -> str:
        self.book.began(token)
        with self.alone(token):
            raise ValueError(token)

    @operation(priority=4)
    async def think(self, token: str, seconds: float) -> str:
        self.book.began(token)
        with self.alone(token):
            await pause(seconds)
        return token

    @operation(priority=4)
    async def steps(self, token: str, number: int) -> str:
        self.book.began(token)
        with self.alone(token):
            for _ in range(number):
                await checkpoint()
        return token

    @operation(priority=3)
    async def ask(self, token: str, who: str) -> str:
        self.book.began(token)
        with self.alone(token):
            await self.call("crowd.quick", key=who, token=f"{token}>", timeout=0.3)
        return token

    @operation(priority=3)
    async def ask_far(self, token: str, how: str, timeout: float = 0.2) -> str:
        self.book.began(token)
        with self.alone(token):
            await self.call("far.echo", how=how, timeout=timeout)
        return token

    @operation(priority=3)
    def remind(self, token: str) -> str:
        self.book.began(token)
        with self.alone(token):
            self.after(0.001, self.note)
            self.publish("crowd.said", who=token)
            self.cast("crowd.heard", who=token)
        return token

    @operation(priority=5)
    def heard(self, who: str) -> None:
        with self.alone("heard"):
            pass

    def note(self, event: threading.Event | None = None) -> None:
        with self.alone("note"):
            if event is not None:
                event.set()


class Ticker(AppObject):
    """Comes and goes: while it is there it wakes everybody up, so it must not be there when it is quiet."""

    def __init__(self) -> None:
        self.ticked = threading.Event()

    @every(0.005, priority=1)
    def tick(self) -> None:
        self.ticked.set()


class Crowd(Component):
    """The members."""

    max_requests = 200
    declares = (Ticker,)

    def __init__(self, book: Book) -> None:
        self.gates: dict[str, Gate] = {}
        self.members = [Member(book, self.gates) for _ in range(MEMBERS)]

    def setup(self) -> None:
        for number, member in enumerate(self.members):
            self.add(member, key=str(number))

    def make_room(self, request: Action) -> bool:
        return self.shed(below=request.priority) > 0


class Far(threading.Thread):
    """Another backplane, as the wire sees it: answers, fails, stays silent, dies and comes back."""

    def __init__(self, folder: Path, seed: int, tell: Callable[[int, Path, bool], None]) -> None:
        super().__init__(name="far", daemon=True)
        self._folder, self._tell = folder, tell
        self._random = random.Random(seed)
        self.is_over = False
        self.flips = 0
        self._flipped = 0

    def run(self) -> None:
        link, encoder = Link("there"), codec.Encoder()
        generation = 0
        late: deque[tuple[bytes, Envelope]] = deque()

        def come_up() -> None:
            nonlocal generation, link
            generation += 1
            path = self._folder / f"there-{generation}.sock"
            link.close(0)  # a generation is a process, with a link of its own
            link = Link("there")
            link.bind(path)
            self._tell(generation, path, True)

        come_up()
        while not self.is_over:
            if self._flipped < self.flips:
                self._flipped += 1
                self._tell(generation, self._folder / f"there-{generation}.sock", False)
                come_up()
            answers = [late.popleft()] if late else []
            while (received := link.receive()) is not None:
                peer, frame = received
                for envelope in codec.decode(frame):
                    if envelope.kind != CALL:
                        continue
                    how = envelope.body["how"]
                    if how == "late":
                        late.append((peer, reply(envelope.id, how)))
                    elif how == "error":
                        answers.append((peer, status(envelope.id, Busy("far"))))
                    elif how != "never":
                        answers.append((peer, reply(envelope.id, how)))
            self._random.shuffle(answers)
            for peer, answer in answers:
                link.send(peer, codec.batch([encoder.encode(answer)]))
            if not answers and not link.has_input():
                select.select([link.fileno()], [], [], 0.002)
        link.close(0)


class Client:
    """One caller with a link of its own. Used by one thread."""

    def __init__(self, name: str, path: Path, book: Book, gates: dict[str, Gate], rng: random.Random) -> None:
        self.name, self._book, self._gates, self._random = name, book, gates, rng
        self._link = Link(name)
        self._peer = self._link.connect(path)
        self._encoder = codec.Encoder()
        self._last = 0
        self.outstanding: dict[int, str] = {}
        self.answers: dict[int, Envelope] = {}
        self.keeps_answers = False

    def call(self, route: str, *, timeout: float = 20.0, **fields: Any) -> tuple[int, Envelope]:
        self._last += 1
        key, priority = fields.pop("key", None), fields.pop("priority", None)
        token = f"{self.name}/{self._last}/{route.partition('.')[2]}"
        fields["token"] = token
        self.outstanding[self._last] = token
        return self._last, Envelope(CALL, self._last, priority, route, key, round(timeout * 1e9), None, fields)

    def send(self, *envelopes: Envelope) -> None:
        self._link.send(self._peer, codec.batch([self._encoder.encode(envelope) for envelope in envelopes]))

    def cancel(self, id: int) -> None:
        self.send(Envelope(CANCEL, id))

    def hear(self, seconds: float) -> None:
        """Take in the answers that are there; wait up to `seconds` for the first."""
        if not self._link.has_input():
            select.select([self._link.fileno()], [], [], seconds)
        while (received := self._link.receive()) is not None:
            for envelope in codec.decode(received[1]):
                self._book.progress += 1
                if envelope.kind not in (REPLY, 3):
                    continue
                token = self.outstanding.pop(envelope.id, None)
                if token is None:
                    self._book.problem(f"{self.name}: call {envelope.id} ended twice: {envelope}")
                    continue
                if envelope.kind == REPLY:
                    self._book.ends["OK"] += 1
                    if envelope.body != token:
                        self._book.problem(f"{token} was answered {envelope.body!r}")
                else:
                    self._book.ends[Status(envelope.body[0]).name] += 1
                if self.keeps_answers:
                    self.answers[envelope.id] = envelope

    def random_call(self) -> Envelope:
        pick = self._random
        route, fields = pick.choice(
            (
                lambda: ("quick", {}),
                lambda: ("quick", {}),
                lambda: ("fail", {}),
                lambda: ("sleep", {"seconds": pick.choice((0.0001, 0.002, 0.01))}),
                lambda: ("spin", {"seconds": pick.choice((0.0001, 0.002, 0.01))}),
                lambda: ("think", {"seconds": pick.choice((0.0, 0.001, 0.02))}),
                lambda: ("steps", {"number": pick.randrange(5)}),
                lambda: ("ask", {"who": str(pick.randrange(MEMBERS))}),
                lambda: ("ask_far", {"how": pick.choice(("reply", "error", "never", "late"))}),
                lambda: ("remind", {}),
            )
        )()
        key = None if pick.random() < 0.3 else str(pick.randrange(MEMBERS))
        priority = None if pick.random() < 0.5 else pick.randrange(8)
        timeout = pick.choice((0.0, 0.001, 0.02)) if pick.random() < 0.1 else 20.0
        return self.call(f"crowd.{route}", key=key, priority=priority, timeout=timeout, **fields)[1]

    def close(self) -> None:
        self._link.close(0)


class Stress:
    """One configuration: a backplane with its sentinel, its clients and the other backplane."""

    def __init__(self, folder: Path, threads: int, *, preempt: bool, seed: int) -> None:
        self.random = random.Random(seed)
        self.book = Book()
        self.crowd = Crowd(self.book)
        self.threads, self.preempt = threads, preempt
        config = ProcessConfig(
            system="t",
            backplane="here",
            run_dir=str(folder),
            components=(),
            preempt=preempt,
            slow_action_ns=SECOND_NS,
            order="deadline" if seed % 2 else "fifo",
        )
        link = Link("here-1")
        self.backplane = Backplane(config, [self.crowd], clock=RealClock(), link=link)
        self.engine = self.backplane.engine
        path = folder / "here-1.sock"
        link.bind(path)
        self.sentinel = Sentinel(
            self.engine,
            Link("control/here-1"),
            folder,
            lifeline_fd=None,
            slot=None,
            statistics=self.backplane.statistics,
            why=self.backplane.why,
            configure=self.backplane.configure,
        )
        self._sentinel_thread = threading.Thread(target=self.sentinel.run, name="sentinel", daemon=True)
        self.backplane.start(threads)
        self._sentinel_thread.start()
        for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
            moved = threading.Event()
            with self.engine.lead:
                self.engine.lifecycle.move("crowd", state, lambda error, moved=moved: moved.set())  # type: ignore[misc]
            assert moved.wait(STANDSTILL_S)
        self._version = 0
        self.far = Far(folder, seed, self.tell_of_far)
        self.far.start()
        self.quiet_client = Client("quiet", path, self.book, self.crowd.gates, random.Random(seed + 1))
        self.quiet_client.keeps_answers = True
        self.clients = [
            Client(f"client{n}", path, self.book, self.crowd.gates, random.Random(seed + 2 + n)) for n in range(2)
        ]
        self._gate_count = 0
        self.now = "nothing"

    # -- the far end, and what the supervisor would say of it ---------------------------------------------------------

    def tell_of_far(self, generation: int, path: Path, is_up: bool) -> None:
        with self.engine.lead:
            self._version += 1
            directory = Directory(
                "t",
                self._version,
                {"there": Place(generation, str(path), is_up), "here": Place(1, "-")},
                {"far.echo": ("there",)},
                {"crowd.*": ("there",)},
            )
            self.engine.update(directory, self.engine.clock.now_ns())
            self.engine.poll_leader.notify()

    # -- waiting ------------------------------------------------------------------------------------------------------

    def until(self, is_so: Callable[[], bool], what: str, turn: Callable[[], None]) -> None:
        """Take turns until `is_so`. Nothing moves for `STANDSTILL_S`: fail, and show everything."""
        last, limit = -1, Limit(STANDSTILL_S)
        while not is_so():
            if self.book.progress != last:
                last, limit = self.book.progress, Limit(STANDSTILL_S)
            if not limit.left_s:
                pytest.fail(f"standstill: {self.now}: {what}\n{self.picture()}")
            turn()

    def picture(self) -> str:
        engine, poll_leader = self.engine, self.engine.poll_leader
        lines = [f"{self.threads} threads, preempt={self.preempt}, ends {dict(self.book.ends)}"]
        for worker in poll_leader.team:
            action = worker.action
            lines.append(
                f"worker {worker.number}: {action.name if action else None} below={worker.below} "
                f"stopping={worker.is_stopping} poller={poll_leader.poller is worker} parked={worker in poll_leader._parked}"
            )
        scheduler = engine.scheduler
        lines.append(
            f"ready {scheduler.ready.depths()} queued {scheduler.queued_count} waiting {scheduler.waiting_count} "
            f"outbox {bool(engine.outbox)} outstanding {len(engine.outgoing.calls)} accepted "
            f"{[(id, action.name) for (_, id), action in [*engine.accepted.items()][:10]]} "
            f"woken {poll_leader._is_woken} sentinel asleep {poll_leader.is_sentinel_asleep} spent {scheduler.budget.is_spent}"
        )
        for member in self.crowd.members:
            lines.append(f"{member.name}: state {member._state} load {member._load} running {member.running}")
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            lines.append(f"-- {names.get(ident)}\n" + "".join(traceback.format_stack(frame)[-6:]))
        return "\n".join(lines)

    def ended(self, id: int) -> Envelope:
        client = self.quiet_client
        self.until(lambda: id in client.answers, f"call {id} does not end", lambda: client.hear(0.2))
        return client.answers.pop(id)

    def happened(self, event: threading.Event, what: str) -> None:
        self.until(event.is_set, f"{what} does not happen", lambda: (event.wait(0.2), None)[1])

    # -- quiet --------------------------------------------------------------------------------------------------------

    def gate(self) -> tuple[str, Gate]:
        self._gate_count += 1
        name = f"gate{self._gate_count}"
        gate = self.crowd.gates[name] = Gate()
        return name, gate

    def blocker(self, key: str, priority: int) -> tuple[int, Envelope, Gate]:
        """An action that blocks until the test says so; half of the time one that nobody would have expected to."""
        name, gate = self.gate()
        route = self.random.choice(("crowd.hold", "crowd.quick"))
        id, envelope = self.quiet_client.call(route, key=key, priority=priority, gate=name)
        return id, envelope, gate

    def quiet(self) -> None:
        """Something must happen while an action blocks."""
        client, pick = self.quiet_client, self.random
        can_run_beside = self.preempt or self.threads > 1
        for _ in range(pick.randrange(3)):  # what usually runs, and leaves the workers in any of their places
            self.ended(self.send(client.call("crowd.quick", key=pick.choice("0123"))))
        if not can_run_beside:
            self.witness(self.random.choice(self.witnesses()))
            return
        scene = pick.choice((self.beside, self.beside, self.together, self.overlapping, self.leaving))
        scene()

    def send(self, call: tuple[int, Envelope]) -> int:
        self.quiet_client.send(call[1])
        return call[0]

    def beside(self) -> None:
        """First it blocks, then something happens."""
        id, envelope, gate = self.blocker("0", 6)
        self.quiet_client.send(envelope)
        witness = self.random.choice(self.witnesses())
        self.now = f"{witness.__name__} beside {envelope.route}"
        self.happened(gate.entered, "the blocking action")
        self.witness(witness)
        gate.open.set()
        self.ended(id)

    def together(self) -> None:
        """Both come in one frame, and what is more urgent begins first."""
        id, envelope, gate = self.blocker("0", 6)
        client = self.quiet_client
        other = self.random.choice(
            (
                client.call("crowd.think", key="1", priority=1, seconds=0.005),
                client.call("crowd.quick", key="1", priority=1),
                client.call("crowd.ask", key="1", priority=1, who="2"),
                client.call("crowd.ask_far", key="1", priority=1, how="reply"),
                client.call("crowd.ask_far", key="1", priority=1, how="never", timeout=0.01),
                client.call("crowd.remind", key="1", priority=1),
                client.call("crowd.steps", key="1", priority=1, number=3),
            )
        )
        for number in [*client.outstanding]:
            if number not in (id, other[0]):
                del client.outstanding[number]  # those that were only looked at
        self.now = f"{other[1].route} {other[1].body} together with {envelope.route}"
        client.send(*self.random.sample((envelope, other[1]), 2))
        self.ended(other[0])
        gate.open.set()
        self.ended(id)

    def overlapping(self) -> None:
        """Two block; the one that began first ends first, and what ran beside it must still be answered."""
        first, second = self.blocker("0", 6), self.blocker("1", 1)
        self.now = f"{second[1].route} ends after {first[1].route}"
        for id, envelope, gate in (first, second):
            self.quiet_client.send(envelope)
            self.happened(gate.entered, f"the blocking action {id}")
        queued = self.send(self.quiet_client.call("crowd.quick", key="1", priority=7))
        for id, _, gate in (first, second):
            gate.open.set()
            self.ended(id)
        self.ended(queued)

    def leaving(self) -> None:
        """Workers are taken away while they run; what they leave behind is done by who stays."""
        if self.threads < 2:
            return self.beside()
        client = self.quiet_client
        blockers = [self.blocker(str(n), 6) for n in range(self.threads - 1)]
        self.now = f"{len(blockers)} leave"
        for _, envelope, gate in blockers:
            client.send(envelope)
            self.happened(gate.entered, "the blocking action")
        queued = [self.send(client.call("crowd.quick", key=str(n))) for n in range(len(blockers))]
        self.backplane.set_threads(1)
        for id, _, gate in self.random.sample(blockers, len(blockers)):
            gate.open.set()
            self.ended(id)
        for id in queued:
            self.ended(id)
        self.backplane.set_threads(self.threads)

    def witness(self, what: Callable[[], None]) -> None:
        what()

    def witnesses(self) -> tuple[Callable[[], None], ...]:
        return (
            self.a_call, self.a_frame, self.a_pause, self.a_local_call, self.a_far_call, self.a_far_silence,
            self.a_far_death, self.a_cancellation, self.a_post, self.a_timer, self.an_own_timer,
        )  # fmt: skip

    def a_call(self) -> None:
        self.ended(self.send(self.quiet_client.call("crowd.quick", key="1", priority=1)))

    def a_frame(self) -> None:
        calls = [self.quiet_client.call("crowd.quick", key=str(n), priority=1) for n in (1, 2, 3)]
        self.quiet_client.send(*(envelope for _, envelope in calls))
        for id, _ in calls:
            self.ended(id)

    def a_pause(self) -> None:
        self.ended(self.send(self.quiet_client.call("crowd.think", key="1", priority=1, seconds=0.003)))

    def a_local_call(self) -> None:
        self.ended(self.send(self.quiet_client.call("crowd.ask", key="1", priority=1, who="2")))

    def a_far_call(self) -> None:
        how = self.random.choice(("reply", "error", "late"))
        self.ended(self.send(self.quiet_client.call("crowd.ask_far", key="1", priority=1, how=how)))

    def a_far_silence(self) -> None:
        id, envelope = self.quiet_client.call("crowd.ask_far", key="1", priority=1, how="never")
        envelope.body["timeout"] = 0.005
        self.quiet_client.send(envelope)
        self.ended(id)

    def a_far_death(self) -> None:
        id, envelope = self.quiet_client.call("crowd.ask_far", key="1", priority=1, how="never")
        envelope.body["timeout"] = 3 * STANDSTILL_S
        self.quiet_client.send(envelope)
        token = self.quiet_client.outstanding[id]
        self.until(lambda: self.book.ran[token] > 0, "it does not begin", lambda: self.quiet_client.hear(0.001))
        self.far.flips += 1
        self.ended(id)

    def a_cancellation(self) -> None:
        id = self.send(self.quiet_client.call("crowd.think", key="1", priority=1, seconds=3 * STANDSTILL_S))
        if self.random.random() < 0.5:
            token = self.quiet_client.outstanding[id]
            self.until(lambda: self.book.ran[token] > 0, "it does not begin", lambda: self.quiet_client.hear(0.001))
        self.quiet_client.cancel(id)
        self.ended(id)

    def a_post(self) -> None:
        posted = Posted(self.crowd.members[1], 1)
        self.crowd.post(posted)
        self.happened(posted.done, "what was posted")

    def a_timer(self) -> None:
        event = threading.Event()
        self.crowd.members[1].after(self.random.choice((0.0, 0.002)), self.crowd.members[1].note, event)
        self.happened(event, "the timer")

    def an_own_timer(self) -> None:
        ticker = self.crowd.add(Ticker())
        assert isinstance(ticker, Ticker)
        self.happened(ticker.ticked, "the tick")
        self.remove(ticker)

    def remove(self, object: AppObject) -> None:
        """Refused while its timer is at work, which it may be."""

        def is_removed() -> bool:
            with suppress(FailedPrecondition):
                self.crowd.remove(object)
                return True
            return False

        self.until(is_removed, "an object cannot be removed", lambda: self.quiet_client.hear(0.001))

    # -- crowd --------------------------------------------------------------------------------------------------------

    def all_at_once(self, seconds: float) -> None:
        """The crowd, for so long; then everything must come to its end."""
        self.now = "the crowd"
        over = threading.Event()
        helpers = [
            threading.Thread(target=self.send_and_hear, args=(client, over), daemon=True) for client in self.clients
        ]
        helpers.append(threading.Thread(target=self.disturb, args=(over,), daemon=True))
        for helper in helpers:
            helper.start()
        over.wait(seconds)
        over.set()
        self.until(
            lambda: not any(helper.is_alive() for helper in helpers),
            "calls are left",
            lambda: helpers[0].join(0.05) if helpers[0].is_alive() else over.wait(0.01) and None,
        )
        if self.backplane.threads_count != self.threads:
            self.backplane.set_threads(self.threads)

    def send_and_hear(self, client: Client, over: threading.Event) -> None:
        pick = client._random
        while not over.is_set() or client.outstanding:
            if len(client.outstanding) < 40 and not over.is_set():
                client.send(*(client.random_call() for _ in range(pick.randrange(1, 6))))
            if client.outstanding and pick.random() < 0.2:
                client.cancel(pick.choice([*client.outstanding]))
            elif client.outstanding and pick.random() < 0.2:
                client.send(Envelope(BOOST, pick.choice([*client.outstanding]), pick.randrange(8)))
            client.hear(0.005)

    def disturb(self, over: threading.Event) -> None:
        pick = random.Random(self.random.random())
        tickers: list[AppObject] = []
        while not over.is_set():
            deed = pick.randrange(7)
            if deed == 0:
                self.backplane.set_threads(pick.randrange(1, 5))
            elif deed == 1:
                self.far.flips += 1
            elif deed == 2:
                self.crowd.members[0].publish("crowd.said", who="a stranger")
            elif deed == 3:
                member = pick.choice(self.crowd.members)
                member.after(pick.choice((0.0, 0.001)), member.note)
            elif deed == 4:
                tickers.append(self.crowd.add(Ticker()))
            else:
                posted = Posted(pick.choice(self.crowd.members), pick.randrange(8))
                self.crowd.post(posted)
                posted.done.wait(STANDSTILL_S)
            over.wait(pick.choice((0.0, 0.001, 0.01)))
        for ticker in tickers:
            self.remove(ticker)

    # -- end ----------------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Nothing is left of all that: no queue, no throttle place, no call, no thread."""
        engine = self.engine

        def is_at_rest() -> bool:
            with engine.lead:
                return not (
                    engine.accepted
                    or engine.limits.requests["crowd"].outstanding
                    or any(action.request is not None for _, _, action in engine.outgoing.calls._calls.values())
                    or any(member._waits for member in self.crowd.members)
                )

        self.until(is_at_rest, f"it does not come to rest: {engine.limits.requests['crowd'].outstanding}", self.a_beat)

    def a_beat(self) -> None:
        self.quiet_client.hear(0.02)

    def close(self) -> None:
        for gate in self.crowd.gates.values():
            gate.open.set()
        self.far.is_over = True
        self.far.join(STANDSTILL_S)
        self.sentinel.stop("the test is over")
        self._sentinel_thread.join(STANDSTILL_S)
        has_ended = self.backplane.stop(STANDSTILL_S)
        self.sentinel.close()
        for client in (self.quiet_client, *self.clients):
            client.close()
        assert has_ended, "a worker did not stop"


@pytest.mark.timeout(300 + 10 * ROUNDS)
@pytest.mark.parametrize(
    ("threads", "preempt"), [(1, False), (1, True), (2, False), (2, True), (4, True)], ids=lambda value: f"{value}"
)
def test_every_call_ends_once_and_nobody_oversleeps(tmp_path: Path, threads: int, preempt: bool) -> None:
    """The promise: at most one execution for a call, and every call ends exactly once, whatever happens meanwhile."""
    before = threading.active_count()
    stress = Stress(tmp_path, threads, preempt=preempt, seed=SEED)
    try:
        for _ in range(ROUNDS):
            for _ in range(20):
                stress.quiet()
            stress.all_at_once(CROWD_S)
            assert not stress.book.problems, stress.book.problems[:10]
        stress.rest()
        assert not stress.book.problems, stress.book.problems[:10]
    finally:
        stress.close()
    assert threading.active_count() <= before, "a thread was left behind"
