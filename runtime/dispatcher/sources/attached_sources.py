"""Attached sources: the sources of one dispatcher, which start and stop with its states (seed 003, section 5, steps 7 to 10).

Messages of a source or an observed datum need no handler: a program chooses the data and completions that it handles. A
missing handler is logged, once per type, because it may have been forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from ...objects.module_state import ModuleState
from ...objects.operation import DeclarationError
from ..errors import NoHandler, RegistrationError
from ..handles import Handle
from ..message import Message
from ..protectors import DataProtector, SelectiveProtector
from .source import Source, sources_in

if TYPE_CHECKING:
    from ...objects.action import Action
    from ..dispatcher_base import DispatcherBase

log = logging.getLogger("appbackplane.runtime")


class AttachedSources:
    """Sources start in the order in which they were attached, and stop in the reverse order."""

    def __init__(self, dispatcher: DispatcherBase) -> None:
        self._dispatcher = dispatcher
        self._sources: list[Source] = []
        self._is_serving = False
        #: Message types without a handler, already logged.
        self._mentioned: set[type[Any]] = set()

    def attach(self, given: Any) -> None:
        """Attach a source, or the sources in a protector. Raises `DeclarationError` if there is none."""
        found = list(sources_in(given))
        if not found:
            what = (
                f"{given.name} has no source in it"
                if isinstance(given, (DataProtector, SelectiveProtector))
                else f"{type(given).__name__} is neither"
            )
            raise DeclarationError(f"attach() takes a source, or a protector of sources: {what}")
        self.take_in(given)

    def take_in(self, given: object) -> None:
        """Attach all sources in an argument, if any; start them if the component serves."""
        for source, lock in sources_in(given):
            if source._attach(self._dispatcher, lock):
                self._sources.append(source)
                if self._is_serving:
                    source._start()

    def check(self) -> None:
        """Raises `RegistrationError` for a source in the dispatcher's attributes that is attached nowhere."""
        for name, value in vars(self._dispatcher).items():
            for source, _ in sources_in(value):
                if source._dispatcher is None:
                    raise RegistrationError(
                        f"{type(self._dispatcher).__qualname__}.{name} is a source that is not attached: register it for a "
                        f"handler, or self.attach(self.{name}) in setup()"
                    )

    # -- for sources and observed data --------------------------------------------------------------------------------

    def check_heard(self, kind: type[Message]) -> None:
        """Raises `NoHandler` if the dispatcher runs without one. Before that, handlers may still be registered."""
        if self._dispatcher._hosted_by is not None and not self._dispatcher._is_heard(kind):
            raise NoHandler(kind.__name__, self._dispatcher.name)

    def tell(self, message: Message | Handle) -> None:
        """Dispatch a message that needs no handler: a missing one is logged once per type. Raises `Busy`."""
        try:
            self._dispatcher.dispatch(message)
        except NoHandler:
            self._unheard(message)

    def try_action_of(self, handle: Handle) -> Action | None:
        """The action for a handle. None: its last handler was unregistered meanwhile; the handle is then released."""
        try:
            return self._dispatcher._action_of(handle, None, None)
        except NoHandler:
            self._unheard(handle)
            return None

    def _unheard(self, message: Message | Handle) -> None:
        kind = type(message)
        if isinstance(message, Handle):
            kind = message.spec.type
            message.release()
        if kind not in self._mentioned:
            self._mentioned.add(kind)
            log.info("%s: %s has no handler here; dropped", self._dispatcher.name, kind.__name__)

    # -- with the states ----------------------------------------------------------------------------------------------

    def enters(self, state: ModuleState) -> None:
        """Start or stop the sources. Raises the error of one that cannot start, after stopping those that had started."""
        if state is ModuleState.DOWN:
            self._is_serving = False
            self._stop()
        elif state is ModuleState.INITIALIZING:
            for source in self._sources:
                source._has_stopped = False
        else:
            try:
                for source in self._sources:
                    source._start()
            except Exception:
                self._stop()
                raise
            self._is_serving = True

    def drain(self) -> None:
        """Drain the sources: they begin no new work."""
        self._is_serving = False
        self._tell_all(methodcaller("_drain"))

    def _stop(self) -> None:
        self._tell_all(methodcaller("_stop"))

    def _tell_all(self, to_stop: Callable[[Source], object]) -> None:
        for source in reversed(self._sources):
            try:
                to_stop(source)
            except Exception:
                log.exception("%s: %s did not stop", self._dispatcher.name, type(source).__name__)
