"""Component: an application, or a part of one, that plugs into a backplane; a module of the system state machine.

A component is itself an object (its hooks are actions, and it may have operations of its own), and holds others. The TOML
chooses its architecture: one thread for all, a pool, or a process of its own (seed 002, "Conceptual Model"). All its
routes, topics and timers are known once it is constructed (law 12).
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from appbackplane.transport.address import Address

from .app_object import AppObject, Host, without_twins
from .module_state import ModuleState
from .operation import DeclarationError
from .own import check_operations, owned

if TYPE_CHECKING:
    from .action import Action
    from .endpoint import Endpoint

#: Outstanding requests of a component above which callers get `Busy` (law 9). At 1 ms a request it is ten seconds of queue:
#: within a caller's default deadline of 30 s. A queue much longer than that would hold requests whose callers have given up.
REQUESTS_MAX_DEFAULT = 10_000
#: Actions and timers that a component has given itself and that have not ended: 400 bytes each, so 40 MB. A runaway loop
#: gets `Busy` within half a second. No component has been seen to need more.
POSTED_MAX_DEFAULT = 100_000
#: Spawned objects of a component, beyond which `spawn` raises `Busy`: half a kilobyte each (scripts/bench spawn), so 0.5 GB.
SPAWNED_MAX_DEFAULT = 1_000_000
#: The methods of `Component` that users override.
_HOOKS = ("setup", "make_room", "on_initializing", "on_primary", "on_secondary", "on_down")


class LockFigures(Protocol):
    """A lock of a component, as its statistics see it (execution/workers/component_lock.py)."""

    def figures(self, *, with_buckets: bool = False) -> dict[str, Any]: ...


class Component(AppObject):
    """Subclass it; its constructor's keyword arguments come from `[backplane.NAME.settings.CLASS]`."""

    #: First word of its routes; default: the class name in snake_case.
    component_name: str = ""
    #: Names of the components that must have reached a state before this one moves to it.
    depends_on: ClassVar[tuple[str, ...]] = ()
    #: "system": it waits for all its dependencies. "backplane": it waits only for those in its own backplane, and has to
    #: retry its calls to the others until they are up.
    driven_by: ClassVar[str] = "system"
    #: The bound of its outstanding requests; beyond it callers get `Busy`.
    max_requests: ClassVar[int] = REQUESTS_MAX_DEFAULT
    #: The bound of its own actions and timers (`post`, `after`) that have not ended; beyond it `post` and `after` raise `Busy`.
    max_posted: ClassVar[int] = POSTED_MAX_DEFAULT
    #: The priority at which the target of a request is computed (`digest`), 0 the highest. None: one above the request's.
    digest_priority: ClassVar[int | None] = None
    #: Classes whose operations are routes of this component before any object of them is added.
    declares: ClassVar[tuple[type[AppObject], ...]] = ()
    #: Those of `declares` of which others may spawn objects here, on the route COMPONENT.spawn (`AppObject.spawn_at`).
    spawnable: ClassVar[tuple[type[AppObject], ...]] = ()
    #: The bound of its spawned objects; beyond it `spawn` raises `Busy`.
    max_spawned: ClassVar[int] = SPAWNED_MAX_DEFAULT
    #: Topics that it publishes to other nodes, too: "prices.eu", or "prices.*". Topics that its objects subscribe to with
    #: `export=True` need not be listed.
    exported_topics: ClassVar[tuple[str, ...]] = ()

    _hosted_by: Host | None
    _module_state: ModuleState
    _cluster_epoch: int
    _objects: list[AppObject]
    #: By their numbers (spawned.py).
    _spawned: dict[int, AppObject]
    _endpoints: list[Endpoint]
    #: By name.
    _locks: dict[str, LockFigures]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "component_name" not in cls.__dict__:
            cls.component_name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()
        # A component without a `setup` adds no objects, so it may name an operation `add`, as counters and stores do.
        check_operations(cls, Component, _HOOKS if cls.setup is not Component.setup else (*_HOOKS, "add"))
        if inspect.iscoroutinefunction(cls.setup):
            raise DeclarationError(
                f"{cls.__qualname__}.setup is a coroutine: write a plain def, and await in on_initializing or on_primary"
            )

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls)
        self._hosted_by = None
        self._module_state = ModuleState.START
        self._cluster_epoch = 0
        self._objects = []
        self._spawned = {}
        self._endpoints = []
        self._locks = {}
        self._component = self
        return self

    @owned
    def state(self) -> ModuleState:
        """Its state in the system state machine."""
        return self._module_state

    @owned
    def cluster_epoch(self) -> int:
        """A fencing token: how many nodes of the cluster have been primary, this one included; 0: not primary, or no cluster.

        Send it with each write to a store that other nodes write to, too, and let the store refuse lower ones.
        """
        return self._cluster_epoch

    @owned
    def objects(self) -> tuple[AppObject, ...]:
        """The objects added so far, without the component itself and without spawned ones."""
        return tuple(without_twins(self._objects))

    @owned
    def spawned_count(self) -> int:
        """How many spawned objects it has now."""
        return len(self._spawned)

    def setup(self) -> None:
        """Add the initial objects. Called once, before any state is entered."""

    def _set_up(self, priorities: int) -> None:
        """Run `setup`. `priorities`: how many the backplane has. Dispatchers and kernels override it to finish the setup."""
        self.setup()

    def _enters(self, state: ModuleState) -> None:
        """Called with the lead: before the hook of INITIALIZING and DOWN, after that of PRIMARY and SECONDARY.

        Dispatchers and kernels override it, and the methods below.
        """

    def _drains(self) -> None:
        """Called when its backplane is drained: work in progress may end, but the component must begin none of its own."""

    def _ends(self, limit_s: float) -> None:
        """Called after the workers have ended, or their time is over. Its own threads have `limit_s` seconds to finish."""

    def _requests(self) -> dict[str, Any] | None:
        """A running request kernel's figures for the statistics of its backplane. Called in any thread, without the lead."""
        return None

    def _flow_figures(self) -> dict[str, Any] | None:
        """The figures of a part of a flow, for the same; called alike."""
        return None

    def add(self, object: AppObject, *, key: str | None = None) -> AppObject:
        """Add an object. A call with this `key` goes to it; a call without a key, to the least busy object of the route."""
        where = f"{type(self).__qualname__}.add"
        given: Any = object
        if isinstance(given, type):
            raise DeclarationError(f"{where}: {given.__qualname__} is a class: add an object of it, {given.__name__}()")
        if not isinstance(given, AppObject):
            raise DeclarationError(f"{where}: {type(given).__qualname__} is not derived from AppObject")
        if key is not None and not isinstance(key, str):
            raise DeclarationError(
                f"{where}: key={key!r}: expected text, as key={str(key)!r}, got {type(key).__name__}"
            )
        if object._component is not None:
            raise ValueError(f"{object.name} is already in {object._component.name}")
        object._component, object._key = self, key
        if self._hosted_by is None:
            self._objects.append(object)
            return object
        try:
            self._hosted_by.add_object(self, object)
        except Exception:
            object._component = object._key = None
            raise
        return object

    def remove(self, object: AppObject) -> None:
        """Remove an object. Raises `FailedPrecondition` while it has work or awaits a reply (law 6)."""
        assert self._hosted_by is not None
        self._hosted_by.remove_object(object)

    def end_spawned(self, address: str, reason: str = "") -> None:
        """End a spawned object of this component, as its `end_self` does. Raises `NotFound` if it has ended, or never was."""
        self._host.end_address(self, Address(address), reason)

    def expose(self, endpoint: Endpoint) -> None:
        """Serve an endpoint on the route COMPONENT.NAME. Call it in `setup`."""
        if self._hosted_by is not None:
            raise RuntimeError(
                f"{self.name} is running: routes are known once a component is set up (expose them in setup)"
            )
        self._endpoints.append(endpoint)

    def post(self, action: Action) -> None:
        """Queue work for an object of this component, from any thread, such as that of a device or a library's callback.

        Raises `Busy` at `max_posted`, ValueError for an action that is already queued or has no valid priority.
        """
        self._host.post(action)

    def make_room(self, request: Action) -> bool:
        """Override it to free a place for `request`, which arrived at `max_requests`. If none is free then, it gets `Busy`.

        By default a less urgent request is shed. Called in the thread that received the request: be quick.
        """
        return self.shed(below=request.priority) > 0

    def shed(self, *, below: int) -> int:
        """Refuse one queued request of lower priority than `below` with `Busy`: the newest of the least urgent ones.
        Returns how many were refused: 1 or 0.
        """
        assert self._hosted_by is not None
        return self._hosted_by.shed(self, below)

    def on_initializing(self) -> Any:
        """Hook, plain or `async`: get ready. All dependencies are initializing or further."""

    def on_primary(self) -> Any:
        """Hook: take up the work. All dependencies are primary."""

    def on_secondary(self) -> Any:
        """Hook: serve as a stand-by, ready to become primary."""

    def on_down(self) -> Any:
        """Hook: release all resources. All dependents are down."""
