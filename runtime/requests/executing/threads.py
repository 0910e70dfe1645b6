"""Threads: requests executed by workers in the kernel's own backplane.

A worker is an object of the kernel's component, and executes requests in actions (law 8). So they run by priority, quota and
CPU budget, and give way to more urgent work, like all actions. One action executes requests for a slice of time, because
choosing an action costs as much as an empty request; each time it takes the most urgent one. A request that waits in its
thread for sub-requests keeps the thread: the backplane has one for each worker, beside its own.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import BackplaneError

from ...execution.actions.coroutines import should_yield
from ...execution.actions.method_action import MethodAction
from ...objects.action import DONE, Action, Outcome, ParkableAction
from ..contexts.local_context import LocalContext
from ..ledger.element import Element, Failure
from ..ledger.synchronized_ledger import SynchronizedLedger
from ..runnable import RunnableSpec
from .action_records import records_of
from .executing import KernelWorker, execute
from .executor import KernelPort
from .failures import failure_of, local_failure_of
from .priority_mapping import NEVER, backplane_priority, least_urgent_above
from .thread_resources import ThreadResources

if TYPE_CHECKING:
    from ..kernel_base import KernelBase

#: How long one action executes requests before the scheduler chooses again; quotas and budgets count these actions. An action
#: costs about 5 us more than the request in it: at 1 ms that is nothing, and a tick of a second still has a thousand of them.
SLICE_NS: Final = 1_000_000


class ThreadExecutor:
    """Implements `executor.Executor`. Its workers are named worker-1, worker-2, and so on."""

    def __init__(self) -> None:
        self._workers: dict[str, KernelWorker] = {}
        #: Queued actions by worker, until they begin, each as urgent as the request for which it was queued.
        self._queued: dict[str, Serving] = {}
        self._wanted = 0
        self._kernel: Any = None
        self._ledger: Any = None

    def start(self, kernel: KernelBase, ledger: KernelPort) -> None:
        """Implements `Executor.start`, and takes over the workers of an earlier start."""
        self._kernel, self._ledger = kernel, ledger
        self._ledger.hurry = self.hurry
        self._workers = {
            each._key: each for each in kernel.objects if isinstance(each, KernelWorker) and each._key is not None
        }
        self.resize(ledger.policy.workers)

    def kick(self, worker: str) -> None:
        """Queue an action for this worker: it has something to do."""
        object = self._workers.get(worker)
        if object is not None:
            self._serve(object, worker)

    def hurry(self, priority: int) -> None:
        """Raise the action of one queued worker to `priority`.

        Call when a ready request is more urgent than a worker's queued action and no worker is idle. May be called from any
        thread.
        """
        self._kernel._platform.with_lead(partial(self._raise_one, priority))

    def resize(self, workers: int) -> None:
        """Use so many workers. The objects of the others are kept: they cost nothing."""
        self._kernel._platform.with_lead(partial(self._match, workers))  # the lead keeps concurrent callers apart

    def _match(self, workers: int) -> None:
        self._wanted = workers
        self._kernel._platform.keep_threads(self._kernel, workers)
        for number in range(1, max(workers, len(self._workers)) + 1):
            name = f"worker-{number}"
            if number > workers:
                self._ledger.dismiss(name)
                continue
            if name not in self._workers:
                self._workers[name] = self._kernel._object(name, KernelWorker)
            if self._ledger.register(name):
                self._serve(self._workers[name], name)

    def workers(self) -> list[dict[str, Any]]:
        """The workers in use; all of them are up."""
        names = list(self._workers)[: self._wanted]
        return [{"name": name, "state": "up"} for name in names]

    def stop(self) -> None:
        """Nothing to stop: workers run as actions of the backplane."""

    def is_wanted(self, number: int) -> bool:
        """Whether the worker of this number is to go on; else it is dismissed."""
        return number <= self._wanted

    def _serve(self, object: KernelWorker, worker: str) -> None:
        kernel, ledger = self._kernel, self._ledger
        priority = backplane_priority(ledger.best_priority(), ledger.policy, kernel._priorities)
        serving = self._queued[worker] = Serving(object, kernel, ledger, self, worker, priority)
        ledger.hurry_at(least_urgent_above(priority, ledger.policy, kernel._priorities))
        kernel._serve(serving)

    def begins(self, worker: str) -> None:
        """The worker's queued action has begun, or has been refused."""
        self._queued.pop(worker, None)

    def priority(self) -> int:
        """Backplane priority of the most urgent request that may be executed."""
        ledger = self._ledger
        return backplane_priority(ledger.best_priority(), ledger.policy, self._kernel._priorities)

    def _raise_one(self, priority: int) -> None:
        """Raise the least urgent queued action for this request, but not above the best one that may run. With the lead."""
        kernel, ledger = self._kernel, self._ledger
        ledger.hurry_at(NEVER, is_anew=True)  # first: a worker queued from here on lowers the bound itself
        queued = sorted(self._queued.values(), key=attrgetter("priority"))
        wanted = max(self.priority(), backplane_priority(priority, ledger.policy, kernel._priorities))
        if queued and queued[-1].priority > wanted:
            kernel._platform.raise_to(queued[-1], wanted)
            queued.sort(key=attrgetter("priority"))
        if queued:
            ledger.hurry_at(least_urgent_above(queued[-1].priority, ledger.policy, kernel._priorities))


