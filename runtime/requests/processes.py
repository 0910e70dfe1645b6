"""Processes: requests executed by backplanes of their own, so that computing uses every core.

The workers are the replicas of a backplane that has a `RequestWorker` (seat.py), a line to each (line.py). Processes are the
supervisor's: here it is seen which of them are up, and so many of them as the policy wants are given work. What a request of
each runnable takes is learned, by all lines together, so that short ones can travel together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appbackplane.transport.resolver import AT

from ..execution.method_action import MethodAction
from .executor import Port
from .line import Line, drive
from .urgency import backplane_priority
from .window import Window
from .wire import EXECUTE, window_key

if TYPE_CHECKING:
    from .kernel import RequestKernel


class ProcessExecutor:
    """As `executor.Executor`: the lines, by the names of the backplanes they lead to."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        #: Those that are to be given work: the first of those that are up.
        self._wanted: tuple[str, ...] = ()
        self._count = 0
        self._is_stopped = False
        self.kernel: Any = None
        self.desk: Any = None
        self.route = ""
        #: What a request of each runnable takes, ns, on average of late.
        self.costs: dict[str, int] = {}

    def start(self, kernel: RequestKernel, desk: Port) -> None:
        """As `executor.Executor`, like all here."""
        self.kernel, self.desk = kernel, desk
        self.desk.recall = self.recall
        self.route = f"{desk.policy.pool}.{EXECUTE}"
        self._count = desk.policy.workers
        kernel._host.hear_directory(self._look)
        self._look()

    def kick(self, worker: str) -> None:
        """There is something for it."""
        line = self._lines.get(worker)
        if line is not None:
            self._serve(line)

    def recall(self, worker: str) -> None:
        """What it has not begun is behind something more urgent now. Any thread."""
        line = self._lines.get(worker)
        if line is not None:
            self.kernel._host.with_lead(line.recaller.hurry)

    def resize(self, workers: int) -> None:
        """Processes are the supervisor's: so many of them are given work."""
        self._count = workers
        self.kernel._host.with_lead(self._look)  # as with each new directory: one after the other

    def workers(self) -> list[dict[str, Any]]:
        """Those that there are."""
        up = self.kernel._host.places_up(self.route)
        return [
            {"name": name, "state": "up" if name in self._wanted else "spare" if name in up else "down"}
            for name in self.kernel._host.places(self.route)
        ]

    def stop(self) -> None:
        """What the workers execute may end there; nobody hears of it."""
        self._count = 0
        self._wanted = ()
        self._is_stopped = True
        self.kernel._host.hear_directory_no_more(self._look)  # or all that this start of the kernel had would stay

    def is_wanted(self, worker: str) -> bool:
        """Whether it is to be given more."""
        return worker in self._wanted

    def learn(self, runnable: str, run_ns: int) -> None:
        """What one request has taken."""
        known = self.costs.get(runnable)
        self.costs[runnable] = max(1, run_ns if known is None else known + (run_ns - known) // 8)

    def _look(self) -> None:
        """There is another directory, or another number is wanted."""
        if self._is_stopped:
            return
        self._wanted = wanted = tuple(self.kernel._host.places_up(self.route))[: self._count]
        for name in [*self._lines]:
            if name not in wanted:
                self.desk.dismiss(name)
        for name in wanted:
            if name not in self._lines:
                line = self._lines[name] = self.kernel._object(f"line{AT}{name}", lambda name=name: Line(self, name))
                self.kernel._object(f"recaller{AT}{name}", lambda line=line: line.recaller)
                self.kernel._object(window_key(name), lambda: Window(self.kernel))
            if self.desk.begins(name):
                self._serve(self._lines[name])

    def _serve(self, line: Line) -> None:
        kernel, desk = self.kernel, self.desk
        priority = backplane_priority(desk.urgency(), desk.policy, kernel._priorities)
        action = MethodAction(line, f"{kernel.component_name}.requests", priority, drive, (self,))
        action.on_end = line.stopped
        kernel._serve(action)
