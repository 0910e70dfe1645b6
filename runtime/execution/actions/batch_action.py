"""BatchAction: a request that is served together with others of its operation, by one call of the method.

The first of a batch runs, and the others with it: its companions, which `Batching` (loop/batching.py) takes out of the queue
before. Each has its own caller, deadline, statistics, and result or error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...objects.action import DONE, Outcome
from ...objects.batch import results_of
from .method_action import MethodAction

#: A sleeping worker wakes up to a millisecond late, because poll(2) counts in those. A wait ends so much earlier instead:
#: it is declared as the longest.
POLL_NS: Final = 900_000

if TYPE_CHECKING:
    from ...objects.app_object import AppObject
    from ...objects.operation_spec import OperationSpec


class BatchAction(MethodAction):
    """One request of an operation that serves batches."""

    __slots__ = ("arrived_ns", "batched", "companions", "is_companion", "requests_max", "wait_max_ns")

    def __init__(
        self, object: AppObject, name: str, priority: int, spec: OperationSpec, arguments: tuple[Any, ...],
        deadline_ns: int | None,
    ) -> None:  # fmt: skip
        super().__init__(object, name, priority, spec.function, arguments, deadline_ns)
        assert spec.mark.batch is not None and spec.batched is not None
        #: The method, which takes a list for each argument.
        self.batched: Callable[..., Any] = spec.batched
        self.requests_max: int = spec.mark.batch.max
        self.wait_max_ns = round(spec.mark.batch.wait_ms * 1e6)
        if self.wait_max_ns > 2 * POLL_NS:
            self.wait_max_ns -= POLL_NS
        #: The requests that are served with this one. Empty until it runs.
        self.companions: list[BatchAction] = []
        #: Whether it is served with another one that has begun.
        self.is_companion = False
        #: When it was first chosen, it had been queued since then; 0: it has not been chosen.
        self.arrived_ns = 0

    @property
    def has_begun(self) -> bool:
        """Whether it is served now, together with the first of its batch, which is the worker's action."""
        return self.is_companion

    def run(self) -> Outcome:
        """Serve the batch: all get their results, or the error of the method. A cancellation of the first comes too late."""
        if not self.companions:
            return super().run()
        actions = [self, *self.companions]
        columns = [[action.arguments[number] for action in actions] for number in range(len(self.arguments))]
        try:
            results = results_of(self.name, self.batched(self.object, *columns), len(actions))
        except BaseException as error:
            for action in actions:
                action.error = error
            if not isinstance(error, Exception):
                raise
            return DONE
        for action, result in zip(actions, results, strict=True):
            if isinstance(result, BaseException):
                action.error = result
            else:
                action.result = result
        return DONE
