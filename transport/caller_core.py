"""Caller core: the caller's side of calls, without sockets, threads or clocks.

Facts and `now_ns` come in: a call to open, an answer, a new routing table, a lost backplane. Packed envelopes go into the
outbox, and ended calls are returned. Each call ends exactly once. A failed call that may be retried waits in the call table
(retrying.py), and `expire` makes the retry: the same bytes under another id, with the same deadline. Not thread-safe: it
belongs to the owner of the link.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .addressing import FAREWELL, backplane_route
from .batching import Outbox
from .call_spec import CallSpec
from .caller_throttle import CallerThrottle
from .calls import OutstandingCalls
from .codec import Encoder, renumbered
from .connections import ANSWERS_AHEAD_MAX, Connections, LinkPort
from .dataflow import HELD, Dataflow
from .directory import Directory, Place
from .envelope import Envelope, boost, cancel, cast, credit
from .errors import BackplaneError, Busy, DeadlineExceeded, InvalidArgument, Unavailable
from .item_sender import ItemSender
from .pulling import UNSENT, Pulling
from .resolver import Resolver
from .retrying import WAITING, Retries, RetryAccount, StopRetrying, after_attempts

#: Outstanding calls, and their bytes, from which a caller able to wait should wait (client.py). Throughput is flat from 1000
#: calls on. Accepting a call costs the callee about 8 us: behind so many, an urgent call of the same client is at worst 33
#: ms late. No more than the answers that are read ahead, or those beyond would be lost with their callee. Bytes are bounded
#: because both sides keep the calls that cannot be accepted yet.
OUTSTANDING_MAX, OUTSTANDING_BYTES_MAX = ANSWERS_AHEAD_MAX, 64 << 20
#: A call's token for its owner, its spec (its body is packed and dropped), its size in bytes, and its packed envelope if it
#: may be retried.
OpenCall = tuple[object, CallSpec, int, bytes | None]


def half() -> float:
    """No randomness: for callers that must know the wait beforehand."""
    return 0.5


class Own:
    """Token of a call that the session itself handles the end of, instead of its owner (session.py)."""


class RetriedCall(Own):
    """One call that has failed at least once and has not ended. It replaces the owner's token in the call table."""

    __slots__ = ("attempts_count", "because", "first_id", "id", "may_have_begun", "token")

    def __init__(self, token: object, id: int) -> None:
        self.token = token
        #: The id that the caller knows; and the present one, of the outstanding attempt or of the wait for the next.
        self.first_id = self.id = id
        self.attempts_count = 1
        #: Why the call is not retried any more.
        self.because = ""
        #: Whether the work of an attempt may have begun.
        self.may_have_begun = False

    def final(self, error: BackplaneError) -> BackplaneError:
        """The error in which the call ends: it adds the number of attempts, and the reason against another."""
        return after_attempts(error, self.attempts_count, self.because)


def _first_id(call: OpenCall) -> int:
    """The order in which retried calls were made."""
    retried = call[0]
    assert isinstance(retried, RetriedCall)
    return retried.first_id


