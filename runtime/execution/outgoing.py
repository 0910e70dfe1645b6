"""Outgoing: calls and casts that objects of this backplane make, and the handling of their answers.

Routes are resolved here, in the caller, by the routing table that the supervisor pushes; a call needs no third party. A call
carries the running action's priority, the rest of its deadline, its trace, and the chain of objects that wait for it. It ends
once: by an answer, by its deadline, or because the process that held it died.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from appbackplane.transport import addressing
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.connections import Connections
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import STATUS, Envelope, call, cancel, cast
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    InternalError,
    PeerDown,
    Unavailable,
    UnknownRoute,
    error_from,
    text_of,
)
from appbackplane.transport.request import check_call
from appbackplane.transport.resolver import RETRY_AFTER_S, Resolver
from appbackplane.transport.retrying import SPREAD_NS, Again

from ..objects.action import LOCAL, Action
from ..objects.app_object import AppObject
from .coroutines import CallRequest, Pause, Signal
from .method_action import MethodAction
from .trying_again import TryingAgain

if TYPE_CHECKING:
    from .engine import Engine

#: Stands for the callee of a pause: the clock; and of a failed call that waits for a retry.
_CLOCK, _AGAIN = b"\x00clock", b"\x00again"

log = logging.getLogger("appbackplane.runtime")


class Outgoing:
    """Calls of this backplane's objects, and its actions' waits. Part of the engine, owned by the thread that has the lead."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.calls: OutstandingCalls[MethodAction] = OutstandingCalls()
        self.directory = Directory(system="")
        self._resolver = Resolver(self.directory)
        self._connections = Connections(engine.link)
        #: Calls among these that other processes hold; the rest are pauses, retries and calls to this backplane.
        self._remote_count = 0
        self.again = TryingAgain()
        #: Calls that found no instance, by the id of their wait.
        self._unplaced: dict[int, MethodAction] = {}
        #: Called after each new routing table.
        self.hearers: list[Callable[[], None]] = []

    def start(self, action: MethodAction, now_ns: int) -> None:
        """Begin the wait of an action; its object is in the wait queue already."""
        request = action.request
        if action.thrown is not None:  # cancelled while it ran
            self._go_on(action, now_ns)
            return
        if isinstance(request, Signal):
            if request.is_set:
                self._go_on(action, now_ns)
                return
            request.action = action
        self._engine.inheritance.awaits(action)
        if isinstance(request, Pause):
            due_ns = now_ns + request.delay_ns
            if action.deadline_ns is not None and now_ns < action.deadline_ns < due_ns:
                due_ns = action.deadline_ns  # it resumes then, and learns that it is too late
            action.awaiting_id = self.calls.open(_CLOCK, due_ns, action)
            self.again.others_count += 1
            return
        assert request is not None
        self._begin(action, request, now_ns)

    def _begin(self, action: MethodAction, request: CallRequest, now_ns: int) -> None:
        try:
            self._call(action, request, now_ns)
        except (
            BaseException
        ) as error:  # the edge: a strange call may make a library raise anything; the process goes on
            if not isinstance(error, BackplaneError):
                log.exception("%s could not call %s", action.name, request.spec.route)
                error = InternalError(f"{request.spec.route}: {type(error).__name__}: {text_of(error)}")
            is_placed, peer = action.awaiting_id != 0, self.calls.peer_of(action.awaiting_id)
            # `Busy` of a peer that does not read is not refused: a refused call is retried, and would pile up more there.
            error.is_refused = not is_placed or peer is LOCAL
            if is_placed:
                if peer:  # neither LOCAL, which is empty, nor None
                    self._remote_count -= 1
                self.calls.end(action.awaiting_id)
                action.awaiting_id = 0
            self._failed(action, error, now_ns, is_sent=is_placed)

    def trace_of(self, action: Action | None) -> str | None:
        """The trace that envelopes sent by `action` carry; where actions are recorded, it also names the sender."""
        recorder = self._engine.endings.recorder
        if action is None or recorder is None:
            return None if action is None else action.trace
        return recorder.context(action)

    def cast(self, caller: AppObject, spec: CallSpec, now_ns: int) -> None:
        """Send a request without a reply. Raises the `BackplaneError` that is known at once."""
        check_call(spec)
        place = self._resolve(spec)
        envelope = cast(spec)
        if place is None:
            self._engine.intake.admit(LOCAL, self._engine.as_received(envelope), now_ns, caller)
        elif not self._engine.say(self._peer(place), envelope, now_ns):
            raise Busy(f"{spec.route}: {place} does not keep up with the messages sent to it", retry_after=0.05)

    def answered(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:  # hot: scripts/bench call_rtt
        """Handle a reply or a status; one that no action awaits any more is counted and dropped."""
        action = self.calls.end(envelope.id, peer)
        if action is None:
            return
        if peer is not LOCAL:
            self._remote_count -= 1
        if envelope.kind == STATUS:
            code, message, retry_after, trace = envelope.body
            error = error_from(code, message, retry_after, trace, is_refused=envelope.is_refused)
            self._failed(action, error, now_ns)
        else:
            self._go_on(action, now_ns, result=envelope.body)

    def expire(self, now_ns: int) -> None:
        """End overdue calls, resume pauses, and make the retries that are due."""
        for id, peer, action in self.calls.expire(now_ns):
            self._unplaced.pop(id, None)
            if peer is _CLOCK:
                self._go_on(action, now_ns)
                continue
            if peer is _AGAIN:
                assert isinstance(action.request, CallRequest)
                action.awaiting_id = 0
                self.again.others_count += 1
                self._begin(action, action.request, now_ns)
                continue
            if peer is not LOCAL:
                self._remote_count -= 1
            self._take_back(peer, id, now_ns)
            assert isinstance(action.request, CallRequest)
            late = DeadlineExceeded(f"{action.request.spec.route}: no answer before the deadline")
            self._failed(action, late, now_ns)

    def give_up(self, action: MethodAction, now_ns: int) -> int:
        """The waiting action has been cancelled: end its wait, and resume it with `Cancelled`.

        Returns the id of the awaited call if it is to this backplane, for the intake to cancel; 0 otherwise.
        """
        id = action.awaiting_id
        peer = self.calls.peer_of(id)
        if peer is None:
            return 0
        self.calls.end(id)
        self._unplaced.pop(id, None)
        self._go_on(action, now_ns)
        if peer is LOCAL:
            return id
        if peer is not _CLOCK and peer is not _AGAIN:
            self._remote_count -= 1
            self._take_back(peer, id, now_ns)
        return 0

    def set(self, signal: Signal, now_ns: int) -> None:
        """Set a signal, and resume the action that awaits it. An action that awaits it later does not wait."""
        signal.is_set = True
        action = signal.action
        if isinstance(action, MethodAction) and action.request is signal:
            self.calls.end(action.awaiting_id)
            self._go_on(action, now_ns)
            self._engine.watch.notify()

    def fail_peer(self, peer: bytes, now_ns: int, error: PeerDown | None = None) -> None:
        """A peer is dead: the calls it held end in PEER_DOWN."""
        because = "the process that held the call died" if error is None else error.message
        failed = self.calls.fail_peer(peer)
        self._remote_count -= len(failed)
        for _, action in failed:
            assert isinstance(action.request, CallRequest)
            self._failed(action, PeerDown(f"{action.request.spec.route}: {because}"), now_ns)

    def ends(self, directory: Directory) -> bool:
        """Whether, by this routing table, a backplane has ended to which calls were made."""
        return bool(self._connections.outdated(directory, keep=""))

    def update(self, directory: Directory, now_ns: int) -> None:
        """Adopt a new routing table: calls to dead instances end now; new instances are connected when first used."""
        if directory.version < self.directory.version:
            return
        self._engine.callers.update(self.directory, directory)
        leaving = directory.newly_draining(self.directory)
        self.directory, self._resolver = directory, Resolver(directory)
        self._connections.note(directory)
        for name in self._connections.outdated(directory, keep=""):
            finished, peer = self._connections.finished(name), self._connections.drop(name)
            assert peer is not None
            self._engine.outbox.forget(peer)
            self._engine.publishing.forget(peer)
            self.fail_peer(peer, now_ns, finished)
        self._engine.publishing.update(directory)
        for name in leaving:
            self._say_farewell(name, now_ns)
        if self._unplaced:
            self._look_again(now_ns)
        for hear in self.hearers:
            hear()

    def _say_farewell(self, name: str, now_ns: int) -> None:
        """Tell a draining backplane that no more calls follow. The farewell arrives after all earlier calls."""
        peer = self._connections.peer(name)
        if peer is not None:
            route = addressing.backplane_route(name, addressing.FAREWELL)
            self._engine.say(peer, cast(CallSpec(route, {})), now_ns)

    def peer_of(self, backplane: str) -> bytes | None:
        """The peer of a backplane, connected if necessary; None while it is down."""
        place = self.directory.backplanes.get(backplane)
        if place is None or not place.is_up:
            return None
        return self._connections.peer(backplane) or self._connections.connect(backplane, place)

    def is_draining(self, backplane: str) -> bool:
        """Whether a backplane is draining: it finishes its accepted work, and accepts nothing new."""
        place = self.directory.backplanes.get(backplane)
        return place is not None and place.is_draining

    def is_nobody(self, peer: bytes) -> bool:
        """Whether no process holds a call of this peer: it has failed, and waits for a retry."""
        return peer is _AGAIN

    def place_of(self, peer: bytes) -> Place | None:
        """The instance behind a connected peer; None: it is no backplane, or unknown."""
        name = self.backplane_of(peer)
        return None if name is None else self.directory.backplanes.get(name)

    def backplane_of(self, peer: bytes) -> str | None:
        """The name of a peer's backplane; None for the clock, and for a peer that is no backplane."""
        if peer is LOCAL:
            return self._engine.backplane
        return self._connections.place_name(peer)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _call(self, action: MethodAction, request: CallRequest, now_ns: int) -> None:
        spec = request.spec
        if not request.attempts_count:
            check_call(spec)
            spec.ends_ns = now_ns + spec.timeout_ns
            if action.deadline_ns is not None and action.deadline_ns < spec.ends_ns:
                spec.ends_ns = action.deadline_ns
        request.attempts_count += 1
        place = self._resolve(spec, action.chain)
        peer = LOCAL if place is None else self._peer(place)
        action.awaiting_id = id = self.calls.open(peer, spec.ends_ns, action)
        if peer is not LOCAL:
            self._remote_count += 1
            if self._remote_count > self._connections.answers_ahead:
                self._connections.expect_answers(self._remote_count)
        chain: Sequence[Sequence[str]] = (*action.chain, (action.object.name, action.name))
        spec.trace = self.trace_of(action)
        envelope = call(id, spec, -spec.ends_ns, chain)
        envelope.priority = priority = self._engine.inheritance.call_priority(action, spec.priority)
        if peer is LOCAL:
            self._engine.intake.admit(LOCAL, self._engine.as_received(envelope), now_ns, action.object)
        elif not self._engine.say(peer, envelope, now_ns):
            raise Busy(f"{spec.route}: {place} does not keep up with the messages sent to it", retry_after=0.05)
        else:
            assert place is not None
            self._engine.presence.lend(self.directory.backplanes[place], priority, now_ns)

    def _resolve(self, spec: CallSpec, chain: Sequence[Sequence[str]] = ()) -> str | None:
        """The backplane that is to serve a call; None: this one. `chain`: the calls that wait for its caller.

        Of several backplanes that serve a call without an object's key, the same idempotency key always selects the same one.
        """
        engine, route, key = self._engine, spec.route, spec.key
        here = engine.registry.routes.get(route)
        if here is not None and (
            (key is None and spec.idempotency_key is None)
            or (key is not None and engine.registry.by_key(here.component.component_name, key) is not None)
        ):
            return None
        try:
            place = self._resolver.resolve(route, spec.routing_key())
        except UnknownRoute:
            if addressing.OF_NODE in route:
                raise
            if here is None:
                raise UnknownRoute(route, engine.intake.nearest(route)) from None
            return None  # the routing table does not hold our own routes yet
        except Unavailable:
            if here is not None and route not in self.directory.routes:
                return None  # as above, while others have yet to register
            if (
                not self._is_finishing(chain)
                or (draining := self._resolver.draining(route, spec.routing_key())) is None
            ):
                raise
            place = draining
        return None if place == engine.backplane else place

    def _is_finishing(self, chain: Sequence[Sequence[str]]) -> bool:
        """Whether the call belongs to work of a draining backplane: this one, or one that waits for us."""
        if self.is_draining(self._engine.backplane):
            return True
        for waiting, route in chain:
            if self.is_draining(waiting.partition("/")[0]):  # "backplane/object": its work may have no route of its own
                return True
            for name in self.directory.routes.get(route, ()):
                if self.is_draining(name):
                    return True
        return False

    def _peer(self, backplane: str) -> bytes:
        peer = self.peer_of(backplane)
        if peer is None:
            raise Unavailable(f"backplane {backplane} is down", retry_after=RETRY_AFTER_S)
        return peer

    def _failed(self, action: MethodAction, error: BackplaneError, now_ns: int, *, is_sent: bool = True) -> None:
        """A call has failed: retry it, or resume its action with the error."""
        request = action.request
        if not isinstance(request, CallRequest) or action.thrown is not None:
            self._go_on(action, now_ns, error=error)
            return
        route = request.spec.route
        is_idempotent = type(route) is str and self._resolver.is_idempotent(route)
        ids_count = self.calls.next_id
        verdict = self.again.decide(request, error, now_ns, ids_count, is_sent=is_sent, is_idempotent=is_idempotent)
        if isinstance(verdict, Again):
            self._wait(action, now_ns + verdict.wait_ns)
            if not is_sent:
                self._unplaced[action.awaiting_id] = action
        else:
            self._go_on(action, now_ns, error=verdict)

    def _wait(self, action: MethodAction, due_ns: int) -> None:
        action.awaiting_id = self.calls.open(_AGAIN, due_ns, action)
        self.again.others_count += 1

    def _look_again(self, now_ns: int) -> None:
        """A new routing table: calls that found no instance try again soon, and not all at once."""
        unplaced, self._unplaced = self._unplaced, {}
        for id, action in unplaced.items():
            if action.awaiting_id == id and self.calls.end(id, _AGAIN) is not None:
                self._wait(action, now_ns + int(self.again.random() * SPREAD_NS))

    def _take_back(self, peer: bytes, id: int, now_ns: int) -> None:
        self._engine.say(peer, cancel(id), now_ns)

    def _go_on(
        self, action: MethodAction, now_ns: int, result: Any = None, error: BackplaneError | None = None
    ) -> None:
        action.request, action.awaiting_id = None, 0
        self._engine.inheritance.goes_on(action)
        if action.thrown is None:  # a cancellation or a deadline takes precedence
            action.inbox, action.thrown = result, error
            action.received = error
        self._engine.scheduler.resume(action, now_ns)
