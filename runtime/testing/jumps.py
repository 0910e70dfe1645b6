"""Jumps: move the components of a virtual backplane to a state through all the steps in between, in a legal order.

In production the supervisor does this; here it brings a test to its starting point. Dependencies go up first and down last,
and each hook runs. A hook that fails, or does not end, fails the jump.
"""

from __future__ import annotations

from ..objects.module_state import MOVES, ModuleState
from .virtual_backplane import VirtualBackplane

_BOTTOM = (ModuleState.START, ModuleState.DOWN)
#: For each target state, the states from which the component has to go down to it.
_ABOVE = {
    ModuleState.PRIMARY: (),
    ModuleState.SECONDARY: (ModuleState.PRIMARY,),
    ModuleState.DOWN: (ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.INITIALIZING),
}


def jump_to_primary(backplane: VirtualBackplane, *components: str) -> list[str]:
    """Move all components, or these, to primary. Returns the actions that ran, in order. Raises the error of a failed hook."""
    return _jump(backplane, components, ModuleState.PRIMARY)


def jump_to_secondary(backplane: VirtualBackplane, *components: str) -> list[str]:
    """Move all components, or these, to secondary; see `jump_to_primary`."""
    return _jump(backplane, components, ModuleState.SECONDARY)


def jump_to_exit(backplane: VirtualBackplane, *components: str) -> list[str]:
    """Move all components, or these, to down, as when their process ends; see `jump_to_primary`."""
    return _jump(backplane, components, ModuleState.DOWN)


def _jump(backplane: VirtualBackplane, components: tuple[str, ...], to: ModuleState) -> list[str]:
    order = _order(backplane)
    for name in components:
        if name not in order:
            raise LookupError(f"no component {name!r} here: {', '.join(order)}")
    states = backplane.backplane.states
    order = [name for name in order if not components or name in components]
    ran: list[str] = []
    for name in reversed(order):
        if states()[name] in _ABOVE[to]:
            ran += _step(backplane, name, to)
    if to is ModuleState.DOWN:
        return ran
    for name in order:
        if states()[name] in _BOTTOM:
            ran += _step(backplane, name, ModuleState.INITIALIZING)
    for name in order:
        if states()[name] is not to:
            ran += _step(backplane, name, to)
    return ran


def _order(backplane: VirtualBackplane) -> list[str]:
    """The names of its components, each after its dependencies in this backplane; otherwise in the order they were given."""
    needs = {entry.name: set(entry.depends_on) for entry in backplane.backplane.entries()}
    order: list[str] = []
    while len(order) < len(needs):
        ready = [name for name in needs if name not in order and needs[name] & set(needs) <= set(order)]
        if not ready:
            ring = ", ".join(name for name in needs if name not in order)
            raise ValueError(f"these depend on each other in a cycle: {ring}")
        order.append(ready[0])
    return order


def _step(backplane: VirtualBackplane, component: str, to: ModuleState) -> list[str]:
    ended: list[BaseException | None] = []
    assert to in MOVES[backplane.backplane.states()[component]]
    backplane.backplane.engine.lifecycle.move(component, to, ended.append)
    ran = backplane.run_until_idle()
    if not ended:
        raise AssertionError(
            f"{component}.on_{to.value} has not ended: it awaits somebody outside, or time has to pass; "
            f"move it by hand: backplane.move({to.value!r}, {component!r})"
        )
    if ended[0] is not None:
        raise ended[0]
    return ran
