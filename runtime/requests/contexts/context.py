"""Context: the kernel for code that posts and rejoins: a component, or an executing request, here or in another process.

This class has the parts common to all contexts: the checks of a post, the default owner (the executing request), and
iteration. Its subclasses have the rest: `LocalContext` asks the ledger, and a thread or a coroutine waits; in a worker process
`RemoteContext` calls the kernel (remote.py). Methods for coroutines begin with `a`, and wait without a thread.

`run` and `map_unordered` post and rejoin in one step, for an owner that nobody else has. A caller that posts as there is room,
and takes back ended requests in between, never waits for itself, however small the pools are. If an iteration is broken off, or
a caller's deadline passes, nobody can ask for its requests: they would fill the rejoin pool for everybody. Such an end may come
from the garbage collector, in any thread, under any lock; so it is only noted (`_give_up`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument

from ...execution.actions.blocking import blocking_call
from ...execution.actions.coroutines import should_stop
from ...execution.workers.current import current
from ...objects.app_object import AppObject
from ..executing.thread_resources import ThreadResources
from ..ledger.element import LANE_DEFAULT, LANES, PRIORITY_MAX, REQUEST_PRIORITY, Element
from ..ledger.owners import Rejoin, ScopedOwner
from ..runnable import Runnable, RunnableSpec
from .waiting import checked_limit

Posted = TypeVar("Posted")

#: Stands for a request that is known in wire format only.
PACKED: Final = object()
#: Default owner in a thread of the user's own, outside requests and operations.
MAIN: Final = "main"


class Context:
    """Posts and rejoins requests. `Runnable.execute` gets one as `kernel`."""

    def __init__(
        self, name: str, specs: Mapping[str, RunnableSpec], element: Element | None, resources: ThreadResources
    ) -> None:
        self._name = name
        self._specs = specs
        #: The executing request; None: this context is not a request's.
        self.element = element
        #: Handles of `RequestKernel.resources` that the calling thread holds, by name; opened when first asked for.
        self.resources = resources

    # -- public API ---------------------------------------------------------------------------------------------------

    def post(
        self, request: Any, runnable: type[Runnable] | str, *, owner: Hashable = None, priority: int = REQUEST_PRIORITY,
        lane: int = LANE_DEFAULT, wait: bool = True, rejoin: bool = True, boost: bool = False, timeout: float | None = None,
    ) -> Element:  # fmt: skip
        """Have a request executed by a runnable (seed 001, section 5.1: PostARequest).

        `owner`: any dictionary key, by which it rejoins; default the executing request, or the running operation. `priority`:
        0 is the most urgent, as everywhere. `lane`: 0 for service requests, 1 for feeders, 2 for unit transactions, 3 for parts
        of these.
        `wait`: whether to wait, at most `timeout` seconds, while the ready pool or the lane is full, or else raise `Busy`.
        `rejoin`: whether it comes back. `boost`: whether it ages faster.
        Raises `InvalidArgument`, `Busy`, `DeadlineExceeded`, and `FailedPrecondition` if the kernel takes no requests.
        """
        element = self._element(request, runnable, owner, priority, lane, rejoin, boost)
        self._post([element], wait, checked_limit(timeout, wait))
        return element

    def apost(
        self, request: Any, runnable: type[Runnable] | str, *, owner: Hashable = None, priority: int = REQUEST_PRIORITY,
        lane: int = LANE_DEFAULT, wait: bool = True, rejoin: bool = True, boost: bool = False, timeout: float | None = None,
    ) -> Coroutine[Any, Any, Element]:  # fmt: skip
        """`post`, from a coroutine: it waits without its thread."""
        element = self._element(request, runnable, owner, priority, lane, rejoin, boost)
        return self._after_post(element, [element], wait, checked_limit(timeout, wait))

    def post_all(
        self, requests: Iterable[Any], runnable: type[Runnable] | str, *, owner: Hashable = None,
        priority: int = REQUEST_PRIORITY, lane: int = LANE_DEFAULT, rejoin: bool = True, boost: bool = False,
    ) -> list[Element]:  # fmt: skip
        """`post` each, in order, waiting as long as it takes; a worker process sends many in one call."""
        elements = [self._element(request, runnable, owner, priority, lane, rejoin, boost) for request in requests]
        self._post(elements, True, None)
        return elements

    def apost_all(
        self, requests: Iterable[Any], runnable: type[Runnable] | str, *, owner: Hashable = None,
        priority: int = REQUEST_PRIORITY, lane: int = LANE_DEFAULT, rejoin: bool = True, boost: bool = False,
    ) -> Coroutine[Any, Any, list[Element]]:  # fmt: skip
        """`post_all`, from a coroutine: it waits without its thread."""
        elements = [self._element(request, runnable, owner, priority, lane, rejoin, boost) for request in requests]
        return self._after_post(elements, elements, True, None)

    def rejoin(
        self, owner: Hashable = None, *, wait: bool | None = None, timeout: float | None = None
    ) -> tuple[Rejoin, Element | None]:
        """A request that has ended (seed 001, section 5.4: GetRejoinRequest): RETURNED with it, NONE_READY, or NONE_EXIST.

        NONE_EXIST is authoritative: no request of this owner is posted, ready, executing or waiting to rejoin. `wait`: whether
        to wait until one has ended, or none exists; by default only if there is a `timeout`, seconds. Raises
        `DeadlineExceeded` after that, and `InvalidArgument` for a `timeout` with `wait=False`.
        """
        limit = checked_limit(timeout, wait)
        return self._rejoin(self._owner(owner), limit is not None if wait is None else wait, limit)

    def arejoin(
        self, owner: Hashable = None, *, wait: bool | None = None, timeout: float | None = None
    ) -> Coroutine[Any, Any, tuple[Rejoin, Element | None]]:
        """`rejoin`, from a coroutine; it waits in the same cases."""
        limit = checked_limit(timeout, wait)
        return self._arejoin(self._owner(owner), limit is not None if wait is None else wait, limit)

    def joined(self, owner: Hashable = None) -> Iterator[Element]:
        """All requests of an owner, as they end, until none exists any more."""
        whose = self._owner(owner)
        while True:
            _, element = self._rejoin(whose, True, None)
            if element is None:
                return
            yield element

    def ajoined(self, owner: Hashable = None) -> AsyncIterator[Element]:
        """`joined`, from a coroutine: `async for done in kernel.ajoined(owner)`."""
        return self._ajoined(self._owner(owner))

    def map_unordered(
        self, requests: Iterable[Any], runnable: type[Runnable] | str, *, priority: int = REQUEST_PRIORITY,
        lane: int = LANE_DEFAULT, boost: bool = False,
    ) -> Iterator[Element]:  # fmt: skip
        """Post each as there is room, and give each back as it ends: any number of requests through pools of any size.

        Nobody else can rejoin these requests. If the iteration is broken off, those not given back yet are disowned.
        """
        with self._new_part() as owner:
            for request in requests:
                element = self._element(request, runnable, owner, priority, lane, True, boost)
                while not self._try_post(element):
                    _, done = self._rejoin(owner, True, None)
                    if done is None:  # others' requests fill the pools
                        self._post([element], True, None)
                        break
                    yield done
            yield from self.joined(owner)

    async def amap_unordered(
        self, requests: Iterable[Any], runnable: type[Runnable] | str, *, priority: int = REQUEST_PRIORITY,
        lane: int = LANE_DEFAULT, boost: bool = False,
    ) -> AsyncIterator[Element]:  # fmt: skip
        """`map_unordered`, from a coroutine: `async for done in kernel.amap_unordered(requests, Add)`."""
        with self._new_part() as owner:
            for request in requests:
                element = self._element(request, runnable, owner, priority, lane, True, boost)
                while not await self._atry_post(element):
                    _, done = await self._arejoin(owner, True, None)
                    if done is None:
                        await self._apost([element], True, None)
                        break
                    yield done
            async for done in self._ajoined(owner):
                yield done

    def run(
        self, request: Any, runnable: type[Runnable] | str, *, priority: int = REQUEST_PRIORITY,
        lane: int = LANE_DEFAULT, boost: bool = False,
    ) -> Any:  # fmt: skip
        """Post one request, wait for it, and return its result. Raises `RequestFailed`."""
        with self._new_part() as owner:
            self._post([self._element(request, runnable, owner, priority, lane, True, boost)], True, None)
            _, done = self._rejoin(owner, True, None)
        assert done is not None, "what is posted rejoins"
        return done.get()

    async def arun(
        self, request: Any, runnable: type[Runnable] | str, *, priority: int = REQUEST_PRIORITY,
        lane: int = LANE_DEFAULT, boost: bool = False,
    ) -> Any:  # fmt: skip
        """`run`, from a coroutine: it waits without its thread."""
        with self._new_part() as owner:
            await self._apost([self._element(request, runnable, owner, priority, lane, True, boost)], True, None)
            _, done = await self._arejoin(owner, True, None)
        assert done is not None, "what is posted rejoins"
        return done.get()

    def disown(self, owner: Hashable = None) -> None:
        """Drop an owner's requests: those not begun are withdrawn, and those executing rejoin nobody."""
        self._disown(self._owner(owner))

    def call(
        self, route: str, /, *, key: str | None = None, priority: int | None = None, timeout: float | None = None,
        **arguments: Any,
    ) -> Any:  # fmt: skip
        """Call an operation of any component, here or elsewhere, and wait for its result in this thread.

        As `AppObject.call`, on behalf of the running action, with its priority. Raises the `BackplaneError` that ended it.
        """
        self._before_call()
        return blocking_call(_running(route), route, arguments, key=key, priority=priority, timeout=timeout, retry=True)

    def acall(
        self, route: str, /, *, key: str | None = None, priority: int | None = None, timeout: float | None = None,
        **arguments: Any,
    ) -> Coroutine[Any, Any, Any]:  # fmt: skip
        """`call`, from a coroutine: it waits without its thread."""
        return self._called(_running(route), route, arguments, {"key": key, "priority": priority, "timeout": timeout})

    def should_stop(self) -> bool:
        """Whether the backplane shuts down gracefully: a long request should then end soon."""
        return should_stop()

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def _post(self, elements: list[Element], wait: bool, timeout: float | None) -> None:
        raise NotImplementedError

    async def _apost(self, elements: list[Element], wait: bool, timeout: float | None) -> None:
        raise NotImplementedError

    def _rejoin(self, owner: Hashable, wait: bool, timeout: float | None) -> tuple[Rejoin, Element | None]:
        raise NotImplementedError

    async def _arejoin(self, owner: Hashable, wait: bool, timeout: float | None) -> tuple[Rejoin, Element | None]:
        raise NotImplementedError

    def _before_call(self) -> None:
        """Called before a call: its callee may wait for requests of this kernel."""

    async def _abefore_call(self) -> None:
        """`_before_call`, for a coroutine: nothing by default."""

    def _try_post(self, element: Element) -> bool:
        try:
            self._post([element], False, None)
        except Busy:
            return False
        return True

    async def _atry_post(self, element: Element) -> bool:
        try:
            await self._apost([element], False, None)
        except Busy:
            return False
        return True

    def _disown(self, owner: Hashable) -> None:
        """Drop an owner's requests, without waiting."""
        raise NotImplementedError

    def _give_up(self, part: ScopedOwner) -> None:
        """Have `_disown` done at a later step; takes no lock."""
        raise NotImplementedError

    def _let_go_of(self, part: ScopedOwner) -> None:
        """Forget a part of which all requests have rejoined."""
        if part.whose is not None:
            part.whose.parts.pop(part.number, None)

    def _default_owner(self) -> Hashable:
        """The owner of requests that name none."""
        return MAIN if self.element is None else self.element

    # -- steps --------------------------------------------------------------------------------------------------------

    async def _after_post(self, answer: Posted, elements: list[Element], wait: bool, timeout: float | None) -> Posted:
        await self._apost(elements, wait, timeout)
        return answer

    async def _ajoined(self, owner: Hashable) -> AsyncIterator[Element]:
        while True:
            _, element = await self._arejoin(owner, True, None)
            if element is None:
                return
            yield element

    async def _called(self, object: AppObject, route: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
        await self._abefore_call()
        return await object.request(route, arguments, **options)

    @contextmanager
    def _new_part(self) -> Iterator[ScopedOwner]:
        """A new owner, known to this caller alone; its requests are given up if the block is broken off."""
        element = self.element
        part = ScopedOwner(element, 0 if element is None else element.parts_count)
        while element is not None:
            element.parts_count = part.number + 1
            if element.parts.setdefault(part.number, part) is part:
                break
            part = ScopedOwner(element, element.parts_count)  # another thread of this request took that number
        try:
            yield part
        except BaseException:
            self._give_up(part)
            raise
        self._let_go_of(part)

    def _owner(self, owner: Hashable) -> Hashable:
        if owner is None:
            return self._default_owner()
        try:
            hash(owner)
        except TypeError as error:
            raise InvalidArgument(
                f"owner={owner!r:.100}: expected a hashable value, got a {type(owner).__name__}"
            ) from error
        return owner

    def _element(
        self, request: Any, runnable: Any, owner: Hashable, priority: Any, lane: Any, rejoin: Any, boost: Any
    ) -> Element:  # hot: scripts/bench requests
        spec = self._spec(runnable)
        if request is not PACKED:
            spec.check(request)
        if type(priority) is not int:
            raise InvalidArgument(f"priority={priority!r:.100}: expected a whole number from 0, the most urgent")
        if not 0 <= priority <= PRIORITY_MAX:
            raise InvalidArgument("priority: expected a whole number from 0, the most urgent, to 2**62")
        if type(lane) is not int or not 0 <= lane < LANES:
            raise InvalidArgument(
                f"lane={lane!r}: expected 0 (service), 1 (feeder), 2 (transaction) or 3 (part of one)"
            )
        if type(rejoin) is not bool or type(boost) is not bool:
            name, value = ("rejoin", rejoin) if type(rejoin) is not bool else ("boost", boost)
            raise InvalidArgument(f"{name}={value!r:.100}: expected True or False")
        whose: Hashable
        if owner is None and self.element is not None:
            whose = self.element
        else:
            whose = self._owner(owner)
        return Element(
            0, request, spec.name, whose, priority, lane, is_rejoined=rejoin, is_boosted=boost, parent=self.element
        )

    def _element_packed(
        self, runnable: Any, packed: bytes, owner: Hashable, priority: Any, lane: Any, rejoin: bool, boost: bool
    ) -> Element:
        """The element of a request that came from another process, which has checked the contents."""
        element = self._element(PACKED, runnable, owner, priority, lane, rejoin, boost)
        element.packed = packed
        return element

    def _spec(self, runnable: Any) -> RunnableSpec:
        name: Any = runnable if isinstance(runnable, str) else getattr(runnable, "__name__", None)
        spec = self._specs.get(name) if isinstance(name, str) else None
        if spec is None or (isinstance(runnable, type) and spec.cls is not runnable):
            known = ", ".join(sorted(self._specs)) or "none"
            raise InvalidArgument(
                f"runnable={runnable!r:.100}: {self._name} has {known}; name the class in its `runnables`"
            )
        return spec


def _running(route: str) -> AppObject:
    """The object whose action runs now: the caller. Raises `FailedPrecondition` if none runs."""
    action = current.action
    if action is None:
        raise FailedPrecondition(f"{route}: only an operation or the execution of a request can call")
    return action.object
