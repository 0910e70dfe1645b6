"""Attached: the sources of one dispatcher, which start and stop with its states (seed 003, section 5, steps 7 to 10)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from ...objects.module_state import ModuleState
from ...objects.operation import DeclarationError
from ..protectors import DataProtector, SelectiveProtector
from ..errors import RegistrationError
from .source import Source, sources_in

if TYPE_CHECKING:
    from ..dispatcher import Dispatcher

log = logging.getLogger("appbackplane.runtime")


class Attached:
    """In the order in which they came: so they start, and in the reverse order they stop."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._sources: list[Source] = []
        self._is_serving = False

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
