"""Window: where worker processes post requests and fetch what has rejoined, in the kernel's backplane.

One for each worker, because an object serves one at a time (law 1) and what a worker asks may take as long as its
sub-requests do. A coroutine waits here for as long, without a thread, on behalf of the request that is executed there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appbackplane.transport.errors import Busy, DeadlineExceeded, FailedPrecondition, InvalidArgument

from ..objects.app_object import AppObject
from ..objects.operation import operation
from .context import LocalContext
from .element import Element, Packed
from .owners import Rejoin
from .wire import BATCH_BYTES_MAX, ITEMS_MAX

if TYPE_CHECKING:
    from .kernel import RequestKernel


class Window(AppObject):
    """Serves one worker process."""

    def __init__(self, kernel: RequestKernel) -> None:
        self._kernel = kernel

    @operation(priority=7)
    async def post_requests(
        self, asked: list[Any], items: list[list[Any]], wait: bool, limit: float | None
    ) -> list[Any]:
        """For worker processes: [numbers of those that were posted, [kind, text] of what was in the way or nil]."""
        context = self._context(asked)
        ids: list[int] = []
        for name, packed, owner, priority, lane, is_rejoined, is_boosted in items:
            element = context._element_packed(name, packed, owner, priority, lane, is_rejoined, is_boosted)
            try:
                await context._apost([element], wait, limit)
            except Busy as error:
                return [ids, ["busy", error.message]]
            except DeadlineExceeded as error:
                return [ids, ["late", error.message]]
            ids.append(element.id)
        return [ids, None]

    @operation(priority=7)
    async def rejoin_requests(
        self, asked: list[Any], owner: str | int | None, wait: bool, limit: float | None, count: int
    ) -> list[Any]:
        """For worker processes: [what was found, those that have rejoined]."""
        context = self._context(asked)
        whose = context.element if owner is None else owner
        found, element = await context._arejoin(whose, wait, limit)
        rows: list[list[Any]] = []
        size = 0
        while element is not None:
            rows.append(self._row(element))
            size += len(rows[-1][3] or b"")
            if len(rows) >= min(count, ITEMS_MAX) or size >= BATCH_BYTES_MAX:
                break
            _, element = context._desk.rejoin(whose, None, None)
        return [Rejoin.RETURNED.value if rows else found.value, rows]

    @operation(priority=7)
    def disown_requests(self, asked: list[Any], owner: str | int | None) -> None:
        """For worker processes: nobody will rejoin what there is of this owner."""
        context = self._context(asked)
        context._disown(context.element if owner is None else owner)

    def _context(self, asked: list[Any]) -> LocalContext:
        try:
            worker, start, id, answers, given_back = asked
        except ValueError as error:
            raise InvalidArgument("asked: expected [worker, start, request, answers, requests given back]") from error
        desk = self._kernel._desk
        if start != desk.started_ns:
            raise FailedPrecondition(
                f"{desk.name} has been started again since: nobody waits for request {id} of before"
            )
        if answers:
            desk.answered(worker, answers)
        if given_back:
            desk.give_back_by_id(worker, given_back)
        element = desk.find(id, worker)
        if element is None:
            raise FailedPrecondition(f"request {id} is not executed by {worker} any more: it was given up as lost")
        return LocalContext(desk, self._kernel._host, element, self._kernel._resources, True, is_window=True)

    def _row(self, element: Element) -> list[Any]:
        result = element.result
        packed: bytes | None = result.data if isinstance(result, Packed) else None
        return [
            element.id, element.runnable, element.packed, packed, element.error, element.trace, element.run_ns,
            element.priority, element.lane, element.worker,
        ]  # fmt: skip
