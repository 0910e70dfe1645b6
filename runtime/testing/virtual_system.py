"""VirtualSystem: several backplanes and one client in the test's own thread, with the frames between them in the test's hands.

The engines and the client's session are the real ones; each process has a `MemoryLink`. A frame that one sends is in flight
until the test delivers it: `deliver_all` delivers everything that is in flight, which counts as one message time, and
`deliver_one` the oldest frame of one connection, as a seed chooses. A killed backplane may lose the frames that it had sent.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from appbackplane.transport import call_checks, codec
from appbackplane.transport.client_spans import EndedSpans
from appbackplane.transport.dataflow import OperandSource
from appbackplane.transport.directory import Directory, Registration, build
from appbackplane.transport.envelope import CALL, message, reply
from appbackplane.transport.errors import BackplaneError, Cancelled
from appbackplane.transport.events import Ended
from appbackplane.transport.handles import PendingCall
from appbackplane.transport.operand import Operand, settle_operands
from appbackplane.transport.promise import Promise
from appbackplane.transport.session import DIRECTORY_TOPIC, ClientSession
from appbackplane.transport.waitables import ArrivedItems, CallOutcome, Stream

from ..backplane import Backplane
from ..execution.workers.current import current
from ..execution.workers.worker import Worker
from ..objects.component import Component
from ..objects.module_state import ModuleState
from ..process_config import ProcessConfig
from .memory_link import MemoryLink
from .virtual_clock import VirtualClock

#: A test that delivers this many frames without coming to rest is going in circles.
FRAMES_MAX: Final = 1_000_000
_SUPERVISOR: Final = Path("/nowhere/supervisor.sock")
#: The client, as the sender or receiver of a frame.
CLIENT: Final = "client"


class _Process:
    """One generation of a backplane."""

    def __init__(self, system: VirtualSystem, name: str, generation: int, components: Sequence[Component]) -> None:
        self.name, self.generation = name, generation
        self.pid = 1_000 * generation + sum(name.encode())
        self.path = f"/nowhere/{name}-{generation}.sock"
        self.link = MemoryLink(f"{name}-{generation}")
        config = ProcessConfig(
            system="test", backplane=name, run_dir="/nowhere", components=(), preempt=False, generation=generation
        )
        self.backplane = Backplane(config, [*components], clock=system.clock, link=self.link)
        self.backplane.be_virtual(Random(0).random, _no_thread)
        self.worker: Worker = self.backplane.stand_in_worker(0)
        self.components = components

    def registration(self) -> Registration:
        return Registration(self.name, self.generation, self.pid, self.path, self.backplane.entries())

    def rise(self) -> None:
        for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
            for each in self.components:
                self.backplane.engine.lifecycle.move(each.component_name, state, lambda _: None)
                self.run()

    def run(self) -> None:
        """Run until idle, without letting time pass."""
        engine, now_ns = self.backplane.engine, self.backplane.engine.now_ns
        current.worker = self.worker
        try:
            while True:
                engine.drain(now_ns())
                action = engine.choose(self.worker)
                if action is None:
                    break
                engine.complete(action, *engine.execute(self.worker, action))
        finally:
            current.worker = None
        engine.flush(now_ns())


class VirtualSystem:
    """Backplanes by name, and a client. `submit` and `promise` are as those of `Client`."""

    def __init__(self, backplanes: Mapping[str, Callable[[], Sequence[Component]]]) -> None:
        """`backplanes`: for each name, a function that makes its components, also of each later generation."""
        self.clock = VirtualClock()
        #: Frames in flight by connection, the oldest first: (sender, receiver) to (peer as the receiver knows it, frame).
        self.flying: dict[tuple[str, str], deque[tuple[bytes, bytes]]] = {}
        #: Frames delivered so far, by sender and receiver.
        self.delivered: dict[tuple[str, str], int] = {}
        #: Called before each frame is delivered (sender, receiver, frame).
        self.on_frame: Callable[[str, str, bytes], None] | None = None
        self._factories = dict(backplanes)
        self._processes = {name: _Process(self, name, 1, make()) for name, make in backplanes.items()}
        self._version = 0
        self._down: set[str] = set()
        #: By process and peer: the process at the other end, and the peer by which that knows this one.
        self._ends: dict[tuple[str, bytes], tuple[str, bytes]] = {}
        self._supervisor = b""
        self._link = MemoryLink(CLIENT)
        self.session = ClientSession(self._link, _SUPERVISOR)
        self.ended_spans = EndedSpans()
        self._directory = self._publish()
        self.session.start(None, self.clock.now_ns(), call_checks.duration_ns(None))
        self._turn()
        for each in self._processes.values():
            each.rise()
        self.run_until_idle()
        self.delivered.clear()

    def backplane(self, name: str) -> Backplane:
        """The present generation of a backplane."""
        return self._processes[name].backplane

    # -- the client ---------------------------------------------------------------------------------------------------

    def submit(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, idempotency_key: str | None = None, retry: bool = True,
        **keywords: Any,
    ) -> PendingCall:  # fmt: skip
        """Begin a call; its frames are in flight then."""
        spec = call_checks.asked(route, key, priority, timeout, None, keywords, idempotency_key, retry)
        pending = PendingCall(self, route)
        spec.ends_ns = self.clock.now_ns() + spec.timeout_ns
        if spec.operands is not None:
            settle_operands(spec, self)
        try:
            pending._id = self.session.call(pending, spec, self.clock.now_ns())
        except BackplaneError as error:
            pending._id = self.session.call_later(error, pending, self.clock.now_ns(), spec)
        self._turn()
        return pending

    def promise(self, name: str = "") -> Promise:
        return Promise(self, name)

    @property
    def is_closed(self) -> bool:
        return False

    def fill(self, promise: OperandSource, value: Any) -> None:
        self.session.fill(promise, value, self.clock.now_ns())
        self._turn()

    def follow(self, promise: OperandSource, operand: Operand) -> None:
        self.session.follow(promise, operand, self, self.clock.now_ns())
        self._turn()

    def drop_promise(self, promise: OperandSource) -> None:
        self.session.drop_promise(promise)
        self._turn()

    def wait_for(self, pending: CallOutcome, timeout: float | None) -> bool:
        """Run until idle. Raises AssertionError if the call has not ended then."""
        self.run_until_idle()
        assert pending.is_ready, f"{pending} has not ended: time has to pass, or a promise has to be set"
        return True

    def look_once(self) -> None:
        self._turn()

    def cancel(self, pending: CallOutcome) -> bool:
        if pending.is_ready:
            return False
        self.session.cancel(pending._id)
        self._turn()
        return isinstance(pending._error, Cancelled)

    def next_items(self, arrived: ArrivedItems) -> list[Any] | None:
        raise NotImplementedError("streams are tested with a VirtualBackplane")

    def drop(self, arrived: ArrivedItems) -> None:
        raise NotImplementedError("streams are tested with a VirtualBackplane")

    drop_later = drop

    def next_message(self, stream: Stream, timeout: float | None) -> Any:
        raise NotImplementedError("topics are tested with a VirtualBackplane")

    def unsubscribe(self, stream: Stream) -> None:
        raise NotImplementedError("topics are tested with a VirtualBackplane")

    def unconfirmed(self, topic: str) -> tuple[str, ...]:
        raise NotImplementedError("topics are tested with a VirtualBackplane")

    # -- frames -------------------------------------------------------------------------------------------------------

    def deliver_all(self) -> int:
        """Deliver what is in flight, and let everybody react: one message time. Returns the number of frames."""
        now = [(way, frame) for way, frames in self.flying.items() for frame in frames]
        self.flying.clear()
        for (sender, receiver), (peer, frame) in now:
            self._deliver(sender, receiver, peer, frame)
        for receiver in sorted({receiver for (_, receiver), _ in now}):
            self._react(receiver)
        return len(now)

    def deliver(self, sender: str, receiver: str) -> int:
        """Deliver what is in flight on one connection, and let the receiver react. Returns the number of frames."""
        frames = self.flying.pop((sender, receiver), deque())
        for peer, frame in frames:
            self._deliver(sender, receiver, peer, frame)
        self._react(receiver)
        return len(frames)

    def deliver_one(self, random: Random) -> bool:
        """Deliver the oldest frame of one connection. False: nothing is in flight."""
        ways = sorted(way for way, frames in self.flying.items() if frames)
        if not ways:
            return False
        sender, receiver = random.choice(ways)
        peer, frame = self.flying[sender, receiver].popleft()
        self._deliver(sender, receiver, peer, frame)
        self._react(receiver)
        return True

    def run_until_idle(self) -> int:
        """Deliver frames until none is in flight, without letting time pass. Returns the message times that this took."""
        times = 0
        while any(self.flying.values()):
            self.deliver_all()
            times += 1
            assert times < FRAMES_MAX, "it does not come to rest"
        return times

    def advance(self, seconds: float) -> None:
        """Let time pass, in steps at which something is due."""
        end_ns = self.clock.now_ns() + round(seconds * 1e9)
        while True:
            self.run_until_idle()
            wakes = [each.backplane.engine.next_wake_ns() for each in self._processes.values()]
            wakes.append(self.session.next_wake_ns(self.clock.now_ns()))
            due_ns = min((ns for ns in wakes if ns is not None), default=end_ns)
            if self.clock.now_ns() >= end_ns:
                return
            self.clock.move(min(max(due_ns, self.clock.now_ns() + 1_000), end_ns))
            for name in self._processes:
                self._react(name)
            self._turn()

    def kill(self, name: str, *, keeps: Callable[[], bool] = lambda: False) -> None:
        """A backplane dies. Of the frames that it has sent and nobody has received, those arrive for which `keeps()` says so,
        up to the first of each connection that does not.
        """
        killed = self._processes.pop(name)
        self._down.add(name)
        for (sender, receiver), frames in self.flying.items():
            if receiver == name:
                frames.clear()
            elif sender == name:
                while frames and keeps():
                    peer, frame = frames.popleft()
                    self._deliver(sender, receiver, peer, frame)
                frames.clear()
        for (owner, peer), (other, _) in [*self._ends.items()]:
            if other == name and owner != name:
                self._link_of(owner).gone.add(peer)
        for way in [way for way in self._ends if way[0] == name]:
            del self._ends[way]
        killed.backplane.engine.stop_recording()
        self._tell()

    def restart(self, name: str) -> None:
        """The next generation of a killed backplane comes up."""
        generation = max(2, self._generation + 1)
        self._generation = generation
        self._down.discard(name)
        process = self._processes[name] = _Process(self, name, generation, self._factories[name]())
        self._tell()
        process.rise()
        self._react(name)

    _generation = 1

    # -- steps --------------------------------------------------------------------------------------------------------

    def _publish(self) -> Directory:
        self._version += 1
        registrations = [each.registration() for each in self._processes.values()]
        for name in self._down:
            registrations.append(Registration(name, 1, 0, f"/nowhere/{name}-1.sock", self._entries[name]))
        directory = build("test", self._version, registrations, self._down)
        self._entries = {name: each.backplane.entries() for name, each in self._processes.items()} | {
            each.backplane: each.components for each in registrations if each.backplane in self._down
        }
        for each in self._processes.values():
            each.backplane.engine.update(directory, self.clock.now_ns())
        return directory

    _entries: dict[str, Any]

    def _tell(self) -> None:
        self._directory = self._publish()
        news = message(self._version, DIRECTORY_TOPIC, self._directory.to_body())
        self._link.deliver(self._supervisor, codec.batch([codec.Encoder().encode(news)]))
        for name in [*self._processes]:
            self._react(name)
        self._turn()

    def _link_of(self, name: str) -> MemoryLink:
        return self._link if name == CLIENT else self._processes[name].link

    def _deliver(self, sender: str, receiver: str, peer: bytes, frame: bytes) -> None:
        if receiver != CLIENT and receiver not in self._processes:
            return
        if self.on_frame is not None:
            self.on_frame(sender, receiver, frame)
        self.delivered[sender, receiver] = self.delivered.get((sender, receiver), 0) + 1
        self._link_of(receiver).deliver(peer, frame)

    def _react(self, name: str) -> None:
        if name == CLIENT:
            self._turn()
        elif name in self._processes:
            self._processes[name].run()
            self._take_up(name, self._processes[name].link)

    def _take_up(self, name: str, link: MemoryLink) -> None:
        """Put what a process has sent in flight."""
        while link.sent:
            peer, frame = link.sent.popleft()
            end = self._ends.get((name, peer)) or self._connected(name, peer)
            if end is None:
                self._supervise(peer, frame)
            else:
                self.flying.setdefault((name, end[0]), deque()).append((end[1], frame))

    def _connected(self, name: str, peer: bytes) -> tuple[str, bytes] | None:
        """A process has sent its first frame to a peer that it has connected to. None: it is the supervisor."""
        path = peer.rpartition(b" ")[2].decode()
        found = next((each for each in self._processes.values() if each.path == path), None)
        if found is None:
            assert name == CLIENT, f"{name} has sent to {peer!r}, whose process is dead"
            return None
        mine = self._link_of(name)
        known_as = mine.known_as(peer) + b"-%04x" % len(self._ends)
        self._ends[name, peer] = found.name, known_as
        self._ends[found.name, known_as] = name, peer
        found.link.processes[known_as] = 1 if name == CLIENT else self._processes[name].pid
        return self._ends[name, peer]

    def _supervise(self, peer: bytes, frame: bytes) -> None:
        self._supervisor = peer
        for asked in codec.decode(frame):
            if asked.kind == CALL:
                answer = codec.Encoder().encode(reply(asked.id, self._directory.to_body()))
                self._link.deliver(peer, codec.batch([answer]))

    def _turn(self) -> None:
        while True:
            events = self.session.turn(self.clock.now_ns())
            for event in events:
                if isinstance(event, Ended) and isinstance(event.token, CallOutcome):
                    assert not event.token.is_ready, f"{event.token} has ended twice"
                    event.token._result, event.token._error = event.result, event.error
                    event.token.is_ready = True
            events.clear()
            self._take_up(CLIENT, self._link)
            if not (self._link.has_input() or self.session.has_more):
                return


def _no_thread(gate: threading.Lock, limit_s: float) -> bool:
    raise AssertionError("an operation of a virtual system cannot block its thread")
