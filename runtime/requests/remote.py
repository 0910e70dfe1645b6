"""Remote: the kernel as the execution of a request sees it in a worker process; each step is a call to the kernel's backplane.

A plain `execute` waits for the answer in its thread, an `async` one in the wait queue. Many requests travel in one call, and
as many that have rejoined as there are; those are kept here until somebody asks. Before anything that may wait, whatever this
worker has that has not begun goes back to the kernel, in the same call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import Busy, DeadlineExceeded, FailedPrecondition, InvalidArgument
from appbackplane.transport.request import TIMEOUT_MAX_S

from ..execution.blocking import blocking_call
from .context import Context
from .element import Element, State
from .owners import Rejoin
from .policy import KernelPolicy
from .runnable import RunnableSpec
from .thread_resources import ThreadResources
from .wire import ITEMS_MAX, POST, REJOIN

if TYPE_CHECKING:
    from .seat import Seat

#: What is posted from here is not checked against the policy, which the kernel has: it refuses it itself.
_ANY: Final = KernelPolicy()


class RemoteContext(Context):
    """Of one request, in a process that is a worker."""

    def __init__(
        self, kernel: str, specs: Mapping[str, RunnableSpec], element: Element, resources: ThreadResources, seat: Seat
    ) -> None:
        super().__init__(kernel, specs, element, resources)
        self._seat = seat
        #: What has been posted from here for this very request, by number, until it rejoins.
        self._posted: dict[int, Element] = {}
        #: What has rejoined and was not asked for yet.
        self._joined: dict[Hashable, deque[Element]] = {}
        self._owners_count = 0

    def _post(self, elements: list[Element], wait: bool, timeout: float | None) -> None:
        for first in range(0, len(elements), ITEMS_MAX):
            part = elements[first : first + ITEMS_MAX]
            self._has_posted(
                part, blocking_call(self._seat, f"{self._name}.{POST}", self._posting(part, wait, timeout))
            )

    async def _apost(self, elements: list[Element], wait: bool, timeout: float | None) -> None:
        for first in range(0, len(elements), ITEMS_MAX):
            part = elements[first : first + ITEMS_MAX]
            arguments = self._posting(part, wait, timeout)
            self._has_posted(
                part, await self._seat.request(f"{self._name}.{POST}", arguments, timeout=TIMEOUT_MAX_S, retry=False)
            )

    def _rejoin(self, owner: Hashable, wait: bool, timeout: float | None) -> tuple[Rejoin, Element | None]:
        found = self._kept(owner)
        if found is not None:
            return Rejoin.RETURNED, found
        arguments = self._rejoining(owner, wait, timeout)
        return self._has_joined(owner, blocking_call(self._seat, f"{self._name}.{REJOIN}", arguments))

    async def _arejoin(self, owner: Hashable, wait: bool, timeout: float | None) -> tuple[Rejoin, Element | None]:
        found = self._kept(owner)
        if found is not None:
            return Rejoin.RETURNED, found
        arguments = self._rejoining(owner, wait, timeout)
        answer = await self._seat.request(f"{self._name}.{REJOIN}", arguments, timeout=TIMEOUT_MAX_S, retry=False)
        return self._has_joined(owner, answer)

    def _before_call(self) -> None:
        if self._seat.waiting:
            blocking_call(self._seat, f"{self._name}.{POST}", self._posting([], False, None))

    async def _abefore_call(self) -> None:
        if self._seat.waiting:
            nothing = self._posting([], False, None)
            await self._seat.request(f"{self._name}.{POST}", nothing, timeout=TIMEOUT_MAX_S, retry=False)

    def _fresh_owner(self) -> Hashable:
        assert self.element is not None
        self._owners_count += 1
        return f"request {self.element.id}, {self._owners_count}"

    def _policy(self) -> KernelPolicy:
        return _ANY

    # -- steps --------------------------------------------------------------------------------------------------------

    def _posting(self, elements: list[Element], wait: bool, timeout: float | None) -> dict[str, Any]:
        return {
            "asked": self._asked(),
            "items": [
                [
                    each.runnable, self._specs[each.runnable].pack(each.request), self._wire_owner(each.owner), each.priority,
                    each.lane, each.is_rejoined, each.is_boosted,
                ]
                for each in elements
            ],
            "wait": wait,
            "limit": timeout,
        }  # fmt: skip

    def _has_posted(self, elements: list[Element], answer: list[Any]) -> None:
        ids, problem = answer
        for element, id in zip(elements, ids, strict=False):
            element.id, element.state = id, State.READY
            if element.is_rejoined and element.owner is self.element:
                self._posted[id] = element
        if problem is not None:
            kind, said = problem
            raise (Busy(said, retry_after=0.01) if kind == "busy" else DeadlineExceeded(said))

    def _rejoining(self, owner: Hashable, wait: bool, timeout: float | None) -> dict[str, Any]:
        return {
            "asked": self._asked(), "owner": self._wire_owner(owner), "wait": wait, "limit": timeout, "count": ITEMS_MAX,
        }  # fmt: skip

    def _has_joined(self, owner: Hashable, answer: list[Any]) -> tuple[Rejoin, Element | None]:
        said, rows = answer
        found = Rejoin(said)
        if found is Rejoin.NONE_READY:
            return found, None
        kept = self._joined.setdefault(owner, deque())
        for id, runnable, packed_request, packed, error, trace, run_ns, priority, lane, worker in rows:
            spec = self._specs[runnable]
            element = self._posted.pop(id, None)
            if element is None:
                element = Element(id, spec.unpack(packed_request), runnable, owner, priority, lane)
            element.error, element.trace, element.run_ns, element.worker = error, trace, run_ns, worker
            element.state = State.JOINED if error is None else State.FAILED
            if packed is not None:
                element.result = spec.unpack_result(packed)
            kept.append(element)
        first = self._kept(owner)
        return (Rejoin.NONE_EXIST if first is None else Rejoin.RETURNED), first

    def _kept(self, owner: Hashable) -> Element | None:
        kept = self._joined.get(owner)
        if not kept:
            return None
        element = kept.popleft()
        if not kept:
            del self._joined[owner]
        return element

    def _asked(self) -> list[Any]:
        """Who asks, and what goes back."""
        assert self.element is not None
        component = self._seat._component
        assert component is not None
        return [component._host.backplane, self.element.id, self._seat.give_back()]

    def _wire_owner(self, owner: Hashable) -> str | int | None:
        """None: the request that is executed."""
        if owner is self.element:
            return None
        if isinstance(owner, (str, int)) and not isinstance(owner, bool):
            return owner
        if isinstance(owner, Element):
            raise FailedPrecondition(
                f"owner={owner!r}: in a worker process that is the request that is executed, or a text or a number"
            )
        raise InvalidArgument(
            f"owner={owner!r:.100}: expected a text or a number, which can travel to the kernel's process"
        )
