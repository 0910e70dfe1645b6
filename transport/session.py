"""Session: the logic of a client, without sockets, threads or clocks.

Its calls are those of a `CallerCore`. A client adds the reading of frames, the routing table that it fetches and that the
supervisor pushes, topics, and the proof that what it sent has arrived. It subscribes at every backplane that is up, and again
at each new generation. `turn(now_ns)` sends, receives and expires, and returns the events. The owner of the link calls it
before waiting and after every wake-up (client.py, async_client.py).
"""

import heapq
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from . import addressing
from .call_spec import CallSpec
from .caller_core import CallerCore, OpenCall, Own, RetriedCall, half
from .connections import LinkPort
from .dataflow import HELD, EndedCall, OperandSource
from .directory import Directory, Place
from .envelope import ARGUMENT_CREDIT, CREDIT, ITEMS, PUBLISH, REPLY, STATUS, Envelope, cast
from .errors import (
    BackplaneError,
    Busy,
    CallerError,
    Cancelled,
    DeadlineExceeded,
    PeerDown,
    Unavailable,
    error_from,
    text_of,
)
from .events import Credited, Ended, Events, Heard, Streamed
from .fan_out import FanOut
from .frame_reader import FrameReader, ahead_frames_max
from .hearing import Ask, Hearing
from .inbox import Message
from .item_sender import ItemSender
from .operand import Operand
from .promise import check_followed, check_open
from .pulling import UNSENT
from .retrying import WAITING, RetryAccount, RetryBudget, wait_before
from .topics import GapCounter, check_pattern

#: Frames read in one turn, so that a flood of messages delays neither a caller's reply nor its deadline.
FRAMES_MAX: Final = 64
#: Topic on which the supervisor publishes new versions of the routing table.
DIRECTORY_TOPIC = "system.directory"
#: A peer that does not read is offered its frames again after this time; ZeroMQ usually wakes us earlier.
STALLED_RETRY_NS = 10_000_000
#: A subscription refused by a backplane (starting, busy) is repeated after the first; each request may take the second.
SUBSCRIBE_RETRY_NS, SUBSCRIBE_LIMIT_NS = 500_000_000, 5_000_000_000
#: An expired deadline may mean that a routing table was missed, because the link to the supervisor was cut. It is fetched at
#: most once per REFRESH_NS; a fetch may take REFRESH_LIMIT_NS.
REFRESH_NS, REFRESH_LIMIT_NS = 1_000_000_000, 5_000_000_000
_LOST: Final = (
    "an exception from a signal handler interrupted the receipt of answers; whether the work ran is not known"
)


class Fetch(Own):
    """Fetch of the routing table on behalf of `token`; None: of the session itself."""

    def __init__(self, token: object, ends_ns: int) -> None:
        self.token = token
        self.ends_ns = ends_ns


