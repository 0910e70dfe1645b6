"""Processes: requests executed by backplanes of their own, so that computing uses every core.

The workers are the replicas of a backplane that has a `RequestWorker` (seat.py). A line to each is an object here whose
coroutine takes requests, calls the worker with them, and says how they ended; a process that dies ends the call, and what it
had is lost. To keep both sides from waiting for messages, short requests travel together, as many as are expected to take
`BATCH_NS`: no more, because what has left can be overtaken by nobody (DESIGN 12.1). How long a runnable takes is learned.
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
)
from appbackplane.transport.request import TIMEOUT_MAX_S
from appbackplane.transport.resolver import AT

from ..execution.coroutines import pause
from ..execution.method_action import MethodAction
from ..objects.app_object import AppObject
from .element import Done, Element, Failure, Packed
from .executor import Port
from .urgency import backplane_priority
from .window import Window
from .wire import BATCH_BYTES_MAX, EXECUTE

if TYPE_CHECKING:
    from .kernel import RequestKernel

#: How long the requests that travel together are to take. A round trip is 0.2 ms of waiting: 5 ms keep that at 4 %, and an
#: urgent request finds a worker that soon.
BATCH_NS: Final = 5_000_000
#: Requests at most in one message: at 4 us each, empty ones, which are a millisecond.
BATCH_MAX: Final = 256
#: When a worker that could not take anything is asked again.
RETRY_S: Final = 0.05


class Line(AppObject):
    """The way to one worker."""


class ProcessExecutor:
    """As `executor.Executor`: the lines, by the names of the backplanes they lead to."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        #: Those that are to be given work: the first of those that are up.
        self._wanted: tuple[str, ...] = ()
        self._count = 0
        self._kernel: Any = None
        self._desk: Any = None
        self._route = ""
        #: What a request of each runnable takes, ns, on average of late.
        self._costs: dict[str, int] = {}

    def start(self, kernel: RequestKernel, desk: Port) -> None:
        """As `executor.Executor`, like all here."""
        self._kernel, self._desk = kernel, desk
        self._route = f"{desk.policy.pool}.{EXECUTE}"
        self._count = desk.policy.workers
        kernel._host.hear_directory(self._look)
        self._look()

    def kick(self, worker: str) -> None:
        """There is something for it."""
        line = self._lines.get(worker)
        if line is not None:
            self._serve(line, worker)

    def resize(self, workers: int) -> None:
        """Processes are the supervisor's: so many of them are given work."""
        self._count = workers
        self._look()

    def workers(self) -> list[dict[str, Any]]:
        """Those that there are."""
        up = self._kernel._host.places_up(self._route)
        return [
            {"name": name, "state": "up" if name in self._wanted else "spare" if name in up else "down"}
            for name in self._kernel._host.places(self._route)
        ]

    def stop(self) -> None:
        """What the workers execute may end there; nobody hears of it."""
        self._wanted = ()

    def is_wanted(self, worker: str) -> bool:
        """Whether it is to be given more."""
        return worker in self._wanted

    def _look(self) -> None:
        """There is another directory, or another number is wanted."""
        self._wanted = wanted = tuple(self._kernel._host.places_up(self._route))[: self._count]
        for name in [*self._lines]:
            if name not in wanted:
                self._desk.dismiss(name)
        for name in wanted:
            if name not in self._lines:
                line = self._lines[name] = Line()
                self._kernel.add(line, key=f"line{AT}{name}")
                self._kernel.add(Window(self._kernel), key=f"window{AT}{name}")
            if self._desk.begins(name):
                self._serve(self._lines[name], name)

    def _serve(self, line: Line, worker: str) -> None:
        kernel, desk = self._kernel, self._desk
        priority = backplane_priority(desk.urgency(), desk.policy, kernel._priorities)
        kernel._serve(MethodAction(line, f"{kernel.component_name}.requests", priority, _drive, (self, worker)))

    async def drive(self, line: Line, worker: str) -> None:
        """Give a worker what there is for it, until there is nothing."""
        desk = self._desk
        while True:
            if not self.is_wanted(worker):
                desk.leave(worker, None, None, None, 0)
                return
            taken: list[Element] = desk.take_batch(worker, BATCH_MAX, self._costs, BATCH_NS, BATCH_BYTES_MAX)
            if not taken:
                return
            items = [[each.id, each.runnable, each.packed, each.lane] for each in taken]
            arguments = {"kernel": self._kernel.component_name, "items": items}
            try:
                answer = await line.request(
                    self._route, arguments, key=f"{AT}{worker}", timeout=TIMEOUT_MAX_S, retry=False
                )
            except BackplaneError as error:
                if not self._failed(worker, taken, error):
                    await pause(RETRY_S)
                continue
            self._ended(worker, taken, answer)

    def _ended(self, worker: str, taken: list[Element], answer: list[Any]) -> None:
        by_id = {each.id: each for each in taken}
        done: list[Done] = []
        for id, packed, error, trace, run_ns in answer:
            element = by_id.pop(id, None)
            if element is None:
                continue
            failure = None if error is None else Failure(error, trace)
            done.append(Done(element, None if packed is None else Packed(packed), failure, run_ns))
            known = self._costs.get(element.runnable)
            self._costs[element.runnable] = run_ns if known is None else known + (run_ns - known) // 8
        self._desk.ended(worker, done)
        if by_id:  # not begun: it has come to wait for others, or its results grew too large for one answer
            self._desk.give_back(worker, list(by_id.values()))

    def _failed(self, worker: str, taken: list[Element], error: BackplaneError) -> bool:
        """Whether the worker may be asked again at once."""
        is_not_begun = error.is_refused or isinstance(error, (Busy, Unavailable, NotFound))
        if isinstance(error, InvalidArgument) and len(taken) == 1:
            self._desk.ended(worker, [Done(taken[0], None, Failure(error.message), 0)])
            return True
        if is_not_begun or isinstance(error, InvalidArgument):
            if isinstance(error, InvalidArgument):  # which of them it is shows when they go one by one
                self._costs.update((each.runnable, BATCH_NS) for each in taken)
            self._desk.give_back(worker, taken)
            return False
        if isinstance(error, (PeerDown, DeadlineExceeded)):
            self._desk.lost(worker, taken, f"{worker}: {error.message}")
        else:
            self._desk.ended(worker, [Done(each, None, Failure(error.message, error.trace), 0) for each in taken])
        return True


async def _drive(line: Line, executor: ProcessExecutor, worker: str) -> None:
    """As an operation of the line."""
    await executor.drive(line, worker)
