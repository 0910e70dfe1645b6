"""Threads: requests executed by the workers of the kernel's own backplane.

A worker of the kernel is an object of its component; what it executes is an action (law 8), so that requests run by priority,
quota and CPU budget, and stand back for whatever is more urgent, like all work. One action executes requests one after the
other for a slice of time, because choosing an action costs as much as an empty request; the most urgent request is taken each
time. One that waits in its thread for sub-requests keeps it: the backplane has a thread for each worker, beside its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import BackplaneError

from ..execution.coroutines import should_yield
from ..execution.method_action import MethodAction
from ..objects.action import DONE, Action, Outcome, ParkableAction
from .action_records import records_of
from .desk import Desk
from .element import Element, Failure
from .executing import Worker, execute
from .executor import Port
from .failures import failure_of, local_failure_of
from .local_context import LocalContext
from .runnable import RunnableSpec
from .thread_resources import ThreadResources
from .urgency import NEVER, backplane_priority, urgency_above

if TYPE_CHECKING:
    from .kernel import RequestKernel

#: How long one action executes requests before the scheduler chooses anew: quotas and budgets count in these. An action costs
#: about 5 us more than the request in it; at 1 ms that is nothing, and a tick of a second still has a thousand of them.
SLICE_NS: Final = 1_000_000


class ThreadExecutor:
    """The workers, by number."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        #: Those that are queued, by worker: as urgent as what they were queued for, until they begin.
        self._queued: dict[str, Serving] = {}
        self._wanted = 0
        self._kernel: Any = None
        self._desk: Any = None

    def start(self, kernel: RequestKernel, desk: Port) -> None:
        """As `executor.Executor`, like all here."""
        self._kernel, self._desk = kernel, desk
        self._desk.hurry = self.hurry
        # Those of an earlier time that it was up.
        self._workers = {
            each._key: each for each in kernel.objects if isinstance(each, Worker) and each._key is not None
        }
        self.resize(desk.policy.workers)

    def kick(self, worker: str) -> None:
        """It has something to do."""
        object = self._workers.get(worker)
        if object is not None:
            self._serve(object, worker)

    def hurry(self, urgency: int) -> None:
        """This is ready and more urgent than what a worker is queued for; none was idle. Any thread."""
        self._kernel._host.with_lead(partial(self._raise_one, urgency))

    def resize(self, workers: int) -> None:
        """Objects are kept: they cost nothing."""
        self._kernel._host.with_lead(partial(self._match, workers))  # one after the other, whoever asks

    def _match(self, workers: int) -> None:
        self._wanted = workers
        self._kernel._host.keep_threads(self._kernel, workers)
        for number in range(1, max(workers, len(self._workers)) + 1):
            name = f"worker-{number}"
            if number > workers:
                self._desk.dismiss(name)
                continue
            if name not in self._workers:
                self._workers[name] = self._kernel._object(name, Worker)
            if self._desk.begins(name):
                self._serve(self._workers[name], name)

    def workers(self) -> list[dict[str, Any]]:
        """Those that there are to be."""
        names = list(self._workers)[: self._wanted]
        return [{"name": name, "state": "up"} for name in names]

    def stop(self) -> None:
        """Nothing of its own runs."""

    def is_wanted(self, number: int) -> bool:
        """Whether the worker of this number is to go on; if not, it is dismissed."""
        return number <= self._wanted

    def _serve(self, object: Worker, worker: str) -> None:
        kernel, desk = self._kernel, self._desk
        priority = backplane_priority(desk.urgency(), desk.policy, kernel._priorities)
        serving = self._queued[worker] = Serving(object, kernel, desk, self, worker, priority)
        desk.hurry_at(urgency_above(priority, desk.policy, kernel._priorities))
        kernel._serve(serving)

    def begins(self, worker: str) -> None:
        """It is queued no more."""
        self._queued.pop(worker, None)

    def priority(self) -> int:
        """Of the backplane, of what is ready."""
        desk = self._desk
        return backplane_priority(desk.urgency(), desk.policy, self._kernel._priorities)

    def _raise_one(self, urgency: int) -> None:
        """The least urgent of those queued, to this request, or to what may be executed, which may be less. With the lead."""
        kernel, desk = self._kernel, self._desk
        desk.hurry_at(NEVER, is_anew=True)  # first: whoever is queued from here on says so himself
        queued = sorted(self._queued.values(), key=priority_of)
        wanted = max(self.priority(), backplane_priority(urgency, desk.policy, kernel._priorities))
        if queued and queued[-1].priority > wanted:
            kernel._host.raise_to(queued[-1], wanted)
            queued.sort(key=priority_of)
        if queued:
            desk.hurry_at(urgency_above(queued[-1].priority, desk.policy, kernel._priorities))


