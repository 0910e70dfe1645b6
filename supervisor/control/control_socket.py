"""Control socket: what the supervisor hears and says on `supervisor.sock` (who says what: docs/architecture.md).

Backplanes connect under an identity as described in identities.py, clients under any other. Nobody here can make the
supervisor wait or fail: nothing blocks, a malformed frame is counted and reported once a peer, every call ends by its limit,
and a subscriber that does not read gets the newest directory once it reads again instead of every one in between.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appbackplane.transport.batching import Outbox
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.codec import Encoder, Frame, decode, head
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import (
    CALL,
    CANCEL,
    REPLY,
    STATUS,
    Envelope,
    call,
    cast,
    due_ns,
    message,
    reply,
    status,
)
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    InvalidArgument,
    MalformedFrame,
    Unavailable,
    error_from,
)
from appbackplane.transport.link import Link

from ..direction.effects import Caller
from ..poller import Poller
from .door import LOOK_NS, Door, descriptors_max
from .identities import Identities

#: Where clients hear new versions of the directory.
DIRECTORY_TOPIC = "system.directory"
#: Frames read in one turn, so that whoever floods us does not keep us from a death.
FRAMES_MAX = 64
#: A frame of a registration is a few KiB, of ten thousand routes about 2 MiB. Decoding may take seventy times what came
#: (TRAPS 14).
FRAME_BYTES_MAX = 2 << 20
#: Clients that hear of new directories; each costs a frame a version.
SUBSCRIBERS_MAX = 10_000
#: So many, or twice those that were found alive the last time, and it is looked for those that have gone: each command
#: that somebody types is one. A look costs a frame each, so its share in the cost of one client stays about one frame.
SWEEP_MIN = 256
#: Peers whose malformed frames have been reported; beyond it they are counted only.
REPORTED_MAX = 1_000
#: A peer that does not read is offered its frames again after this; ZeroMQ does not say when there is room.
STALLED_RETRY_NS = 20_000_000
#: That there is no room may begin and end ten times a second; a line a minute is enough for an operator.
CROWDED_EVERY_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody calls one of our routes."""

    caller: Caller
    route: str
    body: dict[str, Any]
    #: The backplane and the generation over whose control link it came; None: a client asks.
    sender: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A call of ours has ended: `error` is None when it went well. Exactly one a call."""

    token: Any
    result: Any
    error: BackplaneError | None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A peer sent what makes no sense, for the first time."""

    peer: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Crowded:
    """There are no descriptors for further connections; told once a minute."""

    descriptors_max: int


Heard = Asked | Answered | Malformed | Crowded


