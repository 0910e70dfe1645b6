"""LocalContext: posts and rejoins in the kernel's own process, by the ledger.

The ledger is asked first without a waiter: one is made only if the caller has to wait. Requests that are to travel are packed
here, so that their poster gets the error if one cannot.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from appbackplane.transport.errors import DeadlineExceeded, InvalidArgument

from ...execution.workers.current import current
from ...objects.action import Action
from ...objects.platform import Platform
from ..executing.thread_resources import ThreadResources
from ..ledger.element import Element, Packed, State
from ..ledger.owners import Rejoin, ScopedOwner, named
from ..ledger.synchronized_ledger import SynchronizedLedger
from .context import PACKED, Context
from .waiting import AN_END, ROOM, AnswerWaiter, SignalWaiter, ThreadWaiter


class LocalContext(Context):
    """A context in the kernel's own process."""

    def __init__(
        self,
        ledger: SynchronizedLedger,
        platform: Platform,
        element: Element | None,
        resources: ThreadResources,
        is_packed: bool,
        *,
        is_for_worker: bool = False,
    ) -> None:
        super().__init__(ledger.name, ledger.specs, element, resources)
        self._ledger, self._platform = ledger, platform
        #: Whether requests travel. Then they are packed when they are posted, and an error in that is raised to their poster.
        self._is_packed = is_packed
        #: Whether rejoined requests travel on, and so stay packed.
        self._is_for_worker = is_for_worker
        #: Owners of requests posted by operations without naming one: by the action's id, and the request that it executes.
        self._operations: dict[tuple[int, Element | None], ScopedOwner] = {}

    def _post(self, elements: list[Element], wait: bool, timeout: float | None) -> None:  # hot: scripts/bench requests
        ledger = self._ledger
        for element in elements:
            if self._is_packed and element.request is not PACKED:
                self._pack(element)
            if wait and ledger.try_post(element):  # no waiter is made for a post that has room
                continue
            waiter = ThreadWaiter(self._platform, self._what(ROOM)) if wait else None
            if ledger.post(element, waiter):
                continue
            assert waiter is not None
            try:
                is_told = waiter.wait(timeout)
            except BaseException:  # Ctrl-C: the poster does not wait any more
                ledger.withdraw(element)
                raise
            if not is_told and ledger.withdraw(element):
                raise self._too_late(element, timeout)
            if waiter.error is not None:
                raise waiter.error

    async def _apost(self, elements: list[Element], wait: bool, timeout: float | None) -> None:
        ledger = self._ledger
        for element in elements:
            if self._is_packed and element.request is not PACKED:
                self._pack(element)
            if wait and ledger.try_post(element):
                continue
            waiter = SignalWaiter(self._platform, timeout, self._what(ROOM)) if wait else None
            if ledger.post(element, waiter):
                continue
            assert waiter is not None
            try:
                await waiter.signal
            except BaseException:
                ledger.withdraw(element)
                raise
            if not waiter.is_told and ledger.withdraw(element):
                raise self._too_late(element, timeout)
            if waiter.error is not None:
                raise waiter.error

    def _rejoin(self, owner: Hashable, wait: bool, timeout: float | None) -> tuple[Rejoin, Element | None]:
        found, element = self._ledger.rejoin(owner, None, None)
        if found is not Rejoin.NONE_READY or not wait:
            return found, self._unpacked(element)
        waiter = ThreadWaiter(self._platform, self._what(AN_END))
        found, element = self._ledger.rejoin(owner, waiter, self.element, is_patient=True)
        if found is not Rejoin.NONE_READY:
            return found, self._unpacked(element)
        try:
            is_told = waiter.wait(timeout, partial(self._ledger.lose_patience, owner, waiter))
        except BaseException:
            if not self._ledger.forget(owner, waiter) and waiter.element is not None:
                self._ledger.unjoin(waiter.element)
            raise
        if not is_told and self._ledger.forget(owner, waiter):
            raise self._nothing_ended(owner, timeout)
        return self._answer(waiter)

    async def _arejoin(self, owner: Hashable, wait: bool, timeout: float | None) -> tuple[Rejoin, Element | None]:
        """`_rejoin`, for a coroutine; its waiter is never patient."""
        found, element = self._ledger.rejoin(owner, None, None)
        if found is not Rejoin.NONE_READY or not wait:
            return found, self._unpacked(element)
        waiter = SignalWaiter(self._platform, timeout, self._what(AN_END))
        found, element = self._ledger.rejoin(owner, waiter, self.element)
        if found is not Rejoin.NONE_READY:
            return found, self._unpacked(element)
        try:
            await waiter.signal
        except BaseException:
            if not self._ledger.forget(owner, waiter) and waiter.element is not None:
                self._ledger.unjoin(waiter.element)
            raise
        if not waiter.is_told and self._ledger.forget(owner, waiter):
            raise self._nothing_ended(owner, timeout)
        return self._answer(waiter)

    def _answer(self, waiter: AnswerWaiter) -> tuple[Rejoin, Element | None]:
        if waiter.error is not None:
            raise waiter.error
        return (Rejoin.NONE_EXIST if waiter.element is None else Rejoin.RETURNED), self._unpacked(waiter.element)

    def _unpacked(self, element: Element | None) -> Element | None:
        """The element with its request and result unpacked, unless they travel on."""
        if element is None or not self._is_packed or self._is_for_worker:
            return element
        spec = self._specs[element.runnable]
        try:
            if element.request is PACKED:
                element.request = spec.unpack(element.packed)
            if isinstance(element.result, Packed):
                element.result = spec.unpack_result(element.result.data)
        except InvalidArgument as error:
            element.result, element.error, element.state = None, error.message, State.FAILED
        return element

    def _try_post(self, element: Element) -> bool:
        if self._is_packed and not element.packed:
            self._pack(element)
        return self._ledger.try_post(element)

    async def _atry_post(self, element: Element) -> bool:
        return self._try_post(element)

    def _disown(self, owner: Hashable) -> None:
        self._ledger.disown(owner)

    def _give_up(self, part: ScopedOwner) -> None:
        self._ledger.given_up.append(part)

    def _default_owner(self) -> Hashable:
        """The executed request; else the operation that runs in this thread, for as long as it runs; else MAIN.

        An operation is any action: a call, a timer, a hook, a message. A plain request that posts by the component's kernel,
        and not by its own, shares its action with other requests; its element tells it apart.
        """
        host, action = current.host, current.action
        if self.element is not None or host is None or action is None:
            return super()._default_owner()
        executed = getattr(action, "element", None)
        if not isinstance(executed, Element):
            executed = None
        key = id(action), executed
        part = self._operations.get(key)
        if part is None:
            name = action.name if executed is None else f"{action.name}, {executed.runnable} {executed.id}"
            part = self._operations[key] = ScopedOwner(None, 0, name)
            host.at_end(action, partial(self._operation_ended, action, key))
        return part

    def _operation_ended(self, _action: Action, key: tuple[int, Element | None], action: Action) -> None:
        self._ledger.operation_ended(self._operations.pop(key), has_failed=action.error is not None)

    def _pack(self, element: Element) -> None:
        element.packed = self._specs[element.runnable].pack(element.request)

    def _what(self, what: str) -> str:
        """The reason for a wait, shown to people, and the command that tells more."""
        return f"{what} of {self._name} (appbackplane requests {self._name.rpartition('/')[2]} tells more)"

    def _too_late(self, element: Element, timeout: float | None) -> DeadlineExceeded:
        return DeadlineExceeded(f"{self._name}: {element.runnable} was not posted: no room within {timeout} s")

    def _nothing_ended(self, owner: Hashable, timeout: float | None) -> DeadlineExceeded:
        return DeadlineExceeded(f"{self._name}: none of the requests of {named(owner)} ended within {timeout} s")
