"""Registrations: the handler table of a dispatcher, as a datum that handlers may get.

Seed 003, section 6: "to export a Dispatcher interface as a Data Object allowing handlers to safely modify the dispatching
table as needed at run-time". Where rules forbid it, `frozen = True` refuses it. The handlers of a message are looked up when
its turn has come. An unregistered handler is not called any more, not even for messages that are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from appbackplane.transport.errors import NotFound

from .registrar import Registrar
from .registration import HandlerEntry

if TYPE_CHECKING:
    from .dispatcher_base import DispatcherBase


class Registrations(Registrar):
    """The datum under `dispatcher.registrations`: `def on_mode(message: Mode, registrations: Registrations) -> None`."""

    def __init__(self, dispatcher: DispatcherBase) -> None:
        self._dispatcher = dispatcher

    def _register(self, handler: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._dispatcher._change_registrations(handler, arguments)

    def unregister(self, handler: Callable[..., Any]) -> None:
        """Remove all registrations of a handler. Raises `NotFound` if it has none."""
        found = [each for each in self.entries if each.handler == handler]
        if not found:
            name = getattr(handler, "__qualname__", repr(handler))
            raise NotFound(f"{name} is not registered with {self._dispatcher.name}")
        for each in found:
            self._dispatcher._take_out(each)

    @property
    def entries(self) -> tuple[HandlerEntry, ...]:
        """All registered handlers, by message, in calling order."""
        return self._dispatcher.entries
