"""Simulation: one backplane, one thread, a virtual clock, and a world that is full, gone, late and wrong, from one seed.

The real engine takes its turns; all that surrounds it is the test: clients, another backplane with its generations, the
supervisor's directory. Whatever happens, each call of a client that is still there ends exactly once, an operation runs
at most once for it, and in the end nothing is left: no place in a throttle, no wait, no queue, no byte in the outbox.

`SIMULATION_SEEDS` (how many, default 20) and `SIMULATION_SEED` (the first) make it longer, or the same again.
"""

from __future__ import annotations

import enum
import os
import random
from collections import Counter
from typing import Any

import pytest

from appbackplane.runtime import (
    Action,
    AppObject,
    Component,
    Endpoint,
    Outcome,
    Request,
    StateMachine,
    checkpoint,
    every,
    operation,
    pause,
    subscribe,
)
from appbackplane.runtime.objects.module_state import MOVES, ModuleState
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import codec
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import BOOST, CALL, CANCEL, CAST, PUBLISH, REPLY, STATUS, Envelope, reply, status
from appbackplane.transport.errors import BackplaneError, Busy, FailedPrecondition, PeerDown, Status
from tests.profiles import examples

SEEDS = int(os.environ.get("SIMULATION_SEEDS", examples(20)))
FIRST_SEED = int(os.environ.get("SIMULATION_SEED", "0"))
STEPS = 250
CLIENTS = (b"ada", b"bob", b"cleo")


#: What clients call; some of it more often.
OPERATIONS = (
    "quick", "quick", "fail", "think", "think", "ask", "ask", "tell", "digested", "digested", "turn", "enter", "enter", "enter",
    "peep", "parcel",
)  # fmt: skip


class Phase(enum.Enum):
    """Of a gate."""

    OPEN = 1
    SHUT = 2


class Guest(AppObject):
    """Does a little of everything, and notices who is with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.running: str | None = None

    def begin(self, token: str) -> None:
        self.world.began(token)
        if self.running is not None:
            self.world.problems.append(f"{token} runs beside {self.running}")
        self.world.work()

    @operation(priority=3)
    def quick(self, token: str) -> str:
        self.begin(token)
        return token

    @operation(priority=2)
    def fail(self, token: str) -> str:
        self.begin(token)
        raise ValueError(token)

    @operation(priority=6)
    async def think(self, token: str, seconds: float) -> str:
        self.begin(token)
        self.running = token
        try:
            await pause(seconds)
            await checkpoint()
        finally:
            self.running = None
        return token

    @operation(priority=4)
    async def ask(self, token: str, route: str, key: str | None, timeout: float | None) -> str:
        self.begin(token)
        self.running = token
        try:
            answer = await self.request(route, {"token": f"{token}>"}, key=key, timeout=timeout)
            if answer not in ("far", f"{token}>"):
                self.world.problems.append(f"{token} was given the answer {answer!r}")
        except BackplaneError:
            if self.world.random.random() < 0.5:
                raise
        finally:
            self.running = None
        return token

    @operation(priority=5)
    def tell(self, token: str) -> str:
        self.begin(token)
        self.publish("news.here", token=token)
        self.after(self.world.random.random(), self.note)
        try:
            self.cast("party.quick", token=f"{token}>")
            self.cast("far.note", token=token)
        except BackplaneError:
            pass
        return token

    @operation(priority=4, digest="whose")
    def digested(self, token: str) -> str:
        self.begin(token)
        return token

    @subscribe("news.*")
    def on_news(self, token: str) -> None:
        self.world.work()

    def note(self) -> None:
        self.world.work()


class Gate(StateMachine):
    """Lets through while it is open; what comes while it is shut, as it is at first, waits or is refused."""

    initial = Phase.SHUT

    def __init__(self, world: World) -> None:
        self.world = world

    @operation(priority=4)
    def turn(self, token: str) -> str:
        self.world.began(token)
        self.become(Phase.SHUT if self.state is Phase.OPEN else Phase.OPEN)
        return token

    @operation(priority=3, accepted_in=(Phase.OPEN,), otherwise="defer")
    def enter(self, token: str) -> str:
        self.world.began(token)
        return token

    @operation(priority=3, accepted_in=(Phase.OPEN,))
    def peep(self, token: str) -> str:
        self.world.began(token)
        return token


class Ticker(AppObject):
    """Comes and goes."""

    @every(0.3)
    def tick(self) -> None: ...


class Parcel(Action):
    """A foreign protocol's request, in two steps."""

    __slots__ = ("is_opened", "token")

    def __init__(self, object: Guest, request: Request) -> None:
        super().__init__(object, request.route, request.priority, request.deadline_ns)
        self.token, self.is_opened = str(request.body["token"]), False

    def run(self) -> Outcome:
        assert isinstance(self.object, Guest)
        if not self.is_opened:
            self.object.begin(self.token)
            self.is_opened = True
            return Outcome.YIELDED
        self.result = self.token
        return Outcome.DONE


