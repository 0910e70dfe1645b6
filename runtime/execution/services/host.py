"""Host: the services of the engine for objects and components (the protocol `Host` is in objects/app_object.py).

Called from inside actions, and by `Component.post` from any thread. Each method takes the lead for as long as it needs it.
None of them waits for anything else. Users' arguments are typed `Any` until they have been checked: compiled code would
refuse them with messages of its own. Systems on top of the scheduler and a node's endpoint get more (engine_platform.py,
node_services.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from appbackplane.transport.address import Address
from appbackplane.transport.argument_stream import take_stream
from appbackplane.transport.call_checks import duration_ns, window_of
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument
from appbackplane.transport.item_sender import ItemSender
from appbackplane.transport.topics import check_topic

from ...objects.action import Action
from ...objects.actor_table import Actor
from ...objects.app_object import AppObject, queues_of
from ...objects.component import Component
from ...objects.operation import PRIORITY_DEFAULT
from ...objects.spawned import number_of
from ...scheduling.timers import Timer
from ..actions.blocking import call_and_block
from ..actions.coroutine_action import CoroutineAction, is_coroutine, is_coroutine_by_kind
from ..actions.coroutines import CallRequest, Gather, SendingRequest, StreamRequest, with_operands
from ..actions.method_action import MethodAction
from ..actions.stream_action import StreamAction
from ..intake.user_actions import check
from ..loop.engine import Engine
from ..outgoing.call_stream import CallStream
from ..outgoing.call_with_stream import CallWithStream
from ..workers.current import current
from .engine_platform import EnginePlatform
from .monitors import Monitors, ObjectMonitor
from .node_services import EngineNodeServices
from .spawning import Spawning


class EngineHost:
    """Implements `Host` on an engine."""

    def __init__(self, engine: Engine, monitors: Monitors, run_dir: str = "") -> None:
        self._engine = engine
        self._spawning = Spawning(engine, monitors)
        self._monitors = monitors
        self._lead, self._registry, self._scheduler = engine.lead, engine.registry, engine.scheduler
        self._outgoing, self._recorders, self._poll_leader = engine.outgoing, engine.recorders, engine.poll_leader
        self._publishing, self._lifecycle, self._deferring = engine.publishing, engine.lifecycle, engine.deferring
        #: Monotonic time: the clock's function itself.
        self.now_ns: Callable[[], int] = engine.now_ns
        #: The name of this backplane.
        self.backplane = engine.backplane
        #: Services for systems built on top of the scheduler, and for a node's endpoint.
        self.platform = EnginePlatform(engine, run_dir)
        self.node = EngineNodeServices(engine, monitors)

    def call(self, caller: AppObject, spec: CallSpec) -> CallRequest | CallWithStream:
        """A request for the running coroutine to await. Raises RuntimeError where no coroutine runs."""
        self._expect_coroutine(caller, spec)
        stream = take_stream(spec)
        if stream is not None:
            sender = ItemSender(spec, stream.window, has_signals=False)
            return CallWithStream(SendingRequest(spec, sender), stream, self._outgoing.leave)
        return with_operands(CallRequest(spec))

    def call_blocking(self, caller: AppObject, spec: CallSpec) -> Any:
        """Call on behalf of the running plain operation, and block its thread. Raises RuntimeError where none runs."""
        action = current.action
        if not isinstance(action, MethodAction) or (action.coroutine is not None and not _is_plain(action)):
            where = "no operation of this thread is running" if action is None else f"{action.name} is `async def`"
            raise RuntimeError(
                f"{caller.name} cannot block for a call of {spec.route!r}: {where}; "
                + ("use a client (`connect`)" if action is None else "await self.call() instead")
            )
        return call_and_block(action.object, spec)

    def gather(
        self, caller: AppObject, calls: Sequence[Any], *, return_exceptions: bool, timeout: float | None
    ) -> Gather:
        """Several requests for the running coroutine to await together. Raises TypeError for what is no call."""
        seen: set[int] = set()
        for each in calls:
            if isinstance(each, CallWithStream):
                raise InvalidArgument(f"{each.where} is a stream: gather() takes no such call; await it by itself")
            if type(each) is not CallRequest or each.gather is not None or each.attempts_count or id(each) in seen:
                what = "a call that is awaited already" if isinstance(each, CallRequest) else f"{each!r}"
                raise TypeError(
                    f"{caller.name}: gather() takes calls, as in gather(self.call(...), self.call(...)): got {what}"
                )
            seen.add(id(each))
        timeout_ns = None if timeout is None else duration_ns(timeout)
        return Gather(calls, returns_errors=return_exceptions, timeout_ns=timeout_ns)

    def stream(self, caller: AppObject, spec: CallSpec) -> CallStream:
        """The items of a stream, for the running coroutine to iterate over. Raises as `call`, and `InvalidArgument`."""
        self._expect_coroutine(caller, spec)
        spec.window = window_of(spec.route, spec.window)
        return CallStream(StreamRequest(spec), self._outgoing.leave)

    def _expect_coroutine(self, caller: AppObject, spec: CallSpec) -> None:
        action = current.action
        is_plain = _is_plain(action)
        if not isinstance(action, MethodAction) or action.coroutine is None or is_plain:
            where = (
                f"{action.name} is a plain {'generator' if is_plain else 'operation'}"
                if action is not None
                else "no operation of this thread is running"
            )
            raise RuntimeError(
                f"{caller.name} cannot await a call to {spec.route!r}: {where}; declare it `async def` and await the call"
                + (", or use self.call_blocking()" if action is not None and spec.window is None else "")
            )

    def cast(self, caller: AppObject, spec: CallSpec) -> None:
        """Send a cast. No caller waits for it, so it runs at its operation's priority, not at its sender's."""
        action = current.action
        with self._lead:
            spec.trace = self._recorders.trace_of(action)
            if spec.principal is None and action is not None:
                spec.principal = action.principal
            self._outgoing.cast(caller, spec, self.now_ns())
            self._poll_leader.notify()

    def publish(self, topic: Any, body: Mapping[str, Any]) -> None:
        """Send a message to all subscribers of a topic. Raises `InvalidArgument`."""
        if type(topic) is not str:
            check_topic(topic)
        action = current.action
        with self._lead:
            self._publishing.publish(topic, body, self._recorders.trace_of(action), self.now_ns())
            self._poll_leader.notify()

    def after(
        self,
        object: AppObject,
        delay_ns: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        priority: int | None = None,
    ) -> Timer:
        """Run a bound method of the object later. `priority`: defaults to that of the running action. Raises `Busy`."""
        if getattr(function, "__self__", None) is not object:
            raise TypeError(f"after() runs methods of {object.name} itself: got {function!r}")
        action = current.action
        method = inspect.unwrap(function.__func__)  # type: ignore[attr-defined]
        component = object._component
        assert component is not None
        name = f"{component.component_name}.{method.__name__}"
        if priority is None:
            priority = action.priority if action is not None else PRIORITY_DEFAULT
        timer = Timer(object, name, method, arguments, priority, 0)
        self.platform.set_timer(component, timer, delay_ns)
        return timer

    def post(self, action: Any) -> None:
        """Post an action from outside, such as a device or a library's thread. Raises TypeError, ValueError, `Busy`."""
        is_driven = is_coroutine_by_kind.get(type(action))
        if is_driven is None:
            if not isinstance(action, Action):
                raise TypeError(f"post() takes an Action: got {action!r}")
            is_driven = is_coroutine(type(action))
        known: Action = action
        with self._lead:
            check(known, self._scheduler.priorities)
            component = known.object._component
            if component is None or self._registry.components.get(component.component_name) is not component:
                raise ValueError(f"{action.name}: {action.object.name} is not in a component of this backplane")
            if is_driven:
                self.platform.post_own(component, CoroutineAction(known))
                known.posted_ns = 1  # it is not posted again before it has ended
                return
            if known.object._twins is not None:
                known.object = self._registry.queue_of(known.object)
            self.platform.post_own(component, known)

    def add_object(self, component: Component, object: AppObject) -> None:
        """Add an object while the backplane runs; starts its timers if the component serves."""
        with self._lead:
            self._registry.add_object(component, object)
            self._lifecycle.start_timers_of(object)
            self._engine.nudge()  # the poller must not sleep past them

    def remove_object(self, object: AppObject) -> None:
        """Remove an object and its timers. Raises `FailedPrecondition` while it has work or waits, and for a spawned one."""
        if number_of(object) is not None:
            raise FailedPrecondition(
                f"{object.name} was spawned, not added: end it, by end_spawned or its own end_self"
            )
        if isinstance(object, Actor):
            raise FailedPrecondition(
                f"{object.name} is an actor, to which its component's requests are sorted: it stays"
            )
        with self._lead:
            for each in queues_of(object):
                self._scheduler.check_removable(each)
            self._scheduler.timers.cancel_of(queues_of(object))
            self._lifecycle.forget(queues_of(object)[0])
            self._registry.remove_object(object)
            self._monitors.owner_ended(object)

    def spawn(self, component: Component, object: AppObject) -> Address:
        """Add a light object, and return its address. Raises as `AppObject.spawn`."""
        if not isinstance(object, AppObject) or isinstance(object, Component):
            raise TypeError(f"spawn() takes an object of a class that {component.name} declares: got {object!r}")
        with self._lead:
            return self._spawning.spawn(component, object)

    def end(self, object: AppObject, reason: Any) -> None:
        """End a spawned object. Raises RuntimeError for another."""
        with self._lead:
            self._spawning.end(object, _text(reason), self.now_ns())

    def end_address(self, component: Component, address: Address, reason: Any) -> None:
        """End the spawned object of a component at an address. Raises `NotFound`."""
        with self._lead:
            self._spawning.end(self._spawning.at(component, address), _text(reason), self.now_ns())

    def address_of(self, object: AppObject) -> Address:
        """The address of a spawned object. Raises RuntimeError for another."""
        return self._spawning.address_of(object)

    def monitor(self, object: AppObject, target: Any, method: Any, priority: Any) -> ObjectMonitor:
        """Set a monitor, which counts in `max_posted` of the object's component. Raises as `AppObject.monitor`."""
        if getattr(method, "__self__", None) is not object:
            raise TypeError(f"monitor() runs methods of {object.name} itself: got {method!r}")
        if priority is not None and (not isinstance(priority, int) or not 0 <= priority < self._scheduler.priorities):
            raise InvalidArgument(f"monitor(): priority {priority!r}, expected 0..{self._scheduler.priorities - 1}")
        action = current.action
        if priority is None:
            priority = action.priority if action is not None else min(PRIORITY_DEFAULT, self._scheduler.priorities - 1)
        with self._lead:
            return self._spawning.monitor(object, target, inspect.unwrap(method.__func__), priority)

    def shed(self, component: Component, below: int) -> int:
        """Refuse one request less urgent than `below` to make room; returns how many were refused, 0 or 1."""
        with self._lead:
            return self._engine.admission.shed(component, below)

    def requeue_deferred(self, object: AppObject, actions: list[Action]) -> None:
        """Queue the deferred actions of a state machine again, after a change of its state."""
        with self._lead:
            self._deferring.requeue(actions)
            self._poll_leader.notify()


def _text(reason: Any) -> str:
    if type(reason) is not str:
        raise TypeError(f"the reason of an end is text, got {reason!r}")
    return reason


def _is_plain(action: Action | None) -> bool:
    """Whether it is a generator of a plain operation, which is driven like a coroutine and cannot await."""
    return isinstance(action, StreamAction) and not action.is_async
