"""Jumps: take the components of a virtual backplane to a state by all the steps that lead there, in a legal order.

What the supervisor does with a whole system, for a test that is about what comes after: dependencies first on the way up,
what depends on them first on the way down, each hook run. A hook that fails, or does not end, fails the jump.
"""

from __future__ import annotations

from ..objects.module_state import MOVES, ModuleState
from .virtual_backplane import VirtualBackplane

_BOTTOM = (ModuleState.START, ModuleState.DOWN)
#: To a state those from which the way there leads down.
_ABOVE = {
    ModuleState.PRIMARY: (),
    ModuleState.SECONDARY: (ModuleState.PRIMARY,),
    ModuleState.DOWN: (ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.INITIALIZING),
}


def jump_to_primary(backplane: VirtualBackplane, *components: str) -> list[str]:
    """All components, or these, to primary, from wherever they are. What ran, in order. Raises what a hook raised."""
    return _jump(backplane, components, ModuleState.PRIMARY)


def jump_to_secondary(backplane: VirtualBackplane, *components: str) -> list[str]:
    """All components, or these, to secondary, from wherever they are."""
    return _jump(backplane, components, ModuleState.SECONDARY)


def jump_to_exit(backplane: VirtualBackplane, *components: str) -> list[str]:
    """All components, or these, to down, as they are when their process ends."""
    return _jump(backplane, components, ModuleState.DOWN)


def _jump(backplane: VirtualBackplane, components: tuple[str, ...], to: ModuleState) -> list[str]:
    order = _order(backplane)
    for name in components:
        if name not in order:
            raise LookupError(f"no component {name!r} here: {', '.join(order)}")
    modules = backplane.backplane.engine.registry.components
    order = [name for name in order if not components or name in components]
    ran: list[str] = []
    for name in reversed(order):
        if modules[name].state in _ABOVE[to]:
            ran += _step(backplane, name, to)
    if to is ModuleState.DOWN:
        return ran
    for name in order:
        if modules[name].state in _BOTTOM:
            ran += _step(backplane, name, ModuleState.INITIALIZING)
    for name in order:
        if modules[name].state is not to:
            ran += _step(backplane, name, to)
    return ran


def _order(backplane: VirtualBackplane) -> list[str]:
    """Its components, each after those here that it depends on; as they were given, where that does not matter."""
    needs = {entry.name: set(entry.depends_on) for entry in backplane.backplane.entries()}
    order: list[str] = []
    while len(order) < len(needs):
        ready = [name for name in needs if name not in order and needs[name] & set(needs) <= set(order)]
        if not ready:
            ring = ", ".join(name for name in needs if name not in order)
            raise ValueError(f"these depend on each other in a ring: {ring}")
        order.append(ready[0])
    return order


def _step(backplane: VirtualBackplane, component: str, to: ModuleState) -> list[str]:
    ended: list[BaseException | None] = []
    assert to in MOVES[backplane.backplane.engine.registry.components[component].state]
    backplane.backplane.engine.modules.move(component, to, ended.append)
    ran = backplane.run_until_idle()
    if not ended:
        raise AssertionError(
            f"{component}.on_{to.value} has not ended: it awaits somebody outside, or time has to pass; "
            f"move it by hand: backplane.move({to.value!r}, {component!r})"
        )
    if ended[0] is not None:
        raise ended[0]
    return ran