class ControlSocket:
    """The supervisor's one socket."""

    def __init__(self, path: Path) -> None:
        self._link = Link("supervisor")
        try:
            self._link.bind(path)
        except BaseException:
            self._link.close()
            raise
        self.identities = Identities()
        self._door = Door(path)
        #: When the door is looked after next though nobody has come; None: not while it is open.
        self._door_ns: int | None = None
        self._link.accepted_fileno()
        self._encoder = Encoder()
        self._outbox = Outbox()
        self._calls: OutstandingCalls[tuple[object, str, int]] = OutstandingCalls()
        #: Subscriber to the number of the last version it was sent.
        self._subscribers: dict[bytes, int] = {}
        #: How many there are when those that have gone are looked for.
        self._sweep_at = SWEEP_MIN
        self._behind: set[bytes] = set()
        self._directory: Directory | None = None
        self._reported: set[bytes] = set()
        self._ended: list[Heard] = []
        #: Frames that made no sense, and answers that found no room with those who asked.
        self.malformed_count = self.unanswered_count = 0
        #: From when on it is told again that there is no room.
        self._crowded_ns = 0
        #: Whether the last turn left something to do at once.
        self.has_more = False

    def watch(self, poller: Poller) -> None:
        """Have each turn come when there is something to do for it."""
        poller.watch(self._link.fileno(), lambda: None)
        poller.watch(self._link.accepted_fileno(), lambda: None)

    # Say

    def call(self, peer: bytes, route: str, body: dict[str, Any], token: object, now_ns: int, limit_ns: int) -> None:
        """`token` comes back in an `Answered`, at the limit at the latest."""
        id = self._calls.open(peer, now_ns + limit_ns, (token, route, limit_ns))
        try:
            self._put(peer, call(id, CallSpec(route, body, priority=0), limit_ns))
        except BackplaneError as error:
            self._calls.end(id)
            self._ended.append(Answered(token, None, error))

    def cast(self, peer: bytes, route: str, body: dict[str, Any]) -> bool:
        """False: the peer does not read, and has no room for it."""
        try:
            self._put(peer, cast(CallSpec(route, body, priority=0)))
        except BackplaneError:
            return False
        return True

    def reply(self, caller: Caller, result: Any) -> None:
        """Answer a call."""
        try:
            self._put(caller.peer, reply(caller.id, result))
        except InvalidArgument as error:
            self.refuse(caller, error)
        except Busy:
            self.unanswered_count += 1

    def refuse(self, caller: Caller, error: BackplaneError) -> None:
        """End a call with a status."""
        try:
            self._put(caller.peer, status(caller.id, error))
        except Busy:
            self.unanswered_count += 1

    def subscribe(self, peer: bytes) -> None:
        """Have it hear of new directories. Raises `Busy`."""
        if peer not in self._subscribers:
            if len(self._subscribers) >= self._sweep_at:
                self._sweep()
            if len(self._subscribers) >= SUBSCRIBERS_MAX:
                raise Busy(f"{SUBSCRIBERS_MAX} clients hear of new directories already", retry_after=1.0)
            self._subscribers[peer] = 0

    def publish(self, directory: Directory) -> None:
        """A new version, to all subscribers."""
        self._directory = directory
        self._behind.update(self._subscribers)
        self._catch_up()

    # Hear

    def turn(self, now_ns: int) -> tuple[list[Heard], list[bytes]]:
        """Send what waits, read what came, end what is overdue: (what was heard, peers that cannot be reached)."""
        gone = self._flush()
        heard, self._ended = self._ended, []
        self._look_at_door(heard, now_ns)
        for peer in gone:
            self._fail(peer, "cannot be reached", heard)
        read = self._drain(heard, now_ns)
        for _, _, (token, route, limit_ns) in self._calls.expire(now_ns):
            heard.append(Answered(token, None, DeadlineExceeded(f"{route}: no answer within {limit_ns / 1e9:g} s")))
        # Sending may bring something in that the descriptor, being edge-triggered, will not tell of: look once more.
        self.has_more = read > 0 or bool(gone) or bool(self._ended)
        return heard, gone

    def forget(self, peer: bytes) -> None:
        """It is dead: nothing is sent to it any more, and its calls end."""
        self._outbox.forget(peer)
        self._subscribers.pop(peer, None)
        self._behind.discard(peer)
        self._reported.discard(peer)
        self._fail(peer, "has died", self._ended)

    def next_wake_ns(self, now_ns: int) -> int | None:
        """When the next turn is due though nothing comes; None: never."""
        wakes = [self._calls.next_deadline_ns(), self._door_ns]
        if self._outbox:
            wakes.append(now_ns + STALLED_RETRY_NS if self._outbox.stalled else now_ns)
        if self.has_more or self._ended:
            wakes.append(now_ns)
        return min((wake for wake in wakes if wake is not None), default=None)

    def close(self) -> None:
        """Offer what is left once more; then the socket file is gone."""
        self._flush()
        self._door.close()
        self._link.close()

    def _look_at_door(self, heard: list[Heard], now_ns: int) -> None:
        if not self._link.has_accepted() and (self._door_ns is None or now_ns < self._door_ns):
            return
        try:
            self._door.look()
            is_crowded = self._door.is_shut
        except OSError:  # not one is left to look with
            is_crowded = True
        self._door_ns = now_ns + LOOK_NS if is_crowded else None
        if is_crowded and now_ns >= self._crowded_ns:
            self._crowded_ns = now_ns + CROWDED_EVERY_NS
            heard.append(Crowded(descriptors_max()))

    def _put(self, peer: bytes, envelope: Envelope) -> None:
        if not self._outbox.add(peer, self._encoder.encode(envelope)):
            raise Busy("it does not read its messages: no room for more", retry_after=0.1)

    def _flush(self) -> list[bytes]:
        if not self._outbox:
            return []
        gone = self._outbox.flush(self._link.send)
        for peer in gone:
            self._subscribers.pop(peer, None)
            self._behind.discard(peer)
        if self._behind:
            self._catch_up()
        return gone

    def _catch_up(self) -> None:
        """The newest directory, to whoever reads."""
        assert self._directory is not None
        body = self._directory.to_body()
        for peer in self._behind - self._outbox.stalled:
            self._behind.discard(peer)
            self._subscribers[peer] = number = self._subscribers[peer] + 1
            self._put(peer, message(number, DIRECTORY_TOPIC, body))

    def _sweep(self) -> None:
        """Clients go without a word: offer each the directory it has, and those that cannot be reached are forgotten."""
        if self._directory is not None:
            self.publish(self._directory)
            self._flush()
        self._sweep_at = min(SUBSCRIBERS_MAX, max(SWEEP_MIN, 2 * len(self._subscribers)))

    def _fail(self, peer: bytes, because: str, heard: list[Heard]) -> None:
        for _, (token, route, _) in self._calls.fail_peer(peer):
            heard.append(Answered(token, None, Unavailable(f"{route}: its process {because}")))

    def _drain(self, heard: list[Heard], now_ns: int) -> int:
        for read in range(FRAMES_MAX):
            peer = b""
            try:
                received = self._link.receive()
                if received is None:
                    return read
                peer, frame = received
                if len(frame) > FRAME_BYTES_MAX:
                    self._take_large(peer, frame, heard)
                    continue
                for envelope in decode(frame):
                    self._take(peer, envelope, heard, now_ns)
            except MalformedFrame as error:
                self.malformed_count += 1
                if peer not in self._reported and len(self._reported) < REPORTED_MAX:
                    self._reported.add(peer)
                    heard.append(Malformed(peer, error.message))
        return FRAMES_MAX

    def _take_large(self, peer: bytes, frame: Frame, heard: list[Heard]) -> None:
        """Whoever waits for what is too large to be read is told, here or there: silence would be thirty seconds of it."""
        kind, id = head(frame) or (0, 0)
        because = f"{len(frame):,} bytes exceed the limit of {FRAME_BYTES_MAX:,} for what the supervisor is told"
        if kind == CALL:
            self.refuse(Caller(peer, id), InvalidArgument(because))
        elif kind in (REPLY, STATUS):
            call = self._calls.end(id, peer)
            if call is not None:
                heard.append(Answered(call[0], None, InvalidArgument(f"{call[1]}: an answer of {because}")))
        else:
            raise MalformedFrame(because)

    def _take(self, peer: bytes, envelope: Envelope, heard: list[Heard], now_ns: int) -> None:
        kind = envelope.kind
        if kind == CALL:
            assert envelope.route is not None
            if envelope.deadline is not None and due_ns(envelope.deadline, now_ns) <= now_ns:
                late = DeadlineExceeded(f"{envelope.route}: it came after its deadline")
                self.refuse(Caller(peer, envelope.id), late)
                return
            sender = self.identities.generation_of(peer)
            heard.append(Asked(Caller(peer, envelope.id), envelope.route, envelope.body, sender))
        elif kind in (REPLY, STATUS):
            call = self._calls.end(envelope.id, peer)
            if call is not None:
                error = error_from(*envelope.body) if kind == STATUS else None
                heard.append(Answered(call[0], None if error else envelope.body, error))
        elif kind != CANCEL:  # what we do takes no longer than taking it back
            raise MalformedFrame(f"the supervisor takes calls and answers, not kind {kind}")


def allow_descriptors() -> None:
    """As many as we may have: an ipc listener that runs out of them aborts the process (TRAPS 1)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
