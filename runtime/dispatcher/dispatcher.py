"""Dispatcher: messages in, handlers called, data protected, no deadlock. A component like any other.

The Multi-Threaded Message Dispatcher of Marginean and Lu (seed 003) on top of the scheduler: a message is an action
(delivery.py) on an object of its own, so that it is run by priority, quota and budget like all work, by as many workers as
the backplane has. Messages with one key share an object, and so keep their order (law 1). Handlers are plain functions that
get their data as arguments; what they are given, and in which order it is locked, is settled when they are registered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from appbackplane.transport.errors import FailedPrecondition

from ..objects.action import Action
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.operation import PRIORITY_DEFAULT
from .delivery import Delivery
from .errors import NoHandler
from .handles import Handle
from .message import Message, MessageSpec
from .registrar import Registrar
from .registration import Entry, entry_of
from .route import MessageEndpoint

R = TypeVar("R")


class Lane(AppObject):
    """What a delivery is queued on: one each, or one for all of a key."""

    __slots__ = ("load", "message_key")

    load: int
    message_key: tuple[type[Message], Any] | None


class Dispatcher(Registrar, Component):
    """Subclass it, and register handlers in `setup`. Routes: `COMPONENT.MESSAGE`, for each message that has a handler."""

    #: Whether registrations may change once it runs. Off where rules forbid it (seed 003, section 6).
    frozen = True

    #: Guards locks and lanes. Held for a few steps; nobody takes the lead while he holds it.
    mutex: threading.Lock
    #: Whether deliveries wait in their threads (delivery.py).
    keeps_threads: bool
    #: Handles that resolved to nothing.
    vanished_count: int
    _entries: dict[type[Message], tuple[Entry, ...]]
    _lanes: list[Lane]
    _keyed: dict[tuple[type[Message], Any], Lane]

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls, *arguments, **keywords)
        self.mutex = threading.Lock()
        self.keeps_threads = False
        self.vanished_count = 0
        self._entries = {}
        self._lanes = []
        self._keyed = {}
        return self

    def _register(self, handler: Callable[..., Any], arguments: Sequence[Any]) -> Entry:
        """`register`, without its types."""
        entry = entry_of(handler, arguments, self)
        kind = entry.spec.type
        entries = self._entries.get(kind, ())
        if any(each.handler == handler for each in entries):
            raise_twice(entry)
        if not entries:
            if self._hosted_by is not None:
                raise FailedPrecondition(
                    f"{kind.__name__} has no route in {self.name}: messages are declared in setup()"
                )
            self.expose(MessageEndpoint(self, entry.spec))
        self._entries[kind] = (*entries, entry)
        self.keeps_threads = self.keeps_threads or entry.has_accessor
        return entry

    def dispatch(self, message: Message | Handle, *, priority: int | None = None) -> None:
        """Have a message handled, from any thread. Raises `NoHandler`, and `Busy` at `max_posted`."""
        spec = message.spec if isinstance(message, Handle) else type(message).__message__
        urgency = self.priority_of(spec) if priority is None else priority
        self.post(self.delivery(message, spec, urgency, None))

    def delivery(
        self, message: Message | Handle, spec: MessageSpec, priority: int, deadline_ns: int | None
    ) -> Delivery:
        """The action that a message becomes."""
        entries = self._entries.get(spec.type)
        if not entries:
            raise NoHandler(spec.type.__name__, self.name)
        lane = self._lane(message, spec)
        name = f"{self.component_name}.{spec.name}"
        delivery = Delivery(lane, name, priority, deadline_ns, self, entries, message)
        delivery.on_end = self._ended
        return delivery

    def priority_of(self, spec: MessageSpec) -> int:
        """At which a message is dispatched, unless its sender asks for another."""
        return PRIORITY_DEFAULT if spec.priority is None else spec.priority

    # -- for deliveries -----------------------------------------------------------------------------------------------

    @property
    def now_ns(self) -> Callable[[], int]:
        """The clock."""
        return self._host.now_ns

    def resume(self, delivery: Delivery) -> None:
        """It has the locks it waited for."""
        self._host.resume(delivery)

    def hurry(self, delivery: Delivery) -> None:
        """It is about to wait in its thread."""

    def failed(self, delivery: Delivery, error: BaseException) -> None:
        """A handler has raised."""

    def _lane(self, message: Message | Handle, spec: MessageSpec) -> Lane:
        key = None if spec.key is None or isinstance(message, Handle) else getattr(message, spec.key)
        if key is not None:
            with self.mutex:
                lane = self._keyed.get((spec.type, key))
                if lane is None:
                    lane = self._keyed[spec.type, key] = self._idle_lane()
                    lane.message_key = (spec.type, key)
                lane.load += 1
                return lane
        lane = self._idle_lane()
        lane.load = 1
        return lane

    def _idle_lane(self) -> Lane:
        try:
            return self._lanes.pop()
        except IndexError:
            lane = Lane()
            lane._component, lane._name = self, f"{self.name}.{len(self._objects)}"
            lane.load, lane.message_key = 0, None
            self._objects.append(lane)
            return lane

    def _ended(self, action: Action) -> None:
        lane = action.object
        assert isinstance(lane, Lane)
        with self.mutex:
            lane.load -= 1
            if lane.load:
                return
            if lane.message_key is not None:
                del self._keyed[lane.message_key]
                lane.message_key = None
            self._lanes.append(lane)


def raise_twice(entry: Entry) -> None:
    """The same handler twice for one message."""
    from .registration import RegistrationError

    raise RegistrationError(f"{entry.name} is registered for {entry.spec.type.__name__} already: once is enough")
