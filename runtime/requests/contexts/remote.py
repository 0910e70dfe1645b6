"""Remote: the context of a request that is executed in a worker process; each step is a call to the kernel's backplane.

A plain `execute` waits for the reply in its thread, an `async` one in the wait queue. Many requests travel in one call. A
reply brings as many rejoined requests as there are; the surplus is kept here. Each call also reports requests that this worker
executed before, and gives back those not begun: others may wait for them, and the call may take any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appbackplane.transport.call_checks import TIMEOUT_MAX_S
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, error_from

from ...execution.actions.blocking import blocking_call
from ...execution.workers.current import current
from ..executing.thread_resources import ThreadResources
from ..executing.wire import BATCH_BYTES_MAX, DISOWN, ITEMS_MAX, POST, REJOIN, service_key
from ..ledger.element import Element, Failure, State
from ..ledger.owners import Rejoin, ScopedOwner
from ..runnable import RunnableSpec
from .context import Context

if TYPE_CHECKING:
    from ..executing.request_worker import BatchRunner


class RemoteContext(Context):
    """The context of one request in a worker process."""

    def __init__(
        self,
        kernel: str,
        start: int,
        specs: Mapping[str, RunnableSpec],
        element: Element,
        resources: ThreadResources,
        runner: BatchRunner,
    ) -> None:
        super().__init__(kernel, specs, element, resources)
        self._runner, self._start = runner, start
        #: Requests posted here for this very request, or a part of it, by id, until they rejoin.
        self._posted: dict[int, Element] = {}
        #: By owner: requests that have rejoined and were not asked for yet.
        self._joined: dict[Hashable, deque[Element]] = {}
        #: Parts that are over; the next call reports them to the kernel.
        self._over: deque[ScopedOwner] = deque()

    def _post(self, elements: list[Element], wait: bool, timeout: float | None) -> None:
        for part, items in self._messages(elements):
            self._has_posted(part, self._call(POST, self._posting(items, wait, timeout)))

    async def _apost(self, elements: list[Element], wait: bool, timeout: float | None) -> None:
        for part, items in self._messages(elements):
            self._has_posted(part, await self._acall(POST, self._posting(items, wait, timeout)))

    def _rejoin(self, owner: Hashable, wait: bool, timeout: float | None) -> tuple[Rejoin, Element | None]:
        found = self._kept(owner)
        if found is not None:
            return Rejoin.RETURNED, found
        return self._has_joined(owner, self._call(REJOIN, self._rejoining(owner, wait, timeout)))

    async def _arejoin(self, owner: Hashable, wait: bool, timeout: float | None) -> tuple[Rejoin, Element | None]:
        found = self._kept(owner)
        if found is not None:
            return Rejoin.RETURNED, found
        return self._has_joined(owner, await self._acall(REJOIN, self._rejoining(owner, wait, timeout)))

    def _before_call(self) -> None:
        if self._runner.has_waiting or self._over:
            self._call(POST, self._posting([], False, None))

    async def _abefore_call(self) -> None:
        if self._runner.has_waiting or self._over:
            await self._acall(POST, self._posting([], False, None))

    def _disown(self, owner: Hashable) -> None:
        self._joined.pop(owner, None)
        assert self.element is not None
        asked = [self._backplane(), self._start, self.element.id, [], []]  # it may be lost: it carries no answers
        self._runner.cast(
            f"{self._name}.{DISOWN}", key=service_key(self._backplane()), asked=asked, owner=self._wire_owner(owner)
        )

    def _give_up(self, part: ScopedOwner) -> None:
        """The kernel learns of it by the next call, or by the end of this request. Takes no lock: the caller may hold any."""
        part.is_over = True
        self._let_go_of(part)

    def _let_go_of(self, part: ScopedOwner) -> None:
        self._joined.pop(part, None)
        self._over.append(part)
        super()._let_go_of(part)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _call(self, operation: str, arguments: dict[str, Any]) -> list[Any]:
        try:
            answer: list[Any] = blocking_call(
                self._runner, f"{self._name}.{operation}", arguments, key=service_key(self._backplane())
            )
        except BaseException:
            self._put_back(arguments)
            raise
        return answer

    async def _acall(self, operation: str, arguments: dict[str, Any]) -> list[Any]:
        route = f"{self._name}.{operation}"
        try:
            answer: list[Any] = await self._runner.request(
                route, arguments, key=service_key(self._backplane()), timeout=TIMEOUT_MAX_S, retry=False
            )
        except BaseException:
            self._put_back(arguments)
            raise
        return answer

    def _put_back(self, arguments: dict[str, Any]) -> None:
        """Keep the answers and parts of a failed call for the next one. The kernel may get them twice."""
        self._runner.put_back(arguments["asked"][3])
        self._over.extend(ScopedOwner(self.element, number) for number in arguments["over"])

    def _messages(self, elements: list[Element]) -> Iterator[tuple[list[Element], list[list[Any]]]]:
        """Divide elements among calls. Yields, for each call, its elements and their wire form."""
        part: list[Element] = []
        items: list[list[Any]] = []
        size = 0
        for each in elements:
            packed = self._specs[each.runnable].pack(each.request)
            if part and (len(part) == ITEMS_MAX or size + len(packed) > BATCH_BYTES_MAX):
                yield part, items
                part, items, size = [], [], 0
            part.append(each)
            size += len(packed)
            owner = self._wire_owner(each.owner)
            items.append([each.runnable, packed, owner, each.priority, each.lane, each.is_rejoined, each.is_boosted])
        if part:
            yield part, items

    def _posting(self, items: list[list[Any]], wait: bool, timeout: float | None) -> dict[str, Any]:
        return {"asked": self._asked(), "over": self._take_over(), "items": items, "wait": wait, "limit": timeout}

    def _has_posted(self, elements: list[Element], answer: list[Any]) -> None:
        ids, problem = answer
        for element, id in zip(elements, ids, strict=False):
            element.id, element.state = id, State.READY
            if element.is_rejoined and self._is_own(element.owner):
                self._posted[id] = element
        if problem is not None:
            code, said, retry_after = problem
            raise error_from(code, said, retry_after)

    def _rejoining(self, owner: Hashable, wait: bool, timeout: float | None) -> dict[str, Any]:
        count = ITEMS_MAX if self._is_own(owner) else 1  # requests that others may ask for are not kept here
        return {
            "asked": self._asked(),
            "over": self._take_over(),
            "owner": self._wire_owner(owner),
            "wait": wait,
            "limit": timeout,
            "count": count,
        }

    def _has_joined(self, owner: Hashable, answer: list[Any]) -> tuple[Rejoin, Element | None]:
        said, rows = answer
        found = Rejoin(said)
        if found is Rejoin.NONE_READY:
            return found, None
        kept = self._joined.setdefault(owner, deque())
        for id, runnable, packed_request, packed, error, trace, run_ns, priority, lane, worker, error_type in rows:
            spec = self._specs[runnable]
            element = self._posted.pop(id, None) or Element(id, None, runnable, owner, priority, lane)
            element.error, element.run_ns, element.worker = error, run_ns, worker
            if error is not None:
                element.failure = Failure(error, trace, error_type)
            try:
                if packed_request is not None:
                    element.request = spec.unpack(packed_request)
                if packed is not None:
                    element.result = spec.unpack_result(packed)
            except InvalidArgument as problem:
                element.error = problem.message
            element.state = State.JOINED if element.error is None else State.FAILED
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
        """The `wire.Asked` of a call. Raises `FailedPrecondition` in a thread of the user's own.

        The kernel serves one call of a worker at a time: such a thread's post could wait behind a rejoin that waits for it.
        """
        assert self.element is not None
        if current.action is None:
            raise FailedPrecondition(
                f"{self._name}: in a worker process only the thread that executes a request may call the kernel: post and "
                "rejoin in `execute`, and have other threads hand their results to it"
            )
        runner = self._runner
        return [self._backplane(), self._start, self.element.id, runner.take_answers(), runner.give_back()]

    def _take_over(self) -> list[int]:
        """Numbers of parts that are over and not reported yet; another thread may append one meanwhile."""
        over = {self._over.popleft() for _ in range(len(self._over))}
        if over:
            self._posted = {id: element for id, element in self._posted.items() if element.owner not in over}
        return [part.number for part in over]

    def _backplane(self) -> str:
        component = self._runner._component
        assert component is not None
        return component._host.backplane

    def _is_own(self, owner: Hashable) -> bool:
        """Whether nobody else asks for the requests of this owner."""
        return owner is self.element or isinstance(owner, ScopedOwner)

    def _wire_owner(self, owner: Hashable) -> str | int | list[int] | None:
        """An owner in wire format. None: the executed request; in a list: a part of it."""
        if owner is self.element:
            return None
        if isinstance(owner, ScopedOwner):
            return [owner.number]
        if isinstance(owner, (str, int)) and not isinstance(owner, bool):
            return owner
        if isinstance(owner, Element):
            raise FailedPrecondition(
                f"owner={owner!r}: in a worker process an owner is the executing request, a text or a number"
            )
        raise InvalidArgument(
            f"owner={owner!r:.100}: expected a text or a number, which can be sent to the kernel's process"
        )
