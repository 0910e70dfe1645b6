"""Dispatcher: messages in, handlers called, data protected, no deadlock. A component like any other.

The Multi-Threaded Message Dispatcher of Marginean and Lu (seed 003) on top of the scheduler: a message is an action
(delivery.py) on an object of its own, so that it is run by priority, quota and budget like all work, by as many workers as
the backplane has. Messages with one key share an object, and so keep their order (law 1). Handlers are plain functions that
get their data as arguments; what they are given, and in which order it is locked, is settled when they are registered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Self, TypeVar

from appbackplane.transport.errors import FailedPrecondition

from ..objects.action import Action
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.endpoint import Request
from ..objects.module_state import ModuleState
from ..objects.operation import operation
from .delivery import Delivery
from .eavesdroppers import Eavesdropper, Eavesdropping
from .errors import NoHandler, RegistrationError
from .handles import Handle, lane_of
from .lanes import Lane, Lanes
from .locking import FIRST, NOBODY, Lock
from .message import Message, MessageSpec, undeclared
from .priorities import declared, rate_monotonic
from .protectors import DataProtector, Protector
from .registrar import Registrar
from .registration import Entry, conflict, entry_of
from .registrations import Registrations
from .route import MessageEndpoint
from .served import Served
from .shards import Shards
from .sources.attached import Attached
from .sources.block_handle import BlockHandle
from .sources.source import Source

Inner = TypeVar("Inner", bound=AppObject)
S = TypeVar("S", bound=Source | Protector[Any])


#: Messages at a time that have a handler with an accessor. Each may wait in its thread, and the backplane then has a spare
#: thread in its place: without a bound, as many as there are messages. Fewer, and one datum that all reach for keeps those
#: waiting that reach for another; a backplane has 256 threads at most.
REACHING_MAX: Final = 32

log = logging.getLogger("appbackplane.runtime")


class Dispatcher(Registrar, Component):
    """Subclass it, and register handlers in `setup`. Routes: `COMPONENT.MESSAGE`, for each message that has a handler."""

    #: Whether registrations may never change once it runs, as rules for safety demand (seed 003, section 6).
    frozen: ClassVar[bool] = False
    #: "declared", by `@message(priority=…)`; or "rate_monotonic", by `@message(rate=…)`.
    priorities: ClassVar[str] = "declared"
    #: Whether its data are spread by key over the backplanes that have it, its replicas (shards.py).
    sharded: ClassVar[bool] = False

    # What deliveries, shards and sources use, in other files, has an underscore: all other names are the subclass's.

    #: Guards locks, lanes and registrations. Held for a few steps; nobody takes the lead while he holds it.
    _mutex: threading.Lock
    #: Handles that resolved to nothing.
    vanished_count: int
    _eavesdropping: Eavesdropping
    _lanes: Lanes
    #: Held by each message that has a handler with an accessor: so many of them at a time.
    _places: Lock
    _shards: Shards | None
    _served: dict[type[Message], Served]
    #: `_ended`, bound once and not for each message.
    _on_end: Callable[[Action], None]
    _registrations: DataProtector[Registrations] | None
    _sources: Attached

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls, *arguments, **keywords)
        self._mutex = threading.Lock()
        self.vanished_count = 0
        self._eavesdropping = Eavesdropping(self)
        self._lanes = Lanes(self)
        self._places = Lock(FIRST, f"accessors ({REACHING_MAX} messages at a time)", REACHING_MAX)
        self._shards = Shards(self) if cls.sharded else None
        self._served = {}
        self._on_end = self._ended
        self._registrations = None
        self._sources = Attached(self)
        return self

    # -- what users call ----------------------------------------------------------------------------------------------

    def eavesdrop(self, function: Callable[[Any], object], *, category: int) -> Eavesdropper:
        """Have `function` hear each message of a category, one after the other, in a thread of its own. In `setup`.

        It gets the message alone, holds no locks, and cannot change it. 1,000 messages wait for it; what comes then is lost
        to it, counted and reported. If it raises, it is cut off and reported. Raises `RegistrationError`.
        """
        return self._eavesdropping.add(function, category)

    def attach(self, source: S) -> S:
        """Have a source, or what protects it, emit its messages here; it starts and stops with this component.

        What is registered for a handler is attached by that. Raises `DeclarationError`, `FailedPrecondition`.
        """
        self._sources.attach(source)
        return source

    @property
    def registrations(self) -> DataProtector[Registrations]:
        """The table of handlers, as data for a handler that changes it. Raises `RegistrationError` where it is `frozen`."""
        self._check_changeable()
        if self._registrations is None:
            self._registrations = DataProtector(Registrations(self), name="registrations", order=0, per_shard=True)
        return self._registrations

    def dispatch(self, message: Message | Handle, *, priority: int | None = None) -> None:
        """Have a message handled, from any thread; not in `setup` yet. Raises `NoHandler`, and `Busy` at `max_posted`."""
        if type(message) not in self._served and (
            not isinstance(message, (Message, Handle)) or type(message) is Message
        ):
            raise TypeError(f"dispatch({message!r}): expected a message, or a handle that becomes one")
        host = self._hosted_by
        if host is None:
            raise FailedPrecondition(
                f"{self.name} does not run yet: dispatch from on_initializing() on, or begin a timer in setup()"
            )
        action = self._action_of(message, priority, None)
        try:
            if priority is None:
                host.post_own(self, action)
            else:
                host.post(action)
        except BaseException:
            self._ended(action)  # it has a place on its lane
            if isinstance(message, Handle):
                message.is_dispatched = False
            raise

    def home_of(self, message: Message) -> str | None:
        """The backplane in which a message is handled: that of its shard. None: wherever it comes."""
        return None if self._shards is None else self._shards.home_of(message)

    @operation(priority=0, idempotent=True)
    def handlers(self) -> list[dict[str, Any]]:
        """Which handlers there are, by message, and how much they have done: counts and milliseconds."""
        return [
            {
                "message": each.spec.name,
                "priority": self._served[each.spec.type].priority,
                "handler": each.name,
                "data": [parameter.text for parameter in each.parameters],
                "calls": each.calls_count,
                "failures": each.failures_count,
                "run_ms": round(each.run_ns / 1e6, 3),
                "lock_wait_ms": round(each.wait_ns / 1e6, 3),
                "backplane": self.name.partition("/")[0],
            }
            for each in self.entries
        ]

    @operation(priority=0, idempotent=True)
    def eavesdroppers(self) -> list[dict[str, Any]]:
        """Which eavesdroppers there are, and how many messages each has heard, has still to hear, and has lost."""
        return self._eavesdropping.figures()

    # -- registrations ------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All registered handlers, by message, in the order in which they are called."""
        return tuple(each for served in self._served.values() for each in served.entries)

    def _set_up(self, priorities: int) -> None:
        super()._set_up(priorities)
        self._sources.check()
        specs = [served.spec for served in self._served.values()]
        rule = _RULES.get(self.priorities)
        if rule is None:
            raise RegistrationError(
                f"{type(self).__qualname__}.priorities = {self.priorities!r}: expected one of {[*_RULES]}"
            )
        urgency = rule(specs, priorities)
        for spec in specs:
            served, priority = self._served[spec.type], urgency[spec.name]
            is_eavesdropped = spec.category in self._eavesdropping.of_category
            served.settle(f"{self.component_name}.{spec.name}", priority, is_eavesdropped=is_eavesdropped)
            if not spec.internal:
                self.expose(MessageEndpoint(self, spec, priority, served.entries))

    def _enters(self, state: ModuleState) -> None:
        self._sources.enters(state)

    def _drains(self) -> None:
        self._sources.drain()

    def _ends(self, limit_s: float) -> None:
        self._eavesdropping.end(limit_s)

    def _register(self, handler: Callable[..., Any], arguments: Sequence[Any]) -> None:
        if self._hosted_by is not None:
            raise FailedPrecondition(
                f"{self.name} runs: register handlers in setup(), or in a handler that is given its registrations"
            )
        self._enter(entry_of(handler, arguments, self))

    def _change_registrations(self, handler: Callable[..., Any], arguments: Sequence[Any]) -> None:
        """For `Registrations`: one more, while it runs."""
        self._check_changeable()
        entry = entry_of(handler, arguments, self)
        if entry.spec.type not in self._served:
            raise FailedPrecondition(
                f"{entry.name}: {entry.spec.type.__name__} has no route in {self.name}: a message needs a handler in setup()"
            )
        self._enter(entry)

    def _enter(self, entry: Entry) -> None:
        kind = entry.spec.type
        if self._shards is not None:
            self._shards.admit(entry)
        with self._mutex:
            served = self._served.get(kind) or Served(entry.spec)
            problem = conflict(entry, served.entries) or self._clash(entry)
            if problem is None:
                served.has_accessor |= entry.has_accessor  # before `entries`, which is read without the mutex
                served.entries = (*served.entries, entry)
                self._served[kind] = served
        if problem is not None:
            raise RegistrationError(problem)
        for parameter in entry.parameters:
            self._sources.take_in(parameter.argument)

    def _check_changeable(self) -> None:
        if self.frozen:
            raise RegistrationError(f"{type(self).__qualname__} is frozen: its registrations are no handler's business")

    def _clash(self, entry: Entry) -> str | None:
        """Whose route it would take, if anybody's."""
        name, kind = entry.spec.name, entry.spec.type
        other = next((each for each in self._served if each is not kind and each.__message__.name == name), None)
        own = (spec.name for spec in type(self).__operations__.values() if spec.mark.kind == "operation")
        if other is None and name not in own:
            return None
        whose = f"{type(self).__qualname__}.{name}" if other is None else f"{other.__module__}.{other.__qualname__}"
        return f"{entry.name}: {kind.__name__} would have the route of {whose}, {name!r}: declare @message(name=…)"

    def _take_out(self, entry: Entry) -> None:
        """For `Registrations`: one less."""
        self._check_changeable()
        entry.is_registered = False
        with self._mutex:
            served = self._served[entry.spec.type]
            served.entries = tuple(each for each in served.entries if each is not entry)

    # -- deliveries ---------------------------------------------------------------------------------------------------

    def _action_of(
        self, message: Message | Handle, priority: int | None, deadline_ns: int | None, request: Request | None = None
    ) -> Action:
        """What a message becomes: its delivery, or the way to its shard. Raises `NoHandler`; and as `Shards.away`."""
        given: Message | None = None
        handle: Handle | None = None
        if isinstance(message, Handle):
            handle, spec = message, _spec_of(message)
        else:
            given, spec = message, type(message).__message__
        served = self._served.get(spec.type)
        if served is None or not served.entries:  # or they have been taken out
            raise NoHandler(spec.type.__name__, self.name) if spec.name else undeclared(spec.type)
        if priority is None:
            priority = served.priority
        if self._shards is not None and given is not None:
            away = self._shards.away(given, spec, priority, deadline_ns, request)
            if away is not None:
                return away
        if handle is not None:
            handle.is_dispatched = True
        if served.has_blocks:
            given, handle = None, BlockHandle(message)
        shared_by = None
        if handle is not None:
            shared_by = handle.lane
        elif spec.key is not None and given is not None:
            shared_by = lane_of(given)
        delivery = Delivery(self._lanes.take(shared_by), priority, deadline_ns, self, served, given, handle)
        delivery.on_end = self._on_end
        return delivery

    def _is_heard(self, kind: type[Message]) -> bool:
        """Whether there is a handler for it now."""
        served = self._served.get(kind)
        return served is not None and bool(served.entries)

    # -- for deliveries -----------------------------------------------------------------------------------------------

    @property
    def _now_ns(self) -> Callable[[], int]:
        """The clock."""
        host = self._hosted_by
        assert host is not None
        return host.now_ns

    def _report(self, action: Action, error: BaseException) -> None:
        """Say what went wrong, in the log."""
        self._host.report(action, error)

    def _inner(self, object: Inner, name: str) -> Inner:
        """Take in an object of the dispatcher's own, which serves no route."""
        object._component, object._name = self, f"{self.name}.{name}"
        self._objects.append(object)
        return object

    def _ended(self, action: Action) -> None:
        """It was on a lane, and is no more."""
        lane = action.object
        assert isinstance(lane, Lane)
        self._lanes.give_back(lane)
        if isinstance(action, Delivery) and (action.left is not NOBODY or action.held):
            action.tell_left()


def _spec_of(handle: Handle) -> MessageSpec:
    """Of what a user has made, perhaps without its constructor."""
    spec = getattr(handle, "spec", None)
    if not isinstance(spec, MessageSpec):
        raise TypeError(
            f"{type(handle).__name__} has no message: super().__init__(Reading.__message__) in its __init__"
        )
    if handle.is_dispatched:
        raise ValueError(f"this very {type(handle).__name__} was dispatched: make a new one, it is resolved once")
    return spec


_RULES = {"declared": declared, "rate_monotonic": rate_monotonic}
