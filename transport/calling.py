"""Calling: the work of a blocking client, done with its lock held.

`Client` (client.py) is the documented interface. This is one compiled module, because each call passes through all of it. The
session decides, waiting threads poll the link (waiting.py), and results go into the waitables that users hold. A thread that
touches the link polls it before it releases the lock. Waiting releases it: the client may be closed meanwhile.
"""

import os
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from . import call_checks
from .argument_stream import ArgumentStream, close, log_late, take_stream
from .call_spec import CallSpec
from .client_spans import EndedSpans
from .dataflow import OperandSource
from .descriptors import Descriptors
from .directory import Directory
from .errors import (
    BackplaneError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    PeerDown,
    SystemNotRunning,
    Unavailable,
    UnknownRoute,
)
from .events import Credited, Ended, Events, Streamed
from .inbox import Message
from .item_sender import ItemSender
from .operand import refuse_operands, settle_operands
from .retrying import RetryAccount, RetryBudget
from .session import FRAMES_MAX, ClientSession
from .topics import check_pattern
from .waitables import ArrivedItems, CallOutcome, SendingCall, Stream, Waitable
from .waiting import Waiting
from .ways import Way, is_back_soon, not_in_time

#: Seconds that `connect` waits for the routing table, and `subscribe` for the backplanes' confirmations.
CONNECT_TIMEOUT_S: Final = 5.0
#: Seconds that `close` waits for proof that casts and published messages have arrived: a living peer needs a millisecond.
CLOSE_TIMEOUT_S: Final = 1.0
#: Interval between checks for a system that is not up: a check costs 0.1 ms, and a system needs some 300 ms to come up.
LOOK_AGAIN_NS: Final = 50_000_000
#: Limit of the one fetch of the routing table for an unknown route, which may be newer than the table. A fetch takes a
#: millisecond; a supervisor that does not answer must not delay the error for an unserved route longer.
FETCH_LIMIT_NS = 1_000_000_000
#: No second fetch within this time of the last one: a client that calls an unserved route in a loop would load the
#: supervisor with a table a millisecond, and new tables are pushed within a few.
FETCH_AGAIN_NS = 100_000_000
#: A client idle for longer than this polls before it sends: its routing table may be old, or the system gone.
IDLE_NS = 20_000_000
#: In a burst, each submit follows the one before within BURST_GAP_NS. The first BURST_EAGER calls leave at once while no
#: more are outstanding. Then the callees have work, and calls gather, up to GATHER_MAX or until a thread polls.
BURST_GAP_NS = 20_000
BURST_EAGER: Final = 64
GATHER_MAX: Final = 64

_monotonic_ns: Final = time.monotonic_ns
_getpid: Final = os.getpid


