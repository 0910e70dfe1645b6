"""Lifecycle: which components may move to which state now.

Up: a component moves when all it depends on have reached that state. Down: when all that depend on it are down; one
that never left `start` has nothing to let go of. The steps are those of the module table (runtime/objects/module_state.py),
and nothing else decides the order: no list is kept, so a process that comes back late, or twice, is fitted in by the
same rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from appbackplane.runtime.objects.module_state import MOVES, ModuleState

#: How far up a state is. A component that is down, or whose process is dead, has reached nothing.
_HEIGHT = {
    ModuleState.DOWN: 0,
    ModuleState.START: 0,
    ModuleState.INITIALIZING: 1,
    ModuleState.SECONDARY: 2,
    ModuleState.PRIMARY: 2,
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one component is."""

    state: ModuleState
    depends_on: tuple[str, ...] = ()
    #: Its process is there, has registered, and is not being killed: it can be moved.
    is_reachable: bool = True
    #: The state it is on its way to, its hook running.
    moving_to: ModuleState | None = None

    @property
    def is_idle(self) -> bool:
        return self.is_reachable and self.moving_to is None


def moves_up(standings: Mapping[str, Standing], role: ModuleState) -> list[tuple[str, ModuleState]]:
    """The moves towards `role` that may begin now."""
    return [
        (name, to)
        for name, standing in standings.items()
        if standing.is_idle
        and (to := next_step(standing.state, role)) is not None
        and not waits_for(name, standings, to)
    ]


def moves_down(standings: Mapping[str, Standing]) -> list[str]:
    """The components that may move to down now."""
    held = {name for standing in standings.values() if not is_down(standing) for name in standing.depends_on}
    return [
        name for name, standing in standings.items() if standing.is_idle and not is_down(standing) and name not in held
    ]


def is_down(standing: Standing) -> bool:
    """Whether it holds nothing any more: at the bottom and staying there, or its process is dead."""
    return not standing.is_reachable or (_HEIGHT[standing.state] == 0 and standing.moving_to is None)


def next_step(state: ModuleState, role: ModuleState) -> ModuleState | None:
    """The next state on the way to `role`; None: it is there."""
    if state is role:
        return None
    return role if role in MOVES[state] else ModuleState.INITIALIZING


def waits_for(name: str, standings: Mapping[str, Standing], to: ModuleState) -> list[str]:
    """Those among its dependencies that have not reached `to`: what `status` shows when something does not come up."""
    return [
        dependency
        for dependency in standings[name].depends_on
        if dependency not in standings
        or not standings[dependency].is_reachable
        or _HEIGHT[standings[dependency].state] < _HEIGHT[to]
    ]
