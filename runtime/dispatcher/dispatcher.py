"""Dispatcher: takes messages and calls their handlers with protected data, free of deadlock. A component like any other.

The Multi-Threaded Message Dispatcher of Marginean and Lu (seed 003) on top of the scheduler. A message is an action
(delivery.py) on an object of its own, so it runs by priority, quota and budget like all work, on all workers of the
backplane. Messages with one key share an object, and so keep their order (law 1). Handlers are plain functions that get
their data as arguments; the arguments and their locking order are fixed at registration.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Self, TypeVar

from appbackplane.transport.errors import FailedPrecondition

from ..objects.action import Action
from ..objects.endpoint import Request
from ..objects.module_state import ModuleState
from ..objects.operation import operation
from .delivery import Delivery
from .delivery_queues import DeliveryQueue, DeliveryQueues
from .dispatcher_base import DispatcherBase, Inner
from .eavesdroppers import Eavesdropper, Eavesdropping
from .errors import NoHandler, RegistrationError
from .handles import Handle, ordering_key_of
from .locking import FIRST, NO_EFFECTS, Lock
from .message import Message, MessageSpec, undeclared
from .priorities import declared, rate_monotonic
from .protectors import DataProtector, Protector
from .registrar import Registrar
from .registration import HandlerEntry, conflict, entry_of
from .registrations import Registrations
from .route import MessageEndpoint
from .served import Served
from .shards import Shards
from .sources.attached_sources import AttachedSources
from .sources.block_handle import BlockHandle
from .sources.source import Source

S = TypeVar("S", bound=Source | Protector[Any])


#: Messages at a time that have a handler with an accessor. Each may block its thread, and the backplane then has a spare
#: thread in its place: without a bound, one thread per message. Lower: a datum that many handlers reach for delays handlers
#: that reach for another. A backplane has 256 threads at most.
REACHING_MAX: Final = 32

log = logging.getLogger("appbackplane.runtime")


class Dispatcher(Registrar, DispatcherBase):
    """Subclass it, and register handlers in `setup`. Route of each message, unless it is internal: `COMPONENT.MESSAGE`."""

    #: Whether registrations are fixed once it runs, as safety rules demand (seed 003, section 6).
    frozen: ClassVar[bool] = False
    #: "declared": from `@message(priority=…)`; "rate_monotonic": from `@message(rate=…)`.
    priorities: ClassVar[str] = "declared"
    #: Whether its data are distributed by key over its replicas, the backplanes that have it (shards.py).
    sharded: ClassVar[bool] = False

    # All other names without an underscore belong to the subclass.

    _eavesdropping: Eavesdropping
    _queues: DeliveryQueues
    _shards: Shards | None
    _served: dict[type[Message], Served]
    #: `_ended`, bound once instead of per message.
    _on_end: Callable[[Action], None]
    _registrations: DataProtector[Registrations] | None
    _sources: AttachedSources

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls, *arguments, **keywords)
        self._mutex = threading.Lock()
        self.vanished_count = 0
        self._eavesdropping = Eavesdropping(self)
        self._queues = DeliveryQueues(self)
        self._places = Lock(FIRST, f"accessors ({REACHING_MAX} messages at a time)", REACHING_MAX)
        self._shards = Shards(self) if cls.sharded else None
        self._served = {}
        self._on_end = self._ended
        self._registrations = None
        self._sources = AttachedSources(self)
        return self

    # -- for users ----------------------------------------------------------------------------------------------------

    def eavesdrop(self, function: Callable[[Any], object], *, category: int) -> Eavesdropper:
        """Call `function` with each message of a category, one after the other, in a thread of its own. In `setup`.

        It gets only the message, holds no locks, and cannot change the message. Up to 1,000 messages wait for it; further
        ones are lost to it, counted and reported. If it raises, it is cut off and reported. Raises `RegistrationError`.
        """
        return self._eavesdropping.add(function, category)

    def attach(self, source: S) -> S:
        """Let a source, or the sources in a protector, emit messages here; they start and stop with this component.

        Registering them for a handler attaches them, too. Raises `DeclarationError`, `FailedPrecondition`.
        """
        self._sources.attach(source)
        return source

    @property
    def registrations(self) -> DataProtector[Registrations]:
        """The handler table, as data for a handler that changes it. Raises `RegistrationError` if the class is `frozen`."""
        self._check_changeable()
        if self._registrations is None:
            self._registrations = DataProtector(Registrations(self), name="registrations", order=0, per_shard=True)
        return self._registrations

    def dispatch(self, message: Message | Handle, *, priority: int | None = None) -> None:
        """Queue a message for its handlers; any thread, but not in `setup`. Raises `NoHandler`, and `Busy` at `max_posted`."""
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
                host.platform.post_own(self, action)
            else:
                host.post(action)
        except BaseException:
            self._ended(action)  # gives its queue back
            if isinstance(message, Handle):
                message.is_dispatched = False
            raise

    def home_of(self, message: Message) -> str | None:
        """Name of the backplane that handles a message: its shard. None: the one that receives it."""
        return None if self._shards is None else self._shards.home_of(message)

    @operation(priority=0, idempotent=True)
    def handlers(self) -> list[dict[str, Any]]:
        """List the handlers by message, with what they have done: counts and milliseconds."""
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
        """List the eavesdroppers, with the number of messages that each has heard, has still to hear, and has lost."""
        return self._eavesdropping.figures()

    # -- registrations ------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> tuple[HandlerEntry, ...]:
        """All registered handlers, by message, in calling order."""
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
        """For `Registrations`: register one more handler while the dispatcher runs."""
        self._check_changeable()
        entry = entry_of(handler, arguments, self)
        if entry.spec.type not in self._served:
            raise FailedPrecondition(
                f"{entry.name}: {entry.spec.type.__name__} has no route in {self.name}: a message needs a handler in setup()"
            )
        self._enter(entry)

    def _enter(self, entry: HandlerEntry) -> None:
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
            raise RegistrationError(f"{type(self).__qualname__} is frozen: its registrations cannot change")

    def _clash(self, entry: HandlerEntry) -> str | None:
        """Error text if another message or operation has its route; None: the route is free."""
        name, kind = entry.spec.name, entry.spec.type
        other = next((each for each in self._served if each is not kind and each.__message__.name == name), None)
        own = (spec.name for spec in type(self).__operations__.values() if spec.mark.kind == "operation")
        if other is None and name not in own:
            return None
        whose = f"{type(self).__qualname__}.{name}" if other is None else f"{other.__module__}.{other.__qualname__}"
        return f"{entry.name}: {kind.__name__} would have the route of {whose}, {name!r}: declare @message(name=…)"

    def _take_out(self, entry: HandlerEntry) -> None:
        """For `Registrations`: unregister one handler."""
        self._check_changeable()
        entry.is_registered = False
        with self._mutex:
            served = self._served[entry.spec.type]
            served.entries = tuple(each for each in served.entries if each is not entry)

    # -- deliveries ---------------------------------------------------------------------------------------------------

    def _action_of(
        self, message: Message | Handle, priority: int | None, deadline_ns: int | None, request: Request | None = None
    ) -> Action:
        """The action for a message: its delivery, or the forward to its shard. Raises `NoHandler`, and as `Shards.away`."""
        given: Message | None = None
        handle: Handle | None = None
        if isinstance(message, Handle):
            handle, spec = message, _spec_of(message)
        else:
            given, spec = message, type(message).__message__
        served = self._served.get(spec.type)
        if served is None or not served.entries:  # or all have been unregistered
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
        ordering_key = None
        if handle is not None:
            ordering_key = handle.ordering_key
        elif spec.key is not None and given is not None:
            ordering_key = ordering_key_of(given)
        delivery = Delivery(self._queues.take(ordering_key), priority, deadline_ns, self, served, given, handle)
        delivery.on_end = self._on_end
        return delivery

    def _is_heard(self, kind: type[Message]) -> bool:
        """Whether messages of this type have a handler now."""
        served = self._served.get(kind)
        return served is not None and bool(served.entries)

    # -- for deliveries -----------------------------------------------------------------------------------------------

    @property
    def _now_ns(self) -> Callable[[], int]:
        """The clock of its host: monotonic ns."""
        host = self._hosted_by
        assert host is not None
        return host.now_ns

    def _report(self, action: Action, error: BaseException) -> None:
        """Log the error of an action."""
        self._platform.report(action, error)

    def _inner(self, object: Inner, name: str) -> Inner:
        """Adopt an internal object of the dispatcher, which serves no route."""
        object._component, object._name = self, f"{self.name}.{name}"
        self._objects.append(object)
        return object

    def _ended(self, action: Action) -> None:
        """An action on a delivery queue has ended: give the queue back, and notify waiters for its locks."""
        queue = action.object
        assert isinstance(queue, DeliveryQueue)
        self._queues.give_back(queue)
        if isinstance(action, Delivery) and (action.left is not NO_EFFECTS or action.held):
            action.tell_left()


def _spec_of(handle: Handle) -> MessageSpec:
    """The spec of a user's handle, whose base constructor may not have run. Raises TypeError, and ValueError if used before."""
    spec = getattr(handle, "spec", None)
    if not isinstance(spec, MessageSpec):
        raise TypeError(
            f"{type(handle).__name__} has no message: super().__init__(Reading.__message__) in its __init__"
        )
    if handle.is_dispatched:
        raise ValueError(f"this {type(handle).__name__} was dispatched before: make a new one, it is resolved once")
    return spec


_RULES = {"declared": declared, "rate_monotonic": rate_monotonic}
