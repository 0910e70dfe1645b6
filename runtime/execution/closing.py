"""Closing: a backplane takes nothing in any more, and says so: it is about to end, or a component does not serve now.

What has not begun is refused in words that say so, with a hint when to try again, since it can safely be asked again,
here or elsewhere. What had begun when the process ends is told PEER_DOWN, because nobody knows how far it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appbackplane.transport.addressing import BACKPLANE
from appbackplane.transport.envelope import Envelope, status
from appbackplane.transport.errors import PeerDown, Unavailable
from appbackplane.transport.resolver import RETRY_AFTER_S

from ..objects.action import LOCAL, Action
from ..objects.module_state import ModuleState
from ..objects.registry import Route

if TYPE_CHECKING:
    from .engine import Engine

#: From here a component goes up by itself: waiting helps.
_ON_ITS_WAY = (ModuleState.START, ModuleState.INITIALIZING)


class Closing:
    """Part of the intake: whoever holds the lead owns it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: As callers are told; None: it is open.
        self._because: str | None = None

    def close(self, because: str) -> None:
        """Take in nothing new, but for calls inside of this backplane, and its own operations."""
        self._because = because
        for route in self._engine.registry.routes.values():
            if not route.name.startswith(f"{BACKPLANE}."):
                route.close()

    @property
    def is_closed(self) -> bool:
        """What is refused from now on is counted by whoever drains."""
        return self._because is not None

    def check_served(self, route: Route, *, is_inside: bool) -> None:
        """Of a route that is not registered. Raises `Unavailable`, unless it is only closed, and work in here asks."""
        state = route.component.state
        if self._because is not None:
            if not is_inside or state.value not in route.states:
                raise self.not_begun(route.name)
            return
        why = f"is not served while {route.component.name} is {state.value} (served in: {', '.join(route.states)})"
        raise Unavailable(f"{route.name} {why}", retry_after=RETRY_AFTER_S if state in _ON_ITS_WAY else None)

    def not_begun(self, name: str) -> Unavailable:
        """What is told to who called something that will not begin here any more."""
        why = self._because or "is stopping"
        return Unavailable(f"{name}: backplane {self._engine.backplane} {why}; not begun", retry_after=RETRY_AFTER_S)

    def end(self, now_ns: int) -> None:
        """The process ends: whoever still waits for an answer is told."""
        intake = self._engine.intake
        accepted = intake.accepted
        for (peer, id), action in accepted.items():
            if peer != LOCAL:
                self._engine.say(peer, self._last_word(action, id), now_ns)
        accepted.clear()

    def _last_word(self, action: Action, id: int) -> Envelope:
        """What is told to who waits for it."""
        if action.has_begun or any(worker.action is action for worker in self._engine.watch.team):
            return status(id, PeerDown(f"{action.name}: backplane {self._engine.backplane} stopped before it ended"))
        return status(id, self.not_begun(action.name), is_refused=True)
