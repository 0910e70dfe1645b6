"""Watching: the route on which other processes wait for the end of an object, a backplane or this node.

A request is answered with [reason, because] once the target has ended, so the caller learns of the death of this very process
in the way of any call. Meanwhile it is a parked action, with a queue of its own. At most `WATCHERS_MAX` wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from appbackplane.transport.errors import BackplaneError, Busy, InvalidArgument

from ...objects.action import DONE, WAITING, Outcome, ParkableAction
from ...objects.app_object import AppObject
from ...objects.component import Component
from ...objects.endpoint import Endpoint, Request
from ...objects.monitor import ENDED
from .monitors import WATCH, Monitors, Watch

#: 2 KB each.
WATCHERS_MAX: Final = 10_000


class WatchEndpoint(Endpoint):
    """The route COMPONENT.watch."""

    is_counted = False

    def __init__(self, component: Component, monitors: Callable[[], Monitors]) -> None:
        """`monitors`: those of the component's backplane, once it runs."""
        super().__init__(
            WATCH, priority=0, summary="Wait until an object, a backplane or this node has ended.",
            signature="(target: str) -> list[str]",
        )  # fmt: skip
        self._component, self._monitors = component, monitors
        self._number = 0

    def create_action(self, request: Request) -> WatchAction:
        """Raises `InvalidArgument`, and `Busy` while `WATCHERS_MAX` wait."""
        target, monitors = request.body.get("target"), self._monitors()
        if type(target) is not str or len(request.body) != 1:
            raise InvalidArgument(f"{request.route}: expected {self.signature}")
        if len(monitors.watchers) >= WATCHERS_MAX:
            raise Busy(f"{request.route}: {WATCHERS_MAX:,} others wait here already", retry_after=1.0)
        self._number += 1
        queue = AppObject.__new__(AppObject)
        queue._component, queue._name = self._component, f"{self._component._name}.{WATCH}-{self._number}"
        return WatchAction(queue, request, monitors)


class Watcher(Watch):
    """The watch of another process."""

    __slots__ = ("_waiting",)

    def __init__(self, of: str, waiting: WatchAction) -> None:
        super().__init__(of, None)
        self._waiting = waiting

    def tell(self, reason: str, because: str) -> None:
        """Have the waiting action answer."""
        self._waiting.tell(reason, because)


class WatchAction(ParkableAction):
    """One process that waits for an end here."""

    __slots__ = ("_monitors", "_target", "_watch")

    def __init__(self, queue: AppObject, request: Request, monitors: Monitors) -> None:
        super().__init__(queue, request.route, request.priority, request.deadline_ns)
        self._target: str = request.body["target"]
        self._monitors = monitors
        self._watch: Watcher | None = None

    @property
    def has_begun(self) -> bool:
        """Never: it may be cancelled at any time, as it changes nothing."""
        return False

    def run(self) -> Outcome:
        """Begin to watch, or, once resumed, end with the answer."""
        monitors = self._monitors
        with monitors.lead:
            if self._watch is None and self.result is None:
                if self.taken_back is not None:
                    raise self.taken_back
                self._watch = watcher = Watcher(self._target, self)
                monitors.add(watcher, self.priority, of_ours=True)
                if self.result is None:
                    monitors.watchers[id(self)] = self._answer_last
            return DONE if self.result is not None else WAITING

    def waits_because(self) -> str:
        """In words."""
        return f"the end of {self._target}"

    def refuse(self, error: BackplaneError) -> None:
        """The caller has cancelled it, or has died."""
        super().refuse(error)
        self._leave()

    def tell(self, reason: str, because: str) -> None:
        """The target has ended: go on, and answer that."""
        self.result = [reason, because]
        if self.is_watching:
            self._leave()
            self._monitors.resume(self)

    @property
    def is_watching(self) -> bool:
        """Whether it waits: False while `add` finds at once that there is nothing to wait for."""
        return id(self) in self._monitors.watchers

    def _answer_last(self) -> None:
        self.result = [ENDED, "its backplane has stopped"]
        self._leave()
        self._monitors.answer(self)

    def _leave(self) -> None:
        self._monitors.watchers.pop(id(self), None)
        if self._watch is not None:
            self._monitors.drop(self._watch)
