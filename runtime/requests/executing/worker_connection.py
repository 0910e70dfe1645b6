"""Worker connection: the kernel's side of one worker process. Its coroutine takes requests, calls the worker, reports outcomes.

When a process dies its call ends, and its requests are lost. Short requests travel together, as many as should take
`BATCH_NS`, so that neither side spends its time waiting for messages. Unbegun requests are recalled for other workers when one
before them takes long after all. They are also recalled as soon as something more urgent would have to wait behind them
(DESIGN 12.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.call_checks import TIMEOUT_MAX_S
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    PeerDown,
    Unavailable,
    text_of,
)

from ...execution.actions.coroutines import OneShotEvent
from ...execution.actions.method_action import MethodAction
from ...execution.workers.user_functions import pause
from ...objects.action import Action
from ...objects.app_object import AppObject
from ..ledger.element import Done, Element, Failure
from .wire import BATCH_BYTES_MAX, RECALL, RequestAnswer, answers_of, recall_key, runner_key

if TYPE_CHECKING:
    from .processes import ProcessExecutor

#: Expected run time of requests that travel together. Between two batches a worker waits for two messages and for the kernel
#: to get a core: 0.4 ms where one is free, several where all are busy.
BATCH_NS: Final = 20_000_000
#: Requests at most in one message: empty ones take 4 us each, a millisecond in all.
BATCH_MAX: Final = 256
#: Time after which a batch is recalled. Several times its expected run time: a busy machine is no reason.
RECALL_NS: Final = 60_000_000
#: Pause before a worker that could not take its requests is asked again.
RETRY_S: Final = 0.05


class WorkerConnection(AppObject):
    """One worker process, and the requests that it has."""

    def __init__(self, executor: ProcessExecutor, worker: str) -> None:
        self.executor, self.worker = executor, worker
        #: By id: requests given to the worker, of which the outcome is not known yet.
        self.taken: dict[int, Element] = {}
        self.recaller = Recaller(self)
        #: Whether an answer to a recall of these requests was lost.
        self.is_unsure = False

    async def drive(self, executor: ProcessExecutor) -> None:
        """Send requests to the worker until there are none for it, or it is not wanted any more.

        A kernel that went down and came up has another executor; its first drive begins when the last of before has ended.
        """
        self.executor = executor
        ledger, worker = executor.ledger, self.worker
        while True:
            if not executor.is_wanted(worker):
                ledger.leave(worker, None, None, None, 0)
                is_wanted_again = executor.is_wanted(worker) and ledger.register(worker)  # since the check
                if not is_wanted_again:
                    return
            taken: list[Element] = ledger.take_batch(worker, BATCH_MAX, executor.costs, BATCH_NS, BATCH_BYTES_MAX)
            if not taken:
                return
            self.taken, self.is_unsure = {each.id: each for each in taken}, False
            watch = self.recaller.watch() if len(taken) > 1 else None
            try:
                answers = answers_of(await self._execute(taken), worker)
            except BackplaneError as error:
                await self._settle(watch)
                if not self._failed(error):
                    await pause(RETRY_S)
                continue
            self.ended(answers)
            await self._settle(watch)
            if self.is_unsure:
                left, self.taken = list(self.taken.values()), {}
                ledger.lost(worker, left, f"{worker}: no answer received")
            self.given_back([*self.taken])  # ignored for those that the worker itself has reported (kernel_service.py)

    def stopped(self, action: Action) -> None:
        """The coroutine has ended; after an error, its requests are lost."""
        if action.error is None:
            return
        left, self.taken = list(self.taken.values()), {}
        if left:
            self.executor.ledger.lost(self.worker, left, f"{self.worker}: {text_of(action.error)}")
        self.executor.ledger.mark_idle(self.worker)

    def ended(self, answers: list[RequestAnswer]) -> None:
        """Report the worker's answers, and learn from their run times."""
        for answer in answers:
            element = self.taken.pop(answer.id, None)
            if element is not None:
                self.executor.learn(element.runnable, answer.run_ns)
        if answers:
            self.executor.ledger.answered(self.worker, answers)

    def given_back(self, ids: list[int]) -> None:
        """Return requests that the worker has not begun."""
        elements = [element for id in ids if (element := self.taken.pop(id, None)) is not None]
        if elements:
            self.executor.ledger.give_back(self.worker, elements)

    async def _execute(self, taken: list[Element]) -> Any:
        items = [[each.id, each.runnable, each.packed, each.lane] for each in taken]
        executor = self.executor
        arguments = {"kernel": executor.kernel.component_name, "start": executor.ledger.started_ns, "items": items}
        return await self.request(
            executor.route, arguments, key=runner_key(self.worker), timeout=TIMEOUT_MAX_S, retry=False
        )

    async def _settle(self, watch: Any) -> None:
        """Wait for a recall under way: it may bring answers that come in no other way."""
        if watch is not None:
            watch.cancel()
        signal = self.recaller.ending
        if signal is not None:
            await signal

    def _failed(self, error: BackplaneError) -> bool:
        """Settle the requests of a call that failed. Returns whether the worker may be asked again at once."""
        left = list(self.taken.values())
        ledger, worker = self.executor.ledger, self.worker
        self.taken = {}
        if isinstance(error, InvalidArgument) and len(left) == 1:
            ledger.ended(worker, [Done(left[0], None, Failure(error.message), 0)])
        elif error.is_refused or isinstance(error, (Busy, Unavailable, NotFound, InvalidArgument)):
            for each in left:  # from now on they travel one by one, which shows the one that cannot
                if isinstance(error, InvalidArgument):
                    self.executor.learn(each.runnable, BATCH_NS * 8)
            ledger.give_back(worker, left)
            return False
        elif isinstance(error, (PeerDown, DeadlineExceeded)):
            ledger.lost(worker, left, f"{worker}: {error.message}")
        else:
            ledger.ended(worker, [Done(each, None, Failure(error.message, error.trace), 0) for each in left])
        return True


