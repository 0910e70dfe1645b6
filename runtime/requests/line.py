"""Line: the way to one worker process. Its coroutine takes requests, calls the worker with them, and says how they ended.

A process that dies ends the call, and what it had is lost. To keep both sides from waiting for messages, short requests travel
together, as many as are expected to take `BATCH_NS`. What has not begun there is recalled, and is for others, when one before
it takes long after all, and as soon as something more urgent would have to wait behind it (DESIGN 12.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from appbackplane.transport.request import TIMEOUT_MAX_S

from ..execution.coroutines import Signal
from ..execution.method_action import MethodAction
from ..execution.pausing import pause
from ..objects.action import Action
from ..objects.app_object import AppObject
from .element import Done, Element, Failure
from .wire import BATCH_BYTES_MAX, RECALL, Answer, answers_of, seat_key, usher_key

if TYPE_CHECKING:
    from .processes import ProcessExecutor

#: How long the requests that travel together are to take. Between two batches a worker waits for two messages and for the
#: kernel's turn on a core: 0.4 ms where there is a free one, several where all are busy.
BATCH_NS: Final = 20_000_000
#: Requests at most in one message: at 4 us each, empty ones, which are a millisecond.
BATCH_MAX: Final = 256
#: When those that travelled together are recalled. Several times what they were to take: a busy machine is no reason.
RECALL_NS: Final = 60_000_000
#: When a worker that could not take anything is asked again.
RETRY_S: Final = 0.05


class Line(AppObject):
    """One worker, and what it has."""

    def __init__(self, executor: ProcessExecutor, worker: str) -> None:
        self.executor, self.worker = executor, worker
        #: By number: what the worker has been given, and nobody knows yet how it ended.
        self.taken: dict[int, Element] = {}
        self.recaller = Recaller(self)
        #: Whether an answer of a recall was lost, of what it has now.
        self.is_unsure = False

    async def drive(self, executor: ProcessExecutor) -> None:
        """Give the worker what there is for it, until there is nothing.

        A kernel that went down and came up has another executor; its first drive begins when the last of before has ended.
        """
        self.executor = executor
        desk, worker = executor.desk, self.worker
        while True:
            if not executor.is_wanted(worker):
                desk.leave(worker, None, None, None, 0)
                is_back = executor.is_wanted(worker) and desk.begins(worker)  # since the question
                if not is_back:
                    return
            taken: list[Element] = desk.take_batch(worker, BATCH_MAX, executor.costs, BATCH_NS, BATCH_BYTES_MAX)
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
                desk.lost(worker, left, f"{worker}: its answer did not come")
            self.given_back([*self.taken])  # or the kernel knows of them from a call of the worker's (window.py)

    def stopped(self, action: Action) -> None:
        """The coroutine has ended, by itself or because nothing runs here any more."""
        if action.error is None:
            return
        left, self.taken = list(self.taken.values()), {}
        if left:
            self.executor.desk.lost(self.worker, left, f"{self.worker}: {text_of(action.error)}")
        self.executor.desk.rests(self.worker)

    def ended(self, answers: list[Answer]) -> None:
        """These have been executed."""
        for answer in answers:
            element = self.taken.pop(answer.id, None)
            if element is not None:
                self.executor.learn(element.runnable, answer.run_ns)
        if answers:
            self.executor.desk.answered(self.worker, answers)

    def given_back(self, ids: list[int]) -> None:
        """These have not begun."""
        elements = [element for id in ids if (element := self.taken.pop(id, None)) is not None]
        if elements:
            self.executor.desk.give_back(self.worker, elements)

    async def _execute(self, taken: list[Element]) -> Any:
        items = [[each.id, each.runnable, each.packed, each.lane] for each in taken]
        executor = self.executor
        arguments = {"kernel": executor.kernel.component_name, "start": executor.desk.started_ns, "items": items}
        return await self.request(
            executor.route, arguments, key=seat_key(self.worker), timeout=TIMEOUT_MAX_S, retry=False
        )

    async def _settle(self, watch: Any) -> None:
        """A recall that is on its way may bring what is in no other answer."""
        if watch is not None:
            watch.cancel()
        signal = self.recaller.ending
        if signal is not None:
            await signal

    def _failed(self, error: BackplaneError) -> bool:
        """Whether the worker may be asked again at once."""
        left = list(self.taken.values())
        desk, worker = self.executor.desk, self.worker
        self.taken = {}
        if isinstance(error, InvalidArgument) and len(left) == 1:
            desk.ended(worker, [Done(left[0], None, Failure(error.message), 0)])
        elif error.is_refused or isinstance(error, (Busy, Unavailable, NotFound, InvalidArgument)):
            for each in left:  # which of them cannot travel shows when they go one by one
                if isinstance(error, InvalidArgument):
                    self.executor.learn(each.runnable, BATCH_NS * 8)
            desk.give_back(worker, left)
            return False
        elif isinstance(error, (PeerDown, DeadlineExceeded)):
            desk.lost(worker, left, f"{worker}: {error.message}")
        else:
            desk.ended(worker, [Done(each, None, Failure(error.message, error.trace), 0) for each in left])
        return True


class Recaller(AppObject):
    """Asks a worker beside what it executes."""

    def __init__(self, line: Line) -> None:
        self._line = line
        #: Set when the recall that is on its way has ended; None: there is none.
        self.ending: Signal | None = None

    def watch(self) -> Any:
        """Recall what the worker has, should it take long; the timer, if there may be one."""
        kernel = self._line.executor.kernel
        try:
            return kernel._host.later(kernel, f"{kernel.component_name}.recall", RECALL_NS, 0, self._make)
        except Busy:  # at `max_posted`: nothing is recalled this once
            return None

    def hurry(self) -> None:
        """Recall it now. With the lead; once is enough."""
        action = self._make() if self.ending is None and len(self._line.taken) > 1 else None
        if action is not None:
            self._line.executor.kernel._serve(action)

    def _make(self) -> Action | None:
        if self.ending is not None:
            return None  # one is on its way
        kernel = self._line.executor.kernel
        self.ending = Signal(round(TIMEOUT_MAX_S * 1e9))
        action = MethodAction(self, f"{kernel.component_name}.recall", 1, recall, ())
        action.on_end = self._has_ended
        return action

    async def recall(self) -> None:
        """What has ended, and what has not begun."""
        line = self._line
        route = f"{line.executor.desk.policy.pool}.{RECALL}"
        try:
            told = await self.request(
                route,
                {"start": line.executor.desk.started_ns},
                key=usher_key(line.worker),
                priority=1,
                timeout=TIMEOUT_MAX_S,
                retry=False,
            )
            answers, ids = answers_of(told[0], line.worker), told[1]
        except BackplaneError as error:
            if not error.is_refused:  # what the worker told there is lost, and with it what it was about
                line.is_unsure = True
            return
        line.ended(answers)
        line.given_back(ids)

    def _has_ended(self, action: Action) -> None:
        ending, self.ending = self.ending, None
        if ending is not None:
            self._line.executor.kernel._host.set(ending)


async def drive(line: Line, executor: ProcessExecutor) -> None:
    """As an operation of the line."""
    await line.drive(executor)


async def recall(recaller: Recaller) -> None:
    """As an operation of the recaller."""
    await recaller.recall()
