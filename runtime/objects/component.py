"""Component: an application, or a part of one, that plugs into a backplane; a module of the system state machine.

A component is itself an object (its hooks are actions, and it may have operations of its own), and holds others. Which
architecture it runs in, one thread for all or a pool or a process of its own, is the TOML's business, not its own
(seed 002, "Conceptual Model"). All routes, topics and timers are known once it is constructed (law 12).
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .app_object import AppObject, Host
from .module_state import ModuleState
from .operation import DeclarationError
from .own import check_operations, owned

if TYPE_CHECKING:
    from .action import Action
    from .endpoint import Endpoint

#: Requests a component may have outstanding before callers are told to come back (law 9). At 1 ms a request it is ten
#: seconds of queue: a caller with the default deadline of 30 s still gets its answer, one behind it would not.
REQUESTS_MAX_DEFAULT = 10_000
#: Actions and timers that a component may have given itself and not ended: 400 bytes each, so 40 MB; a loop that never ends
#: is told within half a second. Nothing that meant it has been seen to have more.
POSTED_MAX_DEFAULT = 100_000
#: What a component is to say or do for itself.
_HOOKS = ("setup", "make_room", "on_initializing", "on_primary", "on_secondary", "on_down")


class Component(AppObject):
    """Subclass it; its constructor's keyword arguments come from `[backplane.NAME.settings.CLASS]`."""

    #: First word of its routes; default: the class name in snake_case.
    component_name: str = ""
    #: Names of the components that must have reached a state before this one moves to it.
    depends_on: ClassVar[tuple[str, ...]] = ()
    #: "system": it waits for all it depends on. "backplane": for those in its own backplane only, and moves on without the
    #: others; what it needs of them it has to ask for again until it gets it.
    driven_by: ClassVar[str] = "system"
    #: Requests outstanding at most.
    max_requests: ClassVar[int] = REQUESTS_MAX_DEFAULT
    #: Actions posted and timers set (`post`, `after`) that have not ended, at most.
    max_posted: ClassVar[int] = POSTED_MAX_DEFAULT
    #: Classes whose operations are routes of this component even before an object of them is added.
    declares: ClassVar[tuple[type[AppObject], ...]] = ()
    #: Topics on which it publishes for other nodes, too: "prices.eu", or "prices.*". What its objects subscribe to with
    #: `export=True` need not be named.
    exported_topics: ClassVar[tuple[str, ...]] = ()

    _hosted_by: Host | None
    _module_state: ModuleState
    _cluster_epoch: int
    _objects: list[AppObject]
    _endpoints: list[Endpoint]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "component_name" not in cls.__dict__:
            cls.component_name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()
        # Who has no `setup` adds no objects: `add` is too good a name for what counters and stores do to be kept for nothing.
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
        self._endpoints = []
        self._component = self
        return self

    @owned
    def state(self) -> ModuleState:
        """Where it is in the system state machine."""
        return self._module_state

    @owned
    def cluster_epoch(self) -> int:
        """How many nodes of its cluster have been primary, up to this one; 0: this one is not, or there is no cluster.

        What is written to something that others write to, too, goes with it, and the lower one is refused there.
        """
        return self._cluster_epoch

    @owned
    def objects(self) -> tuple[AppObject, ...]:
        """The objects added so far, itself not among them."""
        return tuple(self._objects)

    def setup(self) -> None:
        """Add the objects it starts with. Called once, before any state is entered."""

    def _set_up(self, priorities: int) -> None:
        """`setup`, and what has to follow it. `priorities`: of its backplane. For systems that are components themselves."""
        self.setup()

    def _enters(self, state: ModuleState) -> None:
        """It begins to be initialized; it serves, as primary or secondary; or it goes down, and its hook follows.

        Called with the lead. For systems that are components themselves, as the next.
        """

    def _drains(self) -> None:
        """Its backplane is drained: what has begun may end, but it is to begin nothing by itself."""

    def _ends(self, limit_s: float) -> None:
        """Its backplane ends, and its workers have ended: what it has still to do in threads of its own may take so long."""

    def _requests(self) -> dict[str, Any] | None:
        """Of a request kernel that runs: its figures, for the statistics of its backplane. Any thread, without the lead."""
        return None

    def add(self, object: AppObject, *, key: str | None = None) -> AppObject:
        """Add an object; a call with this `key` goes to it, one without to the least busy that serves the route."""
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
        """Take an object out. Raises `FailedPrecondition` while it has work or awaits a reply (law 6)."""
        assert self._hosted_by is not None
        self._hosted_by.remove_object(object)

    def expose(self, endpoint: Endpoint) -> None:
        """Serve an endpoint on the route COMPONENT.NAME. Call it in `setup`."""
        if self._hosted_by is not None:
            raise RuntimeError(
                f"{self.name} is running: routes are known once a component is set up (expose them in setup)"
            )
        self._endpoints.append(endpoint)

    def post(self, action: Action) -> None:
        """Queue work for an object of this component, from any thread: a device, another library's callback.

        Raises `Busy` at `max_posted`, ValueError for an action that is queued already or whose priority there is not.
        """
        self._host.post(action)

    def make_room(self, request: Action) -> bool:
        """The component is at `max_requests` and `request` has come: free a place and say True, or False for `Busy`.

        By itself it frees that of a less urgent one (`shed`). Called in the thread that received the request: be quick.
        """
        return self.shed(below=request.priority) > 0

    def shed(self, *, below: int) -> int:
        """Answer a request that has not begun with `Busy`: the newest of the least urgent, of lower priority than `below`.
        Returns how many: 1 or 0.
        """
        assert self._hosted_by is not None
        return self._hosted_by.shed(self, below)

    def on_initializing(self) -> Any:
        """Hook, plain or `async`: get ready. All it depends on are initializing."""

    def on_primary(self) -> Any:
        """Hook: take up the work. All it depends on are primary."""

    def on_secondary(self) -> Any:
        """Hook: stand by."""

    def on_down(self) -> Any:
        """Hook: let go. All that depend on it are down."""
