"""Action records: where a backplane records its actions, each request that it executes is recorded as one.

By its own name, KERNEL.RUNNABLE, with its lane, its wait in the ready pool and its times. Several are executed within one
action (threads.py, seat.py), of which they are parts (observation/recorder.py); its own record has what is left. Where
nothing is recorded there is no such object, and a request costs a comparison; where it is, 1 us, and what a record costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..execution.engine import SHORT_NS
from ..objects.action import Action
from ..objects.app_object import Host
from ..observation.recorder import Part
from ..observation.statistics import OperationStatistics

if TYPE_CHECKING:
    from .element import Element


class RequestNames:
    """Under which names the requests of one kernel are recorded by this process."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self._accounts: dict[str, OperationStatistics] = {}

    def of(self, runnable: str) -> OperationStatistics:
        """The name of a runnable of its own, as the recorder wants it."""
        account = self._accounts.get(runnable)
        if account is None:
            account = self._accounts[runnable] = OperationStatistics(f"{self.kernel}.{runnable}")
        return account


class ActionRecords:
    """Of the requests that one action executes."""

    __slots__ = ("_cpu_mark_ns", "_cpu_ns", "_error", "_names", "_parts")

    def __init__(self, action: Action, names: RequestNames, cpu_ns: Callable[[], int]) -> None:
        self._names, self._cpu_ns = names, cpu_ns
        self._parts: list[Part] = []
        action.parts = self._parts
        self._cpu_mark_ns = cpu_ns()
        self._error: BaseException | None = None

    def failed(self, error: BaseException) -> None:
        """The one that is executed has raised this, and whoever wanted its traceback has it."""
        self._error = error.with_traceback(None)  # it leads to whoever holds it: a circle that only the collector ends

    def executed(self, element: Element, started_ns: int, run_ns: int) -> None:
        """One has ended, well or as last said by `failed`. CPU time as the engine measures it (Engine.execute)."""
        cpu_ns = run_ns
        if run_ns >= SHORT_NS:
            now_ns = self._cpu_ns()
            cpu_ns, self._cpu_mark_ns = min(run_ns, now_ns - self._cpu_mark_ns), now_ns
        error, self._error = self._error, None
        account = self._names.of(element.runnable)
        wait_ns = max(0, started_ns - element.ready_ns) if element.ready_ns else 0
        self._parts.append(Part(account, started_ns, wait_ns, run_ns, cpu_ns, element.lane, error))


def records_of(action: Action, host: Host, names: RequestNames) -> ActionRecords | None:
    """For the requests of an action; None: nothing is recorded."""
    return ActionRecords(action, names, host.cpu_ns) if host.is_recording else None