class Calling:
    """A client's link, session and lock. Any thread may use it; unusable after a fork."""

    def __init__(self, way: Way, budget: RetryBudget) -> None:
        self.way = way
        self._pid = os.getpid()
        self._link = way.link
        account = RetryAccount(budget, _monotonic_ns())
        self.session = ClientSession(self._link, way.place, account, random.random, way.home)
        descriptors = Descriptors(f"client of {way.system!r} {way.where}")
        self._waiting = Waiting(self._link.fileno(), self._look_for_some, self._system_gone, descriptors)
        #: Ready when a call has ended, for the threads whose `submit` waits until fewer are outstanding. Their number is kept,
        #: because one that polls is no waiter meanwhile, and must notice room all the same.
        self._room = Waitable()
        self._seekers_count = 0
        #: When the routing table may be fetched again.
        self._fetch_again_ns = 0
        self._looked_ns = 0
        self._submitted_ns = 0
        self._burst_count = 0
        #: Whether the client was closed.
        self.is_closed = False
        #: Of calls that ended with the lock held; their SDK's code must not run then, as it may wait for somebody who calls.
        self.ended_spans = EndedSpans()
        #: Streams whose iterators were dropped, and promises that were.
        self._dropped: deque[ArrivedItems] = deque()
        self._dropped_promises: deque[OperandSource] = deque()

    def start(self, limit_ns: int) -> None:
        """Connect, unless connected, within `limit_ns`."""
        with self._lock:
            self._expect_open()
            if self.session.directory is None:
                self._connect(limit_ns)

    def await_system(self, limit_ns: int) -> None:
        """Connect, and wait for a system that is not up yet. When the time is over, raises the last error."""
        with self._lock:
            until_ns = _monotonic_ns() + limit_ns
            while True:
                try:
                    return self._connect(until_ns - _monotonic_ns(), is_patient=True)
                except (SystemNotRunning, PeerDown):
                    again_ns = _monotonic_ns() + LOOK_AGAIN_NS
                    if again_ns >= until_ns:
                        raise
                self._waiting.wait(Waitable(), again_ns)

    def call(self, spec: CallSpec) -> Any:  # hot: scripts/bench call_rtt
        """Begin a call and wait for its end. Raises the error in which it ended."""
        stream = take_stream(spec)
        if stream is not None:
            return self._call_with_stream(spec, stream)
        pending = CallOutcome(self, spec.route)
        with self._lock:
            self._begin(pending, spec)
            try:
                if not self._waiting.wait(pending, pending._ends_ns):
                    self._end_lost(pending)
            except BaseException:  # Ctrl-C: nobody needs the answer any more
                self.session.cancel(pending._id)
                self._look(_monotonic_ns())
                raise
        if pending._error is not None:
            raise pending._error
        return pending._result

    def _call_with_stream(self, spec: CallSpec, stream: ArgumentStream) -> Any:
        """`call`, and iterate over the stream meanwhile, in this thread and without the lock, as far as there is room."""
        sender = ItemSender(spec, stream.window)
        sending = SendingCall(self, spec.route, sender)
        items = stream.iterator(spec)
        try:
            with self._lock:
                self._begin(sending, spec)
            try:
                while self._wait_for_items_room(sending):
                    packed, is_last = sender.fetch(items, stream.together_max)
                    with self._lock:
                        if not sending.has_ended and not self.is_closed:
                            sender.put(packed, is_last=is_last)
                            self.session.send_items(sending._id, sender)
                            self._look(_monotonic_ns())
            except BaseException as error:  # of the user's iterator, or Ctrl-C
                with self._lock:
                    has_ended = sending.has_ended
                    if not has_ended and not self.is_closed:  # nobody needs the answer any more
                        self.session.cancel(sending._id)
                        self._look(_monotonic_ns())
                if not has_ended or not isinstance(error, Exception):
                    raise
                log_late(spec, error)
        finally:
            if sender.has_credit:  # else it is untouched, and its user may use it for another call
                close(items, spec)
        if sending._error is not None:
            raise sending._error
        return sending._result

    def _wait_for_items_room(self, sending: SendingCall) -> bool:
        """Wait until one more item may be sent. False: the call has ended."""
        with self._lock:
            sending.is_ready = sending.has_ended or sending.sender.has_room()
            if not sending.is_ready and not self._waiting.wait(sending, sending._ends_ns):
                self._end_lost(sending)
            return not sending.has_ended

    def submit(self, pending: CallOutcome, spec: CallSpec) -> None:  # hot: scripts/bench call_pipelined
        """Begin a call that will complete `pending`. It leaves now, or in a burst together with others."""
        with self._lock:
            session = self.session
            if session.core.is_full:
                self._wait_for_room(spec)
            now_ns = self._begin(pending, spec)
            is_burst = now_ns - self._submitted_ns < BURST_GAP_NS
            self._burst_count = self._burst_count + 1 if is_burst else 1
            if (
                not is_burst
                or (self._burst_count <= BURST_EAGER and session.outstanding_count <= BURST_EAGER)
                or session.core.gathered_count >= GATHER_MAX
                or self._waiting.is_led
            ):
                self._look(now_ns)
                now_ns = _monotonic_ns()
            self._submitted_ns = now_ns

    def stream(self, arrived: ArrivedItems, spec: CallSpec) -> None:
        """Begin a call whose items go into `arrived`. It leaves at once."""
        with self._lock:
            self._begin(arrived, spec)
            self._look(_monotonic_ns())

    def next_items(self, arrived: ArrivedItems) -> list[Any] | None:  # hot: scripts/bench streams
        """Wait for the next items of a stream; None: it has ended. Raises the error in which it ended, once."""
        try:
            return self._next_items(arrived)
        finally:
            if arrived._buffer.has_ended:
                self.ended_spans.end()

    def _next_items(self, arrived: ArrivedItems) -> list[Any] | None:  # hot: scripts/bench streams
        buffer = arrived._buffer
        with self._lock:
            if arrived._is_being_read:
                raise FailedPrecondition(f"{arrived.route}: another thread waits for the next item of this stream")
            arrived._is_being_read = True
            try:
                while True:
                    credit = buffer.credit_due()
                    if credit and not self.is_closed and self.session.give_credit(arrived._id, credit):
                        buffer.gave(credit)
                    if not arrived.is_ready:
                        if not self._waiting.wait(arrived, arrived._ends_ns):
                            self._end_lost(arrived)
                    elif credit:
                        self._look(_monotonic_ns())
                    items = arrived.take()
                    if items is not None or buffer.has_ended:
                        return items
            finally:
                arrived._is_being_read = False

    def drop_later(self, arrived: ArrivedItems) -> None:
        """End a stream that was dropped: now, or at the next look where the garbage collector calls this inside the client."""
        self._dropped.append(arrived)
        self._look_if_free()

    def _look_if_free(self) -> None:
        """Take a turn, unless this thread is within the client, or another thread is and will take one."""
        waiting = self._waiting
        if self._pid == _getpid() and not waiting.is_inside and waiting.lock.acquire(False):
            try:
                self._look(_monotonic_ns())
            finally:
                waiting.lock.release()

    def drop(self, arrived: ArrivedItems) -> None:
        """End a stream: nobody reads it any more. Items that were not read are lost."""
        with self._lock:
            if not arrived._buffer.has_ended and not self.is_closed:
                self.session.cancel(arrived._id)
                self._look(_monotonic_ns())
            arrived._buffer.abandon()
            self._waiting.ready(arrived)

    def cast(self, spec: CallSpec) -> None:
        """Send a request without a reply. An unknown route is looked up once more, in a freshly fetched routing table."""
        refuse_operands(spec, "cast()")
        with self._lock:
            self._ready_to_speak(_monotonic_ns(), call_checks.duration_ns(CONNECT_TIMEOUT_S))
            try:
                self.session.cast(spec, _monotonic_ns())
            except UnknownRoute:
                self._fetch(call_checks.duration_ns(CONNECT_TIMEOUT_S))
                self._expect_open()
                self._look(_monotonic_ns())
                self.session.cast(spec, _monotonic_ns())
            self._look(_monotonic_ns())

    def publish(self, topic: str, priority: int | None, body: dict[str, Any]) -> int:
        """Publish to all subscribers of `topic`; returns the number of backplanes."""
        with self._lock:
            self._ready_to_speak(_monotonic_ns(), call_checks.duration_ns(CONNECT_TIMEOUT_S))
            try:
                return self.session.publish(topic, priority, body)
            finally:
                self._look(_monotonic_ns())

    def subscribe(self, stream: Stream, limit_ns: int) -> None:
        """Subscribe to the stream's topic, and wait until all backplanes have confirmed, at most `limit_ns`."""
        check_pattern(stream.topic)
        confirmed = CallOutcome(self, stream.topic)
        with self._lock:
            now_ns = self._ready_to_speak(_monotonic_ns(), limit_ns)
            try:
                if self.session.subscribe(stream.topic, stream, confirmed, now_ns):
                    self._waiting.wait(confirmed, now_ns + limit_ns)
                if confirmed._error is not None:
                    raise confirmed._error
            except BaseException:
                self._drop(stream)
                raise

    def directory(self) -> Directory:
        """The newest routing table, after one poll of the link."""
        with self._lock:
            self._ready_to_speak(_monotonic_ns(), call_checks.duration_ns(CONNECT_TIMEOUT_S))
            self._look(_monotonic_ns())
            directory = self.session.directory
        if directory is None:
            raise self.way.not_running()
        return directory

    def close(self) -> None:
        """Let sent messages arrive, end everything outstanding, and close the link. Closing twice is harmless."""
        if self._pid != _getpid():
            return  # a forked copy: the link belongs to the parent
        with self._lock:
            if self.is_closed:
                return
            settled = CallOutcome(self, "close")
            now_ns, limit_ns = _monotonic_ns(), call_checks.duration_ns(CLOSE_TIMEOUT_S)
            try:
                if self.session.settle(settled, now_ns, limit_ns):
                    self._waiting.wait(settled, now_ns + limit_ns)
            finally:
                self._close()

    # -- requests of pending calls and subscriptions ------------------------------------------------------------------

    def wait_for(self, pending: CallOutcome, timeout: float | None) -> bool:
        """Wait until the call has ended, at most `timeout` seconds. False: it is still outstanding."""
        limit_ns = None if timeout is None else call_checks.duration_ns(timeout)
        with self._lock:
            until_ns = ends_ns = pending._ends_ns
            if limit_ns is not None:
                until_ns = min(_monotonic_ns() + limit_ns, ends_ns)
            if self._waiting.wait(pending, until_ns):
                return True
            if until_ns == ends_ns:
                self._end_lost(pending)
            return pending.is_ready

    def look_once(self) -> None:
        """Send gathered envelopes and read received frames, without waiting."""
        with self._lock:
            if not self.is_closed:
                self._waiting.check_lifeline()
                self._look(_monotonic_ns())

    def cancel(self, pending: CallOutcome) -> bool:
        """Cancel a call. Returns False if it had already ended."""
        with self._lock:
            if pending.is_ready:
                return False
            self.session.cancel(pending._id)
            self._look(_monotonic_ns())
        return isinstance(pending._error, Cancelled)

    def change_promise(self, change: Callable[[ClientSession, int], None]) -> None:
        """Change a promise of this client (promise.py), by what has come so far."""
        with self._lock:
            self._expect_open()
            self._look(_monotonic_ns())
            change(self.session, _monotonic_ns())
            self._look(_monotonic_ns())

    def drop_promise(self, promise: OperandSource) -> None:
        """End the calls that await a promise which was dropped, as `drop_later` ends a stream."""
        self._dropped_promises.append(promise)
        self._look_if_free()

    def next_message(self, stream: Stream, timeout: float | None) -> Message:
        """Wait for the next message of a subscription, at most `timeout` seconds. Raises the error in which it ended."""
        limit_ns = None if timeout is None else call_checks.duration_ns(timeout)
        with self._lock:
            message = stream._inbox.take()
            if message is None:
                if stream._error is None and not stream._closed:
                    self._ready_to_speak(_monotonic_ns(), call_checks.duration_ns(CONNECT_TIMEOUT_S))
                    until_ns = None if limit_ns is None else _monotonic_ns() + limit_ns
                    if not self._waiting.wait(stream, until_ns):
                        raise TimeoutError(f"no message of {stream.topic!r} in {timeout} s")
                message = stream._inbox.take()
            stream.is_ready = len(stream._inbox) > 0 or stream._closed
            if message is not None:
                return message
            error, stream._error = stream._error, None
        if error is not None:
            raise error
        raise Unavailable(f"the subscription to {stream.topic!r} is closed")

    def unsubscribe(self, stream: Stream) -> None:
        """End a subscription. Messages already received can still be taken."""
        with self._lock:
            self._drop(stream)

    def unconfirmed(self, topic: str) -> tuple[str, ...]:
        """The backplanes that have not confirmed a subscription."""
        with self._lock:
            return tuple(self.session.hearing.unanswered(topic))

    # -- with the lock held -------------------------------------------------------------------------------------------

    @property
    def _lock(self) -> Any:  # hot: scripts/bench call_pipelined
        """The client's lock. Raises in a forked copy: a thread missing there may hold it, and the link is the parent's."""
        if self._pid != _getpid():
            raise FailedPrecondition("a client does not survive a fork: connect again in the child")
        self._waiting.expect_outside()
        return self._waiting.lock

    def _close(self) -> None:
        if self.is_closed:
            return  # by another thread, while this one waited
        self.is_closed = True
        self._deliver(self.session.end_all(Cancelled("the client was closed")))
        for stream in self.session.hearing.subscribers():
            stream._closed = True
            self._waiting.ready(stream)
        self._waiting.close()
        self._link.close()

    def _expect_open(self) -> None:  # hot: scripts/bench call_pipelined
        if self.is_closed:
            raise Unavailable("the client is closed")

    def _connect(self, limit_ns: int, *, is_patient: bool = False) -> None:
        """Connect. `is_patient`: a node that is down may come back within the limit; the link waits before it dials again."""
        until_ns = _monotonic_ns() + limit_ns
        while True:
            started = self._begin_to_connect(until_ns - _monotonic_ns())
            if not self._waiting.wait(started, until_ns):
                self._end_lost(started)
            error = started._error
            if error is None:
                return
            if not (is_patient and is_back_soon(self.way, error)):
                raise not_in_time(self.way, error)

    def _begin_to_connect(self, limit_ns: int) -> CallOutcome:
        """The returned `CallOutcome` ends when connected, or in an error."""
        lifeline_fd = self.way.open()
        if lifeline_fd is not None:
            self._waiting.watch(lifeline_fd)
        started = CallOutcome(self, "supervisor.directory")
        self.session.start(started, _monotonic_ns(), limit_ns)
        return started

    def _fetch(self, limit_ns: int) -> None:
        """Fetch the routing table, unless just done; the next poll adopts it. If the fetch fails, the old one stays."""
        now_ns = _monotonic_ns()
        if now_ns < self._fetch_again_ns:
            return
        limit_ns = min(limit_ns, FETCH_LIMIT_NS)
        fetched = CallOutcome(self, "supervisor.directory")
        self.session.start(fetched, now_ns, limit_ns)
        self._waiting.wait(fetched, now_ns + limit_ns)
        self._fetch_again_ns = _monotonic_ns() + FETCH_AGAIN_NS

    # hot: scripts/bench call_pipelined
    def _ready_to_speak(self, now_ns: int, limit_ns: int, *, is_patient: bool = False) -> int:
        """Ensure a connection and a recent routing table before sending. Returns the time."""
        self._expect_open()
        if now_ns - self._looked_ns > IDLE_NS:
            if self.way.is_remote:
                self._look(now_ns)  # the link itself detects a lost connection, and cuts the lifeline
            self._waiting.check_lifeline()
            self._look(now_ns)
        if self.session.directory is None:
            self._connect(limit_ns, is_patient=is_patient)
            now_ns = _monotonic_ns()
        return now_ns

    def _begin(self, pending: CallOutcome, spec: CallSpec) -> int:  # hot: scripts/bench call_rtt
        """Queue a call for the next poll of the link; returns the time."""
        timeout_ns = spec.timeout_ns
        asked_ns = _monotonic_ns()
        spec.ends_ns = asked_ns + timeout_ns
        now_ns = self._ready_to_speak(asked_ns, timeout_ns, is_patient=spec.is_retried)
        session = self.session
        if spec.operands is not None:
            self._deliver(session.events)  # a signal's exception may have left some
            settle_operands(spec, self)
        try:
            pending._id = session.call(pending, spec, now_ns)
        except (Unavailable, UnknownRoute) as unknown:
            # The routing table may be old, and a newer one unread in the link.
            if isinstance(unknown, UnknownRoute):
                self._fetch(timeout_ns)
                self._expect_open()
            now_ns = _monotonic_ns()
            self._look(now_ns)
            if spec.operands is not None:  # some may have ended meanwhile
                settle_operands(spec, self)
            try:
                pending._id = session.call(pending, spec, now_ns)
            except Unavailable as error:
                pending._id = session.call_later(error, pending, now_ns, spec)
        pending._ends_ns = spec.ends_ns
        return now_ns

    def _wait_for_room(self, spec: CallSpec) -> None:
        until_ns = _monotonic_ns() + spec.timeout_ns
        self._seekers_count += 1
        try:
            while self.session.core.is_full:
                self._room.is_ready = False
                if not self._waiting.wait(self._room, until_ns):
                    raise self.session.no_room(spec.route)
        finally:
            self._seekers_count -= 1

    def _end_span_later(self, pending: CallOutcome, error: BackplaneError | None) -> None:
        self.ended_spans.put(pending._span, error)
        pending._span = None

    def _end_lost(self, pending: CallOutcome) -> None:
        """End a call that is past its deadline and lost to the session, because a signal's exception struck the thread that
        was about to end it.
        """
        error = DeadlineExceeded(f"{pending.route}: no answer before the deadline")
        if isinstance(pending, ArrivedItems):
            pending._buffer.end_in(error)
        elif isinstance(pending, SendingCall):
            pending.end(None, error)
        else:
            pending._error = error
        if pending._span is not None:
            self._end_span_later(pending, error)
        self._waiting.ready(pending)

    def _look(self, now_ns: int, frames_max: int = FRAMES_MAX) -> int | None:  # hot: scripts/bench call_rtt
        """Run one turn of the session. Returns when the next is due, None: when something arrives."""
        if self.is_closed:
            return None
        self._looked_ns = now_ns
        while self._dropped:
            self.session.cancel(self._dropped.popleft()._id)
        while self._dropped_promises:
            self.session.drop_promise(self._dropped_promises.popleft())
        session, waiting = self.session, self._waiting
        if waiting.is_readable:
            waiting.is_readable = False
            self._link.expect()
        try:
            self._deliver(session.turn(now_ns, frames_max))
        except BaseException:  # a signal's: the leader must finish this turn, and its poll would not wake it
            waiting.wake_leader()
            raise
        if waiting.is_led and session.has_more:
            waiting.wake_leader()  # it polls, and frames left on the link cause no further edge
        return session.next_wake_ns(now_ns)

    def _look_for_some(self, now_ns: int) -> int | None:  # hot: scripts/bench call_rtt
        """`_look` for a waiting thread: one frame a turn, as checking for a second costs more than it gains. While another
        thread polls, no frame may be left on the link.
        """
        return self._look(now_ns, FRAMES_MAX if self._waiting.is_led else 1)

    def _deliver(self, events: Events) -> None:  # hot: scripts/bench call_pipelined
        done = 0
        try:
            for event in events:
                if isinstance(event, Ended):
                    pending: CallOutcome = event.token
                    if isinstance(pending, ArrivedItems):
                        if event.error is None:
                            pending._buffer.end(event.result)
                        else:
                            pending._buffer.end_in(event.error)
                    elif isinstance(pending, SendingCall):
                        pending.end(event.result, event.error)
                    elif not pending.is_ready:  # after a signal's exception, a call may end a second time
                        pending._result, pending._error = event.result, event.error
                    if pending._span is not None:
                        self._end_span_later(pending, event.error)
                    self._waiting.ready(pending)
                    if self._seekers_count:
                        self._waiting.ready(self._room)
                elif isinstance(event, Streamed):
                    arrived: ArrivedItems = event.token
                    if not arrived._buffer.put(event.items, event.number, event.is_blocked):
                        self.session.cancel(arrived._id)
                    self._waiting.ready(arrived)
                elif isinstance(event, Credited):
                    sending: SendingCall = event.token
                    sending.sender.receive_credit(event.credit)
                    if sending.sender.has_room():
                        self._waiting.ready(sending)
                else:
                    stream: Stream = event.subscriber
                    stream._inbox.put(event.message, event.size)
                    self._waiting.ready(stream)
                done += 1
        finally:
            del events[:done]

    def _system_gone(self) -> None:
        self._look(_monotonic_ns(), self.session.ahead_frames_max)  # its last frames
        error = self.way.gone()
        if self.session.system_gone(error, is_back_soon=is_back_soon(self.way, error)):
            self._begin_to_connect(call_checks.duration_ns(CONNECT_TIMEOUT_S))
        self._look(_monotonic_ns())
        for stream in self.session.hearing.subscribers():
            stream._error = error
            self._waiting.ready(stream)

    def _drop(self, stream: Stream) -> None:
        stream._closed = True
        self._waiting.ready(stream)
        if not self.is_closed:
            self.session.unsubscribe(stream.topic, stream, _monotonic_ns())
            self._look(_monotonic_ns())