class CallerCore:
    """The calls of one process. `token`: any value that the opener of a call wants back when the call ends."""

    def __init__(
        self, link: LinkPort, account: RetryAccount, random: Callable[[], float], home: str, home_place: Place
    ) -> None:
        """`account`: budget of the retries. `random`: returns 0 up to 1. `home`: name of the process that distributes the
        routing table and serves `supervisor.*`; `home_place`: its address.
        """
        self.connections = Connections(link)
        #: By the adopted routing table; None: there is none, and nothing can be called or retried.
        self.resolver: Resolver | None = None
        self.calls: OutstandingCalls[OpenCall] = OutstandingCalls()
        #: Envelopes put since the last flush.
        self.gathered_count = 0
        self.retries = Retries(self.calls, account, random)
        #: The shares of its calls that this process refuses itself.
        self.throttle = CallerThrottle(random)
        #: Calls that await results of others, and whether there has been any: programs without them pay for one look a call.
        self.flow = Dataflow(self)
        self.has_flow = False
        self.home = home
        self._home_place = home_place
        #: None: no backplane grants credit.
        self._pulling: Pulling | None = None
        self._link = link
        self._outbox = Outbox()
        self._encoder = Encoder()
        self._outstanding_bytes = 0
        #: By the id that its caller knows.
        self._retried: dict[int, RetriedCall] = {}

    @property
    def is_stalled(self) -> bool:
        """Whether a peer does not read its frames."""
        return bool(self._outbox.stalled)

    @property
    def is_full(self) -> bool:
        """Whether so much is outstanding that further calls should wait."""
        return len(self.calls) >= OUTSTANDING_MAX or self._outstanding_bytes >= OUTSTANDING_BYTES_MAX

    # -- resolve, connect ---------------------------------------------------------------------------------------------

    def peer_for(self, route: str, key: str | None) -> bytes:  # hot: scripts/bench call_rtt
        """The peer that serves a route, connected if necessary. Raises `UnknownRoute`, `Unavailable`."""
        resolver = self.resolver
        if resolver is None:
            raise Unavailable(f"{route}: not connected to a system")
        if route.startswith("supervisor."):
            return self.home_peer()
        name = resolver.resolve(route, key)
        return self.connections.peer(name) or self.connected(name, resolver.directory.backplanes[name])

    def _target(self, spec: CallSpec) -> bytes:  # hot: scripts/bench call_rtt
        """The peer to send a call to; UNSENT: it has to wait for room. Raises as `peer_for` does."""
        if self._pulling is not None and self.resolver is not None:
            peer = self._pulling.find(spec, spec.priority)
            if peer is not None:
                return peer
        return self.peer_for(spec.route, spec.routing_key())

    def _connect(self, name: str) -> bytes:
        assert self.resolver is not None
        return self.connected(name, self.resolver.directory.backplanes[name])

    def connected(self, name: str, place: Place) -> bytes:
        """The peer of an instance, connected if necessary."""
        return self.connections.peer(name) or self.connections.connect(name, place)

    def home_peer(self) -> bytes:
        """The peer of the process that distributes the routing table, connected if necessary."""
        return self.connected(self.home, self._home_place)

    # -- open, end ----------------------------------------------------------------------------------------------------

    def call(self, token: object, spec: CallSpec, now_ns: int) -> int:  # hot: scripts/bench call_rtt
        """Begin a call to whoever serves its route. Raises as `peer_for` and `open` do, and `Busy` if it is refused here."""
        if spec.operands is not None:
            return self.flow.begin(token, spec)
        peer = self._target(spec)
        if self.throttle.is_used and (refusal := self._refusal(peer, spec, now_ns)) is not None:
            return self.open_later(refusal, token, now_ns, spec, is_sent=True)
        return self.open(peer, token, spec)

    def open(self, peer: bytes, token: object, spec: CallSpec) -> int:  # hot: scripts/bench call_rtt
        """Begin a call; returns its id. Raises `InvalidArgument` or `Busy`; then nothing has begun."""
        packed = self._pack_call(self.calls.next_id, spec)
        return self._open(peer, (token, spec, len(packed), packed if spec.is_retried else None), packed)

    def open_later(
        self, error: BackplaneError, token: object, now_ns: int, spec: CallSpec, *, is_sent: bool = False
    ) -> int:
        """Keep a call that could not be sent until it can be; returns its id. Raises `error` if waiting is of no use.

        `is_sent`: its retry counts as that of a call that was sent (Retries.wait).
        """
        if spec.operands is not None:
            return self.flow.hold(token, spec)
        id = self.calls.take_id()
        if not spec.is_retried:
            raise error
        packed = self._pack_call(id, spec)
        retried = RetriedCall(token, id)
        if not self._wait(retried, (retried, spec, len(packed), packed), error, now_ns, is_sent=is_sent):
            raise retried.final(error)
        return id

    def hold(self, token: object, spec: CallSpec, size: int, first_id: int = 0) -> int:
        """Keep a call whose operands are not all there until `release`; returns the id that its caller knows.

        `size`: bytes of its arguments so far. `first_id`: that id, if the call has one.
        """
        retried = RetriedCall(token, first_id or self.calls.take_id())
        retried.attempts_count = 1 if first_id else 0
        self.retries.extra_ids_count += 1
        retried.id = self.calls.open(HELD, spec.ends_ns, (retried, spec, size, None))
        self._outstanding_bytes += size
        self._retried[retried.first_id] = retried
        return retried.first_id

    def release(self, id: int, now_ns: int) -> BackplaneError | None:
        """Send a held call, by the id its caller knows, with the arguments that it has now. If it ends, returns its error."""
        held = self.end(self.current_id(id))
        if held is None:
            return None
        retried, spec, _, _ = held
        assert isinstance(retried, RetriedCall)
        try:
            packed = self._pack_call(self.calls.next_id, spec)
        except InvalidArgument as error:
            self.forget(retried)
            return error
        final = self._retry((retried, spec, len(packed), packed), now_ns)
        if final is None:
            return None
        self.forget(retried)
        return retried.final(final)

    def repacked(self, token: object, spec: CallSpec) -> OpenCall:
        """A call that has failed, with the arguments that it has now."""
        packed = self._pack_call(self.calls.next_id, spec)
        return token, spec, len(packed), packed if spec.is_retried else None

    def end(self, id: int, peer: bytes | None = None) -> OpenCall | None:  # hot: scripts/bench call_rtt
        """An answer has come, or the call ends here. Returns the call; None if it has ended or `peer` is not its callee."""
        ended = self.calls.end(id, peer)
        if ended is not None:
            self._outstanding_bytes -= ended[2]
        return ended

    def answered(self, peer: bytes, spec: CallSpec, status: Envelope, now_ns: int) -> None:
        """Learn from an answer which share of further calls to send. Called while the throttle is used, and for refusals."""
        if status.priority is None:
            self.throttle.answered(peer, spec.route, spec.priority)
        elif not self._is_pulled(spec):
            retry_after, idle = status.body[2], status.number
            self.throttle.refused(peer, spec.route, spec.priority, status.priority, retry_after, now_ns, idle)

    def cancel(self, id: int) -> object | None:
        """Cancel a call, by the id that its caller knows. Returns its token, or None if it has ended."""
        id = self.current_id(id)
        peer = self.calls.peer_of(id)
        call = None if peer is None else self.end(id)
        if peer is None or call is None:
            return None
        if peer == WAITING:
            self.retries.waited(id)
        elif peer != UNSENT and peer != HELD:
            self._say_cancel(peer, id)
        return call[0]

    def give_up(self, id: int) -> bool:
        """Cancel a call whose owner learns of its end elsewhere, by the id that its caller knows. False: it has ended."""
        token = self.cancel(id)
        if isinstance(token, RetriedCall):
            self.forget(token)
        return token is not None

    def boost(self, id: int, priority: int) -> None:
        """Change the priority of an outstanding call, by the id that its caller knows."""
        id = self.current_id(id)
        peer = self.calls.peer_of(id)
        if peer == UNSENT and self._pulling is not None:
            self._pulling.boost(id, priority)
        elif peer == HELD:
            call = self.calls.get(id)
            assert call is not None
            call[2][1].priority = priority
        # If there is no room, the call keeps the priority that it has; so does one that waits for its retry.
        elif peer is not None and peer != WAITING and self._outbox.add(peer, self._encoder.encode(boost(id, priority))):
            self.gathered_count += 1

    # -- streams ------------------------------------------------------------------------------------------------------

    def stream(self, id: int, peer: bytes) -> object | None:
        """Items of a stream have come from `peer`. Returns the token; None: the call has ended, or asked for no stream.

        From its first item on a stream is not retried: the items that the reader has would come again.
        """
        call = self._of(id, peer)
        return None if call is None or call[1].window is None else self._without_retry(id, call)

    def streamed(self, id: int, peer: bytes) -> object | None:
        """The operation of `peer` asks for items of a streamed argument. Returns the token; None: as of `stream`.

        From then on the call is not retried: another attempt would need the items that this one gets.
        """
        call = self._of(id, peer)
        return None if call is None or call[1].streamed is None else self._without_retry(id, call)

    def send_items(self, id: int, sender: ItemSender) -> None:
        """Send what was put into `sender`, for the call that its caller knows as `id`. Raises `Busy` if there is no room."""
        id = self.current_id(id)
        peer = self.calls.peer_of(id)
        if peer is not None and peer not in (WAITING, UNSENT):
            for packed in sender.envelopes(id):
                self.put_packed(peer, packed)

    def pass_items(self, id: int, envelope: Envelope) -> None:
        """Send items of a streamed argument that have come from elsewhere. Raises `Busy`, `InvalidArgument`."""
        id = self.current_id(id)
        peer = self.calls.peer_of(id)
        if peer is not None and peer not in (WAITING, UNSENT):
            envelope.id = id
            self.put(peer, envelope)

    def _of(self, id: int, peer: bytes) -> OpenCall | None:
        """The outstanding call of `peer`, which has said something about it."""
        found = self.calls.get(id)
        if found is None or found[0] != peer:
            self.calls.late_count += 1
            return None
        return found[2]

    def _without_retry(self, id: int, call: OpenCall) -> object:
        token, spec, size, packed = call
        if packed is not None:
            self.calls.replace(id, (token, spec, size, None))
        return token.token if isinstance(token, RetriedCall) else token

    def give_credit(self, id: int, items: int) -> bool:
        """Let the callee of a stream, by the id that its caller knows, have sent this many items in all.

        False: there is no room even in the reserve, or it has ended.
        """
        id = self.current_id(id)
        peer = self.calls.peer_of(id)
        if (
            peer is None
            or peer in (WAITING, UNSENT)
            or not self._outbox.add_instead(peer, self._encoder.encode(credit(id, items)))
        ):
            return False
        self.gathered_count += 1
        return True

    # -- fail, wait, retry, expire ------------------------------------------------------------------------------------

    def failed(
        self, id: int, call: OpenCall, error: BackplaneError, now_ns: int, *, is_sent: bool = True
    ) -> BackplaneError | None:
        """An attempt has ended in `error`. Returns the error for `call`'s token; None: the call is retried."""
        token, spec, size, packed = call
        if packed is None or self.resolver is None:
            return error
        retried = token if isinstance(token, RetriedCall) else RetriedCall(token, id)
        if is_sent and not error.is_refused:
            retried.may_have_begun = True
        if self._wait(retried, (retried, spec, size, packed), error, now_ns, is_sent=is_sent):
            return None
        # An owner that gets a `RetriedCall` as the token asks it for the final error.
        return error if retried is token else retried.final(error)

    def forget(self, retried: RetriedCall) -> None:
        """A call with a `RetriedCall` as its token has ended."""
        self._retried.pop(retried.first_id, None)

    def expire(self, now_ns: int) -> list[tuple[object, BackplaneError]]:  # hot: scripts/bench call_rtt
        """End overdue calls, cancel them at their callees, and make the retries that are due. Returns (token, error) pairs."""
        ended: list[tuple[object, BackplaneError]] = []
        for id, peer, call in self.calls.expire(now_ns):
            self._outstanding_bytes -= call[2]
            if peer == WAITING:
                self.retries.waited(id)
                if (final := self._retry(call, now_ns)) is not None:
                    ended.append((call[0], final))
                continue
            if peer == UNSENT:
                error = DeadlineExceeded(f"{call[1].route}: no replica had room for it before the deadline")
                ended.append((call[0], error))
                continue
            awaited = self._awaited(call) if self.has_flow else ""
            if peer == HELD:
                ended.append(
                    (
                        call[0],
                        DeadlineExceeded(f"{call[1].route}: the deadline passed before its operands came{awaited}"),
                    )
                )
                continue
            because = f"{call[1].route}: no answer from {self.connections.name(peer)} before the deadline{awaited}"
            ended.append((call[0], DeadlineExceeded(because)))
            self._say_cancel(peer, id)
        return ended

    # -- a new routing table, lost peers ------------------------------------------------------------------------------

    def adopt(self, directory: Directory, now_ns: int) -> list[str]:
        """Use a new routing table. Returns the connected backplanes whose generation has ended, to `retire` or `lose`.

        A draining backplane is told that no more calls follow. This farewell arrives after all earlier calls.
        """
        known = None if self.resolver is None else self.resolver.directory
        for name in directory.newly_draining(known):
            peer = self.connections.peer(name)
            if peer is not None:
                with suppress(Busy):  # it does not read, and will wait for the farewell for a while
                    self.put(peer, cast(CallSpec(backplane_route(name, FAREWELL), {})))
        self.resolver = Resolver(directory)
        if self._pulling is None and any(place.is_pulled for place in directory.backplanes.values()):
            self._pulling = self.calls.pulling = Pulling(self._connect)
        if self._pulling is not None:
            self._pulling.adopt(self.resolver)
        for id, call in self.retries.hurry(now_ns, _first_id):
            retried = call[0]
            assert isinstance(retried, RetriedCall)
            retried.id = id
        return self.connections.outdated(directory, keep=self.home)

    def lose(self, name: str) -> tuple[bytes | None, list[tuple[int, OpenCall]]]:
        """A backplane is dead. Returns its former peer, and the (id, call) pairs that it held."""
        peer = self.connections.drop(name)
        if peer is None:
            return None, []
        self._ended(peer)
        return peer, self.fail_peer(peer)

    def _ended(self, peer: bytes) -> None:
        self._outbox.forget(peer)
        self.throttle.lost(peer)
        if self._pulling is not None:
            self._pulling.lost(peer)

    def retire(self, name: str, now_ns: int) -> bool:
        """Wait for the last answers of an instance that has finished its work. False: it has not, or no call is there."""
        peer = self.connections.peer(name)
        if not any(callee == peer for _, callee, _, _ in self.calls) or not self.connections.retire(name, now_ns):
            return False
        assert peer is not None
        self._ended(peer)
        return True

    def fail_peer(self, peer: bytes) -> list[tuple[int, OpenCall]]:
        """End the calls that a peer holds (WAITING: those that wait for a retry), without notifying it: (id, call) pairs."""
        failed = self.calls.fail_peer(peer)
        for _, call in failed:
            self._outstanding_bytes -= call[2]
        return failed

    def lose_answers(self, peer: bytes) -> list[tuple[int, OpenCall]]:
        """As `fail_peer`, where the peer lives: streams would wait there, for credit or for items, until their deadlines."""
        failed = self.fail_peer(peer)
        for id, (_, spec, _, _) in failed:
            if spec.window is not None or spec.streamed is not None:
                self._say_cancel(peer, id)
        return failed

    # -- room at replicas ---------------------------------------------------------------------------------------------

    def grant(self, peer: bytes, may_send: int) -> None:
        """A replica says how many calls it may have been sent in all; `send_waiting` next."""
        if self._pulling is not None:
            self._pulling.credit(peer, may_send)

    def send_waiting(self) -> list[tuple[int, OpenCall, BackplaneError]]:
        """Send the waiting calls for which there is room. Returns those that no replica takes: (id, call, error)."""
        failed: list[tuple[int, OpenCall, BackplaneError]] = []
        pulling = self._pulling
        for group in pulling.groups() if pulling is not None else ():
            assert pulling is not None
            try:
                for id, peer, packed in pulling.ready(group):
                    self.calls.assign(id, peer)
                    if self._outbox.add(peer, packed):
                        self.gathered_count += 1
                    elif (call := self.end(id)) is not None:
                        failed.append((id, call, self._busy(peer)))
            except Unavailable as error:
                ended = [(id, self.end(id)) for id in pulling.waiting(group)]
                failed += [(id, call, error) for id, call in ended if call is not None]
        return failed

    # -- send ---------------------------------------------------------------------------------------------------------

    def put(self, peer: bytes, envelope: Envelope) -> None:
        """Send an envelope at the next flush. Raises `InvalidArgument`, `Busy`."""
        self.put_packed(peer, self.pack(envelope))

    def pack(self, envelope: Envelope) -> bytes:  # hot: scripts/bench call_rtt
        """An envelope in its packed form, for one peer or many. Raises `InvalidArgument`."""
        try:
            return self._encoder.encode(envelope)
        except InvalidArgument as error:
            raise InvalidArgument(f"{envelope.route}: {error.message}") from error

    def put_packed(self, peer: bytes, packed: bytes) -> None:  # hot: scripts/bench call_rtt
        """Send a packed envelope at the next flush. Raises `Busy`."""
        if not self._outbox.add(peer, packed):
            raise self._busy(peer)
        self.gathered_count += 1

    def flush(self) -> list[str]:  # hot: scripts/bench call_rtt
        """Offer all envelopes to the link. Returns the backplanes that cannot be reached; usually none."""
        if not self._outbox:
            self.gathered_count = 0
            return []
        if len(self.calls) > self.connections.answers_ahead:
            self.connections.expect_answers(len(self.calls))
        unreachable = self._outbox.flush(self._link.send)
        self.gathered_count = 0
        named = [(self.connections.name(peer), peer) for peer in unreachable]
        return [name for name, peer in named if self.connections.peer(name) == peer]  # not an instance that has ended

    def current_id(self, id: int) -> int:
        """The present id of the call that its caller knows as `id`."""
        retried = self._retried.get(id)
        return id if retried is None else retried.id

    # -- steps --------------------------------------------------------------------------------------------------------

    def _refusal(self, peer: bytes, spec: CallSpec, now_ns: int) -> Busy | None:
        return None if self._is_pulled(spec) else self.throttle.refusal(peer, spec.route, spec.priority, now_ns)

    def _is_pulled(self, spec: CallSpec) -> bool:
        return self._pulling is not None and self.resolver is not None and self.resolver.is_pulled(spec)

    def _pack_call(self, id: int, spec: CallSpec) -> bytes:  # hot: scripts/bench call_rtt
        try:
            packed = self._encoder.call(id, spec)
        except InvalidArgument as error:
            raise InvalidArgument(f"{spec.route}: {error.message}") from error
        spec.body = None  # every attempt sends these bytes; the caller's objects need not live as long as the call
        return packed

    def _open(self, peer: bytes, call: OpenCall, packed: bytes) -> int:  # hot: scripts/bench call_rtt
        if call[1].window is not None:
            self.connections.expect_others()
        id = self.calls.open(peer, call[1].ends_ns, call)
        self._outstanding_bytes += call[2]
        if self._pulling is not None:
            self._pulling.opened(peer, id, call[1], call[1].priority, packed)
            if peer == UNSENT:
                return id
        if not self._outbox.add(peer, packed):
            self.end(id)
            raise self._busy(peer)
        self.gathered_count += 1
        return id

    def _wait(self, retried: RetriedCall, call: OpenCall, error: BackplaneError, now_ns: int, *, is_sent: bool) -> bool:
        """Keep a failed call until its retry is due. False: it is not retried."""
        _, spec, size, _ = call
        is_idempotent = self.resolver is not None and self.resolver.is_idempotent(spec.route)
        waiting = self.retries.wait(
            call, spec, retried.attempts_count, error, now_ns, is_sent=is_sent, is_idempotent=is_idempotent
        )
        if isinstance(waiting, StopRetrying):
            retried.because = waiting.because
            return False
        retried.id = waiting
        self._retried[retried.first_id] = retried
        self._outstanding_bytes += size
        return True

    def _retry(self, call: OpenCall, now_ns: int) -> BackplaneError | None:
        """Make the next attempt of a call. Returns the error for its token if it is not retried any more."""
        retried, spec, _, packed = call
        assert isinstance(retried, RetriedCall)
        assert packed is not None
        retried.attempts_count += 1
        try:
            peer = self._target(spec)
            # What may be done already is asked for, and not ordered: the callee has the reply for this key, or will have it.
            is_order = spec.idempotency_key is None or not retried.may_have_begun
            if self.throttle.is_used and is_order and (refusal := self._refusal(peer, spec, now_ns)) is not None:
                return None if self._wait(retried, call, refusal, now_ns, is_sent=True) else refusal
            self.retries.extra_ids_count += 1
            packed = renumbered(packed, self.calls.next_id)
            retried.id = self._open(peer, (retried, spec, len(packed), packed), packed)
        except BackplaneError as error:
            return None if self._wait(retried, call, error, now_ns, is_sent=False) else error
        return None

    def _awaited(self, call: OpenCall) -> str:
        """The operands that a call still awaits, as the end of a message."""
        token = call[0]
        missing = self.flow.awaits(token.token if isinstance(token, RetriedCall) else token)
        return f" (it awaits {', '.join(missing)})" if missing else ""

    def pack_arguments(self, spec: CallSpec) -> bytes:
        """The arguments of a call, packed. Raises `InvalidArgument`."""
        try:
            return self._encoder.pack(spec.body)
        except InvalidArgument as error:
            raise InvalidArgument(f"{spec.route}: {error.message}") from error

    def pack_value(self, value: Any) -> bytes:
        """A value alone, packed. Raises `InvalidArgument`."""
        return self._encoder.pack(value)

    def _busy(self, peer: bytes) -> Busy:
        return Busy(f"{self.connections.name(peer)} does not read its messages: no room for more", retry_after=0.1)

    def _say_cancel(self, peer: bytes, id: int) -> None:
        # Full: the callee checks the deadline by itself, so a lost CANCEL costs work, never a second answer.
        if self._outbox.add(peer, self._encoder.encode(cancel(id))):
            self.gathered_count += 1
