"""Session: what a client does, without sockets, threads or clocks.

It resolves routes by the directory that the supervisor pushes, numbers calls and ends each exactly once: by its reply, a
status, its deadline, or the death of the process that held it (PEER_DOWN, as soon as a directory says so). It subscribes
at every backplane that is up, and again at each new generation. `turn(now_ns)` flushes, drains and expires, and returns
what happened; whoever owns the link calls it before waiting and after every wake-up (client.py, async_client.py).
"""

import heapq
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from . import addressing
from .batching import Outbox, Sent
from .calls import OutstandingCalls
from .codec import Encoder, decode
from .directory import Directory
from .envelope import CALL, CANCEL, CAST, PUBLISH, REPLY, STATUS, Envelope
from .errors import BackplaneError, Busy, Cancelled, DeadlineExceeded, MalformedFrame, PeerDown, Unavailable, error_from
from .hearing import Hearing
from .resolver import Resolver
from .topics import GapCounter, TopicTable

#: Where the supervisor publishes new versions of the directory.
DIRECTORY_TOPIC = "system.directory"
#: Frames read in one turn, so that a flood of topics cannot keep a caller from its reply, nor from its deadline.
FRAMES_MAX = 64
#: A peer that does not read is offered its frames again after this; ZeroMQ usually wakes us before.
STALLED_RETRY_NS = 10_000_000
#: A place that refused a subscription (starting, busy) is asked again after this; each question may take the second.
SUBSCRIBE_RETRY_NS, SUBSCRIBE_LIMIT_NS = 500_000_000, 5_000_000_000


class LinkPort(Protocol):
    """What a session needs of `link.Link`; nothing here waits."""

    def connect(self, path: Path) -> bytes:
        """The peer to send to."""

    def disconnect(self, peer: bytes) -> None:
        """Forget a peer."""

    def send(self, peer: bytes, frame: bytes) -> Sent:
        """Offer one frame."""

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next (peer, frame), if there is one."""


class Message(NamedTuple):
    """One message of a topic."""

    topic: str
    body: dict[str, Any]
    #: Messages of this publisher and topic that went missing just before this one.
    lost: int = 0


class Ended(NamedTuple):
    """A call is over: `token` is the caller's. Exactly one a call."""

    token: Any
    result: Any
    error: BackplaneError | None


class Heard(NamedTuple):
    """A message for a subscriber."""

    subscriber: Any
    message: Message


class _Fetch(NamedTuple):
    """The session's own call for the directory, on behalf of `token`."""

    token: object


class _Ask(NamedTuple):
    """The session's own call that subscribes it to `topic` at a backplane."""

    name: str
    topic: str


class _Connection(NamedTuple):
    peer: bytes
    generation: int


