"""Standing by: what it means to components that their node is primary or secondary in its cluster. Part of the director: pure.

Secondary, nothing goes above `secondary`, and backplanes that only the primary needs stay at `start`: constructed, and no
more, so that they are up within their hooks' time. Primary, all is as without a cluster. On the way back such a backplane is
drained and its process replaced: nothing that was primary is left in it. Where there is no time for that, it is killed. A
secondary offers nobody what only the primary serves, so that calls go there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import ComponentEntry, Registration

from . import draining
from .child import Child, Phase
from .effects import Effect, Say
from .events import Granted, Withdrawn
from .lifecycle import HEIGHT

if TYPE_CHECKING:
    from .movement import Movement

_SECONDARY = ModuleState.SECONDARY


def highest(child: Child, wanted: ModuleState, ceiling: ModuleState) -> ModuleState:
    """Where a component that is wanted somewhere may be, on a node that is to go no higher than `ceiling`."""
    if child.is_carrier or (
        HEIGHT[wanted] <= HEIGHT[ceiling] and not (child.is_primary_only and ceiling is _SECONDARY)
    ):
        return wanted
    return ModuleState.DOWN if child.is_primary_only else ceiling


def prepare(
    children: Mapping[str, Child], movement: Movement, primary_only: Collection[str] | None, carrier: str
) -> None:
    """A node of a cluster begins as secondary; None: it is in none."""
    if primary_only is not None:
        movement.ceiling = _SECONDARY
        for name in primary_only:
            children[name].is_primary_only = True
        if carrier:
            children[carrier].is_carrier = True


def take(children: Mapping[str, Child], movement: Movement, event: Granted | Withdrawn, now_ns: int) -> list[Effect]:
    """This node is primary from now on, or is not to be any more. Whoever calls sends a directory after these effects."""
    if isinstance(event, Granted):
        movement.ceiling, movement.epoch = ModuleState.PRIMARY, event.epoch
        return [Say(f"this node is primary, epoch {event.epoch}")]
    movement.ceiling, movement.epoch = _SECONDARY, 0
    return _step_down(children, event, now_ns)


def _step_down(children: Mapping[str, Child], event: Withdrawn, now_ns: int) -> list[Effect]:
    """Who goes, and by when."""
    concerned = [child for child in children.values() if _is_primary(child)]
    going = frozenset(child.name for child in concerned if child.is_primary_only and child.is_movable)
    for child in concerned:
        child.is_stepping_down, child.gone_by_ns = True, event.gone_by_ns
        if child.name in going:
            child.is_leaving, child.is_ordered, child.spawns_after = True, True, going
            draining.order(child)
            draining.limit_hooks(child, now_ns)
    names = ", ".join(sorted(child.name for child in concerned)) or "nobody"
    return [Say(f"this node is to be secondary: {event.because}; stepping down: {names}")]


def is_clear(children: Mapping[str, Child]) -> bool:
    """Nothing here is primary, or was and is not dead yet."""
    return not any(_is_primary(child) for child in children.values())


def overdue(children: Mapping[str, Child], now_ns: int) -> Iterable[Child]:
    """Those that are to be killed: others may be primary soon."""
    for child in children.values():
        if child.is_stepping_down and not _is_primary(child):
            child.is_stepping_down, child.gone_by_ns = False, None
        elif child.gone_by_ns is not None and child.gone_by_ns <= now_ns and child.phase is not Phase.KILLED:
            yield child


def wakes_at_ns(children: Mapping[str, Child]) -> int | None:
    """When the next one is."""
    killed = Phase.KILLED
    waits = (child.gone_by_ns for child in children.values() if child.phase is not killed)
    return min((at_ns for at_ns in waits if at_ns is not None), default=None)


def offered(
    registrations: Iterable[Registration], children: Mapping[str, Child], ceiling: ModuleState
) -> list[Registration]:
    """What the directory is to tell of: all of it, or what a secondary node serves."""
    if ceiling is not _SECONDARY:
        return list(registrations)
    return [_of_secondary(registration, children[registration.backplane]) for registration in registrations]


def _of_secondary(registration: Registration, child: Child) -> Registration:
    if child.is_primary_only and child.is_stepping_down:
        return registration  # it finishes what it has, and whoever asks is told so
    components: tuple[ComponentEntry, ...] = ()
    if not child.is_primary_only:
        components = tuple(
            msgspec.structs.replace(
                component, operations=tuple(each for each in component.operations if _SECONDARY.value in each.states)
            )
            for component in registration.components
        )
    return msgspec.structs.replace(registration, components=components)


def _is_primary(child: Child) -> bool:
    """Its process lives, and something in it is, or is about to be, above what a secondary node has. Of what only the primary
    needs, also what was: who has been told to go down may still be at work that did not end in time, until it is dead.
    """
    if child.is_carrier or not child.is_living:
        return False
    if child.is_primary_only:
        has_failed_or_moves = bool(child.moving) or bool(child.failures)
        return child.phase is not Phase.STARTING and (
            has_failed_or_moves or any(state is not ModuleState.START for state in child.states.values())
        )
    return (
        max((HEIGHT[state] for state in (*child.states.values(), *child.moving.values())), default=0)
        > HEIGHT[_SECONDARY]
    )
