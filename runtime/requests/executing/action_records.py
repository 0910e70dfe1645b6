"""Action records: a backplane that records its actions records each request that it executes as an action of its own.

A record has a name, KERNEL.RUNNABLE, the lane, the wait in the ready pool, and times. One action executes several requests
(threads.py, request_worker.py), which are parts of it (observation/recorder.py); its own record has the rest. Without recording
there is no such object, and a request costs a comparison; with it, 1 us and the cost of a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...execution.loop.engine import SHORT_NS
from ...objects.action import Action
from ...objects.platform import Platform
from ...observation.recorder import RecordedPart
from ...observation.statistics import OperationStatistics

if TYPE_CHECKING:
    from ..ledger.element import Element


class RequestNames:
    """Names under which this process records the requests of one kernel."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self._accounts: dict[str, OperationStatistics] = {}

    def of(self, runnable: str) -> OperationStatistics:
        """The account of a runnable, which names it to the recorder."""
        account = self._accounts.get(runnable)
        if account is None:
            account = self._accounts[runnable] = OperationStatistics(f"{self.kernel}.{runnable}")
        return account


class ActionRecords:
    """Records the requests that one action executes."""

    __slots__ = ("_cpu_mark_ns", "_cpu_ns", "_error", "_names", "_parts")

    def __init__(self, action: Action, names: RequestNames, cpu_ns: Callable[[], int]) -> None:
        self._names, self._cpu_ns = names, cpu_ns
        self._parts: list[RecordedPart] = []
        action.parts = self._parts
        self._cpu_mark_ns = cpu_ns()
        self._error: BaseException | None = None

    def failed(self, error: BaseException) -> None:
        """Note the error of the executed request. Its traceback is removed here, so use that before."""
        self._error = error.with_traceback(None)  # its frames refer to the error: a cycle for the garbage collector

    def executed(self, element: Element, started_ns: int, run_ns: int) -> None:
        """Record a request that has ended, with the error from `failed`, if any. CPU time as in `Engine.execute`."""
        cpu_ns = run_ns
        if run_ns >= SHORT_NS:
            now_ns = self._cpu_ns()
            cpu_ns, self._cpu_mark_ns = min(run_ns, now_ns - self._cpu_mark_ns), now_ns
        error, self._error = self._error, None
        account = self._names.of(element.runnable)
        wait_ns = max(0, started_ns - element.ready_ns) if element.ready_ns else 0
        self._parts.append(RecordedPart(account, started_ns, wait_ns, run_ns, cpu_ns, element.lane, error))


def records_of(action: Action, platform: Platform, names: RequestNames) -> ActionRecords | None:
    """Records for the requests of an action; None: nothing is recorded."""
    return ActionRecords(action, names, platform.cpu_ns) if platform.is_recording else None
