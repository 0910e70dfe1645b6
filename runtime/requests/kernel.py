"""RequestKernel: bulk work that splits into sub-requests, runs on many workers, and joins again. A component like any other.

The kernel of the Domino eXplorer (seed 001) on top of the scheduler. Requests are executed by priority and lane: by threads of
this backplane, by processes, or by a cluster (executor.py). Urgent work stays ahead of them all. ledger.py decides which
requests may be posted, taken and rejoined; this module wires it to the backplane: threads, timers, the watchdog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument

from ..objects.action import Action
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.module_state import ModuleState
from ..objects.operation import DeclarationError
from ..objects.platform import WorkHandle
from .contexts.context import Context
from .contexts.local_context import LocalContext
from .executing.action_records import RequestNames
from .executing.executor import ENTRY_POINTS, Executor
from .executing.kernel_service import KernelService
from .executing.processes import ProcessExecutor
from .executing.remote_records import RemoteRecords
from .executing.shortage import shortage_of
from .executing.thread_resources import ThreadResources
from .executing.threads import ThreadExecutor
from .executing.wire import POST
from .instrumentation import Instrumentation, IntervalRecord
from .kernel_base import KernelBase
from .ledger.backlog_detector import BacklogDetector
from .ledger.figures import Figures
from .ledger.synchronized_ledger import SynchronizedLedger
from .operating.command_routes import CommandRoutes
from .operating.commands import CommandHandler, handler_of
from .operating.operating_mode import OperatingMode
from .operating.optimiser_loop import OptimiserAction, OptimiserLoop
from .operating.schedule import When
from .operating.scheduled_commands import ScheduledCommands
from .operating.status import RateSampler
from .policy import KernelPolicy
from .resource import Resource
from .runnable import Runnable, RunnableSpec

#: Period of the watchdog. One run costs 20 us; a person takes seconds to notice that no request makes progress.
WATCH_NS: Final = 500_000_000

log = logging.getLogger("appbackplane.runtime")


class RequestKernel(KernelBase):
    """Base class of kernels: a subclass names its runnables. Setting: `policy`, a table with the fields of `KernelPolicy`."""

    #: The classes that execute its requests.
    runnables: ClassVar[tuple[type[Runnable], ...]] = ()
    #: Resources that each executing thread opens for itself, by name (thread_resources.py).
    resources: ClassVar[Mapping[str, Resource[Any]]] = {}
    #: The command handler's class (commands.py); None: no commands.
    commands: ClassVar[type[CommandHandler] | None] = CommandHandler

    _specs: dict[str, RunnableSpec]
    _timers: dict[str, tuple[int, WorkHandle]]
    _kernel: Context | None
    _routes: CommandRoutes | None
    _scheduled: ScheduledCommands | None
    _mode: OperatingMode
    _rates: RateSampler
    _backlog: BacklogDetector
    #: The shortage of workers that the watchdog last found; "": none.
    _shortage: str
    _instrumentation: Instrumentation | None
    _optimiser: OptimiserLoop | None

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls, *arguments, **keywords)
        self._specs = cls.specs()
        self._names = RequestNames(self.component_name)
        self._resources = ThreadResources(cls.resources)
        self._executor = self._kernel = self._instrumentation = self._optimiser = None
        self._priorities = 0
        self._timers = {}
        self._routes = self._scheduled = None
        self._shortage = ""
        return self

    def __init__(self, policy: KernelPolicy | None = None) -> None:
        """`policy`: takes the place of the class's own."""
        if policy is not None:
            self.policy = policy

    # -- public API ---------------------------------------------------------------------------------------------------

    @property
    def kernel(self) -> Context:
        """The context for posting and rejoining. Raises `FailedPrecondition` before this component is initialized."""
        if self._kernel is None:
            raise FailedPrecondition(f"{self.name} does not run yet: post from on_initializing() on")
        return self._kernel

    def figures(self) -> Figures:
        """Counts and totals of this moment. Raises `FailedPrecondition` before this component is initialized."""
        if self._kernel is None:
            raise FailedPrecondition(f"{self.name} does not run yet: it has figures from on_initializing() on")
        return self._ledger.figures()

    @property
    def last_interval(self) -> IntervalRecord | None:
        """The record of the last interval; None: none has ended yet."""
        return None if self._instrumentation is None else self._instrumentation.last

    def change(self, **settings: Any) -> KernelPolicy:
        """Change settings while the kernel runs; others stay. Raises `InvalidArgument`, and then nothing has changed."""
        return self._change(settings)[1]

    def _change(self, settings: Mapping[str, Any], reason: str = "asked for") -> tuple[KernelPolicy, KernelPolicy]:
        """Returns the policy before and after. Concurrent changes all take effect: on a conflict this one is tried again."""
        if self._kernel is None:
            raise FailedPrecondition(
                f"{self.name} does not run yet: give its constructor a policy, or its settings one"
            )
        while True:
            before = self._ledger.policy
            try:
                policy = before.changed(**settings)
            except (TypeError, ValueError) as error:
                raise InvalidArgument(f"{self.name}: {error}") from error
            if policy.schedule != before.schedule:
                self._check_schedule(policy)
            if self._platform.with_lead(partial(self._adopt, policy, before)):
                break
        self._mode.match_workers()
        if self._instrumentation is not None:
            self._instrumentation.changed(before, policy, reason)
        return before, policy

    def _adopt(self, policy: KernelPolicy, before: KernelPolicy) -> bool:
        """False: `before` is no longer the policy. Call with the lead, so that nothing starts or stops meanwhile."""
        if not self._ledger.change(policy, before):
            return False
        self.policy = policy
        if self._executor is not None:  # otherwise its timers are set when it starts
            self._set_timers()
            if policy.schedule != before.schedule and self._scheduled is not None:
                self._scheduled.begin(self._lines(policy))
        return True

    @classmethod
    def specs(cls) -> dict[str, RunnableSpec]:
        """The specs of its runnables, by name. Raises `DeclarationError`."""
        return specs_of(cls.runnables)

    # -- as a component -----------------------------------------------------------------------------------------------

    def _set_up(self, priorities: int) -> None:
        super()._set_up(priorities)
        self._priorities = priorities
        if type(self).commands is not None:
            handler = handler_of(type(self).commands, type(self).__qualname__)
            self._routes = CommandRoutes(self, handler, type(handler).__commands__)
        self._check_schedule(self.policy)
        if self.policy.kernel == "local" and self.policy.kind == "processes":
            Component.add(
                self, KernelService(self), key="service"
            )  # declares its routes now (law 12); each worker gets a service of its own

    def _enters(self, state: ModuleState) -> None:
        if state is ModuleState.INITIALIZING and self._executor is None:
            self._start()
        elif state is ModuleState.DOWN and self._executor is not None:
            self._stop()
        elif self._scheduled is not None:
            self._scheduled.begin(self._lines(self.policy))

    def _drains(self) -> None:
        if self._scheduled is not None:
            self._scheduled.end()
        if self._executor is not None:
            self._mode.drain()

    def _start(self) -> None:
        host, platform = self._host, self._platform
        policy = self.policy
        for spec in self._specs.values():
            spec.make()
        self._ledger = ledger = SynchronizedLedger(self.name, policy, self._specs, host.now_ns)
        is_packed = policy.kernel != "local" or policy.kind == "processes"
        self._kernel = LocalContext(ledger, platform, None, self._resources, is_packed)
        executor = executor_of(policy)
        ledger.executor = executor
        if policy.kernel != "local" and (beside := platform.records_beside(policy.kernel)) is not None:
            ledger.records = RemoteRecords(self, beside, self._priorities)
        executor.start(self, ledger)
        self._executor = executor
        self._instrumentation = Instrumentation(
            self.component_name, host.backplane, Path(platform.run_dir), policy, ledger.interval_figures,
            platform.unix_ns, host.publish,
        )  # fmt: skip
        self._mode = OperatingMode(self.name, ledger, executor, platform, partial(self._timer, "operating"))
        self._rates, self._backlog = RateSampler(), BacklogDetector()
        if self._routes is not None:
            self._scheduled = ScheduledCommands(
                self._routes, partial(self._timer, "schedule"), self._serve, self._wall_clock
            )
        self._timers.clear()  # they were cancelled when it went down
        self._set_timers()

    def _stop(self) -> None:
        executor, self._executor = self._executor, None
        assert executor is not None
        if self._scheduled is not None:
            self._scheduled.end()
        self._ledger.close(is_closed=True)
        self._ledger.hold(is_held=True)
        self._mode.close()
        left = self._ledger.figures()
        waiting = left.posting + sum(left.ready) + left.executing
        if waiting:
            log.warning("%s goes down with %d unfinished requests: they are lost", self.name, waiting)
        # Before the executor stops: it may wait for threads that report lost requests, and resuming a waiter takes the lead.
        self._ledger.end(f"{self.name} goes down")
        executor.stop()
        self._say_unheard()
        if self._instrumentation is not None:
            self._instrumentation.close()
            self._instrumentation = None

    def _set_timers(self) -> None:
        """Set the timers of the present policy; those whose interval has not changed go on. Call with the lead."""
        policy = self._ledger.policy
        record_ns = round(policy.record_interval * 1e9)
        every = {"watch": (WATCH_NS, self._watch), "record": (record_ns, self._record)}
        if policy.ageing:
            every["age"] = (round(policy.interval * 1e9), self._ledger.grow_older)
        if policy.optimise:
            if self._optimiser is None:
                self._optimiser = OptimiserLoop(self)
                Component.add(self, self._optimiser, key="optimiser")
            every["optimise"] = (record_ns, self._optimise)
        elif self._optimiser is not None:
            self._optimiser.pause()
        for name, (interval_ns, timer) in list(self._timers.items()):
            if name not in every or every[name][0] != interval_ns:
                timer.cancel()
                del self._timers[name]
        for name, (interval_ns, function) in every.items():
            if name not in self._timers:
                self._timers[name] = interval_ns, self._timer(name, interval_ns, function)

    def _timer(self, name: str, interval_ns: int, make: Callable[[], Action | None]) -> WorkHandle:
        return self._platform.later(self, f"{self.component_name}.{name}", interval_ns, interval_ns, make)

    def _wall_clock(self) -> datetime:
        return datetime.fromtimestamp(self._platform.unix_ns() / 1e9)

    def _lines(self, policy: KernelPolicy) -> list[tuple[When, str]]:
        return [] if self._routes is None else self._routes.lines_of(policy.schedule)

    def _check_schedule(self, policy: KernelPolicy) -> None:
        if self._routes is not None:
            self._routes.check(policy.schedule)
        elif policy.schedule:
            raise InvalidArgument(f"{self.component_name}: has a schedule, but no commands (commands = None)")

    def _record(self) -> None:
        if self._instrumentation is not None:
            self._instrumentation.record()

    def _requests(self) -> dict[str, Any] | None:
        instrumentation = self._instrumentation
        return None if instrumentation is None else instrumentation.figures(self._ledger.figures(), self.policy)

    def _optimise(self) -> None:
        optimiser = self._optimiser
        if optimiser is None or optimiser.is_running:
            return
        if self._mode.is_starting_requests:
            self._serve(OptimiserAction(optimiser, f"{self.component_name}.optimise", 0))
            optimiser.is_running = True
        else:
            optimiser.pause()

    def _watch(self) -> None:
        self._rates.add(self._ledger.figures())
        if self._scheduled is not None:
            self._scheduled.run_due()
        self._say_unheard()
        if backlog := self._ledger.inspect(self._backlog.check):
            log.warning("%s: %s", self.name, backlog)
        executor = self._executor
        workers = None if executor is None else [worker["name"] for worker in executor.workers()]
        shortage = self._shortage_now(workers or ())
        if shortage and shortage != self._shortage:
            log.warning("%s: %s", self.name, shortage)
        self._shortage = shortage
        stall = self._ledger.look_for_stall(workers)
        if stall is None:
            return
        log.error("%s: no request can make progress: %s", self.name, stall.text)
        if self.policy.on_stall == "fail":
            self._ledger.end_waiting(f"{self.name}: {stall.text}", everybody=False)

    def _say_unheard(self) -> None:
        count, last = self._ledger.take_unheard()
        if count:
            log.warning("%s: %d requests failed that nobody rejoins; the last: %s", self.name, count, last)
        count, operation = self._ledger.take_left()
        if count:
            log.warning(
                "%s: %d requests were withdrawn: %s returned without rejoining them; post with rejoin=False where "
                "nobody needs the result", self.name, count, operation,
            )  # fmt: skip

    def _shortage_now(self, workers: Collection[str]) -> str:
        """Why there are fewer worker processes than asked for, and never will be more (shortage.py); "": no shortage."""
        if self._executor is None or not self._platform.places(f"{self.component_name}.{POST}"):
            return ""  # no routing table has come yet
        cls = type(self)
        return shortage_of(self._ledger.policy, f"{cls.__module__}:{cls.__qualname__}", len(workers))

    def workers_up(self) -> int:
        """Number of workers that are up. Differs from the setting while workers start or stop."""
        executor = self._executor
        return 0 if executor is None else sum(worker["state"] == "up" for worker in executor.workers())

    def optimiser_workers(self) -> int | None:
        """The worker count that the optimiser holds, or tries if it still searches; None: it never ran."""
        return None if self._optimiser is None else self._optimiser.workers_held

    # -- for its executors --------------------------------------------------------------------------------------------

    def _object(self, key: str, make: Callable[[], AppObject]) -> AppObject:
        """The component's object with this key, from an earlier start or made now."""
        found = next((each for each in self._objects if each.key == key), None)
        return found if found is not None else Component.add(self, make(), key=key)

    def _serve(self, action: Action) -> None:
        """Run a worker's action. Not counted in `max_posted`: each worker has one, and if refused it would never ask again."""
        self._platform.post_own(self, action, is_counted=False)


def specs_of(runnables: Sequence[Any]) -> dict[str, RunnableSpec]:
    """Specs of these classes, by name. Raises `DeclarationError`, also if two have the same name."""
    specs: dict[str, RunnableSpec] = {}
    for each in runnables:
        spec = RunnableSpec(each)
        if spec.name in specs:
            raise DeclarationError(
                f"runnables: {specs[spec.name].where} and {spec.where} have the same name: rename one"
            )
        specs[spec.name] = spec
    return specs


def executor_of(policy: KernelPolicy) -> Executor:
    """A new executor for this policy, imported only now if it is of another package. Raises `FailedPrecondition`."""
    if policy.kernel == "local":
        return ThreadExecutor() if policy.kind == "threads" else ProcessExecutor()
    for entry in entry_points(group=ENTRY_POINTS, name=policy.kernel):
        made: Executor = entry.load()()
        return made
    raise FailedPrecondition(
        f"kernel = {policy.kernel!r}: no such executor is installed: pip install 'appbackplane[{policy.kernel}]'"
    )
