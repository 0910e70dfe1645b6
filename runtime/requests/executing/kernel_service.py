"""KernelService: where worker processes post requests and fetch rejoined ones, in the kernel's backplane.

There is one for each worker: an object serves one call at a time (law 1), and a worker's call may take as long as its
sub-requests do. A coroutine waits here meanwhile, without a thread, on behalf of the request that the worker executes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import BackplaneError, Cancelled, FailedPrecondition, InvalidArgument

from ...objects.app_object import AppObject
from ...objects.operation import operation
from ..contexts.local_context import LocalContext
from ..contexts.waiting import checked_limit
from ..ledger.element import Element, Packed
from ..ledger.owners import Rejoin, ScopedOwner
from .wire import BATCH_BYTES_MAX, ITEMS_MAX, Asked, Item

if TYPE_CHECKING:
    from ..kernel_base import KernelBase

#: How far a part's number may be ahead of the known ones: the kernel never hears of parts whose requests could not be posted.
PARTS_MAX: Final = 1 << 16


class KernelService(AppObject):
    """The operations that one worker process calls."""

    is_refusable = False

    def __init__(self, kernel: KernelBase) -> None:
        self._kernel = kernel

    @operation(priority=0)
    async def post_requests(
        self, asked: Asked, over: list[int], items: list[Item], wait: bool, limit: float | None
    ) -> list[Any]:
        """(Internal) Post requests: [ids, error or nil]. An error is [status, text, retry after].

        `over`: parts of the request that nobody asks for any more.
        """
        context = self._context(asked, over)
        limit = checked_limit(limit)
        ids: list[int] = []
        for name, packed, owner, priority, lane, is_rejoined, is_boosted in items:
            try:
                whose = self._owner(context, owner)
                element = context._element_packed(name, packed, whose, priority, lane, is_rejoined, is_boosted)
                await context._apost([element], wait, limit)
            except Cancelled:
                raise
            except BackplaneError as error:  # those before it are posted, and the worker must know their ids
                return [ids, [int(error.status), error.message, error.retry_after]]
            ids.append(element.id)
        return [ids, None]

    @operation(priority=0)
    async def rejoin_requests(
        self, asked: Asked, over: list[int], owner: str | int | list[int] | None, wait: bool, limit: float | None,
        count: int,
    ) -> list[Any]:  # fmt: skip
        """(Internal) Rejoin requests: [outcome, requests that have rejoined]. `over` as in `post_requests`."""
        context = self._context(asked, over)
        whose = self._owner(context, owner)
        found, element = await context._arejoin(whose, wait, checked_limit(limit))
        rows: list[list[Any]] = []
        size = 0
        while element is not None:
            row = self._row(element, context)
            rows.append(row)
            size += len(row[2] or b"") + len(row[3] or b"")
            if len(rows) >= min(count, ITEMS_MAX) or size >= BATCH_BYTES_MAX:
                break
            _, element = context._ledger.rejoin(whose, None, None)
        return [Rejoin.RETURNED.value if rows else found.value, rows]

    @operation(priority=0)
    def disown_requests(self, asked: Asked, owner: str | int | None) -> None:
        """(Internal) Drop the requests of this owner, which nobody will rejoin."""
        context = self._context(asked, [])
        context._disown(context.element if owner is None else owner)

    def _context(self, asked: Asked, over: list[int]) -> LocalContext:
        worker, start, id, answers, given_back = asked
        ledger = self._kernel._ledger
        if start != ledger.started_ns:
            raise FailedPrecondition(
                f"{ledger.name} has been restarted: request {id} of its previous run no longer exists"
            )
        if answers:
            ledger.answered(worker, answers)
        if given_back:
            ledger.give_back_by_id(worker, given_back)
        element = ledger.find(id, worker)
        if element is None:
            raise FailedPrecondition(f"request {id} is no longer executed by {worker}: it was given up as lost")
        for number in over:
            if number in element.parts:
                ledger.disown(element.parts[number])
        return LocalContext(ledger, self._kernel._platform, element, self._kernel._resources, True, is_for_worker=True)

    def _owner(self, context: LocalContext, owner: str | int | list[int] | None) -> Hashable:
        """The owner that `RemoteContext._wire_owner` encoded; a part is made when it is first named."""
        if not isinstance(owner, list):
            return context.element if owner is None else owner
        assert context.element is not None
        element, known = context.element, context.element.parts_count
        if len(owner) != 1 or not 0 <= owner[0] < known + PARTS_MAX:
            raise InvalidArgument(f"owner={owner!r:.100}: expected the number of a part, of which {known} are known")
        if owner[0] not in element.parts:
            element.parts_count = max(known, owner[0] + 1)
            element.parts[owner[0]] = ScopedOwner(element, owner[0])
        part: Hashable = element.parts[owner[0]]
        return part

    def _row(self, element: Element, context: LocalContext) -> list[Any]:
        result = element.result
        packed: bytes | None = result.data if isinstance(result, Packed) else None
        packed_request: bytes | None = element.packed
        if element.parent is context.element and (
            element.owner is context.element or isinstance(element.owner, ScopedOwner)
        ):
            packed_request = None  # the asking worker posted it, and has it
        return [
            element.id, element.runnable, packed_request, packed, element.error, element.trace, element.run_ns,
            element.priority, element.lane, element.worker, element.error_type,
        ]  # fmt: skip