class ClientSession:
    """One client's side of a system. Not thread-safe: the owner of the link is the owner of this."""

    def __init__(self, link: LinkPort, system: str, supervisor: Path) -> None:
        self.system = system
        self.directory: Directory | None = None
        #: Whether the last turn left frames unread: take another turn before waiting on the link.
        self.has_more = False
        #: Frames and envelopes that made no sense and were dropped.
        self.malformed_count = 0
        self._link = link
        self._supervisor_path = supervisor
        self._supervisor: bytes | None = None
        self._resolver: Resolver | None = None
        self._connections: dict[str, _Connection] = {}
        self._names: dict[bytes, str] = {}
        self._calls: OutstandingCalls[tuple[object, str]] = OutstandingCalls()
        self._outbox = Outbox()
        self._encoder = Encoder()
        self._newest: Directory | None = None
        self._publishes: TopicTable[str] = TopicTable()
        self._numbers: dict[tuple[bytes, str], int] = {}
        self._gaps = GapCounter()
        self._hearing = Hearing()
        self._ask_again: list[tuple[int, _Ask]] = []
        #: What happened outside a turn; the next one hands it over.
        self._events: list[Ended | Heard] = []
        self._has_put = False
        self._now_ns = 0

    # -- what the owner asks for; each begins at the next turn --------------------------------------------------------

    def start(self, token: object, now_ns: int, timeout_ns: int) -> int:
        """Connect to the supervisor and fetch the directory, which also subscribes us to its changes."""
        if self._supervisor is None:
            self._supervisor = self._link.connect(self._supervisor_path)
            self._names[self._supervisor] = addressing.SUPERVISOR
        return self._open(self._supervisor, _Fetch(token), "supervisor.directory", None, None, timeout_ns, {}, now_ns)

    def call(
        self, token: object, now_ns: int, timeout_ns: int,
        route: str, key: str | None, priority: int | None, body: dict[str, Any],
    ) -> int:  # fmt: skip  # hot: scripts/bench call_rtt
        """Begin a call; `token` comes back in an `Ended`. Returns its id. Raises what makes it impossible at once."""
        return self._open(self._peer_for(route, key), token, route, key, priority, timeout_ns, body, now_ns)

    def cast(self, route: str, key: str | None, priority: int | None, body: dict[str, Any]) -> None:
        """A call that nobody waits for."""
        peer = self._peer_for(route, key)
        self._put(peer, Envelope(CAST, 0, priority, route, key, None, None, body))

    def publish(self, topic: str, priority: int | None, body: dict[str, Any]) -> int:
        """To every backplane whose objects hear `topic`; returns how many. Raises `Busy` if one has no room for it."""
        self._expect_directory()
        count, full = 0, []
        for name in self._publishes.matching(topic):
            connection = self._connected(name)
            if connection is not None:
                number = self._numbers.get((connection.peer, topic), 0) + 1
                try:
                    self._put(connection.peer, Envelope(PUBLISH, number, priority, topic, None, None, None, body))
                except Busy:
                    full.append(name)
                self._numbers[connection.peer, topic] = number  # one that found no room is a gap, which its reader sees
                count += 1
        if full:
            raise Busy(f"{', '.join(full)} did not take {topic!r}: it does not read its messages", retry_after=0.1)
        return count

    def cancel(self, id: int) -> None:
        """Take a call back; its `Ended` bears `Cancelled`. One that has ended is left alone."""
        peer = self._calls.peer_of(id)
        if peer is not None:
            self._end(id, peer, None, Cancelled("cancelled by the caller"), self._events)
            self._say_cancel(peer, id)

    def subscribe(self, topic: str, subscriber: object, waiter: object, now_ns: int) -> bool:
        """Hear `topic`. True: `waiter` comes back in an `Ended` once all backplanes know; False: they know already."""
        self._expect_directory()
        for name in self._hearing.add(topic, subscriber):
            self._ask(_Ask(name, topic), now_ns)
        return self._hearing.wait(topic, waiter)

    def unsubscribe(self, topic: str, subscriber: object) -> None:
        """Hear it no longer."""
        for name in self._hearing.remove(topic, subscriber):
            connection = self._connected(name)
            if connection is not None:
                route = addressing.backplane_route(name, "unsubscribe")
                self._put(connection.peer, Envelope(CAST, 0, None, route, None, None, None, {"topic": topic}))

    # -- what happens -------------------------------------------------------------------------------------------------

    def turn(self, now_ns: int) -> list[Ended | Heard]:  # hot: scripts/bench call_rtt
        """Send what waits, read what came, end what is overdue. Until it has been called, do not wait on the link."""
        events, self._events = self._events, []
        self._now_ns = now_ns
        while True:
            if self._outbox:
                self._has_put = False
                self._flush(events)
            self._drain(events)
            if self._newest is not None:  # after all that came with it: a place may have answered before it died
                directory, self._newest = self._newest, None
                self._adopt(directory, events)
            self._expire(events)
            if not self._has_put:
                return events

    def system_gone(self, because: str) -> None:
        """The supervisor is gone, and its backplanes with it: end all calls. `start` may be called again."""
        for name in list(self._connections):
            self._lose(name, because, self._events)
        if self._supervisor is not None:
            self._lose_peer(self._supervisor, because, self._events)
            self._supervisor = None
        self.directory = self._newest = self._resolver = None

    def end_all(self, error: BackplaneError) -> list[Ended | Heard]:
        """The owner closes: every outstanding call ends now."""
        events, self._events = self._events, []
        for peer in list(self._names):
            for _, (token, _route) in self._calls.fail_peer(peer):
                self._finish(token, None, error, events)
        return events

    def next_wake_ns(self, now_ns: int) -> int | None:
        """When the next turn is due though nothing comes; None: never."""
        wakes = [self._calls.next_deadline_ns()]
        if self._ask_again:
            wakes.append(self._ask_again[0][0])
        if self._outbox or self.has_more or self._events:
            wakes.append(now_ns + STALLED_RETRY_NS if self._outbox.stalled else now_ns)
        return min((wake for wake in wakes if wake is not None), default=None)

    @property
    def outstanding_count(self) -> int:
        """Calls that have not ended."""
        return len(self._calls)

    @property
    def late_count(self) -> int:
        """Answers that came for calls which had ended."""
        return self._calls.late_count

    @property
    def lost_count(self) -> int:
        """Messages of topics that went missing on the way."""
        return self._gaps.lost_count

    # -- out ----------------------------------------------------------------------------------------------------------

    def _open(
        self, peer: bytes, token: object, route: str, key: str | None, priority: int | None,
        timeout_ns: int, body: dict[str, Any], now_ns: int,
    ) -> int:  # fmt: skip
        id = self._calls.open(peer, now_ns + timeout_ns, (token, route))
        try:
            self._put(peer, Envelope(CALL, id, priority, route, key, timeout_ns, None, body))
        except BackplaneError:
            self._calls.end(id)
            raise
        return id

    def _put(self, peer: bytes, envelope: Envelope) -> None:
        self._has_put = True
        if not self._outbox.add(peer, self._encoder.encode(envelope)):
            raise Busy(f"{self._names[peer]} does not read its messages: no room for more", retry_after=0.1)

    def _say_cancel(self, peer: bytes, id: int) -> None:
        # Full: the callee checks the deadline by itself, so a lost CANCEL costs work, never a second answer.
        self._has_put = True
        self._outbox.add(peer, self._encoder.encode(Envelope(CANCEL, id)))

    def _flush(self, events: list[Ended | Heard]) -> None:
        for peer in self._outbox.flush(self._link.send):
            self._fail_calls(peer, f"{self._names.get(peer, 'the peer')} cannot be reached", events)

    # -- in -----------------------------------------------------------------------------------------------------------

    def _drain(self, events: list[Ended | Heard]) -> None:
        receive = self._link.receive
        for _ in range(FRAMES_MAX):
            try:
                received = receive()
                if received is None:
                    self.has_more = False
                    return
                peer, frame = received
                envelopes = decode(frame)
            except MalformedFrame:
                self.malformed_count += 1
                continue
            for envelope in envelopes:
                self._take(peer, envelope, events)
        self.has_more = True

    def _take(self, peer: bytes, envelope: Envelope, events: list[Ended | Heard]) -> None:
        kind = envelope.kind
        if kind == REPLY:
            self._end(envelope.id, peer, envelope.body, None, events)
        elif kind == STATUS:
            self._end(envelope.id, peer, None, error_from(*envelope.body), events)
        elif kind == PUBLISH and envelope.route is not None:
            lost = self._gaps.gap_before(peer, envelope.route, envelope.id)
            if envelope.route == DIRECTORY_TOPIC and peer == self._supervisor:
                self._note(envelope.body)
            message = Message(envelope.route, envelope.body, lost)
            events += [Heard(subscriber, message) for subscriber in self._hearing.table.matching(envelope.route)]
        else:
            self.malformed_count += 1  # nobody calls a client

    def _end(
        self, id: int, peer: bytes, result: Any, error: BackplaneError | None, events: list[Ended | Heard]
    ) -> None:  # hot: scripts/bench call_rtt
        ended = self._calls.end(id, peer)
        if ended is not None:
            self._finish(ended[0], result, error, events)

    def _finish(self, token: object, result: Any, error: BackplaneError | None, events: list[Ended | Heard]) -> None:
        if type(token) is _Fetch:
            if error is None and not self._note(result):
                error = Unavailable(f"the supervisor of {self.system!r} sent no directory")
            events.append(Ended(token.token, None, error))
        elif type(token) is _Ask:
            self._asked(token, error, events)
        else:
            events.append(Ended(token, result, error))

    def _expire(self, events: list[Ended | Heard]) -> None:
        for id, peer, (token, route) in self._calls.expire(self._now_ns):
            self._finish(token, None, DeadlineExceeded(f"{route}: no answer in time"), events)
            self._say_cancel(peer, id)
        while self._ask_again and self._ask_again[0][0] <= self._now_ns:
            self._ask(heapq.heappop(self._ask_again)[1], self._now_ns)

    # -- the directory ------------------------------------------------------------------------------------------------

    def _note(self, body: Any) -> bool:
        try:
            directory = Directory.from_body(body)
        except msgspec.ValidationError:
            self.malformed_count += 1
            return False
        known = self._newest or self.directory
        if known is None or directory.version > known.version:
            self._newest = directory
        return True

    def _adopt(self, directory: Directory, events: list[Ended | Heard]) -> None:
        self.directory, self._resolver = directory, Resolver(directory)
        self._publishes = TopicTable()
        for topic, names in directory.topics.items():
            for name in names:
                self._publishes.add(topic, name)
        for name, connection in list(self._connections.items()):
            place = directory.backplanes.get(name)
            if place is None or not place.is_up or place.generation != connection.generation:
                self._lose(name, f"backplane {name!r} died; whether the work ran is not known", events)
        for name, place in directory.backplanes.items():
            if place.is_up and name not in self._hearing.places:
                for topic in self._hearing.place_up(name):
                    self._ask(_Ask(name, topic), self._now_ns)
            elif not place.is_up
    def _lose(self, name: str, because: str, events: list[Ended | Heard]) -> None:
        self._lose_peer(self._connections.pop(name).peer, because, events)

    def _lose_peer(self, peer: bytes, because: str, events: list[Ended | Heard]) -> None:
        self._fail_calls(peer, because, events)
