"""Executor: the port behind which requests are executed: by threads, by processes, by a Spark cluster.

An executor asks for work when it has a free worker (`Desk.take`), and says how it ended; the kernel says when a worker that was
given nothing should ask again (`kick`). So no request waits in a queue of an executor's while a more urgent one is posted
(DESIGN 12.1), and what an executor is costs the kernel nothing to know. `spark/` implements it without runtime importing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .element import Done, Element
from .policy import KernelPolicy
from .runnable import RunnableSpec

if TYPE_CHECKING:
    from .kernel import RequestKernel

#: The group of entry points by which an executor of another package is found, under the policy's `kernel`.
ENTRY_POINTS = "appbackplane.request_executors"


class Port(Protocol):
    """What an executor may ask of the kernel: from any thread; nothing here waits."""

    policy: KernelPolicy

    @property
    def specs(self) -> Mapping[str, RunnableSpec]:
        """What can be executed, by name."""

    def take(self, worker: str, count_max: int) -> list[Element]:
        """What a worker is to execute now: of one lane, the most urgent first.

        []: nothing; it is kicked once there is something. It takes again when all that it took has ended or was given back.
        """

    def ended(self, worker: str, done: Sequence[Done]) -> None:
        """These have been executed.

        An executor on another machine tells how much CPU they used there, and when they began, by the clock of this one: the
        time at which their answers arrive, less what has passed by the clock there since they began. Records need both.
        """

    def has_threads(self, count: int) -> None:
        """So many requests can be executed at a time on other machines, from now on: for the records."""

    def give_back(self, worker: str, elements: Sequence[Element]) -> None:
        """These were taken and have certainly not begun: they are ready again, where they were."""

    def lost(self, worker: str, elements: Sequence[Element], why: str) -> None:
        """Nobody knows what became of these: they fail."""

    def begins(self, worker: str) -> bool:
        """It is a worker from now on, and takes by itself; False: it is one already."""

    def dismiss(self, worker: str) -> None:
        """It is to take no more, if it rests; one that does not leaves by itself."""

    def now_ns(self) -> int:
        """The time, monotonic."""


class Executor(Protocol):
    """Who executes requests."""

    def start(self, kernel: RequestKernel, desk: Port) -> None:
        """Begin. Raises what is one clear sentence for who starts the kernel."""

    def kick(self, worker: str) -> None:
        """There is something for this worker, which was given nothing. Any thread; never waits."""

    def resize(self, workers: int) -> None:
        """So many workers from now on; one that is one too many finishes what it has."""

    def workers(self) -> list[dict[str, Any]]:
        """For the status: `name`, `state`, and what else is known of each."""

    def stop(self) -> None:
        """The kernel goes down, and nobody waits for a request any more. What is executed may be lost. With the lead."""
