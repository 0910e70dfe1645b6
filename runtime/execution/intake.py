"""Intake: admission: turns received requests into queued actions, or into refusals with a reason (laws 7 and 9).

In this order: look up the route, check the component's state, find the object (by key, or the least busy one), check the
arguments, detect a cycle of calls, ask the throttle; then post the action. All of it runs in the thread that received the
message. Where finding the object is slow, a digester does it as an action of its own.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.directory import nearest
from appbackplane.transport.envelope import CALL, Envelope, cancel, status
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    NotFound,
    Unavailable,
    UnknownRoute,
    text_of,
)
from appbackplane.transport.topics import GapCounter

from ..objects.action import DEADLINE_DEFAULT_NS, LOCAL, Action, ParkableAction
from ..objects.app_object import AppObject
from ..objects.endpoint import Request
from ..objects.module_state import ModuleState
from ..objects.operation_spec import OperationSpec
from ..objects.registry import Route
from ..objects.state_machine import StateMachine
from ..scheduling.balance import least_busy
from ..scheduling.throttle import OwnWork, Throttle
from .admission import Admission
from .closing import Closing
from .digesting import Digest, Digesting
from .foreign import action_of
from .inheritance import lent
from .method_action import MethodAction
from .replays import KeyedAction, Replays
from .rings import Rings, check_return

if TYPE_CHECKING:
    from .engine import Engine

#: Looked up once, as in objects/action.py.
_PRIMARY: Final = ModuleState.PRIMARY
_SECONDARY: Final = ModuleState.SECONDARY

log = logging.getLogger("appbackplane.runtime")


class Intake:
    """Admission of calls, casts and messages. Part of the engine, owned by the thread that has the lead."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: Calls that were admitted, or are with a digester, and have not ended: by caller and context id.
        self.accepted: dict[tuple[bytes, int], Action] = {}
        #: Calls that state machines have deferred beside their queues, by their deadlines.
        self.deferred: OutstandingCalls[MethodAction] = OutstandingCalls()
        self.throttles: dict[str, Throttle] = {}
        #: Work that components have given themselves.
        self.own_work: dict[str, OwnWork] = {}
        self.admission = Admission(engine)
        self.closing = Closing(engine)
        self.gaps = GapCounter()
        self.refused_casts_count = 0
        #: Takes requests for routes of other nodes, and later envelopes about such calls (runtime/peers).
        self.foreign: Callable[[bytes, Envelope, int], None] | None = None
        #: Called with each peer that made such requests and can no longer be reached.
        self.foreign_gone: Callable[[bytes], None] | None = None
        self.digesting = Digesting(engine)
        self.replays = Replays(engine)
        self.rings = Rings(engine)

    def accept(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:  # hot: scripts/bench call_pipelined
        """Admit a call or a cast, or tell its caller why it was refused."""
        try:
            self.admit(peer, envelope, now_ns)
        except BackplaneError as error:
            self.turn_away(peer, envelope, error, now_ns)
        except (
            BaseException
        ) as error:  # the edge: a strange argument may make a library raise anything; the process goes on
            log.exception("%s could not be accepted", envelope.route)
            problem = InternalError(f"{envelope.route}: {type(error).__name__}: {text_of(error)}")
            self.turn_away(peer, envelope, problem, now_ns)

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
        engine = self._engine
        route = engine.registry.routes.get(name)
        if route is None:
            if self.foreign is not None and peer is not LOCAL:
                return self.foreign(peer, envelope, now_ns)
            raise UnknownRoute(name, self.nearest(name))
        if not route.is_registered and (caller is None or caller._component is not route.component):
            self.closing.check_served(route, is_inside=caller is not None)
        priority = self._priority(name, envelope.priority, route.priority)
        deadline_ns = None
        if kind == CALL:
            deadline = DEADLINE_DEFAULT_NS if envelope.deadline is None else envelope.deadline
            deadline_ns = -deadline if deadline < 0 else now_ns + deadline  # `due_ns`, inlined
            if deadline_ns <= now_ns:
                engine.statistics.of(name).expired_count += 1
                raise DeadlineExceeded(f"{name}: the deadline passed {(now_ns - deadline_ns) / 1e6:.1f} ms ago")
        is_keyed = envelope.idempotency_key is not None and kind == CALL
        if (
            is_keyed
            and (key is not None or not route.has_digest)
            and self.replays.has_answered(peer, envelope, priority, now_ns)
        ):
            return
        spec: OperationSpec | None = None
        if route.endpoint is not None:
            asked = Request(name, key, body, priority, deadline_ns, chain or ())
            made = action_of(route, asked, engine.scheduler.priorities)
            assert made is not None, "it is of no topic"
            action = made
        elif route.has_digest and key is None:
            return self.digesting.begin(route, peer, envelope, priority, now_ns)
        else:
            object, spec = self._target(route, key, chain)
            arguments = spec.binding.bind(body, name)
            if envelope.priority is None:
                priority = spec.priority
            if is_keyed:
                action = KeyedAction(object, name, priority, spec.function, arguments, deadline_ns)
            else:
                action = MethodAction(object, name, priority, spec.function, arguments, deadline_ns)
            action.spec, action.sender = spec, peer
        lends = action.object.lends
        if lends is not None and lends < action.priority:
            action.priority = lends
        try:
            if chain:
                is_reentrant = spec is not None and spec.mark.reentrant
                action.continues = check_return(action, chain, is_reentrant=is_reentrant)
                action.chain = chain
            action.trace = envelope.trace
            if route.is_counted:
                self.admission.count_in(action, route.component, envelope.counts_for(peer))
        except BackplaneError as error:
            engine.endings.never_posted(action, error, now_ns)
            raise
        if kind == CALL:
            action.peer, action.call_id = peer, id
            self.accepted[peer, id] = action
            if is_keyed:
                self.replays.began(action, envelope)
        if engine.callers.unread_since_ns and peer is not LOCAL:
            action.wait_ns = now_ns - engine.callers.unread_since_ns
        engine.scheduler.post(action, now_ns)
        engine.inheritance.queued(action, now_ns)
        if chain and kind == CALL:
            self.rings.queued(action)

    def accept_topic(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """Post a topic's message to each object of this backplane that subscribes to it."""
        topic, body, node = envelope.route, envelope.body, envelope.node
        assert topic is not None
        if peer is not LOCAL:
            lost = self.gaps.gap_before(peer, topic, envelope.id)
            if self.foreign is not None:
                return (
                    self.foreign(peer, envelope, now_ns)
                    if node is None
                    else self._engine.publishing.pass_on(envelope, lost)
                )
        for number, hearer in enumerate(self._engine.registry.hearers(topic)):
            if node is not None and not hearer.is_exported:
                continue
            component, name, spec = hearer.component, hearer.name, hearer.spec
            try:
                state = component._module_state
                if state is not _PRIMARY and state is not _SECONDARY:
                    raise Unavailable(f"{component.name} is {state.value}")
                own = copy.deepcopy(body) if number else body
                priority = self._priority(name, envelope.priority, hearer.priority)
                action: Action | None
                if hearer.route is not None:
                    asked = Request(name, None, own, priority, None, (), topic)
                    action = action_of(hearer.route, asked, self._engine.scheduler.priorities)
                    if action is None:
                        continue
                else:
                    assert spec is not None
                    arguments = spec.binding.bind(own, name)
                    action = MethodAction(hearer.object, name, priority, spec.function, arguments)
                action.trace = envelope.trace
                try:
                    self.admission.count_in(action, component, envelope.counts_for(peer))
                except BackplaneError as error:
                    self._engine.endings.never_posted(action, error, now_ns)
                    raise
            except BaseException as error:  # the edge: an argument's own code may raise anything
                if not isinstance(error, Busy):  # the throttle has counted that
                    self._engine.statistics.of(name).refused_count += 1
                problem = f"a message of topic {topic!r} did not reach {hearer.object.name}: {text_of(error)}"
                self._engine.reports.refused(f"topic {name}", problem, now_ns)
            else:
                self._engine.scheduler.post(action, now_ns)
                self._engine.inheritance.queued(action, now_ns)

    def cancel(self, peer: bytes, id: int, now_ns: int) -> None:
        """Cancel a call: take it out of its queue, end its wait, or notify it at its next step.

        The calls to this backplane that it awaits are cancelled with it, one after the other: they may be as many as objects.
        """
        if self.foreign is not None and (peer, id) not in self.accepted:
            self.foreign(peer, cancel(id), now_ns)
        while (action := self.accepted.get((peer, id))) is not None:  # None: the answer and the cancellation crossed
            if self.replays.running and self.replays.taken_back(action, peer, id, now_ns):
                return
            peer, id = LOCAL, self._cancel(action, now_ns)

    def _cancel(self, action: Action, now_ns: int) -> int:
        """Cancel one action. Returns the id of the call to this backplane that it awaited, or 0."""
        engine = self._engine
        name = action.asked.route or "" if isinstance(action, Digest) else action.name
        engine.statistics.of(name).cancelled_count += 1
        if isinstance(action, MethodAction) and action.coroutine is not None:
            action.cancel()
            self._wanted_by_nobody(action, now_ns)
            return engine.outgoing.give_up(action, now_ns) if action.awaiting_id else 0
        error = Cancelled(f"{name}: cancelled before it began")
        if isinstance(action, ParkableAction):
            if engine.parking.take_back(action, error, now_ns):
                return 0
            # An action that has begun completes its handlers: half of a message's handlers is worse than an unwanted answer.
            if action.has_begun:
                self._wanted_by_nobody(action, now_ns)
                return 0
        machine = action.object
        if engine.scheduler.withdraw(action):
            engine.endings.refuse(action, error, now_ns)
        elif isinstance(action, MethodAction) and isinstance(machine, StateMachine) and action in machine._deferred:
            self.drop(action, Cancelled(f"{action.name}: cancelled before it was accepted"), now_ns)
        else:  # it runs: if it is about to wait, or to await a call, it is told there
            if isinstance(action, ParkableAction):
                action.taken_back = error
            elif isinstance(action, MethodAction):
                action.cancel()
            self._wanted_by_nobody(action, now_ns)
        return 0

    def _wanted_by_nobody(self, action: Action, now_ns: int) -> None:
        """An action that has begun goes on without its caller, and without the priority that its caller has inherited since."""
        action.priority_own = max(action.priority_own, lent(action.priority_asked, action.object))
        self._engine.inheritance.settle([action], now_ns)

    def boost(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """The caller changes the priority of a call: a more urgent one waits for it, or no longer does (law 10)."""
        id, priority = envelope.id, envelope.priority
        assert priority is not None
        if envelope.chain is not None:
            self.rings.heard(peer, envelope)
        elif (peer, id) not in self.accepted:
            if self.foreign is not None:
                self.foreign(peer, envelope, now_ns)
        elif priority >= 0:
            action = self.reprioritise(peer, id, min(priority, self._engine.scheduler.priorities - 1))
            assert action is not None
            self._engine.inheritance.changed(action, now_ns)

    def reprioritise(self, peer: bytes, id: int, priority: int) -> Action | None:
        """Note the new priority of a call. Returns the action that is to follow it; None: the call has ended."""
        action = self.accepted.get((peer, id))
        if action is None:
            return None
        if not (self.replays.running and self.replays.reprioritised(action, peer, id, priority)):
            action.priority_own = lent(priority, action.object)
        if isinstance(action, Digest):
            action.asked.priority = priority
        return action

    def defer(self, action: MethodAction, now_ns: int) -> None:
        """A state machine does not accept this action now: keep it beside the queue, until the next change of state."""
        machine = action.object
        assert isinstance(machine, StateMachine) and action.spec is not None
        if machine._machine_state in (action.spec.mark.accepted_in or ()):
            self._engine.scheduler.requeue([action])  # the state has changed since
        else:
            machine._deferred.append(action)
            if action.throttle is not None:
                action.throttle.may_be_refused(action.priority)
            if action.deadline_ns is not None:
                action.awaiting_id = self.deferred.open(LOCAL, action.deadline_ns, action)

    def requeue(self, actions: Sequence[Action]) -> None:
        """A state machine has changed its state: its deferred actions are tried again."""
        for action in actions:
            if isinstance(action, MethodAction) and action.awaiting_id:
                self.deferred.end(action.awaiting_id)
                action.awaiting_id = 0
        self._engine.scheduler.requeue([*actions])

    def expire(self, now_ns: int) -> None:
        """End deferred actions at their deadlines: no caller waits for them, and they would keep their places for ever."""
        for _, _, action in self.deferred.expire(now_ns):
            machine = action.object
            assert isinstance(machine, StateMachine)
            if action in machine._deferred:  # if not, it is on its way to the queue, and ends there
                self._engine.statistics.of(action.name).expired_count += 1
                late = f"{action.name}: the deadline passed before {machine.name} accepted it"
                self.drop(action, DeadlineExceeded(late), now_ns)

    def drop(self, action: MethodAction, error: BackplaneError, now_ns: int) -> None:
        """End an action that a state machine has deferred."""
        machine = action.object
        assert isinstance(machine, StateMachine)
        machine._deferred.remove(action)
        self.deferred.end(action.awaiting_id)
        action.wait_ns += now_ns - action.posted_ns
        self._engine.scheduler.drop(action)
        self._engine.endings.refuse(action, error, now_ns)

    def nearest(self, name: str) -> str | None:
        """The known route most like `name`, for an error message."""
        return nearest(name, self._engine.registry.routes) or self._engine.outgoing.directory.nearest(name)

    def turn_away(self, peer: bytes, envelope: Envelope, error: BackplaneError, now_ns: int) -> None:
        """Tell the caller why its call was refused. For a cast, which nobody awaits, count and report the refusal."""
        if envelope.kind == CALL:
            self._engine.say(peer, status(envelope.id, error, is_refused=True), now_ns)
            return
        self.refused_casts_count += 1
        self._engine.reports.refused(f"cast {envelope.route}", f"a cast was refused: {text_of(error)}", now_ns)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _priority(self, name: str, asked: int | None, declared: int) -> int:
        if asked is None:
            return declared
        if 0 <= asked < self._engine.scheduler.priorities:
            return asked
        raise InvalidArgument(f"{name}: priority {asked}, expected 0..{self._engine.scheduler.priorities - 1}")

    def _target(
        self, route: Route, key: str | None, chain: Sequence[Sequence[str]] | None
    ) -> tuple[AppObject, OperationSpec]:
        objects = route.objects
        if key is not None:
            object = self._engine.registry.by_key(route.component.component_name, key)
            if object is None:
                raise NotFound(f"{route.component.name} has no object with key {key!r}")
            spec = route.specs.get(type(object))
            if spec is None:
                raise NotFound(f"{object.name} does not serve {route.name}")
            return object, spec
        if len(objects) == 1:
            return objects[0], route.specs[type(objects[0])]
        found = least_busy(objects, route.cursor, [link[0] for link in chain] if chain else ())
        route.cursor += 1
        if found is None:
            raise Unavailable(f"{route.name}: {route.component.name} has no object that serves it now")
        return found, route.specs[type(found)]