class Recaller(AppObject):
    """Recalls unbegun requests from a worker that is executing others."""

    def __init__(self, connection: WorkerConnection) -> None:
        self._connection = connection
        #: Set when the recall under way has ended; None: none is.
        self.ending: OneShotEvent | None = None

    def watch(self) -> Any:
        """Recall the worker's requests after `RECALL_NS`. Returns the timer; None: at `max_posted` there is none."""
        kernel = self._connection.executor.kernel
        try:
            return kernel._platform.later(kernel, f"{kernel.component_name}.recall", RECALL_NS, 0, self._make)
        except Busy:  # at `max_posted`: nothing is recalled this once
            return None

    def hurry(self) -> None:
        """Recall the worker's requests now, unless a recall is under way. Call with the lead."""
        action = self._make() if self.ending is None and len(self._connection.taken) > 1 else None
        if action is not None:
            self._connection.executor.kernel._serve(action)

    def _make(self) -> Action | None:
        if self.ending is not None:
            return None  # a recall is under way
        kernel = self._connection.executor.kernel
        self.ending = OneShotEvent(round(TIMEOUT_MAX_S * 1e9))
        action = MethodAction(self, f"{kernel.component_name}.recall", 1, Recaller.recall, ())
        action.on_end = self._has_ended
        return action

    async def recall(self) -> None:
        """Ask the worker for its answers so far, and for the requests that it has not begun."""
        connection = self._connection
        route = f"{connection.executor.ledger.policy.pool}.{RECALL}"
        try:
            told = await self.request(
                route,
                {"start": connection.executor.ledger.started_ns},
                key=recall_key(connection.worker),
                priority=1,
                timeout=TIMEOUT_MAX_S,
                retry=False,
            )
            answers, ids = answers_of(told[0], connection.worker), told[1]
        except BackplaneError as error:
            if not error.is_refused:  # the answer is lost, and with it the outcome of some requests
                connection.is_unsure = True
            return
        connection.ended(answers)
        connection.given_back(ids)

    def _has_ended(self, action: Action) -> None:
        ending, self.ending = self.ending, None
        if ending is not None:
            self._connection.executor.kernel._platform.set(ending)