class SubscribeCall(Own):
    """Request to one backplane to be subscribed."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask


class Settling(Own):
    """Calls of which only the end matters; `token`, if any, comes back with the last."""

    def __init__(self, token: object, remaining_count: int = 0) -> None:
        self.token = token
        self.remaining_count = remaining_count


class ClientSession:
    """One client's side of a system. Not thread-safe: it belongs to the owner of the link."""

    def __init__(
        self, link: LinkPort, supervisor: Path, account: RetryAccount | None = None,
        random: Callable[[], float] = half, home: str = addressing.SUPERVISOR,
    ) -> None:  # fmt: skip
        """`supervisor`: path of the supervisor's socket. `account`: budget of the retries. `random`: returns 0 up to 1.
        `home`: name of the process that distributes the routing table; on another host it is the node's.
        """
        #: The newest version; None while not connected.
        self.directory: Directory | None = None
        account = account or RetryAccount(RetryBudget(), 0)
        self.core = CallerCore(link, account, random, home, Place(0, str(supervisor)))
        self._connections = self.core.connections
        self.reader = FrameReader(link, self._connections)
        self._newest: Directory | None = None
        self._refresh_ns = 0
        self._fan_out = FanOut(self.core)
        #: Peers that were sent casts or messages without proof of arrival.
        self._unproven: set[bytes] = set()
        self.gaps = GapCounter()
        self.hearing = Hearing()
        self._ask_again: list[tuple[int, Ask]] = []
        self._fetch_again: list[tuple[int, Fetch]] = []
        #: Events that the owner has not taken yet.
        self._events: Events = []
        self._now_ns = 0

    # -- requests of the owner; each begins at the next turn ----------------------------------------------------------

    def start(self, token: object, now_ns: int, timeout_ns: int) -> int:
        """Connect to the supervisor and fetch the routing table, which also subscribes this client to its changes."""
        return self._fetch(Fetch(token, now_ns + timeout_ns))

    def _fetch(self, fetch: Fetch) -> int:
        return self.core.open(self.core.home_peer(), fetch, CallSpec("supervisor.directory", {}, ends_ns=fetch.ends_ns))

    def call(self, token: object, spec: CallSpec, now_ns: int) -> int:  # hot: scripts/bench call_rtt
        """Begin a call with `ends_ns` set. `token` comes back in an `Ended`. Returns the id. Raises errors known at once.

        A call that is refused here for its callee (caller_throttle.py) ends as if the callee had refused it.
        """
        try:
            return self.core.call(token, spec, now_ns)
        except Busy as refusal:
            if refusal.overloaded_at is None:
                raise
            self._events.append(Ended(token, None, refusal))
            return self.core.calls.next_id - 1  # the last one: it was taken for this call

    def call_later(self, error: BackplaneError, token: object, now_ns: int, spec: CallSpec) -> int:
        """Begin a call for which `call` raised `error` as soon as possible. Raises `error` if it may not wait, or in vain."""
        if self.directory is None or not spec.is_retried:
            raise error
        return self.core.open_later(error, token, now_ns, spec)

    def cast(self, spec: CallSpec, now_ns: int) -> None:
        """Send a call without a reply. Raises as `CallerCore.put` does, and `Busy` if it is refused here."""
        core, peer = self.core, self.core.peer_for(spec.route, spec.key)
        refusal = core.throttle.cast_refusal(peer, spec.route, spec.priority, now_ns) if core.throttle.is_used else None
        if refusal is not None:
            raise refusal
        core.put(peer, cast(spec))
        self._unproven.add(peer)

    def publish(
        self, topic: str, priority: int | None, body: dict[str, Any],
        *, node: str | None = None, trace: str | None = None, lost: int = 0,
    ) -> int:  # fmt: skip
        """Publish to every backplane whose objects subscribe to `topic`; returns how many. Raises `Busy` if one has no room.

        `node`: the other node that published the message. `lost`: how many messages were lost before it.
        """
        directory = self._expect_directory()
        peers = self._fan_out.publish(directory, topic, priority, body, node=node, trace=trace, lost=lost)
        self._unproven.update(peers)
        return len(peers)

    def cancel(self, id: int) -> None:
        """Cancel a call: its `Ended` carries `Cancelled`. A call that has ended is left alone."""
        token = self.core.cancel(id)
        if token is not None:
            self._finish(token, None, Cancelled("cancelled by the caller"), self._events)

    def boost(self, id: int, priority: int) -> None:
        """Change a call's priority: a more urgent one waits for it, or no longer does. An ended call is left alone."""
        self.core.boost(id, priority)

    def give_credit(self, id: int, items: int) -> bool:
        """Let the callee of a stream have sent this many items in all. False: there is no room, or it has ended."""
        return self.core.give_credit(id, items)

    def send_items(self, id: int, sender: ItemSender) -> None:
        """Send the items put into `sender`, for the streamed argument of a call. Raises `Busy` if there is no room."""
        self.core.send_items(id, sender)

    def pass_items(self, id: int, envelope: Envelope) -> None:
        """Send items of a streamed argument that have come from another host. Raises `Busy`, `InvalidArgument`."""
        self.core.pass_items(id, envelope)

    @property
    def events(self) -> Events:
        """The events that the owner has not taken yet: a call may have ended while its owner does not know."""
        return self._events

    def fill(self, promise: OperandSource, value: Any, now_ns: int) -> None:
        """Assign a promise. Raises `FailedPrecondition` for one that is assigned, and `InvalidArgument` for a value that cannot
        be sent.
        """
        check_open(promise)
        self._pass_on(self.core.flow.fill(promise, self.core.pack_value(value), now_ns), self._events)

    def follow(self, promise: OperandSource, operand: Operand, client: object, now_ns: int) -> None:
        """Let an operand of `client` assign a promise. Raises `FailedPrecondition` for one that is assigned, and for a circle,
        and `InvalidArgument` for an operand that is none, or of another client.
        """
        check_open(promise)
        check_followed(promise, operand, client)
        has_ended, value, error = operand._outcome()
        if error is not None:
            failure = error if isinstance(error, BackplaneError) else Cancelled(text_of(error))
            self._pass_on(self.core.flow.fail(promise, failure), self._events)
        elif has_ended:
            self.fill(promise, value, now_ns)
        else:
            self.core.flow.follow(promise, operand)
            operand._passes_on()

    def drop_promise(self, promise: OperandSource) -> None:
        """Nobody can assign a promise any more: the calls that await it end."""
        self._pass_on(self.core.flow.drop(promise), self._events)

    def subscribe(self, topic: str, subscriber: object, waiter: object, now_ns: int) -> bool:
        """Subscribe. True: `waiter` comes back in an `Ended` once all backplanes have confirmed. False: they have already."""
        check_pattern(topic)
        self._expect_directory()
        self._connections.expect_others()
        for ask in self.hearing.add(topic, subscriber):
            self._ask(ask, now_ns)
        return self.hearing.wait(topic, waiter)

    def unsubscribe(self, topic: str, subscriber: object, now_ns: int) -> None:
        """Unsubscribe. Sent as a call and not as a cast: a backplane knows the peer of calls only."""
        for name in self.hearing.remove(topic, subscriber):
            peer = self._connections.peer(name)
            if peer is not None:
                route = addressing.backplane_route(name, "unsubscribe")
                spec = CallSpec(route, {"topic": topic}, ends_ns=now_ns + SUBSCRIBE_LIMIT_NS)
                self.core.open(peer, Settling(None, 1), spec)

    def settle(self, token: object, now_ns: int, timeout_ns: int) -> bool:
        """For closing. True: `token` comes back once all casts and messages have arrived, or never will. False: none.

        A send that returned is not a delivery (TRAPS 5). Of messages whose connection was closed while it was being made, with
        200 ms of linger, 3 to 18 in 100 never came (on an established one: 0 of 600). Where they are lost is not known. The
        answer to a later call proves that they came, a refusal as much as a result.
        """
        settling = Settling(token)
        for peer in self._unproven:
            # The call changes nothing, since nobody subscribes to that topic.
            route = addressing.backplane_route(self._connections.name(peer), "unsubscribe")
            try:
                spec = CallSpec(route, {"topic": "system.settled"}, ends_ns=now_ns + timeout_ns)
                self.core.open(peer, settling, spec)
                settling.remaining_count += 1
            except Busy:  # it does not read, so nothing would be proved in time
                continue
        self._unproven.clear()
        return settling.remaining_count > 0

    # -- events -------------------------------------------------------------------------------------------------------

    def turn(self, now_ns: int, frames_max: int = FRAMES_MAX) -> Events:  # hot: scripts/bench call_rtt
        """Send, receive, and end overdue calls. While `has_more` is True, do not wait on the link.

        Returns the events; the owner deletes each event that it has handled. Events left in the list (a signal's exception
        may strike anywhere) are returned again by the next turn.
        """
        core, reader, events = self.core, self.reader, self._events
        self._now_ns = now_ns
        while True:
            for name in core.flush():
                self._cannot_reach(name, events)
            for _ in range(frames_max):
                if not reader.receive():
                    break
                unread = reader.unread
                while unread:
                    self._take(reader.sender, unread[-1], events)
                    del unread[-1]
            if reader.lost_from:
                self._end_unanswered(events)
            if self._newest is not None and (self.directory is None or reader.has_read_on(frames_max, len(core.calls))):
                self._adopt(self._newest, events)
                self._newest = None
            self._expire(events)
            if not core.gathered_count:  # no step of this round produced an envelope
                return events

    def system_gone(self, error: BackplaneError, *, is_back_soon: bool = False) -> bool:
        """The process that distributes the routing table is gone: end all calls. `start` may be called again.

        `is_back_soon`: a connection to another host broke; calls that may be retried wait. Returns whether any call waits.
        """
        if not is_back_soon:
            self.core.resolver = None  # so that nothing is retried
        for name in self._connections.names():
            self._lose(name, self._connections.finished(name) or error, self._events)
        self._end_retired(None, self._events)
        for id, call in self.core.fail_peer(UNSENT):
            self._failed(id, call, error, self._events, is_sent=False)
        if not is_back_soon:
            self._end_calls_of(HELD, error, self._events)
        self._end_fetches(error)
        self.directory = self._newest = self.core.resolver = None
        _, waiters = self.hearing.update({})
        self._events += [Ended(waiter, None, error) for waiter in waiters]
        if not is_back_soon:
            self._end_calls_of(WAITING, error, self._events)
        self._fan_out.update(None)
        return len(self.core.calls) > 0

    def end_all(self, error: BackplaneError) -> Events:
        """The client closes: end every outstanding call. Earlier casts and messages are still offered to the link."""
        events = self._events
        self._end_fetches(error)
        for name in self.core.flush():
            self._cannot_reach(name, events)
        for peer in (*self._connections.peers(), WAITING, UNSENT, HELD):
            self._end_calls_of(peer, error, events)
        return events

    def next_wake_ns(self, now_ns: int) -> int | None:  # hot: scripts/bench call_rtt
        """When the next turn is due although nothing arrives; None: never."""
        core = self.core
        if self._connections.has_more or core.gathered_count or self._events:
            return now_ns
        wake = core.calls.next_deadline_ns()
        if self._ask_again and (wake is None or self._ask_again[0][0] < wake):
            wake = self._ask_again[0][0]
        for again_ns, _ in self._fetch_again:
            wake = again_ns if wake is None else min(wake, again_ns)
        if core.is_stalled and (wake is None or now_ns + STALLED_RETRY_NS < wake):
            wake = now_ns + STALLED_RETRY_NS
        due_ns = self._connections.retired_due_ns
        if due_ns is not None and (wake is None or due_ns < wake):
            wake = due_ns
        return wake

    @property
    def has_more(self) -> bool:
        """Whether the link must be read before waiting on it: take another turn."""
        return self._connections.has_more or bool(self._events)

    @property
    def ahead_frames_max(self) -> int:
        """Frames that a turn must read, at most, to get all answers received so far (frame_reader.py)."""
        return ahead_frames_max(len(self.core.calls))

    def no_room(self, route: str) -> Busy:
        """The error for a call that must not wait for room, or has waited in vain."""
        return Busy(f"{route}: {self.outstanding_count} calls of this client are outstanding", retry_after=0.1)

    @property
    def outstanding_count(self) -> int:
        """Calls that have not ended, including those waiting for a retry."""
        return len(self.core.calls)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _expect_directory(self) -> Directory:
        if self.directory is None:
            raise Unavailable("not connected to a system")
        return self.directory

    def _take(self, peer: bytes, envelope: Envelope, events: Events) -> None:  # hot: scripts/bench call_rtt
        kind = envelope.kind
        if kind == REPLY or kind == STATUS:
            call = self.core.end(envelope.id, peer)
            if call is not None:
                try:
                    if self.core.throttle.is_used or envelope.priority is not None:
                        self.core.answered(peer, call[1], envelope, self._now_ns)
                    self._answered(call, envelope, events)
                except BaseException:  # a signal's: the table no longer has this call, so nothing else would end it
                    self._answered(call, envelope, events)
                    raise
        elif kind == ITEMS:
            token = self.core.stream(envelope.id, peer)
            if token is not None:
                events.append(Streamed(token, envelope.body, envelope.number, envelope.is_blocked))
        elif kind == ARGUMENT_CREDIT:
            token = self.core.streamed(envelope.id, peer)
            if token is not None:
                events.append(Credited(token, envelope.body))
        elif kind == CREDIT and not envelope.id and type(envelope.body) is int:
            self.core.grant(peer, envelope.body)
            self._send_waiting(events)
        elif kind == PUBLISH and envelope.route is not None:
            lost = self.gaps.gap_before(peer, envelope.route, envelope.id)
            if envelope.route == DIRECTORY_TOPIC and peer == self._connections.peer(self.core.home):
                self._note(envelope.body)
            message = Message(envelope.route, envelope.body, lost)
            size = self.reader.share_bytes
            events += [Heard(one, message, size) for one in self.hearing.table.matching(envelope.route)]
        else:
            self.reader.malformed_count += 1  # nobody calls a client

    def _answered(self, call: OpenCall, envelope: Envelope, events: Events) -> None:
        if envelope.kind == REPLY:
            if envelope.number:
                self.core.flow.arrived(_inner(call[0]), envelope.id, envelope.number)
            return self._finish(call[0], envelope.body, None, events)
        error = error_from(
            *envelope.body, is_refused=envelope.is_refused, overloaded_at=envelope.priority, idle=envelope.number
        )
        self._failed(envelope.id, call, error, events)

    def _finish(self, token: object, result: Any, error: BackplaneError | None, events: Events) -> None:
        if not isinstance(token, Own):
            events.append(Ended(token, result, error))
            if self.core.has_flow and self.core.flow.is_used:
                self._pass_on(self.core.flow.ended(token, result, error, self._now_ns), events)
        elif isinstance(token, RetriedCall):
            self.core.forget(token)
            error = None if error is None else token.final(error)
            events.append(Ended(token.token, result, error))
            if self.core.has_flow and self.core.flow.is_used:
                self._pass_on(self.core.flow.ended(token.token, result, error, self._now_ns), events)
        elif isinstance(token, Fetch):
            if error is not None and error.retry_after is not None:  # a node that has started has no table yet
                due_ns = self._now_ns + wait_before(1, error.retry_after, self.core.retries.random())
                if due_ns < token.ends_ns:
                    self._fetch_again.append((due_ns, token))
                    return
            if error is None and not self._note(result, is_fetched=True):
                error = Unavailable("the supervisor sent no directory")
            if token.token is not None:
                events.append(Ended(token.token, None, error))
        elif isinstance(token, SubscribeCall):
            self._asked(token.ask, error, events)
        elif isinstance(token, Settling):
            token.remaining_count -= 1
            if token.token is not None and not token.remaining_count:
                events.append(Ended(token.token, None, None))

    def _pass_on(self, ended: list[EndedCall], events: Events) -> None:
        """Calls have ended because their operands did not come: tell their owners, and the calls that wait for them in turn.

        A loop instead of recursion, since a chain may be as long as the number of calls.
        """
        for token, error in ended:  # it grows
            events.append(Ended(token, None, error))
            ended += self.core.flow.ended(token, None, error, self._now_ns)

    def _failed(self, id: int, call: OpenCall, error: BackplaneError, events: Events, *, is_sent: bool = True) -> None:
        if self.core.has_flow and self.core.flow.is_used:
            found = self.core.flow.failed(call, _inner(call[0]), error)
            if found is None:
                return
            call = found
        if (final := self.core.failed(id, call, error, self._now_ns, is_sent=is_sent)) is not None:
            self._finish(call[0], None, final, events)

    def _end_calls_of(self, peer: bytes, error: BackplaneError, events: Events) -> None:
        for _, call in self.core.fail_peer(peer):
            self._finish(call[0], None, error, events)

    def _end_unanswered(self, events: Events) -> None:
        """The answers of some calls may have been in a lost frame: end all calls of its sender."""
        for peer in self.reader.lost_peers():
            for id, call in self.core.lose_answers(peer):
                self._failed(id, call, PeerDown(f"{call[1].route}: {_LOST}"), events)
        self.reader.lost_from.clear()
        if self.directory is not None:  # the lost frame may have held a newer one
            self.start(None, self._now_ns, REFRESH_LIMIT_NS)

    def _expire(self, events: Events) -> None:  # hot: scripts/bench call_rtt
        for token, error in self.core.expire(self._now_ns):
            self._finish(token, None, error, events)
            is_ours = isinstance(token, Fetch | Settling)
            if not is_ours and self.directory is not None and self._now_ns >= self._refresh_ns:
                self._refresh_ns = self._now_ns + REFRESH_NS
                self.start(None, self._now_ns, REFRESH_LIMIT_NS)
        if self._connections.retired_due_ns is not None:
            self._end_retired(self._now_ns, events)
        while self._ask_again and self._ask_again[0][0] <= self._now_ns:
            self._ask(heapq.heappop(self._ask_again)[1], self._now_ns)
        if self._fetch_again:
            due = [each for each in self._fetch_again if each[0] <= self._now_ns]
            self._fetch_again = [each for each in self._fetch_again if each[0] > self._now_ns]
            for _, fetch in due:
                self._fetch(fetch)

    def _end_fetches(self, error: BackplaneError) -> None:
        """Those that would begin again."""
        self._events += [Ended(fetch.token, None, error) for _, fetch in self._fetch_again if fetch.token is not None]
        self._fetch_again.clear()

    def _note(self, body: Any, *, is_fetched: bool = False) -> bool:
        """Accept a routing table if it is valid and newer. If fetched, at any version: the supervisor may have restarted."""
        try:
            directory = Directory.from_body(body)
        except msgspec.ValidationError:
            self.reader.malformed_count += 1
            return False
        self._connections.note(directory)
        known = self._newest or self.directory
        if known is None or directory.version > known.version or (is_fetched and directory != known):
            self._newest = directory
        return True

    def _adopt(self, directory: Directory, events: Events) -> None:
        ended = self.core.adopt(directory, self._now_ns)
        self.directory = directory
        self._fan_out.update(directory)
        for name in ended:
            if not self.core.retire(name, self._now_ns):
                self._lose(name, PeerDown(f"backplane {name!r} died; whether the work ran is not known"), events)
        self._send_waiting(events)
        places = {name: place.generation for name, place in directory.backplanes.items() if place.is_up}
        asks, waiters = self.hearing.update(places)
        events += [Ended(waiter, None, None) for waiter in waiters]
        for ask in asks:
            self._ask(ask, self._now_ns)

    def _send_waiting(self, events: Events) -> None:
        for id, call, error in self.core.send_waiting():
            self._failed(id, call, error, events, is_sent=False)

    def _cannot_reach(self, name: str, events: Events) -> None:
        if name == self.core.home:
            self.system_gone(PeerDown("the supervisor cannot be reached"))
        else:
            self._lose(name, PeerDown(f"backplane {name!r} cannot be reached"), events)

    def _lose(self, name: str, error: BackplaneError, events: Events) -> None:
        peer, calls = self.core.lose(name)
        if peer is not None:
            self._forget(peer)
        for id, call in calls:
            self._failed(id, call, error, events)

    def _end_retired(self, now_ns: int | None, events: Events) -> None:
        for peer, error in self._connections.overdue(now_ns, is_unread=self._connections.has_more):
            self._forget(peer)
            for id, call in self.core.fail_peer(peer):
                self._failed(id, call, error, events)

    def _forget(self, peer: bytes) -> None:
        self.gaps.forget(peer)
        self._unproven.discard(peer)
        self._fan_out.forget(peer)
        if self.core.has_flow and self.core.flow.is_used:
            self._pass_on(self.core.flow.lost(peer), self._events)

    def _ask(self, ask: Ask, now_ns: int) -> None:
        """Ask one backplane to subscribe this client; only `Hearing` waits for the answer."""
        if self.directory is None or not self.hearing.is_wanted(ask):
            return
        peer = self.core.connected(ask.name, self.directory.backplanes[ask.name])
        route = addressing.backplane_route(ask.name, "subscribe")
        try:
            spec = CallSpec(route, {"topic": ask.topic}, ends_ns=now_ns + SUBSCRIBE_LIMIT_NS)
            self.core.open(peer, SubscribeCall(ask), spec)
        except Busy:
            heapq.heappush(self._ask_again, (now_ns + SUBSCRIBE_RETRY_NS, ask))

    def _asked(self, ask: Ask, error: BackplaneError | None, events: Events) -> None:
        if error is None:
            events += [Ended(waiter, None, None) for waiter in self.hearing.answered(ask)]
        elif not self.hearing.is_wanted(ask):
            return
        elif isinstance(error, CallerError) and not isinstance(error, DeadlineExceeded):
            events += [Ended(waiter, None, error) for waiter in self.hearing.refused(ask.topic)]
        else:  # if the backplane is dead, `is_wanted` will drop it then
            heapq.heappush(self._ask_again, (self._now_ns + SUBSCRIBE_RETRY_NS, ask))


def _inner(token: object) -> object:
    """The owner's token of a call, whether or not the call was retried."""
    return token.token if isinstance(token, RetriedCall) else token
