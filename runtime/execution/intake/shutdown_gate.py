"""Shutdown gate: refuses calls because this backplane is about to end, or because a component does not serve now.

The error of a call that has not begun states so and carries a retry hint, since it can safely be retried, here or elsewhere.
A call that had begun when the process ends gets PEER_DOWN, because its progress is unknown.
"""

from __future__ import annotations

from appbackplane.transport.addressing import BACKPLANE
from appbackplane.transport.envelope import Envelope, status
from appbackplane.transport.errors import PeerDown, Unavailable
from appbackplane.transport.resolver import RETRY_AFTER_S

from ...objects.action import LOCAL, AcceptedCalls, Action
from ...objects.module_state import ModuleState
from ...objects.registry import Registry, Route
from ..outgoing.sender import Sender
from ..workers.poll_leader import PollLeader

#: In these states a component is going up by itself, so a retry helps.
_ON_ITS_WAY = (ModuleState.START, ModuleState.INITIALIZING)


class ShutdownGate:
    """Whether the intake is closed, and the errors of refused calls. Used under the lead."""

    def __init__(
        self, backplane: str, *, registry: Registry, accepted: AcceptedCalls, sender: Sender, poll_leader: PollLeader
    ) -> None:
        self._backplane = backplane
        self._registry = registry
        self._accepted = accepted
        self._sender = sender
        self._poll_leader = poll_leader
        #: The reason in the error message; None: the intake is open.
        self._because: str | None = None

    def close(self, because: str) -> None:
        """Refuse new calls, except calls inside this backplane and its own operations."""
        self._because = because
        for route in self._registry.routes.values():
            if not route.name.startswith(f"{BACKPLANE}."):
                route.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called; from then on `Draining` counts the refused calls."""
        return self._because is not None

    def check_served(self, route: Route, *, is_inside: bool) -> None:
        """Raise `Unavailable` for an unregistered route, unless it is only closed and the caller is inside this backplane."""
        state = route.component.state
        if self._because is not None:
            if not is_inside or state.value not in route.states:
                raise self.not_begun(route.name)
            return
        why = f"is not served while {route.component.name} is {state.value} (served in: {', '.join(route.states)})"
        raise Unavailable(f"{route.name} {why}", retry_after=RETRY_AFTER_S if state in _ON_ITS_WAY else None)

    def not_begun(self, name: str) -> Unavailable:
        """Error for a call that this backplane never started because it is shutting down."""
        why = self._because or "is stopping"
        return Unavailable(f"{name}: backplane {self._backplane} {why}; not begun", retry_after=RETRY_AFTER_S)

    def end(self, now_ns: int) -> None:
        """The process ends: send an error to every remote caller that still waits for a reply."""
        for (peer, id), action in self._accepted.items():
            if peer != LOCAL:
                self._sender.say(peer, self._last_word(action, id), now_ns)
        self._accepted.clear()

    def _last_word(self, action: Action, id: int) -> Envelope:
        """PEER_DOWN if the action has begun; else a refusal, which the caller may safely retry."""
        if action.has_begun or any(worker.action is action for worker in self._poll_leader.team):
            return status(id, PeerDown(f"{action.name}: backplane {self._backplane} stopped before it ended"))
        return status(id, self.not_begun(action.name), is_refused=True)
