"""RequestKernel: bulk work that splits into sub-requests, runs on many workers, and joins again. A component like any other.

The kernel of the Domino eXplorer (seed 001) on top of the scheduler: requests are executed by priority, in lanes, by threads
of this backplane, by processes, or by a cluster (executor.py), and urgent work stays ahead of them all. What may be posted,
taken and rejoined is decided in ledger.py; here it is wired to the backplane: threads, timers, the watchdog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument

from ..objects.action import Action
from ..objects.app_object import AppObject, WorkHandle
from ..objects.component import Component
from ..objects.module_state import ModuleState
from ..objects.operation import DeclarationError
from .action_records import RequestNames
from .automatic import Automatic
from .backlog import Backlog
from .command_routes import CommandRoutes
from .commands import CommandHandler, handler_of
from .context import Context
from .desk import Desk
from .executor import Executor
from .executors import executor_of
from .figures import Figures
from .instrumentation import Instrumentation, IntervalRecord
from .local_context import LocalContext
from .operating import Operating
from .optimising import Looking, Optimising
from .policy import KernelPolicy
from .remote_records import RemoteRecords
from .resource import Resource
from .runnable import Runnable, RunnableSpec
from .schedule import When
from .shortage import shortage_of
from .status import Pace
from .thread_resources import ThreadResources
from .window import Window
from .wire import POST

#: How often the watchdog looks whether anything goes on. It costs 20 us; who sees that nothing does looks for seconds.
WATCH_NS: Final = 500_000_000

log = logging.getLogger("appbackplane.runtime")


class RequestKernel(Component):
    """Subclass it, and name its runnables. Settings: `policy`, a table as KernelPolicy has fields."""

    #: The classes that execute its requests.
    runnables: ClassVar[tuple[type[Runnable], ...]] = ()
    #: What each thread that executes requests holds for itself, by name (thread_resources.py).
    resources: ClassVar[Mapping[str, Resource[Any]]] = {}
    #: How it works, unless its settings say otherwise.
    policy: KernelPolicy = KernelPolicy()
    #: How it is operated (commands.py); None: by nothing but its settings.
    commands: ClassVar[type[CommandHandler] | None] = CommandHandler

    _desk: Desk
    _executor: Executor | None
    _specs: dict[str, RunnableSpec]
    _names: RequestNames
    _resources: ThreadResources
    _priorities: int
    _timers: dict[str, tuple[int, WorkHandle]]
    _kernel: Context | None
    _routes: CommandRoutes | None
    _automatic: Automatic | None
    _operating: Operating
    _pace: Pace
    _backlog: Backlog
    #: As at the last look of its watchdog.
    _shortage: str
    _instrumentation: Instrumentation | None
    _optimising: Optimising | None

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls, *arguments, **keywords)
        self._specs = cls.specs()
        self._names = RequestNames(self.component_name)
        self._resources = ThreadResources(cls.resources)
        self._executor = self._kernel = self._instrumentation = self._optimising = None
        self._priorities = 0
        self._timers = {}
        self._routes = self._automatic = None
        self._shortage = ""
        return self

    def __init__(self, policy: KernelPolicy | None = None) -> None:
        """`policy`: instead of the class's own."""
        if policy is not None:
            self.policy = policy

    # -- what users call ----------------------------------------------------------------------------------------------

    @property
    def kernel(self) -> Context:
        """Where requests are posted and rejoin. Raises `FailedPrecondition` before this component is initialized."""
        if self._kernel is None:
            raise FailedPrecondition(f"{self.name} does not run yet: post from on_initializing() on")
        return self._kernel

    def figures(self) -> Figures:
        """What it has done and has to do, of this moment. Raises `FailedPrecondition` before it is initialized."""
        if self._kernel is None:
            raise FailedPrecondition(f"{self.name} does not run yet: it has figures from on_initializing() on")
        return self._desk.figures()

    @property
    def last_interval(self) -> IntervalRecord | None:
        """What it did in the last interval; None: there was none yet."""
        return None if self._instrumentation is None else self._instrumentation.last

    def change(self, **settings: Any) -> KernelPolicy:
        """Review settings while it runs; what is not named stays. Raises `InvalidArgument`; then nothing has changed."""
        return self._change(settings)[1]

    def _change(self, settings: Mapping[str, Any], reason: str = "asked for") -> tuple[KernelPolicy, KernelPolicy]:
        """The policy before, and after. Others may change it at the same time: nothing of either is lost."""
        if self._kernel is None:
            raise FailedPrecondition(
                f"{self.name} does not run yet: give its constructor a policy, or its settings one"
            )
        while True:
            before = self._desk.policy
            try:
                policy = before.changed(**settings)
            except (TypeError, ValueError) as error:
                raise InvalidArgument(f"{self.name}: {error}") from error
            if policy.schedule != before.schedule:
                self._check_schedule(policy)
            if self._host.with_lead(partial(self._adopt, policy, before)):
                break
        self._operating.match_workers()
        if self._instrumentation is not None:
            self._instrumentation.changed(before, policy, reason)
        return before, policy

    def _adopt(self, policy: KernelPolicy, before: KernelPolicy) -> bool:
        """False: it is not as before any more. With the lead: it neither goes down nor comes up meanwhile."""
        if not self._desk.change(policy, before):
            return False
        self.policy = policy
        if self._executor is not None:  # or it sets its timers when it comes up
            self._set_timers()
            if policy.schedule != before.schedule and self._automatic is not None:
                self._automatic.begin(self._lines(policy))
        return True

    @classmethod
    def specs(cls) -> dict[str, RunnableSpec]:
        """Its runnables, by name. Raises `DeclarationError`."""
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
            Component.add(self, Window(self), key="window")  # its routes are known (law 12); each worker has its own

    def _enters(self, state: ModuleState) -> None:
        if state is ModuleState.INITIALIZING and self._executor is None:
            self._start()
        elif state is ModuleState.DOWN and self._executor is not None:
            self._stop()
        elif self._automatic is not None:
            self._automatic.begin(self._lines(self.policy))

    def _drains(self) -> None:
        if self._automatic is not None:
            self._automatic.end()
        if self._executor is not None:
            self._operating.drain()

    def _start(self) -> None:
        host = self._host
        policy = self.policy
        for spec in self._specs.values():
            spec.make()
        self._desk = desk = Desk(self.name, policy, self._specs, host.now_ns)
        is_packed = policy.kernel != "local" or policy.kind == "processes"
        self._kernel = LocalContext(desk, host, None, self._resources, is_packed)
        executor = executor_of(policy)
        desk.executor = executor
        if policy.kernel != "local" and (beside := host.records_beside(policy.kernel)) is not None:
            desk.records = RemoteRecords(self, beside, self._priorities)
        executor.start(self, desk)
        self._executor = executor
        self._instrumentation = Instrumentation(
            self.component_name, host.backplane, Path(host.run_dir), policy, desk.interval_figures, host.unix_ns,
            host.publish,
        )  # fmt: skip
        self._operating = Operating(self.name, desk, executor, host, partial(self._timer, "operating"))
        self._pace, self._backlog = Pace(), Backlog()
        if self._routes is not None:
            self._automatic = Automatic(self._routes, partial(self._timer, "schedule"), self._serve, self._wall_clock)
        self._timers.clear()  # they were cancelled when it went down
        self._set_timers()

    def _stop(self) -> None:
        executor, self._executor = self._executor, None
        assert executor is not None
        if self._automatic is not None:
            self._automatic.end()
        self._desk.close(is_closed=True)
        self._desk.hold(is_held=True)
        self._operating.close()
        left = self._desk.figures()
        waiting = left.posting + sum(left.ready) + left.executing
        if waiting:
            log.warning("%s goes down with %d requests that have not ended: they are lost with it", self.name, waiting)
        # Before the executor, which may wait for threads that say what they had is lost: who heard of it would need the lead.
        self._desk.end(f"{self.name} goes down")
        executor.stop()
        self._say_unheard()
        if self._instrumentation is not None:
            self._instrumentation.close()
            self._instrumentation = None

    def _set_timers(self) -> None:
        """Those that the policy of the moment asks for; one whose interval is as before goes on undisturbed. With the lead."""
        policy = self._desk.policy
        record_ns = round(policy.record_interval * 1e9)
        every = {"watch": (WATCH_NS, self._watch), "record": (record_ns, self._record)}
        if policy.ageing:
            every["age"] = (round(policy.interval * 1e9), self._age)
        if policy.optimise:
            if self._optimising is None:
                self._optimising = Optimising(self)
                Component.add(self, self._optimising, key="optimiser")
            every["optimise"] = (record_ns, self._optimise)
        elif self._optimising is not None:
            self._optimising.pause()
        for name, (interval_ns, timer) in list(self._timers.items()):
            if name not in every or every[name][0] != interval_ns:
                timer.cancel()
                del self._timers[name]
        for name, (interval_ns, function) in every.items():
            if name not in self._timers:
                self._timers[name] = interval_ns, self._timer(name, interval_ns, function)

    def _timer(self, name: str, interval_ns: int, make: Callable[[], Action | None]) -> WorkHandle:
        return self._host.later(self, f"{self.component_name}.{name}", interval_ns, interval_ns, make)

    def _wall_clock(self) -> datetime:
        return datetime.fromtimestamp(self._host.unix_ns() / 1e9)

    def _lines(self, policy: KernelPolicy) -> list[tuple[When, str]]:
        return [] if self._routes is None else self._routes.lines_of(policy.schedule)

    def _check_schedule(self, policy: KernelPolicy) -> None:
        if self._routes is not None:
            self._routes.check(policy.schedule)
        elif policy.schedule:
            raise InvalidArgument(f"{self.component_name}: a schedule, and no commands (commands = None)")

    def _record(self) -> None:
        if self._instrumentation is not None:
            self._instrumentation.record()

    def _requests(self) -> dict[str, Any] | None:
        instrumentation = self._instrumentation
        return None if instrumentation is None else instrumentation.figures(self._desk.figures(), self.policy)

    def _age(self) -> None:
        self._desk.grow_older()

    def _optimise(self) -> None:
        optimising = self._optimising
        if optimising is None or optimising.is_looking:
            return
        if self._operating.begins:
            self._serve(Looking(optimising, f"{self.component_name}.optimise", 0))
            optimising.is_looking = True
        else:
            optimising.pause()

    def _watch(self) -> None:
        self._pace.look(self._desk.figures())
        if self._automatic is not None:
            self._automatic.look()
        self._say_unheard()
        if backlog := self._desk.inspect(self._backlog.look):
            log.warning("%s: %s", self.name, backlog)
        executor = self._executor
        workers = None if executor is None else [worker["name"] for worker in executor.workers()]
        shortage = self._shortage_now(workers or ())
        if shortage and shortage != self._shortage:
            log.warning("%s: %s", self.name, shortage)
        self._shortage = shortage
        stall = self._desk.look_for_stall(workers)
        if stall is None:
            return
        log.error("%s: nothing goes on any more: %s", self.name, stall.text)
        if self.policy.on_stall == "fail":
            self._desk.end_waiting(f"{self.name}: {stall.text}", everybody=False)

    def _say_unheard(self) -> None:
        count, last = self._desk.take_unheard()
        if count:
            log.warning("%s: %d requests failed that rejoin nobody; the last: %s", self.name, count, last)
        count, operation = self._desk.take_left()
        if count:
            log.warning(
                "%s: %d requests were withdrawn: %s returned without rejoining them; post with rejoin=False what nobody "
                "asks for", self.name, count, operation,
            )  # fmt: skip

    def _shortage_now(self, workers: Collection[str]) -> str:
        """Why it has fewer worker processes than it asks for, and never will have more (shortage.py); "": it may."""
        if self._executor is None or not self._host.places(f"{self.component_name}.{POST}"):
            return ""  # there is no directory yet
        cls = type(self)
        return shortage_of(self._desk.policy, f"{cls.__module__}:{cls.__qualname__}", len(workers))

    def workers_up(self) -> int:
        """Workers that there are; other than asked for while they come and go."""
        executor = self._executor
        return 0 if executor is None else sum(worker["state"] == "up" for worker in executor.workers())

    def optimiser_workers(self) -> int | None:
        """The number of workers that the optimiser takes for the best, as far as it is; None: it never ran."""
        return None if self._optimising is None else self._optimising.workers_held

    # -- for its executors --------------------------------------------------------------------------------------------

    def _object(self, key: str, make: Callable[[], AppObject]) -> AppObject:
        """Its object of that key: made now, or when this component was up before."""
        found = next((each for each in self._objects if each.key == key), None)
        return found if found is not None else Component.add(self, make(), key=key)

    def _serve(self, action: Action) -> None:
        """Have a worker's action run. Not counted: there is one of each, and one that was refused would never ask again."""
        self._host.post_own(self, action, is_counted=False)


def specs_of(runnables: Sequence[Any]) -> dict[str, RunnableSpec]:
    """By name. Raises `DeclarationError`."""
    specs: dict[str, RunnableSpec] = {}
    for each in runnables:
        spec = RunnableSpec(each)
        if spec.name in specs:
            raise DeclarationError(
                f"runnables: {specs[spec.name].where} and {spec.where} have one name: give one another"
            )
        specs[spec.name] = spec
    return specs