class Post(Endpoint):
    """Takes parcels in."""

    party: Party

    def create_action(self, request: Request) -> Action:
        return Parcel(self.party.guests[0], request)


class Party(Component):
    """Has little room."""

    max_requests = 12
    declares = (Ticker,)

    def __init__(self, world: World) -> None:
        self.world = world
        self.guests = [Guest(world) for _ in range(4)]

    def setup(self) -> None:
        for number, guest in enumerate(self.guests):
            self.add(guest, key=str(number))
        self.add(Gate(self.world), key="gate")
        post = Post("parcel", priority=4)
        post.party = self
        self.expose(post)

    def make_room(self, request: Action) -> bool:
        if self.world.random.random() < 0.1:
            raise ValueError("no idea")
        return self.shed(below=request.priority) > 0

    def whose(self, token: str) -> str:
        self.world.work()
        return self.world.random.choice(("0", "1", "2", "nobody"))

    async def on_primary(self) -> None:
        await pause(self.world.random.random())


class World(VirtualBackplane):
    """Everybody else."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.party = Party(self)
        super().__init__(
            self.party,
            name="here",
            order="deadline" if seed % 2 else "fifo",
            cpu_limit=self.random.choice((None, 50)),
            outside=("far.echo",),
        )
        self.ran: Counter[str] = Counter()
        self.sent: dict[tuple[bytes, int], str] = {}
        self.ends: dict[tuple[bytes, int], list[Envelope]] = {}
        self.asked: list[tuple[bytes, Envelope]] = []
        #: Clients that were away when something may have been said to them.
        self.were_gone: set[bytes] = set()
        self.tickers: list[AppObject] = []
        self._generation, self._version, self._last = 1, 10, 0
        self.seen: Counter[str] = Counter()
        self.problems: list[str] = []

    # -- what the objects do to it ------------------------------------------------------------------------------------

    def began(self, token: str) -> None:
        self.ran[token] += 1
        if self.ran[token] > 1:
            self.problems.append(f"{token} ran twice")

    def work(self) -> None:
        """Time passes, now and then a lot."""
        self.clock.work(self.random.choice((0.0, 0.0, 0.00001, 0.001, 0.05)))

    # -- the far ends -------------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Look at what was sent, to whom."""
        while self.link.sent:
            peer, frame = self.link.sent.popleft()
            for envelope in codec.decode(frame):
                if peer in CLIENTS:
                    if envelope.kind in (REPLY, STATUS):
                        self.ended(peer, envelope)
                elif envelope.kind == CALL:
                    self.asked.append((peer, envelope))

    def ended(self, peer: bytes, envelope: Envelope) -> None:
        key = (peer, envelope.id)
        assert key in self.sent, f"{key} was never asked: {envelope}"
        ends = self.ends.setdefault(key, [])
        ends.append(envelope)
        assert len(ends) == 1, f"{self.sent[key]} ended twice: {ends}"
        if envelope.kind == REPLY:
            assert envelope.body == self.sent[key]
            assert self.ran[envelope.body] == 1
        self.seen["REPLY" if envelope.kind == REPLY else Status(envelope.body[0]).name] += 1

    def say(self, peer: bytes, *envelopes: Envelope) -> None:
        self.link.deliver(peer, codec.batch([codec.Encoder().encode(envelope) for envelope in envelopes]))

    # -- what happens -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        self.random.choice(
            (
                self.a_call, self.a_call, self.a_call, self.a_frame, self.a_cancellation, self.an_answer, self.an_answer,
                self.a_strange_answer, self.time, self.time, self.time, self.a_flip, self.full, self.gone, self.a_topic,
                self.a_cast, self.a_move, self.a_ticker, self.a_limit, self.noise, self.a_post, self.a_boost,
            )
        )()  # fmt: skip
        if self.random.random() < 0.7:
            self.run_until_idle()

    def call_envelope(self, peer: bytes) -> Envelope:
        pick = self.random
        self._last += 1
        operation = pick.choice(OPERATIONS)
        token = f"{self._last}/{operation}"
        body: dict[str, Any] = {"token": token}
        key: str | None = None if pick.random() < 0.5 else pick.choice("0123")
        if operation == "think":
            body["seconds"] = pick.choice((0.0, 0.01, 1.0, 40.0))
        elif operation == "ask":
            route = pick.choice(("far.echo", "far.echo", "party.quick", "party.enter", "party.digested", "nobody.home"))
            body |= {"route": route, "key": None, "timeout": pick.choice((None, 0.01, 1.0))}
        elif operation in ("turn", "enter", "peep"):
            key = None
        self.sent[peer, self._last] = token
        priority = None if pick.random() < 0.6 else pick.randrange(9)
        deadline = pick.choice((None, None, 0, 1_000_000, 2_000_000_000))
        return Envelope(CALL, self._last, priority, f"party.{operation}", key, deadline, None, body)

    def client(self) -> bytes:
        return self.random.choice(CLIENTS)

    def a_call(self) -> None:
        peer = self.client()
        self.say(peer, self.call_envelope(peer))

    def a_frame(self) -> None:
        peer = self.client()
        self.say(peer, *(self.call_envelope(peer) for _ in range(self.random.randrange(2, 20))))

    def a_cancellation(self) -> None:
        """Of something that may be anywhere by now; also in the frame that asks for it."""
        if self.random.random() < 0.3:
            peer = self.client()
            call = self.call_envelope(peer)
            self.say(peer, call, Envelope(CANCEL, call.id))
        elif self.sent:
            peer, id = self.random.choice([key for key in self.sent if key not in self.ends][-20:] or [*self.sent])
            self.say(peer, Envelope(CANCEL, id))

    def a_boost(self) -> None:
        """Law 10, of a call that may be anywhere, or nowhere."""
        if self.sent:
            peer, id = self.random.choice([*self.sent][-20:])
            self.say(peer, Envelope(BOOST, id, self.random.randrange(-1, 10)))

    def an_answer(self) -> None:
        if self.asked:
            peer, envelope = self.asked.pop(self.random.randrange(len(self.asked)))
            answer = reply(envelope.id, "far") if self.random.random() < 0.6 else status(envelope.id, Busy("far"))
            self.say(peer, *[answer] * self.random.choice((1, 1, 2)))

    def a_strange_answer(self) -> None:
        """Of the wrong peer, or to nothing that was asked."""
        id = self.asked[-1][1].id if self.asked else 4711
        self.say(self.client(), self.random.choice((reply(id, "x"), status(id, PeerDown("x")), Envelope(CANCEL, id))))

    def time(self) -> None:
        self.advance(self.random.choice((0.0, 0.001, 0.1, 0.7)))

    def a_flip(self) -> None:
        """The other backplane dies, or comes back; now and then in one version."""
        is_up = self.random.random() < 0.6
        self._generation += is_up
        self._version += 1
        place = Place(self._generation, f"/nowhere/outside-{self._generation}.sock", is_up)
        directory = Directory(
            "test", self._version, {"outside": place, "here": Place(1, "/nowhere/here-1.sock")},
            {"far.echo": ("outside",), "far.note": ("outside",)}, {"news.*": ("outside",)},
        )  # fmt: skip
        engine = self.backplane.engine
        engine.update(directory, self.clock.now_ns())

    def peers(self) -> list[bytes]:
        return [*CLIENTS, *self.backplane.engine.routing.connections._names]

    def full(self) -> None:
        self.link.full = {peer for peer in self.peers() if self.random.random() < 0.3}

    def gone(self) -> None:
        self.link.gone = {peer for peer in self.peers() if self.random.random() < 0.1}
        self.were_gone |= self.link.gone

    def a_topic(self) -> None:
        self.say(
            self.client(),
            Envelope(PUBLISH, self.random.randrange(9), None, "news.far", None, None, None, {"token": "n"}),
        )

    def a_cast(self) -> None:
        self._last += 1
        self.say(
            self.client(), Envelope(CAST, 0, None, "party.quick", None, None, None, {"token": f"{self._last}/cast"})
        )

    def a_move(self) -> None:
        serves = self.party.state in (ModuleState.PRIMARY, ModuleState.SECONDARY)
        if not serves or self.random.random() < 0.1:
            ways = [
                to
                for to in MOVES[self.party.state]
                if serves or to is not ModuleState.DOWN or self.random.random() < 0.1
            ]
            self.backplane.engine.lifecycle.move("party", self.random.choice(sorted(ways)), lambda error: None)

    def a_ticker(self) -> None:
        if self.tickers and self.random.random() < 0.5:
            ticker = self.tickers.pop()
            try:
                self.party.remove(ticker)
            except FailedPrecondition:
                self.tickers.append(ticker)
        else:
            self.tickers.append(self.party.add(Ticker()))

    def a_limit(self) -> None:
        engine = self.backplane.engine
        engine.limits.requests["party"].change(self.random.choice((1, 5, 12, 100)))
        engine.scheduler.budget.change(self.random.choice((None, 20, 100)))

    def noise(self) -> None:
        self.link.deliver(self.client(), self.random.randbytes(self.random.randrange(20)))

    def a_post(self) -> None:
        self._last += 1
        request = Request("party.posted", None, {"token": f"{self._last}/post"}, self.random.randrange(8), None)
        self.party.post(Parcel(self.random.choice(self.party.guests), request))

    # -- the end ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everybody reads again, the component serves again, and every deadline passes."""
        engine = self.backplane.engine
        self.link.full, self.link.gone = set(), set()
        engine.scheduler.budget.change(None)
        self.advance(100.0)
        for ticker in self.tickers:
            self.party.remove(ticker)
        if self.party.state is not ModuleState.DOWN:
            engine.lifecycle.move("party", ModuleState.DOWN, lambda error: None)
        self.advance(100.0)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_is_lost_and_nothing_is_left(seed: int) -> None:
    """The promise of TRAPS: at most one execution for a call; every call ends exactly once."""
    world = World(seed)
    _ = world.backplane
    for _ in range(STEPS):
        world.step()
    world.settle()
    lost = {token: key for key, token in world.sent.items() if key not in world.ends and key[0] not in world.were_gone}
    assert not lost and not world.problems
    engine = world.backplane.engine
    assert not engine.accepted
    assert not engine.outbox
    assert not len(engine.outgoing.calls) and engine.deferring.next_deadline_ns() is None
    assert not engine.scheduler.waiting_count and not engine.scheduler.queued_count and not engine.scheduler.ready.count
    assert not len(engine.scheduler.timers)
    assert engine.limits.requests["party"].outstanding == 0
    everyone = [one for each in engine.registry.components.values() for one in (each, *each._objects)]
    assert [(object.name, object._load) for object in everyone if object._load] == []
