"""Executor: the port behind which requests are executed: by threads, by processes, by a Spark cluster.

An executor asks for work when it has a free worker (`KernelPort.take`), and reports the outcome. When a worker that was given
nothing should ask again, the kernel notifies the executor (`kick`). So no request waits in an executor's queue while a more
urgent one is posted (DESIGN 12.1), and the kernel need not know the executor. `spark/` implements it, unknown to runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..ledger.element import Done, Element
from ..policy import KernelPolicy
from ..runnable import RunnableSpec

if TYPE_CHECKING:
    from ..kernel_base import KernelBase

#: Group of entry points by which executors of other packages are found; the name is the policy's `kernel`.
ENTRY_POINTS = "appbackplane.request_executors"


class KernelPort(Protocol):
    """The ledger of a kernel, as the executor may use it: from any thread; no method waits. See `SynchronizedLedger`."""

    policy: KernelPolicy

    @property
    def specs(self) -> Mapping[str, RunnableSpec]:
        """The runnables that can be executed, by name."""

    def take(self, worker: str, count_max: int) -> list[Element]:
        """Requests for a worker to execute now: of one lane, the most urgent first.

        []: none; the worker is kicked once there is one. It takes again when all that it took have ended or were given back.
        """

    def ended(self, worker: str, done: Sequence[Done]) -> None:
        """Report requests that have been executed.

        An executor on another machine adds the CPU time used there, and the start time by this machine's clock: the arrival of
        the answer, less the time since the start by the clock there. Records need both.
        """

    def has_threads(self, count: int) -> None:
        """Set how many requests other machines can execute at a time, for the records."""

    def give_back(self, worker: str, elements: Sequence[Element]) -> None:
        """Return requests that were taken and certainly not begun: they are ready again, in their old places."""

    def lost(self, worker: str, elements: Sequence[Element], why: str) -> None:
        """Report requests of which the outcome is unknown: they fail."""

    def register(self, worker: str) -> bool:
        """Register a worker, which then takes requests by itself. False: it is registered already."""

    def dismiss(self, worker: str) -> None:
        """Make a worker take no more, if it is idle; an active one leaves by itself."""

    def now_ns(self) -> int:
        """Monotonic time of the kernel's process."""


class Executor(Protocol):
    """The workers of a kernel, of whichever kind."""

    def start(self, kernel: KernelBase, ledger: KernelPort) -> None:
        """Start the workers. An error raised here is one clear sentence for the operator."""

    def kick(self, worker: str) -> None:
        """There is a request for this worker, which was given none before. Any thread; never waits."""

    def resize(self, workers: int) -> None:
        """Use so many workers from now on; a surplus worker finishes its requests."""

    def workers(self) -> list[dict[str, Any]]:
        """For the status: `name`, `state`, and further facts of each worker."""

    def stop(self) -> None:
        """The kernel goes down, and all waits have ended; executing requests may be lost. Called with the lead."""
