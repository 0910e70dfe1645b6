"""Attached: the sources of one dispatcher, which start and stop with its states (seed 003, section 5, steps 7 to 10).

What a source or an observed datum tells need not have a handler: which data and completions a program cares for is its own
business. That there is none is said in the log, once a type, for the handler may have been forgotten.
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
    from ..dispatcher import Dispatcher

log = logging.getLogger("appbackplane.runtime")


class Attached:
    """In the order in which they came: so they start, and in the reverse order they stop."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._sources: list[Source] = []
        self._is_serving = False
        #: Messages without a handler, by type, of which the log has been told.
        self._mentioned: set[type[Any]] = set()

    def attach(self, given: Any) -> None:
        """A source, or the protector of one. Raises `DeclarationError` for what is neither."""
        found = list(sources_in(given))
        if not found:
            what = (
                f"{given.name} has no source in it"
                if isinstance(given, (DataProtector, SelectiveProtector))
                else f"{type(given).__name__} is none"
            )
            raise DeclarationError(f"attach() takes a source, or a protector of sources: {what}")
        self.take_in(given)

    def take_in(self, given: object) -> None:
        """The sources that there are in it."""
        for source, lock in sources_in(given):
            if source._attach(self._dispatcher, lock):
                self._sources.append(source)
                if self._is_serving:
                    source._start()

    def check(self) -> None:
        """Raises `RegistrationError` for a source that the dispatcher has, and that would never emit."""
        for name, value in vars(self._dispatcher).items():
            for source, _ in sources_in(value):
                if source._dispatcher is None:
                    raise RegistrationError(
                        f"{type(self._dispatcher).__qualname__}.{name} is a source, and is attached nowhere: register it for a "
                        f"handler, or self.attach(self.{name}) in setup()"
                    )

    # -- for sources and observed data --------------------------------------------------------------------------------

    def check_heard(self, kind: type[Message]) -> None:
        """Raises `NoHandler`. Before it runs, handlers may still be registered."""
        if self._dispatcher._hosted_by is not None and not self._dispatcher._is_heard(kind):
            raise NoHandler(kind.__name__, self._dispatcher.name)

    def tell(self, message: Message | Handle) -> None:
        """Dispatch what nobody need care for: if nobody does, that is mentioned in the log once. Raises `Busy`."""
        try:
            self._dispatcher.dispatch(message)
        except NoHandler:
            self._unheard(message)

    def try_action_of(self, handle: Handle) -> Action | None:
        """What it becomes; None where its last handler has been taken out since it was begun, and then it is released."""
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
            log.info("%s: %s has no handler here, and is not told", self._dispatcher.name, kind.__name__)

    # -- with the states ----------------------------------------------------------------------------------------------

    def enters(self, state: ModuleState) -> None:
        """Start or stop them. Raises what keeps one from starting; then all that had started are stopped."""
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
        """Nothing new comes from them."""
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