class Serving(ParkableAction):
    """A slice of one worker's time, in which it executes requests."""

    __slots__ = ("_asked", "_executor", "_kernel", "_ledger", "_number", "_worker", "element")

    def __init__(
        self,
        object: KernelWorker,
        kernel: KernelBase,
        ledger: SynchronizedLedger,
        executor: ThreadExecutor,
        worker: str,
        priority: int,
    ) -> None:
        super().__init__(object, f"{kernel.component_name}.requests", priority)
        self._kernel: Any = kernel
        self._ledger, self._executor, self._worker = ledger, executor, worker
        self._number = int(worker.rpartition("-")[2])
        #: The priority with which it was queued.
        self._asked = priority
        #: The request that it executes now.
        self.element: Element | None = None

    @property
    def is_long(self) -> bool:
        """Always True: a request may take any time."""
        return True

    def run(self) -> Outcome:
        try:
            self._executor.begins(self._worker)
            if self.priority < self._asked and self._executor.priority() > self.priority:
                self._go_on()  # the request for which it was raised is taken by now, and the others are less urgent
                return DONE
            return self._slice()
        except BaseException as error:  # an unforeseen error costs one request, and no worker
            element, self.element = self.element, None
            self._ledger.end_one(self._worker, element, None, failure_of(error), 0)
            self._ledger.mark_idle(self._worker)
            self._ledger.wake()
            raise

    def _slice(self) -> Outcome:  # hot: scripts/bench requests
        ledger, kernel, worker = self._ledger, self._kernel, self._worker
        now_ns = ledger.now_ns
        started_ns = now_ns()
        end_ns = started_ns + SLICE_NS
        held: ThreadResources = kernel._resources
        has_held = held.has_any
        records = records_of(self, kernel._platform, kernel._names)
        element: Element | None = None
        result: Any = None
        failure: Failure | None = None
        run_ns = 0
        while True:
            if not self._executor.is_wanted(self._number):
                ledger.leave(worker, element, result, failure, run_ns)
                if self._executor.is_wanted(self._number) and ledger.register(worker):  # wanted again since the check
                    self._go_on()
                return DONE
            if element is not None and (started_ns >= end_ns or should_yield()):
                ledger.end_one(worker, element, result, failure, run_ns)
                self._go_on()
                return DONE
            element = ledger.end_and_take(worker, element, result, failure, run_ns)
            if element is None:
                return DONE
            spec = ledger.specs[element.runnable]
            context = LocalContext(ledger, kernel._platform, element, held, False)
            if spec.is_async:
                self._run_async(spec, element, context)
                return DONE
            self.element = element
            result = failure = None
            started_ns = now_ns()
            try:
                result = spec.execute(element.request, context)
            except BaseException as error:  # the edge: sys.exit() in a request ends the request, not the worker
                failure = local_failure_of(error)
                if records is not None:
                    records.failed(error)
            if has_held:
                held.request_ended()
            ended_ns = now_ns()
            run_ns = ended_ns - started_ns
            if records is not None:
                records.executed(element, started_ns, run_ns)
            self.element = None
            started_ns = ended_ns

    def doing(self) -> str:
        """The request that is executed, for reports of slow actions."""
        element = self.element
        return "" if element is None else f"executing {element!r}"

    def refuse(self, error: BackplaneError) -> None:
        """The backplane goes down, or the action was late: ready requests stay ready, for another worker."""
        super().refuse(error)
        self._executor.begins(self._worker)
        self._ledger.mark_idle(self._worker)

    def _go_on(self) -> None:
        """Queue another action, as urgent as the requests that are ready now."""
        worker: Any = self.object
        self._executor._serve(worker, self._worker)

    def _run_async(self, spec: RunnableSpec, element: Element, context: LocalContext) -> None:
        name = self._kernel._names.of(element.runnable).name
        action = MethodAction(self.object, name, self.priority, execute, (spec, element, context))
        action.lane, action.wait_ns = element.lane, element.started_ns - element.ready_ns
        action.on_end = self._has_ended
        self._kernel._serve(action)

    def _has_ended(self, action: Action) -> None:
        """A coroutine's request has ended, in any way. Called with the lead."""
        assert isinstance(action, MethodAction)
        element: Element = action.arguments[1]
        result, failure = action.result if action.error is None else (None, failure_of(action.error))
        self._ledger.end_one(self._worker, element, result, failure, action.run_ns)
        self._go_on()
