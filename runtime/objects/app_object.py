"""AppObject: the unit of order. Its actions run one at a time, in the order they came (law 1).

Users subclass it and mark methods with `@operation`, `@subscribe` and `@every`. The scheduler's fields are in schedulable.py.
`__new__` fills the slots, so a subclass may write an `__init__` without calling this one's.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from appbackplane.transport.address import Address
from appbackplane.transport.addressing import AT
from appbackplane.transport.call_checks import WINDOW_DEFAULT
from appbackplane.transport.call_spec import CallSpec

from .call_group import CallGroup
from .monitor import Monitor
from .operation_spec import OperationSpec, specs_of
from .own import check_operations, owned
from .platform import NodeServices, Platform, TimerHandle
from .schedulable import Schedulable

if TYPE_CHECKING:
    from .action import Action
    from .component import Component


#: Operations may have these names: the runtime never calls these methods, and `AppObject.spawn(self, …)` is still there.
_REPLACEABLE = ("spawn", "spawn_at", "monitor", "end_self")


class Host(Protocol):
    """Requests that an object may make to its backplane."""

    #: Services for systems built on top of the scheduler, and for a node's endpoint; not for users' objects.
    @property
    def platform(self) -> Platform: ...
    @property
    def node(self) -> NodeServices: ...
    @property
    def backplane(self) -> str: ...
    def call(self, caller: AppObject, spec: CallSpec) -> Awaitable[Any]: ...
    def call_blocking(self, caller: AppObject, spec: CallSpec) -> Any: ...
    def gather(
        self, caller: AppObject, calls: Sequence[Any], *, return_exceptions: bool, timeout: float | None
    ) -> Awaitable[list[Any]]: ...
    def stream(self, caller: AppObject, spec: CallSpec) -> AsyncIterator[Any]: ...
    def cast(self, caller: AppObject, spec: CallSpec) -> None: ...
    def publish(self, topic: str, body: Mapping[str, Any]) -> None: ...
    def after(
        self,
        object: AppObject,
        delay_ns: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        priority: int | None = None,
    ) -> TimerHandle: ...
    def post(self, action: Action) -> None: ...
    def add_object(self, component: Component, object: AppObject) -> None: ...
    def remove_object(self, object: AppObject) -> None: ...
    def spawn(self, component: Component, object: AppObject) -> Address: ...
    def end(self, object: AppObject, reason: str) -> None: ...
    def end_address(self, component: Component, address: Address, reason: str) -> None: ...
    def address_of(self, object: AppObject) -> Address: ...
    def monitor(self, object: AppObject, target: str, method: Callable[..., Any], priority: int | None) -> Monitor: ...
    def shed(self, component: Component, below: int) -> int: ...
    def requeue_deferred(self, object: AppObject, actions: list[Action]) -> None: ...
    def now_ns(self) -> int: ...


class AppObject(Schedulable):
    """Base of an application's objects: subclass it, mark its operations, and `add` it to a component."""

    __slots__ = ("__weakref__", "_component", "_key", "_name")

    # Declared here and filled in `__new__`: type checkers do not learn a slot's type from an assignment there.
    _component: Component | None
    _key: str | None
    _name: str

    #: Least priority of its calls, however little urgent their callers are: a lock that everybody needs should not be held
    #: by bulk work (law 10; Android's Binder calls it minimum priority). None: no priority is lent.
    lends: int | None = None

    #: How many of its actions may run or wait for replies at the same time, in any order (seed 000: "one object can handle
    #: requests and replies in any order"). 1: one at a time, in order (law 1). With several threads, its data need locks.
    concurrency: int = 1

    #: Whether it serves other requests while one awaits a reply, the most urgent first (seed 004, "Actor + Parallel State
    #: Machine"). One at a time runs, from one await to the next, so its data need no locks. False: a reply is awaited before
    #: the next request begins, and requests run in the order of arrival (laws 1 and 6).
    interleaves: bool = False

    #: Whether its calls may be refused because its component is full (law 9). False for calls that belong to admitted work:
    #: refused, they would keep it from ending.
    is_refusable: ClassVar[bool] = True

    #: Compiled operations by method name; filled when the class is made.
    __operations__: ClassVar[dict[str, OperationSpec]] = {}
    #: By operation: the kind of access that its callers need, and the affordance (permissions/). Without an entry: none.
    __access__: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__operations__ = specs_of(cls)
        check_operations(cls, AppObject, _REPLACEABLE)

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Self:
        self = super().__new__(cls)
        self._head = self._tail = None
        self._waits = self._load = 0
        self._state = 0  # IDLE of scheduling/object_queue.py
        self._priority = 255  # none yet
        self._number = -1
        self._counts = self._stale = self._tails = None
        self._component = self._key = self._twins = None
        self._name = ""
        return self

    @owned
    def key(self) -> str | None:
        """The key under which it was added; None: it has none."""
        return self._key

    @owned
    def name(self) -> str:
        """Its full name: BACKPLANE/COMPONENT.KEY (or a number where there is no key)."""
        return self._name or type(self).__name__

    def call(
        self,
        route: str,
        /,
        *,
        key: str | None = None,
        priority: int | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        retry: bool = True,
        **arguments: Any,
    ) -> Awaitable[Any]:
        """Call an operation and await its result: `stats = await self.call("index.stats", path=p)`.

        key: key of the object to call. None: any that serves the route.
        priority: 0 is the highest. None: that of the running action, whose trace the call carries as well.
        timeout: seconds, 30 by default. The call ends earlier if the running action's deadline comes first.
        idempotency_key, retry: as in `Client.call`. One argument may be `stream(rows)`: this operation iterates over `rows`.
        Arguments may be calls that were not awaited yet: `self.call("y.g", left=self.call("x.f"))` (docs/concepts/dataflow.md).

        Only in `async def` operations. While it waits, the object is in the wait queue: new requests queue behind the reply
        (law 6). Raises the subclass of `BackplaneError` in which the call ended.
        """
        return AppObject.request(  # a subclass may have a `request` of its own
            self,
            route,
            arguments,
            key=key,
            priority=priority,
            timeout=timeout,
            idempotency_key=idempotency_key,
            retry=retry,
        )

    def request(
        self,
        route: str,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        priority: int | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        retry: bool = True,
        principal: str | None = None,
    ) -> Awaitable[Any]:
        """`call`, for arguments whose names clash with its own keywords. Raises TypeError if they are no mapping.

        `principal`: on whose behalf the call is made, such as a user whom a gateway has authenticated. By default that of the
        running action. It goes along the chain of calls.
        """
        if not isinstance(arguments, Mapping):
            raise TypeError(f"arguments={arguments!r}: expected a map of names to values")
        spec = CallSpec(
            route,
            arguments,
            key=key,
            priority=priority,
            timeout=timeout,
            idempotency_key=idempotency_key,
            is_retried=retry,
            principal=principal,
        )
        return self._host.call(self, spec)

    def call_blocking(
        self,
        route: str,
        /,
        *,
        key: str | None = None,
        priority: int | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        retry: bool = True,
        **arguments: Any,
    ) -> Any:
        """`call` for plain `def` operations: blocks their thread, and returns the result: `n = self.call_blocking("x.count")`.

        Parameters and errors as in `call`. Another thread does the work of this one meanwhile: each operation that blocks takes
        one, and the object serves nothing else until it has ended. Prefer `async def` and `await self.call()`.
        """
        spec = CallSpec(
            route,
            arguments,
            key=key,
            priority=priority,
            timeout=timeout,
            idempotency_key=idempotency_key,
            is_retried=retry,
        )
        return self._host.call_blocking(self, spec)

    def gather(
        self, /, *calls: Awaitable[Any], return_exceptions: bool = False, timeout: float | None = None
    ) -> Awaitable[list[Any]]:
        """Make several calls at once, and await all results: `a, b = await self.gather(self.call("x.a"), self.call("y.b"))`.

        Returns the results in the order of the calls. The first call that fails ends the others, and its error is raised; with
        `return_exceptions`, errors are returned like results. `timeout`: seconds for all together, beside each call's own.
        While it waits, the object is in the wait queue, once. The calls begin when this is awaited.
        """
        return self._host.gather(self, calls, return_exceptions=return_exceptions, timeout=timeout)

    def group(self, *, timeout: float | None = None) -> CallGroup:
        """`gather` as a block: `async with self.group() as group: a = group.call("x.a"); b = group.call("y.b")`.

        After the block, `a.result` and `b.result` are there. The calls begin at its end; the first that fails ends the others.
        """
        return CallGroup(self.call, functools.partial(self.gather, timeout=timeout))

    def stream(
        self,
        route: str,
        /,
        *,
        key: str | None = None,
        priority: int | None = None,
        timeout: float | None = None,
        window: int = WINDOW_DEFAULT,
        retry: bool = True,
        **arguments: Any,
    ) -> AsyncIterator[Any]:
        """Read the items of an operation that is a generator: `async for row in self.stream("query.rows"): ...`.

        Parameters as in `call` and `Client.stream`; the first item awaited begins the call. While it waits for the next item,
        the object is in the wait queue, as for a reply. A broken stream raises the `BackplaneError` in which it ended, after
        the items that came before. Leaving the loop ends the callee's generator.
        """
        spec = CallSpec(route, arguments, key=key, priority=priority, timeout=timeout, is_retried=retry, window=window)
        return self._host.stream(self, spec)

    def cast(self, route: str, /, *, key: str | None = None, priority: int | None = None, **arguments: Any) -> None:
        """Send a request without a reply. Raises `UnknownRoute`, `Unavailable`, `Busy` or `InvalidArgument`, at once."""
        self._host.cast(self, CallSpec(route, arguments, key=key, priority=priority))

    def publish(self, topic: str, /, **body: Any) -> None:
        """Send a message to all subscribers of `topic`, in every backplane and client."""
        self._host.publish(topic, body)

    def after(self, seconds: float, method: Callable[..., Any], /, *arguments: Any) -> TimerHandle:
        """Run a method of this object once, `seconds` from now, as an action like any other (law 8).

        The returned handle cancels it. Raises `Busy` if its component has `max_posted` timers and actions of its own
        outstanding, and TypeError if `seconds` is no number.
        """
        if isinstance(seconds, bool):  # True would be 1 s
            raise TypeError(f"after({seconds!r}): expected a number of seconds")
        return self._host.after(self, round(seconds * 1e9), method, arguments)

    def spawn(self, object: AppObject) -> Address:
        """Add a light object to the component of this one, and return its address: `await self.call(address.to("deposit"))`.

        The component lists its class in `declares`. Raises `DeclarationError` if it does not, or if the class subscribes, has
        timers or several queues; and `Busy` at `max_spawned`.
        """
        component = self._component
        host = self._host
        assert component is not None
        return host.spawn(component, object)

    async def spawn_at(
        self,
        component: str,
        kind: str,
        /,
        *,
        backplane: str | None = None,
        priority: int | None = None,
        timeout: float | None = None,
        arguments: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Address:
        """Have another component spawn an object: `address = await self.spawn_at("accounts", "Account", owner="ada")`.

        component: its name; `b/accounts` is one of node b. It lists the class `kind` in `spawnable`.
        backplane: which of its replicas. None: the next.
        arguments, settings: of the constructor, checked against its annotations; `arguments` for names that clash.

        Raises `NotFound` if the component offers no such class, and what calls raise.
        """
        found = await AppObject.request(
            self,
            f"{component}.spawn",
            {"kind": kind, "settings": {**(arguments or {}), **settings}},
            key=None if backplane is None else f"{AT}{backplane}",
            priority=priority,
            timeout=timeout,
        )
        return Address(found)

    @owned
    def own_address(self) -> Address:
        """The address of a spawned object. Raises RuntimeError for another, which has a key, or is one of several alike."""
        return self._host.address_of(self)

    def end_self(self, reason: str = "") -> None:
        """End this spawned object: it takes no more calls from now on, and is gone after the running operation.

        Queued calls get `NotFound` with the reason; monitors are told it. Raises RuntimeError for an object that was added.
        """
        self._host.end(self, reason)

    def monitor(self, target: str, method: Callable[..., Any], /, *, priority: int | None = None) -> Monitor:
        """Run `method` of this object once, with an `EndNotice`, when the target has ended or can no longer be reached.

        target: an address; or a backplane, `"front"`; or a node, `"b/"`; or a backplane of it, `"b/front"`.
        priority: of that action. None: that of the running action.

        If the target has ended, or never existed, the method runs at once. The returned handle cancels the monitor, and the
        end of this object does. Raises `Busy` at `max_posted` of its component, `InvalidArgument` for no target, TypeError.
        """
        return self._host.monitor(self, target, method, priority)

    @property
    def _host(self) -> Host:
        component = self._component
        host = component._hosted_by if component is not None else None
        if host is None:
            what = "is not running" if component is self else "has not been added to a component of a running backplane"
            raise RuntimeError(
                f"{self.name} {what}: do that in on_primary of its component, not in a constructor or setup"
            )
        return host

    @property
    def _platform(self) -> Platform:
        return self._host.platform


def without_twins(objects: Iterable[AppObject]) -> Iterator[AppObject]:
    """Each object once, however many queues it has."""
    return (each for each in objects if each._twins is None or each._twins[0] is each)


def queues_of(object: AppObject) -> list[AppObject]:
    """An object and its twins."""
    return [object] if object._twins is None else object._twins
