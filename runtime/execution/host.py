"""Host: the services of the engine for objects and components (the protocol `Host` is in objects/app_object.py).

Called from inside actions, and by `Component.post` from any thread. Each method takes the lead for as long as it needs it.
None of them waits for anything else. Users' arguments are typed `Any` until they have been checked: compiled code would
refuse them with messages of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.envelope import Envelope, instead
from appbackplane.transport.topics import check_topic

from ..objects.action import Action, ParkableAction
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.operation import PRIORITY_DEFAULT
from ..scheduling.timers import Timer
from .coroutines import CallRequest, OneShotEvent
from .current import current
from .engine import Engine
from .external_work import ExternalWorkRecorder
from .method_action import MethodAction
from .user_actions import check
from .worker import Worker

T = TypeVar("T")


class EngineHost:
    """Implements `Host` on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._lead = engine.lead
        self._clock = engine.clock
        self._scheduler = engine.scheduler
        self._registry = engine.registry
        self._watch = engine.watch
        self._reports = engine.reports
        self._sender = engine.sender
        self._limits = engine.limits
        self._recorders = engine.recorders
        self._routing = engine.routing
        self._remote = engine.remote
        self._presence = engine.presence
        self._inheritance = engine.inheritance
        self._completion = engine.completion
        self._deferring = engine.deferring
        self._parking = engine.parking
        self._admission = engine.admission
        self._outgoing = engine.outgoing
        self._callers = engine.callers
        self._publishing = engine.publishing
        self._lifecycle = engine.lifecycle
        self._directory_hearers = engine.directory_hearers
        self._nudge = engine.nudge
        self._flush = engine.flush
        #: Monotonic time: the clock's function itself.
        self.now_ns: Callable[[], int] = engine.now_ns
        #: CPU time of the calling thread.
        self.cpu_ns: Callable[[], int] = engine.clock.cpu_ns
        #: Starts or stops workers to match the number required; None: not started, or a virtual backplane without threads.
        self.on_threads: Callable[[], None] | None = None
        #: Threads that each component keeps for itself, beside the configured ones.
        self.kept: dict[str, int] = {}
        #: Waits for gates on behalf of threads that run no action; None: they block themselves (blocking.py). Set by
        #: single-threaded tests.
        self.stand_in: Callable[[Any, float], bool] | None = None
        #: The name of this backplane.
        self.backplane = engine.backplane
        #: The system's run directory.
        self.run_dir = ""

    def call(self, caller: AppObject, spec: CallSpec) -> CallRequest:
        """A request for the running coroutine to await. Raises RuntimeError where no coroutine runs."""
        action = current.action
        if not isinstance(action, MethodAction) or action.coroutine is None:
            where = (
                f"{action.name} is a plain operation"
                if action is not None
                else "no operation of this thread is running"
            )
            raise RuntimeError(
                f"{caller.name} cannot await a call to {spec.route!r}: {where}; declare it `async def` and await the call"
            )
        return CallRequest(spec)

    def cast(self, caller: AppObject, spec: CallSpec) -> None:
        """Send a cast. No caller waits for it, so it runs at its operation's priority, not at its sender's."""
        action = current.action
        with self._lead:
            spec.trace = self._recorders.trace_of(action)
            if spec.principal is None and action is not None:
                spec.principal = action.principal
            self._outgoing.cast(caller, spec, self._clock.now_ns())
            self._watch.notify()

    def publish(self, topic: Any, body: Mapping[str, Any]) -> None:
        """Send a message to all subscribers of a topic. Raises `InvalidArgument`."""
        if type(topic) is not str:
            check_topic(topic)
        action = current.action
        with self._lead:
            self._publishing.publish(topic, body, self._recorders.trace_of(action), self._clock.now_ns())
            self._watch.notify()

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
        with self._lead:
            account = self._limits.own_work[component.component_name]
            account.admit(name, component.name)
            timer.account = account
            self._scheduler.timers.set(timer, self._clock.now_ns() + max(0, delay_ns))
            self._nudge()  # the poller must not sleep past it
        return timer

    def later(
        self, component: Component, name: str, delay_ns: int, interval_ns: int, make: Callable[[], Action | None]
    ) -> Timer:
        """Run an action that a component makes, later; repeated every `interval_ns` unless that is 0. Raises `Busy`.

        `make` is called under the lead when the timer is due; see `Timer.make`.
        """
        timer = Timer(component, name, _never, (), PRIORITY_DEFAULT, interval_ns)
        timer.make = make
        with self._lead:
            account = self._limits.own_work[component.component_name]
            account.admit(name, component.name)
            timer.account = account
            self._scheduler.timers.set(timer, self._clock.now_ns() + max(0, delay_ns))
            self._nudge()  # the poller must not sleep past it
        return timer

    def post(self, action: Any) -> None:
        """Post an action from outside, such as a device or a library's thread. Raises TypeError, ValueError, `Busy`."""
        if not isinstance(action, Action):
            raise TypeError(f"post() takes an Action: got {action!r}")
        with self._lead:
            check(action, self._scheduler.priorities)
            component = action.object._component
            if component is None or self._registry.components.get(component.component_name) is not component:
                raise ValueError(f"{action.name}: {action.object.name} is not in a component of this backplane")
            self.post_own(component, action)

    def post_own(
        self, component: Component, action: Action, *, is_counted: bool = True
    ) -> None:  # hot: scripts/bench dispatcher_overhead
        """As `post`, but unchecked: for an action that one of our own components has made for one of its objects.

        `is_counted`: whether it counts against `max_posted`. Pass False for internal actions whose number is fixed.
        """
        with self._lead:
            if is_counted:
                account = self._limits.own_work[component.component_name]
                account.admit(action.name, component._name)
                action.throttle = account
            now_ns = self.now_ns()
            self._scheduler.post(action, now_ns)
            if action.object._waits or self._inheritance.blocked_count:
                self._inheritance.queued(action, now_ns)
            self._watch.notify()

    def resume(self, action: ParkableAction) -> None:
        """Resume a parked action: its wait is over. From any thread."""
        with self._lead:
            self._parking.resume(action, self._clock.now_ns())

    def hurry(self, action: ParkableAction) -> None:
        """A parked action waits for other actions than before: they inherit its priority."""
        with self._lead:
            self._parking.hurry(action, self._clock.now_ns())
            self._nudge()  # a ready action may now be urgent enough for a relief

    def raise_to(self, action: Action, priority: int) -> None:
        """Raise a queued action to `priority`, because work of that priority waits behind it."""
        with self._lead:
            self._inheritance.boost(action, priority, self._clock.now_ns())
            self._nudge()

    def keep_threads(self, component: Component, count: int) -> None:
        """Keep `count` extra threads for actions of this component that block their threads."""
        self.kept[component.component_name] = count
        if self.on_threads is not None:
            self.on_threads()

    @property
    def kept_count(self) -> int:
        """Threads that components keep for themselves."""
        return sum(self.kept.values())

    def with_lead(self, function: Callable[[], T]) -> T:
        """Call `function` under the lead and return its result: meanwhile no component changes state and no timer fires."""
        with self._lead:
            return function()

    def set(self, signal: OneShotEvent) -> None:
        """Set a signal: the action that awaits it goes on."""
        with self._lead:
            self._outgoing.set(signal, self._clock.now_ns())

    def has_work_above(self, worker: Worker) -> bool:
        """Whether any backplane has work of higher priority than the action of `worker`. Called by that action."""
        return self._presence.has_work_above(worker)

    @property
    def is_draining(self) -> bool:
        """Whether this backplane finishes its work and goes down. From any thread."""
        return self._lifecycle.is_suspended

    def at_end(self, action: Action, function: Callable[[Action], None]) -> None:
        """Call `function` under the lead when the running `action` has ended (`Completion.at_end`)."""
        self._completion.at_end(action, function)

    def begins_to_block(self, action: Action, what: str = "") -> None:
        """The running action is about to block its thread. `what`: the reason, for `why`."""
        with self._lead:
            self._parking.begins_to_block(action, self._clock.now_ns(), what)

    def blocks_no_more(self, action: Action) -> None:
        """The action's blocking wait has ended."""
        with self._lead:
            self._parking.blocks_no_more(action)

    def unix_ns(self) -> int:
        """Unix time in ns, for times of day; it may go backwards. Use `now_ns` for everything else."""
        return self._clock.now_ns() + self._clock.unix_offset_ns()

    def report(self, action: Action, error: BaseException) -> None:
        """Log a failure inside an action of which the caller learns nothing, or only a part."""
        with self._lead:
            self._reports.failed(action, error, self._clock.now_ns())

    @property
    def is_recording(self) -> bool:
        """Whether actions are recorded here. Needs no lead: it is decided before any action runs."""
        return self._recorders.actions is not None

    def records_beside(self, name: str) -> ExternalWorkRecorder | None:
        """The recorder for external work of that name, always the same; None: nothing is recorded. From any thread."""
        beside = self._recorders.beside
        return None if beside is None else beside(name)

    def places(self, route: str) -> tuple[str, ...]:
        """The backplanes that serve a route, up or not, by the newest directory; empty before the first one has come.

        Needs no lead: a directory is immutable, and the reference to the newest is read in one step.
        """
        return self._routing.directory.routes.get(route, ())

    def places_up(self, route: str) -> tuple[str, ...]:
        """The backplanes that serve a route and accept work now: up, and not being drained."""
        places = self._routing.directory.backplanes
        found = (name for name in self.places(route) if name in places)
        return tuple(name for name in found if places[name].is_up and not places[name].is_draining)

    def take_foreign(
        self, take: Callable[[bytes, Envelope, int], None] | None, gone: Callable[[bytes], None] | None = None
    ) -> None:
        """Pass envelopes for routes not served here to `take` (peer, envelope, now_ns); None: refuse them again.

        `take` may raise a `BackplaneError` for a call or a cast. `gone` gets each dead peer. Both are called under the lead.
        """
        with self._lead:
            self._remote.take, self._remote.lose = take, gone

    def look_for(self, peers: Iterable[bytes]) -> None:
        """Probe peers that wait for replies from other nodes; each dead one is passed to `gone` (see `take_foreign`)."""
        with self._lead:
            self._callers.ask(peers)
            self._nudge()

    def send(self, answers: list[tuple[bytes, int, bytes]]) -> None:
        """Send replies to peers of this backplane's link: (peer, call id, packed reply). From any thread.

        A reply beyond the bound of a peer that does not read is replaced by a short error. If even that finds no room, the
        peer has more unread replies than a client may have calls: those end by the deadlines that the client keeps.
        """
        outbox = self._sender.outbox
        with self._lead:
            for peer, id, packed in answers:
                if not outbox.add(peer, packed):
                    self._sender.undelivered_count += 1
                    outbox.add_instead(peer, self._sender.encoder.encode(instead(id, "this process")))
            self._flush(self._clock.now_ns())
            self._nudge()

    def client_patterns(self) -> frozenset[str]:
        """The topic patterns that clients have subscribed to at this backplane. From any thread."""
        with self._lead:
            return self._publishing.patterns()

    def hear_directory(self, function: Callable[[], None]) -> None:
        """Call `function` under the lead for each new directory."""
        self._directory_hearers.append(function)

    def hear_directory_no_more(self, function: Callable[[], None]) -> None:
        """Undo `hear_directory` for the same function. Needs the lead."""
        self._directory_hearers.remove(function)

    def add_object(self, component: Component, object: AppObject) -> None:
        """Add an object while the backplane runs; starts its timers if the component serves."""
        with self._lead:
            self._registry.add_object(component, object)
            self._lifecycle.start_timers_of(object)
            self._nudge()  # the poller must not sleep past them

    def remove_object(self, object: AppObject) -> None:
        """Remove an object and its timers. Raises `FailedPrecondition` while it has work or waits."""
        with self._lead:
            self._scheduler.check_removable(object)
            self._scheduler.timers.cancel_of((object,))
            self._lifecycle.forget(object)
            self._registry.remove_object(object)

    def shed(self, component: Component, below: int) -> int:
        """Refuse one request less urgent than `below` to make room; returns how many were refused, 0 or 1."""
        with self._lead:
            return self._admission.shed(component, below)

    def requeue_deferred(self, object: AppObject, actions: list[Action]) -> None:
        """Queue the deferred actions of a state machine again, after a change of its state."""
        with self._lead:
            self._deferring.requeue(actions)
            self._watch.notify()


def _never() -> None:
    raise AssertionError("a timer that makes its action runs no function")
