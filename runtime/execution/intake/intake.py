"""Intake: admission: turns received requests into queued actions, or into refusals with a reason (laws 7 and 9).

In this order: look up the route, check the component's state and the caller's permissions, find the object (by key, or the
least busy one), check the arguments, detect a cycle of calls, ask the throttle; then post the action. All of it runs in the
thread that received the message. Where finding the object is slow, a digester does it as an action of its own.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

from appbackplane.transport.addressing import OF_NODE
from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS, WINDOW_MAX, window_of
from appbackplane.transport.call_spec import OWN
from appbackplane.transport.envelope import CALL, FORWARD, Envelope, status
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unavailable,
    UnknownRoute,
    text_of,
)
from appbackplane.transport.item_buffer import ItemBuffer

from ...objects.action import LOCAL, AcceptedCalls, Action
from ...objects.actor_table import Actor
from ...objects.app_object import AppObject
from ...objects.endpoint import Request
from ...objects.operation_spec import OperationSpec
from ...objects.registry import Registry, Route
from ...observation.span_ids import traceparent_of
from ...observation.statistics import Statistics
from ...scheduling.adaptive_limit import AdaptiveLimit
from ...scheduling.balance import least_busy
from ...scheduling.scheduler import Scheduler
from ..actions.batch_action import BatchAction
from ..actions.completion import Completion
from ..actions.inheritance import Inheritance
from ..actions.method_action import MethodAction
from ..actions.reading_action import ReadingAction
from ..actions.reports import Reports
from ..actions.stream_action import StreamAction
from ..actions.streamed_argument import StreamedArgument
from ..outgoing.call_cycles import check_return
from ..outgoing.forwarding import Forwarding
from ..outgoing.ring_detector import RingDetector
from ..outgoing.routing import Routing
from ..outgoing.sender import Sender
from ..workers.clock import Clock
from .admission import Admission
from .awaiting_calls import AwaitingCalls
from .digest import Digesters
from .digesting import Digesting
from .fairness import FairKeys
from .grants import Grants
from .idempotency_cache import IdempotencyCache, KeyedAction, digest_of
from .overload_control import OverloadControl
from .remote_routes import RemoteRoutes
from .shutdown_gate import ShutdownGate
from .sources import AccessPort, Sources, share_of
from .user_actions import action_of

log = logging.getLogger("appbackplane.runtime")


class Intake:
    """Admission of calls, casts and messages. Used under the lead."""

    def __init__(
        self, *, clock: Clock, registry: Registry, scheduler: Scheduler, statistics: Statistics, reports: Reports,
        sender: Sender, accepted: AcceptedCalls, shutdown_gate: ShutdownGate, admission: Admission,
        overload: OverloadControl, digesters: Digesters, replays: IdempotencyCache, rings: RingDetector,
        completion: Completion, inheritance: Inheritance, routing: Routing, remote: RemoteRoutes, sources: Sources,
        grants: Grants | None, fair_keys: FairKeys | None, awaiting: AwaitingCalls, forwarding: Forwarding,
        access: AccessPort | None,
    ) -> None:  # fmt: skip
        self._registry = registry
        self._scheduler = scheduler
        self._statistics = statistics
        self._reports = reports
        self._sender = sender
        self._accepted = accepted
        self._shutdown_gate = shutdown_gate
        self._admission = admission
        self._overload = overload
        self._replays = replays
        self._rings = rings
        self._completion = completion
        self._inheritance = inheritance
        self._routing = routing
        self._remote = remote
        self._sources = sources
        self._grants = grants
        self._fair_keys = fair_keys
        self._access = access
        self._awaiting = awaiting
        self._forwarding = forwarding
        self._digesting = Digesting(
            clock=clock, scheduler=scheduler, statistics=statistics, reports=reports, accepted=accepted, admission=admission,
            digesters=digesters, accept=self.accept, turn_away=self.turn_away,
        )  # fmt: skip
        #: Where only workers read the link (`preempt = false`): when input was first seen there while all workers ran; 0: none
        #: is unread. Calls read later have waited since then at most. Set by the engine, which reads the link.
        self.unread_since_ns = 0
        self.refused_casts_count = 0

    def accept(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:  # hot: scripts/bench call_pipelined
        """Admit a call or a cast, or tell its caller why it was refused."""
        is_shared = self._grants is not None and self._is_shared(peer, envelope)
        try:
            self.admit(peer, envelope, now_ns)
        except BackplaneError as error:
            self.turn_away(peer, envelope, error, now_ns)
        except BaseException as error:  # the edge: a strange argument may make a library raise anything
            log.exception("%s could not be accepted", envelope.route)
            problem = InternalError(f"{envelope.route}: {type(error).__name__}: {text_of(error)}")
            self.turn_away(peer, envelope, problem, now_ns)
        if is_shared and self._grants is not None:
            self._grants.received(peer, self._accepted.get((peer, envelope.id)), now_ns)

    def admit(
        self, peer: bytes, envelope: Envelope, now_ns: int, caller: AppObject | None = None
    ) -> None:  # hot: call_pipelined
        """Post the requested action. Raises the `BackplaneError` that explains a refusal.

        `caller`: the calling object, if it is of this backplane. Objects of one component reach each other in every state.
        """
        kind, id, name, key, body, chain = (
            envelope.kind, envelope.id, envelope.route, envelope.key, envelope.body, envelope.chain
        )  # fmt: skip
        assert name is not None
        route = self._registry.routes.get(name)
        if route is None and OF_NODE in name:  # it may name this very system, as an address does
            envelope.route = name = name.removeprefix(f"{self._routing.directory.home}{OF_NODE}")
            route = self._registry.routes.get(name)
        if route is None:
            if envelope.awaits and self._remote.take is not None:
                raise InvalidArgument(
                    f"{name}: it is served by another node, to which operands do not travel: send values"
                )
            if self._remote.take is not None and peer is not LOCAL:
                if envelope.principal is not None and not self._sources.may_say(peer):
                    envelope.principal = None
                return self._remote.take(peer, envelope, now_ns)
            if OF_NODE in name and peer is not LOCAL:  # only the node's backplane is asked for these
                raise Unavailable(f"{name}: the endpoint of this node has not started yet", retry_after=0.1)
            raise UnknownRoute(name, self._routing.nearest(name))
        if not route.is_registered and (caller is None or caller._component is not route.component):
            self._shutdown_gate.check_served(route, is_inside=caller is not None)
        priority = self._priority(name, envelope.priority, route.priority)
        source = self._sources.of(peer, chain, envelope.source)
        principal = envelope.principal
        if principal is not None and not self._sources.may_say(peer):
            principal = None
        if self._access is not None:
            principal = self._access.caller_of(source, principal)
        if self._sources.rules and (ruled := self._ruled(name, source)) is not None:
            envelope.priority = priority = ruled
        deadline_ns = None
        if kind == CALL:
            deadline = TIMEOUT_DEFAULT_NS if envelope.deadline is None else envelope.deadline
            deadline_ns = -deadline if deadline < 0 else now_ns + deadline  # `due_ns`, inlined
            if deadline_ns <= now_ns:
                self._statistics.of(name).expired_count += 1
                raise DeadlineExceeded(f"{name}: the deadline passed {(now_ns - deadline_ns) / 1e6:.1f} ms ago")
        most_urgent = 0
        is_checked = self._access is not None and len(route.access) > 0
        if is_checked and (key is not None or not route.has_digest):
            most_urgent = self._check_access(route, key, self._named(route, key), source, principal)
            priority = max(priority, most_urgent)
        if envelope.awaits:
            if self._awaits(route, peer, envelope, priority, source, principal, deadline_ns, now_ns):
                return
            body = envelope.body
        is_keyed = envelope.idempotency_key is not None and kind == CALL
        digest = b""
        if is_keyed and (key is not None or not route.has_digest):
            digest = digest_of(name, body)
            record = self._replays.find(envelope, digest, now_ns)
            if record is not None:
                work = self._replays.join(record, peer, id, priority, deadline_ns, now_ns)
                if work is not None:
                    self._inheritance.inherit(work, priority, now_ns)
                    if chain:
                        self._rings.attached(work, peer, id)
                return
        limit: AdaptiveLimit | None = None
        spec: OperationSpec | None = None
        buffer: ItemBuffer | None = None
        if envelope.streamed is not None:
            self._check_streamed(route, envelope)
        if route.endpoint is not None:
            if envelope.window is not None:
                raise InvalidArgument(f"{name} has one result, and no stream of items: call it")
            asked = Request(name, key, body, priority, deadline_ns, chain or (), None, source, principal)
            made = action_of(route, asked, self._scheduler.priorities)
            assert made is not None, "it is of no topic"
            action = made
            action.object = self._registry.queue_of(made.object)
        elif route.has_digest and key is None:
            return self._digesting.begin(route, peer, envelope, source, principal, priority, now_ns)
        else:
            if self._overload.is_used:
                limit = self._overload.admit(name, priority, peer, now_ns)
            object, spec = self._target(route, key, chain)
            if envelope.streamed is not None:
                buffer, body = _streamed(spec, envelope.streamed, body, name)
            arguments = spec.binding.bind(body, name)
            if envelope.priority is None:
                priority = max(spec.priority, most_urgent)
            if is_checked and key is None and object.key is not None:  # the runtime chose the thing, not the caller
                most_urgent = self._check_access(route, object.key, object, source, principal)
                priority = max(priority, most_urgent)
            if route.actors is not None and key is None:
                object = self._registry.queue_of(route.actors.choose(name, arguments, priority))
            window = envelope.window
            if spec.is_stream or window is not None:
                action = self._stream(object, name, priority, spec, arguments, deadline_ns, window, is_keyed=is_keyed)
            elif buffer is not None:
                action = ReadingAction(object, name, priority, spec.function, arguments, deadline_ns, buffer)
            elif is_keyed:
                action = KeyedAction(object, name, priority, spec.function, arguments, deadline_ns)
            elif spec.batched is not None:
                action = BatchAction(object, name, priority, spec, arguments, deadline_ns)
            else:
                action = MethodAction(object, name, priority, spec.function, arguments, deadline_ns)
            action.spec, action.sender = spec, peer
        lends = action.object.lends
        if lends is not None and lends < action.priority:
            action.priority = lends
        try:
            if chain:
                if not _serves_meanwhile(action.object):
                    is_reentrant = spec is not None and spec.mark.reentrant
                    action.continues = check_return(action, chain, is_reentrant=is_reentrant)
                action.chain = chain
            action.trace, action.source, action.principal = traceparent_of(envelope.trace), source, principal
            if self._fair_keys is not None:
                action.fair_key = self._fair_keys.key_of(source, principal, body)
            if route.is_counted:
                self._admission.count_in(action, route.component, share_of(peer, source))
        except BackplaneError as error:
            self._completion.never_posted(action, error, now_ns)
            raise
        if kind == CALL:
            action.peer, action.call_id = peer, id
            self._accepted[peer, id] = action
            if is_keyed:
                self._replays.began(action, envelope, digest)
        if self.unread_since_ns and peer is not LOCAL:
            action.wait_ns = now_ns - self.unread_since_ns
        if limit is not None:
            action.limit = limit
            limit.admitted(action, now_ns)
        self._scheduler.post(action, now_ns)
        self._inheritance.queued(action, now_ns)
        if chain and kind == CALL:
            self._rings.queued(action)

    def hear_of_operands(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """Handle an OPERAND, and admit the call that is complete with it; or a FORWARD."""
        if envelope.kind == FORWARD:
            return self._forwarding.want(peer, envelope)
        waiting = self._awaiting.receive(envelope, now_ns, may_be_early=self._sources.may_say(peer))
        if waiting is None:
            return
        caller, id = waiting.sender, waiting.asked.id
        self.accept(caller, waiting.asked, now_ns)
        action = self._accepted.get((caller, id))
        if self._forwarding.wanted and (action is None or action.peer != caller or action.call_id != id):
            self._forwarding.forget(caller, id)  # it was refused, or shares the work of another call

    def accept_topic(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """Post a topic's message to each object of this backplane that subscribes to it."""
        topic, body, node = envelope.route, envelope.body, envelope.node
        assert topic is not None
        source = self._sources.of(peer, None, None)
        for number, hearer in enumerate(self._registry.hearers(topic)):
            if node is not None and not hearer.is_exported:
                continue
            component, name, spec = hearer.component, hearer.name, hearer.spec
            try:
                state = component._module_state
                if state not in hearer.states:
                    if hearer.names_states:
                        self._statistics.of(name).refused_count += 1
                        continue
                    raise Unavailable(f"{component.name} is {state.value}")
                own = copy.deepcopy(body) if number else body
                priority = self._priority(name, envelope.priority, hearer.priority)
                action: Action | None
                if hearer.route is not None:
                    asked = Request(name, None, own, priority, None, (), topic, source)
                    action = action_of(hearer.route, asked, self._scheduler.priorities)
                    if action is None:
                        continue
                else:
                    assert spec is not None
                    arguments = spec.binding.bind(own, name)
                    object = self._registry.queue_of(hearer.object)
                    action = MethodAction(object, name, priority, spec.function, arguments)
                    if spec.mark.accepted_in is not None:
                        action.spec = spec
                action.trace, action.source = traceparent_of(envelope.trace), source
                if self._fair_keys is not None:
                    action.fair_key = self._fair_keys.key_of(source, None, own)
                try:
                    self._admission.count_in(action, component, share_of(peer, source))
                except BackplaneError as error:
                    self._completion.never_posted(action, error, now_ns)
                    raise
            except BaseException as error:  # the edge: an argument's own code may raise anything
                if not isinstance(error, Busy):  # the throttle has counted that
                    self._statistics.of(name).refused_count += 1
                problem = f"a message of topic {topic!r} did not reach {hearer.object.name}: {text_of(error)}"
                self._reports.refused(f"topic {name}", problem, now_ns)
            else:
                self._inheritance.post(action, now_ns)

    def turn_away(self, peer: bytes, envelope: Envelope, error: BackplaneError, now_ns: int) -> None:
        """Tell the caller why its call was refused. For a cast, which nobody awaits, count and report the refusal."""
        if envelope.kind == CALL:
            if envelope.awaits:
                self._awaiting.refused(envelope.token)
            if self._forwarding.wanted:
                self._forwarding.forget(peer, envelope.id)
            self._sender.say(peer, status(envelope.id, error, is_refused=True), now_ns)
            return
        self.refused_casts_count += 1
        self._reports.refused(f"cast {envelope.route}", f"a cast was refused: {text_of(error)}", now_ns)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _is_shared(self, peer: bytes, envelope: Envelope) -> bool:
        """Whether the caller reckons that this call takes room (`CallSpec.is_shared`)."""
        return (
            envelope.kind == CALL
            and envelope.key is None
            and envelope.idempotency_key is None
            and envelope.awaits is None
            and peer is not LOCAL
            and not (envelope.route or "").startswith(OWN)
            and OF_NODE not in (envelope.route or "")
        )

    def _priority(self, name: str, asked: int | None, declared: int) -> int:
        if asked is None:
            return declared
        if 0 <= asked < self._scheduler.priorities:
            return asked
        raise InvalidArgument(f"{name}: priority {asked}, expected 0..{self._scheduler.priorities - 1}")

    def _stream(
        self, object: AppObject, name: str, priority: int, spec: OperationSpec, arguments: tuple[Any, ...],
        deadline_ns: int | None, window: int | None, *, is_keyed: bool,
    ) -> StreamAction:  # fmt: skip
        """The action of a generator operation. Raises `InvalidArgument` if its caller does not read a stream."""
        if not spec.is_stream:
            raise InvalidArgument(f"{name} has one result, and no stream of items: call it")
        if window is None:
            raise InvalidArgument(f"{name} is a generator: read its items with stream()")
        if is_keyed:
            raise InvalidArgument(f"{name}: a stream takes no idempotency key, because its items are not kept")
        return StreamAction(object, name, priority, spec.function, arguments, deadline_ns, min(window, WINDOW_MAX))

    def _check_streamed(self, route: Route, envelope: Envelope) -> None:
        """Raises `InvalidArgument` for a call whose argument cannot be sent item by item."""
        where = f"{route.name}: argument {envelope.streamed!r} is a stream"
        if envelope.kind != CALL or envelope.idempotency_key is not None:
            raise InvalidArgument(f"{where}: its items are not kept, so the call takes no idempotency key")
        if envelope.window is not None:
            raise InvalidArgument(f"{where}: a call whose reply is a stream takes none")
        if route.endpoint is not None:
            raise InvalidArgument(f"{where}: an endpoint takes whole requests")
        if route.has_digest and envelope.key is None:
            raise InvalidArgument(f"{where}: its digest cannot read it; name the key of the object")

    def _awaits(
        self, route: Route, peer: bytes, envelope: Envelope, priority: int, source: str, principal: str | None,
        deadline_ns: int | None, now_ns: int,
    ) -> bool:  # fmt: skip
        """Keep a call that awaits operands. False: all have come before it. Raises as `admit`."""
        waiting = self._awaiting.make(route, peer, envelope, priority, deadline_ns or now_ns)
        if waiting is None:
            return False
        waiting.source, waiting.principal, waiting.trace = source, principal, traceparent_of(envelope.trace)
        if route.is_counted:
            self._admission.count_in(waiting, route.component, share_of(peer, source))
        self._awaiting.add(waiting, now_ns)
        return True

    def _ruled(self, name: str, source: str) -> int | None:
        """The priority that the configuration gives the source of a request; None: none. Raises `PermissionDenied`."""
        rule = self._sources.rule_of(source)
        if rule == "refuse":
            raise PermissionDenied(
                f"{name}: calls of {source} are refused here (`sources` of the backplane's configuration)"
            )
        return rule

    def _check_access(
        self, route: Route, key: str | None, object: AppObject | None, source: str, principal: str | None
    ) -> int:
        """Raise `PermissionDenied` unless the caller may use the thing. Returns the most urgent priority that it may have."""
        assert self._access is not None
        component = route.component.component_name
        priority = self._access.check(component, key, object, route.access, source, principal)
        return 0 if priority is None else min(priority, self._scheduler.priorities - 1)

    def _named(self, route: Route, key: str | None) -> AppObject | None:
        """The object that a call means; None: there is none, or several."""
        if key is not None:
            return self._registry.by_key(route.component.component_name, key)
        return route.objects[0] if len(route.objects) == 1 else None

    def _target(
        self, route: Route, key: str | None, chain: Sequence[Sequence[str]] | None
    ) -> tuple[AppObject, OperationSpec]:
        objects = route.objects
        if key is not None:
            object = self._registry.by_key(route.component.component_name, key)
            if object is None:
                raise self._registry.absent(route.component, key)
            spec = route.specs.get(type(object))
            if spec is None or (route.actors is not None and not route.actors.has(object)):
                raise NotFound(f"{object.name} does not serve {route.name}")
            return self._registry.queue_of(object), spec
        if route.actors is not None:
            return route.component, route.specs[Actor]  # its arguments determine the actor, once they are checked
        if len(objects) == 1:
            (object,) = objects
            spec = route.specs[type(object)]
            return self._registry.queue_of(object), spec
        found = least_busy(objects, route.cursor, [link[0] for link in chain] if chain else ())
        route.cursor += 1
        if found is None:
            raise Unavailable(f"{route.name}: {route.component.name} has no object that serves it now")
        spec = route.specs[type(found)]
        return self._registry.queue_of(found), spec


def _serves_meanwhile(object: AppObject) -> bool:
    """Whether a call that comes back to this object, which waits in its chain, is served all the same: it interleaves, or this
    is another queue of it, with nothing to do.
    """
    return object._tails is not None or (object._twins is not None and not object._load)


def _streamed(spec: OperationSpec, argument: str, body: dict[str, Any], name: str) -> tuple[ItemBuffer, dict[str, Any]]:
    """The buffer of a streamed argument, and the arguments of the call with the object to be read in its place."""
    window = window_of(f"{name}: argument {argument!r}", body.get(argument))
    buffer = ItemBuffer(f"{name}: argument {argument!r}", window, credit=0)
    check = spec.streamed[1] if spec.streamed is not None and spec.streamed[0] == argument else None
    return buffer, {**body, argument: StreamedArgument(name, argument, buffer, check)}
