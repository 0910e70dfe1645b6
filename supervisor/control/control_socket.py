"""Control socket: receives and sends on `supervisor.sock` (table of routes: docs/architecture.md).

Backplanes connect under an identity as described in identities.py, clients under any other. No peer can make the supervisor
wait or fail: nothing blocks, a malformed frame is counted and reported once a peer, and every call ends by its limit. A
subscriber that does not read gets only the newest directory once it reads again.
"""

from __future__ import annotations

import resource
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from appbackplane.transport.accept_gate import AcceptGate
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
from appbackplane.transport.local_links import Kind, local_link
from appbackplane.transport.salvage import Salvaged, salvage

from ..direction.effects import Caller
from ..poller import Poller
from .identities import Identities

#: Topic on which clients receive new versions of the directory.
DIRECTORY_TOPIC = "system.directory"
#: Frames read in one iteration, and calls of clients served in it, so that a flood does not delay the detection of a death: a
#: frame holds up to 4,096 calls, and `status` of a large system takes 10 ms. After a frame that brings the calls of clients to
#: `CALLS_READ_MAX`, or the bytes to `FRAME_BYTES_MAX`, no more are read in this iteration: a malformed frame of 1 MiB takes
#: 0.2 s.
FRAMES_MAX, CALLS_MAX, CALLS_READ_MAX = 64, 16, 4_096
#: Calls of clients read and not served yet, and bytes of their frames. Clients are served in turn, and each may have an equal
#: share; beyond it, its calls are refused. They are not left unread, as frames of backplanes and other clients would be behind
#: them: 32 frames of 4,000 calls of `status` kept a backplane that had been started again from registering for a minute.
CALLS_WAITING_MAX, BYTES_WAITING_MAX = 4_096, 64 << 20
#: A registration takes a few KiB, with ten thousand routes about 2 MiB. Decoding may take seventy times the frame's size
#: (TRAPS 14).
FRAME_BYTES_MAX = 2 << 20
#: Subscribers to new directories; each costs a frame a version.
SUBSCRIBERS_MAX = 10_000
#: Subscribers at which dead ones are looked for: this many, or twice those found alive the last time. Each command that
#: somebody types is one. The search costs a frame each, so its share in the cost of one client stays about one frame.
SWEEP_MIN = 256
#: Peers whose malformed frames have been reported; frames of further peers are only counted.
REPORTED_MAX = 1_000
#: Retry interval for a peer that does not read; ZeroMQ does not report when there is room.
STALLED_RETRY_NS = 20_000_000


class SupervisorCall(msgspec.Struct, frozen=True):
    """A call to one of the supervisor's routes."""

    caller: Caller
    route: str
    body: dict[str, Any]
    #: (backplane, generation) whose control link carried the call; None: a client's call.
    sender: tuple[str, int] | None = None


class Answered(msgspec.Struct, frozen=True):
    """The end of a call that the supervisor made; exactly one a call. `error`: None on success."""

    token: Any
    result: Any
    error: BackplaneError | None


class MalformedPeer(msgspec.Struct, frozen=True):
    """The first malformed frame of a peer."""

    peer: bytes
    reason: str


class Crowded(msgspec.Struct, frozen=True):
    """Too few descriptors are left for further connections; reported once a minute at most."""

    line: str


Heard = SupervisorCall | Answered | MalformedPeer | Crowded


