"""Platform: the services of the engine for systems built on top of the scheduler: the dispatcher, the request kernel.

The protocol is in objects/platform.py. Code of a running action reaches it through its thread, too (current.py). Each method
takes the lead for as long as it needs it, and waits for nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from appbackplane.transport.directory import Directory

from ...objects.action import Action, ParkableAction
from ...objects.app_object import AppObject
from ...objects.component import Component
from ...objects.operation import PRIORITY_DEFAULT
from ...scheduling.timers import Timer
from ..actions.coroutines import OneShotEvent
from ..actions.external_work import ExternalWorkRecorder
from ..actions.reading_action import ReadingAction
from ..loop.engine import Engine
from ..workers.worker import Worker

T = TypeVar("T")


class EnginePlatform:
    """Implements `Platform` and `worker.WorkerHost` on an engine."""

    def __init__(self, engine: Engine, run_dir: str = "") -> None:
        self._engine = engine
        self._lead, self._scheduler, self._limits = engine.lead, engine.scheduler, engine.limits
        self._inheritance, self._parking, self._poll_leader = engine.inheritance, engine.parking, engine.poll_leader
        self._outgoing, self._routing, self._reports = engine.outgoing, engine.routing, engine.reports
        self._lifecycle, self._completion, self._recorders = engine.lifecycle, engine.completion, engine.recorders
        #: Monotonic time: the clock's function itself.
        self.now_ns: Callable[[], int] = engine.now_ns
        #: CPU time of the calling thread.
        self.cpu_ns: Callable[[], int] = engine.clock.cpu_ns
        #: Starts or stops workers to match the number required; None: not started, or a virtual backplane without threads.
        self.on_threads: Callable[[], None] | None = None
        #: How many threads there are; set by the backplane, which starts them.
        self.count_threads: Callable[[], int] = _one
        #: Threads that each component keeps for itself, beside the configured ones.
        self.kept: dict[str, int] = {}
        #: Waits for gates on behalf of threads that run no action; None: they block themselves (blocking.py). Set by
        #: single-threaded tests.
        self.stand_in: Callable[[Any, float], bool] | None = None
        #: Functions to call under the lead for each new directory. Remove one only under the lead.
        self.directory_hearers = engine.directory_hearers
        #: The permissions of things; None: every caller may use all.
        self.permissions = engine.permissions
        #: The system's run directory.
        self.run_dir = run_dir

    @property
    def topics_lost_count(self) -> int:
        """Messages of topics that were lost on their way to this backplane; counted when the next one has come."""
        return self._engine.publishing.gaps.lost_count

    def permits(self, principal: str | None, id: str, types: tuple[str, ...], kind: str, name: str) -> bool:
        """Whether a principal may use an affordance of a thing. None: code of the system, which may use all."""
        access = self._engine.access
        return access is None or principal is None or access.permits(principal, id, types, kind, name)

    def later(
        self, component: Component, name: str, delay_ns: int, interval_ns: int, make: Callable[[], Action | None]
    ) -> Timer:
        """Run an action that a component makes, later; repeated every `interval_ns` unless that is 0. Raises `Busy`.

        `make` is called under the lead when the timer is due; see `Timer.make`.
        """
        timer = Timer(component, name, _never, (), PRIORITY_DEFAULT, interval_ns)
        timer.make = make
        self.set_timer(component, timer, delay_ns)
        return timer

    def set_timer(self, component: Component, timer: Timer, delay_ns: int) -> None:
        """Set a one-shot or repeated timer, counted as work that `component` gives itself. Raises `Busy`."""
        with self._lead:
            account = self._limits.own_work[component.component_name]
            account.admit(timer.name, component.name)
            timer.account = account
            self._scheduler.timers.set(timer, self.now_ns() + max(0, delay_ns))
            self._engine.nudge()  # the poller must not sleep past it

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
            self._poll_leader.notify()

    def resume(self, action: ParkableAction) -> None:
        """Resume a parked action: its wait is over. From any thread."""
        with self._lead:
            self._parking.resume(action, self.now_ns())

    def hurry(self, action: ParkableAction) -> None:
        """A parked action waits for other actions than before: they inherit its priority."""
        with self._lead:
            self._parking.hurry(action, self.now_ns())
            self._engine.nudge()  # a ready action may now be urgent enough for a relief

    def raise_to(self, action: Action, priority: int) -> None:
        """Raise a queued action to `priority`, because work of that priority waits behind it."""
        with self._lead:
            self._inheritance.inherit(action, priority, self.now_ns())
            self._engine.nudge()

    def keep_threads(self, component: Component, count: int) -> None:
        """Keep `count` extra threads for actions of this component that block their threads."""
        self.kept[component.component_name] = count
        if self.on_threads is not None:
            self.on_threads()

    @property
    def threads(self) -> int:
        """Threads of this backplane as configured now, without those kept for components. From any thread."""
        return self.count_threads()

    def withhold(self, object: AppObject) -> None:
        """Send calls without a key to the other objects of its routes (`Registry.withhold`)."""
        with self._lead:
            self._engine.registry.withhold(object)

    def offer(self, object: AppObject) -> None:
        """Send calls without a key to an object again that was withheld."""
        with self._lead:
            self._engine.registry.offer(object)

    def with_lead(self, function: Callable[[], T]) -> T:
        """Call `function` under the lead and return its result: meanwhile no component changes state and no timer fires."""
        with self._lead:
            return function()

    def set(self, signal: OneShotEvent) -> None:
        """Set a signal: the action that awaits it goes on."""
        with self._lead:
            self._outgoing.set(signal, self.now_ns())

    def interrupt(self, action: Action) -> None:
        """`Cancelled` is raised where a coroutine of a component awaits something; the calls that it awaits are cancelled."""
        with self._lead:
            self._engine.changes.interrupt(action, self.now_ns())
            self._poll_leader.notify()

    def has_work_above(self, worker: Worker) -> bool:
        """Whether any backplane has work of higher priority than the action of `worker`. Called by that action."""
        return self._engine.priority_publisher.has_work_above(worker)

    @property
    def is_draining(self) -> bool:
        """Whether this backplane finishes its work and goes down. From any thread."""
        return self._lifecycle.is_suspended

    def at_end(self, action: Action, function: Callable[[Action], None]) -> None:
        """Call `function` under the lead when the running `action` has ended (`Completion.at_end`)."""
        self._completion.at_end(action, function)

    def change_priority(self, worker: Worker, action: Action, priority: int) -> None:
        """The action that `worker` runs chooses its priority. Raises ValueError for one that the backplane does not have."""
        priorities = self._scheduler.priorities
        if not 0 <= priority < priorities:
            raise ValueError(f"change_priority({priority}): expected 0..{priorities - 1}")
        with self._lead:
            self._inheritance.choose(action, priority, self.now_ns())
            self._engine.priority_publisher.show(worker)
            self._engine.nudge()  # a relief may run work that is more urgent than the action is now

    def begins_to_block(self, action: Action, what: str = "") -> None:
        """The running action is about to block its thread. `what`: the reason, for `why`."""
        with self._lead:
            if action.takes_room and self._engine.grants is not None:
                self._engine.grants.rests(action, self.now_ns())
            self._parking.begins_to_block(action, self.now_ns(), what)

    def blocks_no_more(self, action: Action) -> None:
        """The action's blocking wait has ended."""
        with self._lead:
            self._parking.blocks_no_more(action)

    def asks_for_items(self, action: Action, gate: threading.Lock) -> bool:
        """The running plain operation has read all items of its streamed argument that have come. True: more are there now, or
        the end; else `gate` is released then.
        """
        assert isinstance(action, ReadingAction)
        with self._lead:
            if self._engine.streaming.give_credit(action, self.now_ns()):
                return True
            action.block_at(gate)
            return False

    def unix_ns(self) -> int:
        """Unix time in ns, for times of day; it may go backwards. Use `now_ns` for everything else."""
        return self.now_ns() + self._engine.clock.unix_offset_ns()

    @property
    def directory(self) -> Directory:
        """The routing table of the system, as this backplane knows it."""
        return self._routing.directory

    def report(self, action: Action, error: BaseException) -> None:
        """Log a failure inside an action of which the caller learns nothing, or only a part."""
        with self._lead:
            self._reports.failed(action, error, self.now_ns())

    def trace_of(self, action: Action) -> str | None:
        """The trace of an action, with its span if it has one. Only for the thread that runs it."""
        return self._recorders.trace_of(action)

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


def _one() -> int:
    return 1


def _never() -> None:
    raise AssertionError("a timer that makes its action runs no function")
