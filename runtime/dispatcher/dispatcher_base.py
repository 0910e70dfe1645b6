"""DispatcherBase: what the parts of a dispatcher (deliveries, shards, sources) may ask of it.

They know this class, and the dispatcher knows them. All names have an underscore: the others belong to the user's subclass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

from ..objects.action import Action
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.endpoint import Request
from .handles import Handle
from .locking import Lock
from .message import Message
from .registration import HandlerEntry

Inner = TypeVar("Inner", bound=AppObject)


class EavesdroppingPort(Protocol):
    """Passes messages on to eavesdroppers (eavesdroppers.py)."""

    def tell(self, message: Message, *, has_blocks: bool) -> None: ...


class QueuesPort(Protocol):
    """The delivery queues (delivery_queues.py)."""

    def take(self, ordering_key: Hashable) -> AppObject: ...


class ShardsPort(Protocol):
    """The homes of messages (shards.py)."""

    def is_here(self, message: Message) -> bool: ...


class SourcesPort(Protocol):
    """The attached sources (sources/attached_sources.py)."""

    def check_heard(self, kind: type[Message]) -> None: ...
    def tell(self, message: Message | Handle) -> None: ...
    def try_action_of(self, handle: Handle) -> Action | None: ...


class DispatcherBase(Component):
    #: Guards locks, delivery queues and registrations. Held for a few steps; never take the lead while holding it.
    _mutex: threading.Lock
    #: Handles that resolved to no message, or failed to.
    vanished_count: int
    #: `REACHING_MAX` places: each message that has a handler with an accessor holds one.
    _places: Lock
    _eavesdropping: EavesdroppingPort
    _queues: QueuesPort
    _shards: ShardsPort | None
    _sources: SourcesPort

    def dispatch(self, message: Message | Handle, *, priority: int | None = None) -> None:
        raise NotImplementedError

    @property
    def entries(self) -> tuple[HandlerEntry, ...]:
        raise NotImplementedError

    @property
    def _now_ns(self) -> Callable[[], int]:
        raise NotImplementedError

    def _change_registrations(self, handler: Callable[..., Any], arguments: Sequence[Any]) -> None:
        raise NotImplementedError

    def _take_out(self, entry: HandlerEntry) -> None:
        raise NotImplementedError

    def _action_of(
        self, message: Message | Handle, priority: int | None, deadline_ns: int | None, request: Request | None = None
    ) -> Action:
        raise NotImplementedError

    def _is_heard(self, kind: type[Message]) -> bool:
        raise NotImplementedError

    def _report(self, action: Action, error: BaseException) -> None:
        raise NotImplementedError

    def _inner(self, object: Inner, name: str) -> Inner:
        raise NotImplementedError

    def _ended(self, action: Action) -> None:
        raise NotImplementedError