class ControlSocket:
    """The supervisor's ROUTER socket, its outstanding calls and its subscribers."""

    def __init__(self, path: Path, kind: Kind = "zeromq") -> None:
        """`kind`: of the link."""
        self._link = local_link(kind, "supervisor")
        try:
            self._link.bind(path)
            self._gate = AcceptGate(path) if kind == "zeromq" else None
        except BaseException:
            self._link.close()
            raise
        self.identities = Identities()
        self._encoder = Encoder()
        self._outbox = Outbox()
        self._calls: OutstandingCalls[tuple[object, str, int]] = OutstandingCalls()
        #: Subscriber to the number of the last version sent to it.
        self._subscribers: dict[bytes, int] = {}
        #: Number of subscribers at which dead ones are looked for next.
        self._sweep_at = SWEEP_MIN
        self._behind: set[bytes] = set()
        self._directory: Directory | None = None
        self._reported: set[bytes] = set()
        self._ended: list[Heard] = []
        #: Calls of clients that have been read and not served, by client; the client that is next first.
        #: Each with its share of the bytes of its frame.
        self._waiting: dict[bytes, deque[tuple[Envelope, int]]] = {}
        self._waiting_count = self._waiting_bytes = 0
        #: Calls of clients that this iteration has read; and the share of each of them in the bytes of the latest frame.
        self._read_count = self._share_bytes = 0
        #: Malformed frames; replies that were dropped because the caller does not read.
        self.malformed_count = self.unanswered_count = 0
        #: Whether the last iteration left work to do at once.
        self.has_more = False

    def watch(self, poller: Poller) -> None:
        """Register the descriptors that wake the loop for `turn`."""
        poller.watch(self._link.fileno(), lambda: None)
        if self._gate is not None:
            poller.watch(self._gate.fileno(), lambda: None)

    # Send

    def call(self, peer: bytes, route: str, body: dict[str, Any], token: object, now_ns: int, limit_ns: int) -> None:
        """Call a peer. `token` comes back in its `Answered`, after `limit_ns` at the latest."""
        id = self._calls.open(peer, now_ns + limit_ns, (token, route, limit_ns))
        try:
            self._put(peer, call(id, CallSpec(route, body, priority=0), limit_ns))
        except BackplaneError as error:
            self._calls.end(id)
            self._ended.append(Answered(token, None, error))

    def cast(self, peer: bytes, route: str, body: dict[str, Any]) -> bool:
        """Send without a reply. False: dropped, because the peer does not read."""
        try:
            self._put(peer, cast(CallSpec(route, body, priority=0)))
        except BackplaneError:
            return False
        return True

    def reply(self, caller: Caller, result: Any) -> None:
        """Send the result of a call; dropped and counted if the caller does not read."""
        try:
            self._put(caller.peer, reply(caller.id, result))
        except InvalidArgument as error:
            self.refuse(caller, error)
        except Busy:
            self.unanswered_count += 1

    def refuse(self, caller: Caller, error: BackplaneError) -> None:
        """End a call with an error; dropped and counted if the caller does not read."""
        self._refuse(caller.peer, status(caller.id, error))

    def subscribe(self, peer: bytes) -> None:
        """Send new directories to this peer. Raises `Busy`."""
        if peer not in self._subscribers:
            if len(self._subscribers) >= self._sweep_at:
                self._sweep()
            if len(self._subscribers) >= SUBSCRIBERS_MAX:
                raise Busy(
                    f"{SUBSCRIBERS_MAX} clients are subscribed to new directories already, no more are taken",
                    retry_after=1.0,
                )
            self._subscribers[peer] = 0

    def publish(self, directory: Directory) -> None:
        """Send a new version to all subscribers that read."""
        self._directory = directory
        self._behind.update(self._subscribers)
        self._catch_up()

    # Receive

    def turn(self, now_ns: int) -> tuple[list[Heard], list[bytes]]:
        """Send queued frames, receive, expire calls. Returns (events, unreachable peers)."""
        gone = self._flush()
        heard, self._ended = self._ended, []
        if self._gate is not None and (line := self._gate.look(now_ns)) is not None:
            heard.append(Crowded(line))
        for peer in gone:
            self._fail(peer, "cannot be reached", heard)
        read = self._drain(heard, now_ns)
        self._serve_clients(heard, now_ns)
        for _, _, (token, route, limit_ns) in self._calls.expire(now_ns):
            heard.append(Answered(token, None, DeadlineExceeded(f"{route}: no answer within {limit_ns / 1e9:g} s")))
        # The edge-triggered descriptor does not report frames that arrived during a send: poll once more.
        self.has_more = read > 0 or bool(gone) or bool(self._ended) or bool(self._waiting)
        return heard, gone

    def forget(self, peer: bytes) -> None:
        """The peer is dead: drop its queued frames and end its calls."""
        self._outbox.forget(peer)
        self._subscribers.pop(peer, None)
        self._behind.discard(peer)
        self._reported.discard(peer)
        self._fail(peer, "has died", self._ended)

    def next_wake_ns(self, now_ns: int) -> int | None:
        """When `turn` is due even if nothing arrives; None: never."""
        wakes = [self._calls.next_deadline_ns(), None if self._gate is None else self._gate.due_ns]
        if self._outbox:
            wakes.append(now_ns + STALLED_RETRY_NS if self._outbox.stalled else now_ns)
        if self.has_more or self._ended:
            wakes.append(now_ns)
        return min((wake for wake in wakes if wake is not None), default=None)

    def close(self) -> None:
        """Flush once more, then close; the socket file is gone afterwards."""
        self._flush()
        if self._gate is not None:
            self._gate.close()
        self._link.close()

    def _put(self, peer: bytes, envelope: Envelope) -> None:
        if not self._outbox.add(peer, self._encoder.encode(envelope)):
            raise Busy("the recipient does not read its messages: its queue here is full", retry_after=0.1)

    def _refuse(self, peer: bytes, refusal: Envelope) -> None:
        try:
            self._put(peer, refusal)
        except Busy:
            self.unanswered_count += 1

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
        """Send the newest directory to every subscriber that reads."""
        assert self._directory is not None
        body = self._directory.to_body()
        for peer in self._behind - self._outbox.stalled:
            self._behind.discard(peer)
            self._subscribers[peer] = number = self._subscribers[peer] + 1
            self._put(peer, message(number, DIRECTORY_TOPIC, body))

    def _sweep(self) -> None:
        """Clients leave silently: send each its directory again, and forget those that cannot be reached."""
        if self._directory is not None:
            self.publish(self._directory)
            self._flush()
        self._sweep_at = min(SUBSCRIBERS_MAX, max(SWEEP_MIN, 2 * len(self._subscribers)))

    def _fail(self, peer: bytes, because: str, heard: list[Heard]) -> None:
        for _, (token, route, _) in self._calls.fail_peer(peer):
            heard.append(Answered(token, None, Unavailable(f"{route}: its process {because}")))

    def _drain(self, heard: list[Heard], now_ns: int) -> int:
        self._read_count = read_bytes = 0
        for read in range(FRAMES_MAX):
            if self._read_count >= CALLS_READ_MAX or read_bytes >= FRAME_BYTES_MAX:
                return read
            peer = b""
            try:
                received = self._link.receive()
                if received is None:
                    return read
                peer, frame = received
                self._share_bytes = len(frame)
                read_bytes += len(frame)
                if len(frame) > FRAME_BYTES_MAX:
                    self._take_large(peer, frame, heard)
                    continue
                try:
                    envelopes = decode(frame)
                except MalformedFrame:
                    self._take_salvaged(peer, salvage(frame), heard, now_ns)
                    raise
                self._share_bytes = len(frame) // max(1, len(envelopes))
                for envelope in envelopes:
                    self._take(peer, envelope, heard, now_ns)
            except MalformedFrame as error:
                self.malformed_count += 1
                if peer not in self._reported and len(self._reported) < REPORTED_MAX:
                    self._reported.add(peer)
                    heard.append(MalformedPeer(peer, error.message))
        return FRAMES_MAX

    def _take_salvaged(self, peer: bytes, salvaged: Salvaged, heard: list[Heard], now_ns: int) -> None:
        for refusal in salvaged.refusals:
            self._refuse(peer, refusal)
        for envelope in salvaged.heard:
            self._take(peer, envelope, heard, now_ns)

    def _take_large(self, peer: bytes, frame: Frame, heard: list[Heard]) -> None:
        """End the call behind an oversized frame, ours or the peer's: else its caller would wait thirty seconds."""
        kind, id = head(frame) or (0, 0)
        because = f"{len(frame):,} bytes exceed the limit of {FRAME_BYTES_MAX:,} for messages to the supervisor"
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
            sender = self.identities.generation_of(peer)
            if sender is not None:
                self._take_call(peer, envelope, sender, heard, now_ns)
                return
            if envelope.deadline is not None and envelope.deadline >= 0:  # from its arrival on
                envelope.deadline = -due_ns(envelope.deadline, now_ns)
            self._keep(peer, envelope)
        elif kind in (REPLY, STATUS):
            call = self._calls.end(envelope.id, peer)
            if call is not None:
                error = error_from(*envelope.body) if kind == STATUS else None
                heard.append(Answered(call[0], None if error else envelope.body, error))
        elif kind != CANCEL:  # our handlers take no longer than cancelling them would
            raise MalformedFrame(f"the supervisor takes calls and answers, not kind {kind}")

    def _keep(self, peer: bytes, envelope: Envelope) -> None:
        """Keep a client's call until it is served, or refuse it if the client has its share of waiting calls."""
        self._read_count += 1
        calls = self._waiting.get(peer)
        if calls is None:  # one that waits for nothing else is always taken
            calls = self._waiting[peer] = deque()
        elif (
            len(calls) >= CALLS_WAITING_MAX // len(self._waiting)
            or self._waiting_bytes + self._share_bytes > BYTES_WAITING_MAX
        ):
            busy = Busy(
                f"{envelope.route}: {len(calls):,} calls of this client wait for the supervisor", retry_after=0.5
            )
            self._refuse(peer, status(envelope.id, busy, is_refused=True))
            return
        calls.append((envelope, self._share_bytes))
        self._waiting_count += 1
        self._waiting_bytes += self._share_bytes

    def _serve_clients(self, heard: list[Heard], now_ns: int) -> None:
        """Take up to `CALLS_MAX` calls, one of each client in turn."""
        for _ in range(min(CALLS_MAX, self._waiting_count)):
            peer, calls = next(iter(self._waiting.items()))
            del self._waiting[peer]
            envelope, size = calls.popleft()
            self._waiting_count -= 1
            self._waiting_bytes -= size
            self._take_call(peer, envelope, None, heard, now_ns)
            if calls:
                self._waiting[peer] = calls

    def _take_call(
        self, peer: bytes, envelope: Envelope, sender: tuple[str, int] | None, heard: list[Heard], now_ns: int
    ) -> None:
        assert envelope.route is not None
        if envelope.deadline is not None and due_ns(envelope.deadline, now_ns) <= now_ns:
            late = DeadlineExceeded(f"{envelope.route}: the deadline passed before the call was served")
            self.refuse(Caller(peer, envelope.id), late)
            return
        heard.append(SupervisorCall(Caller(peer, envelope.id), envelope.route, envelope.body, sender))


def allow_descriptors() -> None:
    """Raise the descriptor limit to the hard limit: an ipc listener that runs out aborts the process (TRAPS 1)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
