"""The module state machine: the states of a component from start through service to down.

One table, as on paper (seed 002, "How Modules are Supported"); moves outside it are refused. The supervisor orders the
moves of several components; a component knows only its own.
"""

from __future__ import annotations

from enum import StrEnum

from appbackplane.transport.errors import FailedPrecondition


class ModuleState(StrEnum):
    """The states of the system state machine; users write and see their values."""

    START = "start"
    INITIALIZING = "initializing"
    PRIMARY = "primary"
    SECONDARY = "secondary"
    DOWN = "down"


#: The states that may follow each state.
MOVES: dict[ModuleState, frozenset[ModuleState]] = {
    ModuleState.START: frozenset({ModuleState.INITIALIZING, ModuleState.DOWN}),
    ModuleState.INITIALIZING: frozenset({ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.DOWN}),
    ModuleState.PRIMARY: frozenset({ModuleState.SECONDARY, ModuleState.DOWN}),
    ModuleState.SECONDARY: frozenset({ModuleState.PRIMARY, ModuleState.DOWN}),
    ModuleState.DOWN: frozenset({ModuleState.INITIALIZING}),
}


def check_move(component: str, now: ModuleState, to: ModuleState) -> None:
    """Raise `FailedPrecondition`, which lists the allowed states, for a move that is not in the table."""
    if to not in MOVES[now]:
        allowed = ", ".join(sorted(state.value for state in MOVES[now]))
        raise FailedPrecondition(f"{component} cannot move from {now.value} to {to.value} (from there: {allowed})")
