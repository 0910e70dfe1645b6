"""Host: what objects and components may ask of the backplane they live in (the port is in objects/app_object.py).

Called from inside actions, and by `Component.post` from any thread: each method takes the lead for as long as it needs
it. Nothing here waits. What a user gave is of any type until it has been checked: compiled code would refuse it in words of
its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.envelope import Envelope, instead
from appbackplane.transport.topics import check_topic

from ..objects.action import Action, ParkableAction
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.operation import PRIORITY_DEFAULT
from ..scheduling.timers import Timer
from .beside import Beside
from .coroutines import CallRequest, Signal
from .current import current
from .foreign import check
from .method_action import MethodAction

if TYPE_CHECKING:
    from .engine import Engine

T = TypeVar("T")


class EngineHost:
    """The engine, as objects see it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: The time, monotonic: the clock's function itself.
        self.now_ns: Callable[[], int] = engine.now_ns
        #: CPU time of the calling thread.
        self.cpu_ns: Callable[[], int] = engine.clock.cpu_ns
        #: Gives the backplane as many threads as it is to have; None: it has not started, or has none of its own.
        self.on_threads: Callable[[], None] | None = None
        #: Threads that components keep for themselves, beside those that the backplane was given.
        self.kept: dict[str, int] = {}
        #: The system's run directory.
        self.run_dir = ""

    def call(self, caller: AppObject, spec: CallSpec) -> CallRequest:
        """To be awaited by the coroutine that runs now."""
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
        """Nobody waits for a cast, so it runs at its operation's priority, not at its sender's."""
        engine, action = self._engine, current.action
        with engine.lead:
            spec.trace = engine.outgoing.trace_of(action)
            engine.outgoing.cast(caller, spec, engine.clock.now_ns())
            engine.watch.notify()

    def publish(self, topic: Any, body: Mapping[str, Any]) -> None:
        """To all subscribers."""
        if type(topic) is not str:
            check_topic(topic)
        engine, action = self._engine, current.action
        with engine.lead:
            engine.publishing.publish(topic, body, engine.outgoing.trace_of(action), engine.clock.now_ns())
            engine.watch.notify()

    def after(
        self,
        object: AppObject,
        delay_ns: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        priority: int | None = None,
    ) -> Timer:
        """A bound method of the object, later; `priority`: default that of the running action. Raises `Busy`."""
        if getattr(function, "__self__", None) is not object:
            raise TypeError(f"after() runs methods of {object.name} itself: got {function!r}")
        engine, action = self._engine, current.action
        method = inspect.unwrap(function.__func__)  # type: ignore[attr-defined]
        component = object._component
        assert component is not None
        name = f"{component.component_name}.{method.__name__}"
        if priority is None:
            priority = action.priority if action is not None else PRIORITY_DEFAULT
        timer = Timer(object, name, method, arguments, priority, 0)
        with engine.lead:
            account = engine.intake.own_work[component.component_name]
            account.admit(name, component.name)
            timer.account = account
            engine.scheduler.timers.set(timer, engine.clock.now_ns() + max(0, delay_ns))
            engine.nudge()  # the poller must not sleep past it
        return timer

    def later(
        self, component: Component, name: str, delay_ns: int, interval_ns: int, make: Callable[[], Action | None]
    ) -> Timer:
        """Work of a component's own making, later; and again and again every `interval_ns`, if that is not 0.

        `make` is called when it is due, with the lead. See `Timer.make`. Raises `Busy`.
        """
        engine = self._engine
        timer = Timer(component, name, _never, (), PRIORITY_DEFAULT, interval_ns)
        timer.make = make
        with engine.lead:
            account = engine.intake.own_work[component.component_name]
            account.admit(name, component.name)
            timer.account = account
            engine.scheduler.timers.set(timer, engine.clock.now_ns() + max(0, delay_ns))
            engine.nudge()  # the poller must not sleep past it
        return timer

    def post(self, action: Any) -> None:
        """Work that comes from elsewhere: a device, another library's thread."""
        if not isinstance(action, Action):
            raise TypeError(f"post() takes an Action: got {action!r}")
        engine = self._engine
        with engine.lead:
            check(action, engine.scheduler.priorities)
            component = action.object._component
            if component is None or engine.registry.components.get(component.component_name) is not component:
                raise ValueError(f"{action.name}: {action.object.name} is not in a component of this backplane")
            self.post_own(component, action)

    def post_own(
        self, component: Component, action: Action, *, is_counted: bool = True
    ) -> None:  # hot: scripts/bench dispatcher_overhead
        """`post`, for an action that a component of ours has made for one of its objects: nothing is to be checked.

        `is_counted`: in `max_posted`; not what there is a fixed number of, and what must go on.
        """
        engine = self._engine
        with engine.lead:
            if is_counted:
                account = engine.intake.own_work[component.component_name]
                account.admit(action.name, component._name)
                action.throttle = account
            now_ns = engine.now_ns()
            engine.scheduler.post(action, now_ns)
            if action.object._waits or engine.inheritance.blocked_count:
                engine.inheritance.queued(action, now_ns)
            engine.watch.notify()

    def resume(self, action: ParkableAction) -> None:
        """What a parked action waits for has come."""
        engine = self._engine
        with engine.lead:
            engine.parking.resume(action, engine.clock.now_ns())

    def hurry(self, action: ParkableAction) -> None:
        """It waits for somebody else now, who inherits its priority."""
        engine = self._engine
        with engine.lead:
            engine.parking.hurry(action, engine.clock.now_ns())
            engine.nudge()  # what is ready may be more urgent now than what a relief was told to look for

    def raise_to(self, action: Action, priority: int) -> None:
        """What is queued is in the way of something of this priority."""
        engine = self._engine
        with engine.lead:
            engine.inheritance.boost(action, priority, engine.clock.now_ns())
            engine.nudge()

    def keep_threads(self, component: Component, count: int) -> None:
        """So many actions of this component may hold a thread each, while they wait: it has that many beside the others'."""
        self.kept[component.component_name] = count
        if self.on_threads is not None:
            self.on_threads()

    def with_lead(self, function: Callable[[], T]) -> T:
        """Call this while neither components move nor timers fall due; what it gives."""
        with self._engine.lead:
            return function()

    def set(self, signal: Signal) -> None:
        """Whoever awaits it goes on."""
        engine = self._engine
        with engine.lead:
            engine.outgoing.set(signal, engine.clock.now_ns())

    def begins_to_block(self, action: Action) -> None:
        """It is about to wait in its thread."""
        engine = self._engine
        with engine.lead:
            engine.parking.begins_to_block(action, engine.clock.now_ns())

    def blocks_no_more(self, action: Action) -> None:
        """It has what it waited for in its thread."""
        with self._engine.lead:
            self._engine.parking.blocks_no_more(action)

    def unix_ns(self) -> int:
        """What calendars show, for what people mean by a time of day; it may go back. For all else `now_ns`."""
        clock = self._engine.clock
        return clock.now_ns() + clock.unix_offset_ns()

    def report(self, action: Action, error: BaseException) -> None:
        """Something that an action did went wrong, and its caller need not know, or not all of it."""
        with self._engine.lead:
            self._engine.reports.failed(action, error, self._engine.clock.now_ns())

    @property
    def stand_in(self) -> Callable[[Any, float], bool] | None:
        """Who waits at a gate for threads in which nothing runs; None: they do (blocking.py)."""
        return self._engine.stand_in

    @property
    def is_recording(self) -> bool:
        """Whether actions are recorded here. No lead: it is decided before anything runs."""
        return self._engine.endings.recorder is not None

    def records_beside(self, name: str) -> Beside | None:
        """Where to record what others do for this backplane; None: nothing is recorded. One for each name. Any thread."""
        beside = self._engine.endings.beside
        return None if beside is None else beside(name)

    @property
    def backplane(self) -> str:
        """The name of this one."""
        return self._engine.backplane

    def places(self, route: str) -> tuple[str, ...]:
        """The backplanes that serve a route, up or not, by the newest directory; none before the first one has come.

        No lead: a directory is never changed, and which one is the newest is read in one step.
        """
        return self._engine.outgoing.directory.routes.get(route, ())

    def places_up(self, route: str) -> tuple[str, ...]:
        """Those of them that take work now: up, and not being drained."""
        places = self._engine.outgoing.directory.backplanes
        found = (name for name in self.places(route) if name in places)
        return tuple(name for name in found if places[name].is_up and not places[name].is_draining)

    def take_foreign(
        self, take: Callable[[bytes, Envelope, int], None] | None, gone: Callable[[bytes], None] | None = None
    ) -> None:
        """What comes for routes that nobody here serves is handed to `take`, as it is: who said it, what, and when. It may
        raise a `BackplaneError` for a call or a cast. `gone` is told of peers that can be reached no more. Both with the lead;
        None: it is refused again.
        """
        with self._engine.lead:
            self._engine.intake.foreign, self._engine.intake.foreign_gone = take, gone

    def look_for(self, peers: Iterable[bytes]) -> None:
        """Find out whether these are there, who wait for answers from elsewhere; who is not, is told of to `gone`."""
        with self._engine.lead:
            self._engine.callers.ask(peers)
            self._engine.nudge()

    def send(self, answers: list[tuple[bytes, int, bytes]]) -> None:
        """Answer calls of peers of this backplane's link: (who, which of his calls, the answer packed). From any thread.

        Who does not read is told so in the place of what is beyond his bound. Where even that finds no room he has left
        more unread than a client has calls: those end by their deadlines, which he keeps himself.
        """
        engine = self._engine
        outbox = engine.outbox
        with engine.lead:
            for peer, id, packed in answers:
                if not outbox.add(peer, packed):
                    engine.undelivered_count += 1
                    outbox.add_instead(peer, engine.encoder.encode(instead(id, "this process")))
            engine.flush(engine.clock.now_ns())
            engine.nudge()

    def client_patterns(self) -> frozenset[str]:
        """The topics that clients have asked this backplane for. From any thread."""
        with self._engine.lead:
            return self._engine.publishing.patterns()

    def hear_directory(self, function: Callable[[], None]) -> None:
        """Have this called with each new directory, with the lead."""
        self._engine.outgoing.hearers.append(function)

    def hear_directory_no_more(self, function: Callable[[], None]) -> None:
        """As it was given to `hear_directory`. With the lead."""
        self._engine.outgoing.hearers.remove(function)

    def add_object(self, component: Component, object: AppObject) -> None:
        """While running."""
        with self._engine.lead:
            self._engine.registry.add_object(component, object)
            self._engine.modules.start_timers_of(object)
            self._engine.nudge()  # the poller must not sleep past them

    def remove_object(self, object: AppObject) -> None:
        """Raises `FailedPrecondition` while it has work or waits."""
        engine = self._engine
        with engine.lead:
            engine.scheduler.check_removable(object)
            engine.scheduler.timers.cancel_of((object,))
            engine.modules.forget(object)
            engine.registry.remove_object(object)

    def shed(self, component: Component, below: int) -> int:
        """Make room by refusing what is less urgent."""
        with self._engine.lead:
            return self._engine.intake.admission.shed(component, below)

    def requeue_deferred(self, object: AppObject, actions: list[Action]) -> None:
        """A state machine has changed its state."""
        with self._engine.lead:
            self._engine.intake.requeue(actions)
            self._engine.watch.notify()


def _never() -> None:
    raise AssertionError("a timer that makes its action runs no function")