class Serving(ParkableAction):
    """A slice of one worker's time."""

    __slots__ = ("_asked", "_desk", "_executor", "_kernel", "_number", "_worker", "element")

    def __init__(
        self, object: Worker, kernel: RequestKernel, desk: Desk, executor: ThreadExecutor, worker: str, priority: int
    ) -> None:
        super().__init__(object, f"{kernel.component_name}.requests", priority)
        self._kernel: Any = kernel
        self._desk, self._executor, self._worker = desk, executor, worker
        self._number = int(worker.rpartition("-")[2])
        #: As urgent as it was queued.
        self._asked = priority
        #: What it executes now.
        self.element: Element | None = None

    @property
    def is_long(self) -> bool:
        """A request may take as long as it likes."""
        return True

    def run(self) -> Outcome:
        """Execute what there is, for a slice."""
        try:
            self._executor.begins(self._worker)
            if self.priority < self._asked and self._executor.priority() > self.priority:
                self._go_on()  # what it was raised for is somebody else's by now, and the rest is not so urgent
                return DONE
            return self._slice()
        except BaseException as error:  # what nobody has foreseen costs one request, and no worker
            element, self.element = self.element, None
            self._desk.end_one(self._worker, element, None, failure_of(error), 0)
            self._desk.rests(self._worker)
            self._desk.wake()
            raise

    def _slice(self) -> Outcome:  # hot: scripts/bench requests
        desk, kernel, worker = self._desk, self._kernel, self._worker
        now_ns = desk.now_ns
        started_ns = now_ns()
        end_ns = started_ns + SLICE_NS
        held: ThreadResources = kernel._resources
        has_held = held.has_any
        records = records_of(self, kernel._host, kernel._names)
        element: Element | None = None
        result: Any = None
        failure: Failure | None = None
        run_ns = 0
        while True:
            if not self._executor.is_wanted(self._number):
                desk.leave(worker, element, result, failure, run_ns)
                is_back = self._executor.is_wanted(self._number) and desk.begins(worker)  # since the question
                if is_back:
                    self._go_on()
                return DONE
            if element is not None and (started_ns >= end_ns or should_yield()):
                desk.end_one(worker, element, result, failure, run_ns)
                self._go_on()
                return DONE
            element = desk.turn(worker, element, result, failure, run_ns)
            if element is None:
                return DONE
            spec = desk.specs[element.runnable]
            context = LocalContext(desk, kernel._host, element, held, False)
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
        """For who asks what takes so long."""
        element = self.element
        return "" if element is None else f"executing {element!r}"

    def refuse(self, error: BackplaneError) -> None:
        """The backplane goes down, or it took too long to begin: what is ready stays so, for another."""
        super().refuse(error)
        self._executor.begins(self._worker)
        self._desk.rests(self._worker)

    def _go_on(self) -> None:
        """In another action, as urgent as what is ready now."""
        worker: Any = self.object
        self._executor._serve(worker, self._worker)

    def _run_async(self, spec: RunnableSpec, element: Element, context: LocalContext) -> None:
        name = self._kernel._names.of(element.runnable).name
        action = MethodAction(self.object, name, self.priority, execute, (spec, element, context))
        action.lane, action.wait_ns = element.lane, element.started_ns - element.ready_ns
        action.on_end = self._has_ended
        self._kernel._serve(action)

    def _has_ended(self, action: Action) -> None:
        """Of a coroutine: with the lead, whatever became of it."""
        assert isinstance(action, MethodAction)
        element: Element = action.arguments[1]
        result, failure = action.result if action.error is None else (None, failure_of(action.error))
        self._desk.end_one(self._worker, element, result, failure, action.run_ns)
        self._go_on()


def priority_of(action: Action) -> int:
    """Of the backplane."""
    return action.priority
