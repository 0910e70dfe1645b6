"""VirtualClient: the test as a client of its virtual backplane, by the session that all clients have (transport/session.py).

So the same code as in a process refuses, sends, cancels and ends a call. Only waiting differs: a method that waits runs the
backplane until idle, and lets virtual time pass only as far as its `timeout` allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport import call_checks, codec
from appbackplane.transport.argument_stream import close, take_stream
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.client_spans import EndedSpans
from appbackplane.transport.dataflow import OperandSource
from appbackplane.transport.directory import Directory, Registration, build
from appbackplane.transport.envelope import CALL, REPLY, STATUS, Envelope, reply, status
from appbackplane.transport.errors import BackplaneError, Cancelled, Unavailable, UnknownRoute, error_from
from appbackplane.transport.events import Credited, Ended, Streamed
from appbackplane.transport.handles import ItemStream, PendingCall, Subscription
from appbackplane.transport.inbox import Message
from appbackplane.transport.item_sender import ItemSender
from appbackplane.transport.operand import Operand, refuse_operands, settle_operands
from appbackplane.transport.session import ClientSession
from appbackplane.transport.topics import check_pattern
from appbackplane.transport.waitables import ArrivedItems, CallOutcome, Stream, Waitable

from .memory_link import MemoryLink

if TYPE_CHECKING:
    from .virtual_backplane import VirtualBackplane

#: Items of a streamed argument that the test sends in one go, before the backplane runs again.
TOGETHER_MAX: Final = 64
#: The identity by which the backplane knows the test.
CLIENT: Final = b"test"
_SUPERVISOR: Final = Path("/nowhere/supervisor.sock")


class VirtualCall(PendingCall):
    """A call that the test has made. `result` and `exception` run the backplane until idle, and raise AssertionError if the
    call has not ended then. With a `timeout` they let virtual time pass until it has ended, so many seconds at most.
    """

    __slots__ = ()

    def error(self) -> BackplaneError:
        """The error in which it ended. Raises AssertionError if it succeeded."""
        error = self.exception()
        assert error is not None, f"the call was expected to fail; it returned {self._result!r}"
        return error


class _Feed:
    """The streamed argument of one call of the test."""

    def __init__(self, pending: VirtualCall, spec: CallSpec, sender: ItemSender, items: Iterator[Any]) -> None:
        self.pending, self.spec, self.sender, self.items = pending, spec, sender, items


class VirtualClient:
    """The calls and subscriptions of one test. It does for a `VirtualBackplane` what `Calling` does for a `Client`."""

    def __init__(self, backplane: VirtualBackplane) -> None:
        #: None ever: spans are of real clients.
        self.ended_spans = EndedSpans()
        self._backplane = backplane
        self._link = MemoryLink()
        self._session = ClientSession(self._link, _SUPERVISOR)
        self._directory = Directory("test")
        #: Handles of calls that the test delivered as raw envelopes, by their callers and ids.
        self._raw: dict[tuple[bytes, int], VirtualCall] = {}
        #: Streamed arguments of calls that have not ended, by the ids of these.
        self._feeds: dict[int, _Feed] = {}
        #: Ids of answered calls: an answer is the only one of its call.
        self._answered: set[int] = set()
        #: The backplane, as a peer of `_link`.
        self._callee = b""

    def connect(self, registration: Registration) -> None:
        """Connect to a system of this one backplane."""
        self._directory = build("test", 1, [registration], set())
        now_ns = self._now_ns()
        self._session.start(None, now_ns, call_checks.duration_ns(None))
        self._turn(now_ns)

    def submit(self, spec: CallSpec) -> VirtualCall:
        """Send a call. Raises the errors that are known at once."""
        pending = VirtualCall(self, spec.route)
        now_ns = self._now_ns()
        spec.ends_ns = now_ns + spec.timeout_ns
        if spec.operands is not None:
            settle_operands(spec, self)
        stream = take_stream(spec)
        items = None if stream is None else stream.iterator(spec)
        pending._id = self._session.call(pending, spec, now_ns)
        if stream is not None and items is not None:
            self._feeds[pending._id] = _Feed(pending, spec, ItemSender(spec, stream.window), items)
        self._turn(now_ns)
        return pending

    def stream(self, spec: CallSpec, window: int) -> ItemStream:
        """Call a generator operation. Raises the errors that are known at once."""
        arrived = ArrivedItems(self, spec.route, window)
        now_ns = self._now_ns()
        spec.window, spec.ends_ns = window, now_ns + spec.timeout_ns
        if spec.operands is not None:
            settle_operands(spec, self)
        arrived._id = self._session.call(arrived, spec, now_ns)
        self._turn(now_ns)
        return ItemStream(self, arrived)

    def cast(self, spec: CallSpec) -> None:
        """Send a request without a reply. Raises the errors that are known at once."""
        refuse_operands(spec, "cast()")
        self._session.cast(spec, self._now_ns())
        self._turn(self._now_ns())

    def publish(self, topic: str, priority: int | None, body: dict[str, Any]) -> int:
        """Send a message. Returns the number of backplanes that subscribe to its topic: 1 or 0."""
        count = self._session.publish(topic, priority, body)
        self._turn(self._now_ns())
        return count

    def subscribe(self, topic: str, limit_ns: int) -> Subscription:
        """Subscribe, and run the backplane until it has confirmed; at most `limit_ns` of virtual time pass."""
        check_pattern(topic)
        stream, confirmed = Subscription(self, topic), CallOutcome(self, topic)
        if self._session.subscribe(topic, stream, confirmed, self._now_ns()):
            self._turn(self._now_ns())
            self._wait(confirmed, limit_ns)
        if confirmed._error is not None:
            self.unsubscribe(stream)
            raise confirmed._error
        return stream

    def watch(self, call: Envelope, peer: bytes) -> VirtualCall:
        """The handle of a call that did not pass through the session: `peer` sends it as it is."""
        handle = self._raw[peer, call.id] = VirtualCall(self, call.route)
        handle._id = call.id
        return handle

    # -- requests of calls and subscriptions (transport/waitables.py) -------------------------------------------------

    def wait_for(self, pending: CallOutcome, timeout: float | None) -> bool:
        """Run the backplane until the call has ended. False: `timeout` seconds of virtual time have passed."""
        if timeout is not None:
            return self._wait(pending, call_checks.duration_ns(timeout))
        if not self._wait(pending, 0):
            raise AssertionError("the call has not ended: its object awaits something, or time has to pass (advance)")
        return True

    def look_once(self) -> None:
        """Take the answers that the backplane has sent, and end the calls whose deadlines have passed."""
        self._backplane.collect()
        self.let_expire()

    def cancel(self, pending: CallOutcome) -> bool:
        """Cancel a call. Returns False if it had already ended."""
        self.look_once()
        if pending.is_ready:
            return False
        self._session.cancel(pending._id)
        self._turn(self._now_ns())
        return isinstance(pending._error, Cancelled)

    @property
    def is_closed(self) -> bool:
        """Never: it lives as long as its backplane."""
        return False

    def fill(self, promise: OperandSource, value: Any) -> None:
        """Assign a promise."""
        self._session.fill(promise, value, self._now_ns())
        self._turn(self._now_ns())

    def follow(self, promise: OperandSource, operand: Operand) -> None:
        """Let an operand assign a promise."""
        self._session.follow(promise, operand, self, self._now_ns())
        self._turn(self._now_ns())

    def drop_promise(self, promise: OperandSource) -> None:
        """End the calls that await a promise which nobody can assign any more."""
        self._session.drop_promise(promise)
        self._turn(self._now_ns())

    def next_items(self, arrived: ArrivedItems) -> list[Any] | None:
        """Run the backplane until there are items, and take them. None: the stream has ended."""
        self._backplane.collect()
        while credit := arrived._buffer.credit_due():
            if self._session.give_credit(arrived._id, credit):
                arrived._buffer.gave(credit)
            self._turn(self._now_ns())
            self._wait(arrived, 0)
        if not self._wait(arrived, 0):
            raise AssertionError("no item has come: its object awaits something, or time has to pass (advance)")
        return arrived.take()

    def drop_later(self, arrived: ArrivedItems) -> None:
        """End a stream that was dropped."""
        self.drop(arrived)

    def drop(self, arrived: ArrivedItems) -> None:
        """End a stream that nobody reads any more."""
        if not arrived._buffer.has_ended:
            self._session.cancel(arrived._id)
            self._turn(self._now_ns())
        arrived._buffer.abandon()
        arrived.is_ready = True

    def next_message(self, stream: Stream, timeout: float | None) -> Message:
        """Run the backplane until there is a message, and take it."""
        if not stream._closed and not self._wait(stream, 0 if timeout is None else call_checks.duration_ns(timeout)):
            if timeout is None:
                raise AssertionError(f"no message of {stream.topic!r}: somebody has to publish it, or time has to pass")
            raise TimeoutError(f"no message of {stream.topic!r} in {timeout} s")
        message = stream._inbox.take()
        stream.is_ready = len(stream._inbox) > 0 or stream._closed
        if message is None:
            raise Unavailable(f"the subscription to {stream.topic!r} is closed")
        return message

    def unsubscribe(self, stream: Stream) -> None:
        """End a subscription. Messages already received can still be taken."""
        if not stream._closed:
            stream._closed = stream.is_ready = True
            self._session.unsubscribe(stream.topic, stream, self._now_ns())
            self._turn(self._now_ns())

    def unconfirmed(self, topic: str) -> tuple[str, ...]:
        """The backplanes that have not confirmed a subscription."""
        return tuple(self._session.hearing.unanswered(topic))

    # -- steps of the virtual backplane -------------------------------------------------------------------------------

    def let_expire(self) -> None:
        """End the calls whose deadlines time has left behind, before they get an answer that was sent later."""
        self._turn(self._now_ns() - 1)

    def expire(self) -> bool:
        """End the calls whose deadlines have come, and retry those that are due. Returns whether the backplane is told."""
        return self._turn(self._now_ns())

    def feed(self) -> bool:
        """Iterate over the streamed arguments for which there is room. Returns whether the backplane is told of any item."""
        for id, feed in [*self._feeds.items()]:
            if not feed.sender.has_room():
                continue
            try:
                packed, is_last = feed.sender.fetch(feed.items, TOGETHER_MAX)
            except Exception as error:  # the test's own iterable: its call raises that
                self._session.cancel(id)
                self._turn(self._now_ns())
                feed.pending._error = error  # type: ignore[assignment]
                return True
            feed.sender.put(packed, is_last=is_last)
            self._session.send_items(id, feed.sender)
            return self._turn(self._now_ns())
        return False

    def next_wake_ns(self) -> int | None:
        """When the next call ends at its deadline, or is retried; None: never."""
        return self._session.next_wake_ns(self._now_ns())

    def receive(self, peer: bytes, frame: bytes, envelopes: list[Envelope]) -> None:
        """Take a frame that the backplane has sent to `peer`, with its envelopes."""
        for envelope in envelopes:
            if envelope.kind not in (REPLY, STATUS):
                continue
            raw = self._raw.pop((peer, envelope.id), None)
            if raw is not None:
                is_reply = envelope.kind == REPLY
                error = (
                    None
                    if is_reply
                    else error_from(
                        *envelope.body,
                        is_refused=envelope.is_refused,
                        overloaded_at=envelope.priority,
                        idle=envelope.number,
                    )
                )
                _end(raw, envelope.body if is_reply else None, error)
            elif peer == CLIENT:
                assert envelope.id not in self._answered, f"a call was answered twice: {envelope}"
                self._answered.add(envelope.id)
        if peer == CLIENT:
            self._link.deliver(self._callee, frame)
            self._turn(self._now_ns() - 1)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _wait(self, awaited: Waitable, limit_ns: int) -> bool:
        """Run the backplane, and let up to `limit_ns` pass, until `awaited` is ready. False: it is not."""
        self._backplane.collect()
        if awaited.is_ready:
            return True
        if limit_ns:
            self._backplane._advance(self._now_ns() + limit_ns, awaited)
        else:
            self._backplane.run_until_idle()
        return awaited.is_ready

    def _turn(self, now_ns: int) -> bool:
        """Run a turn of the session. Returns whether it has sent anything to the backplane."""
        has_sent = False
        while True:
            events = self._session.turn(now_ns)
            for event in events:
                if isinstance(event, Ended):
                    _end(event.token, event.result, event.error)
                    feed = self._feeds.pop(event.token._id, None) if isinstance(event.token, VirtualCall) else None
                    if feed is not None and feed.sender.has_credit:  # else it is untouched
                        close(feed.items, feed.spec)
                elif isinstance(event, Credited):
                    self._feeds[event.token._id].sender.receive_credit(event.credit)
                elif isinstance(event, Streamed):
                    if not event.token._buffer.put(event.items, event.number, event.is_blocked):
                        self._session.cancel(event.token._id)
                    event.token.is_ready = event.token._buffer.is_ready
                else:
                    event.subscriber._inbox.put(event.message, event.size)
                    event.subscriber.is_ready = True
            events.clear()
            while self._link.sent:
                peer, frame = self._link.sent.popleft()
                if peer.endswith(_SUPERVISOR.name.encode()):
                    self._supervise(peer, frame)
                else:
                    self._callee = peer
                    self._backplane.link.deliver(CLIENT, frame)
                    has_sent = True
            if not (self._link.has_input() or self._session.has_more):
                return has_sent

    def _supervise(self, peer: bytes, frame: bytes) -> None:
        """Answer as the supervisor, which has the routing table and nothing else."""
        for asked in codec.decode(frame):
            if asked.kind == CALL and asked.route is not None:
                answer = reply(asked.id, self._directory.to_body())
                if asked.route != "supervisor.directory":
                    answer = status(asked.id, UnknownRoute(asked.route, because="a test has no supervisor"))
                self._link.deliver(peer, codec.batch([codec.Encoder().encode(answer)]))

    def _now_ns(self) -> int:
        return self._backplane.clock.now_ns()


def _end(call: CallOutcome, result: Any, error: BackplaneError | None) -> None:
    if isinstance(call, ArrivedItems):
        if error is None:
            call._buffer.end(result)
        else:
            call._buffer.end_in(error)
        call.is_ready = True
    else:
        call._result, call._error, call.is_ready = result, error, True
