"""The module state machine: where a component is on its way up, in service, and down.

One table, as on paper (seed 002, "How Modules are Supported"): what is not in it is refused. The order among components
is the supervisor's business; a component only knows its own steps.
"""

from __future__ import annotations

from enum import StrEnum

from appbackplane.transport.errors import FailedPrecondition


class ModuleState(StrEnum):
    """The words of the system state machine; their values are what users write and see."""

    START = "start"
    INITIALIZING = "initializing"
    PRIMARY = "primary"
    SECONDARY = "secondary"
    DOWN = "down"


#: From a state to those that may follow it.
MOVES: dict[ModuleState, frozenset[ModuleState]] = {
    ModuleState.START: frozenset({ModuleState.INITIALIZING, ModuleState.DOWN}),
    ModuleState.INITIALIZING: frozenset({ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.DOWN}),
    ModuleState.PRIMARY: frozenset({ModuleState.SECONDARY, ModuleState.DOWN}),
    ModuleState.SECONDARY: frozenset({ModuleState.PRIMARY, ModuleState.DOWN}),
    ModuleState.DOWN: frozenset({ModuleState.INITIALIZING}),
}


def check_move(component: str, now: ModuleState, to: ModuleState) -> None:
    """Raises `FailedPrecondition` for a move that is not in the table."""
    if to not in MOVES[now]:
        allowed = ", ".join(sorted(state.value for state in MOVES[now]))
        raise FailedPrecondition(f"{component} cannot move from {now.value} to {to.value} (from there: {allowed})")
