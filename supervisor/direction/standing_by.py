"""Standing by: limits the states of components while their node is secondary in its cluster. Part of the director; pure.

On a secondary node no component goes above `secondary`, and primary-only backplanes stay at `start`: constructed only, so
that they need just their hooks' time to be up. On the primary node all is as without a cluster. On the way back a primary-only
backplane is drained and its process replaced, so no state of a primary is left in it; if there is no time for that, it is
killed. A secondary node does not list routes that only the primary serves, so their callers use the primary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import ComponentEntry, Registration

from . import draining
from .child.child import Child
from .child.process import Phase
from .effects import Effect, Say
from .events import Withdrawn
from .lifecycle import HEIGHT

_SECONDARY = ModuleState.SECONDARY


def highest(child: Child, wanted: ModuleState, ceiling: ModuleState) -> ModuleState:
    """The state allowed to a component with target `wanted`, on a node whose highest state is `ceiling`."""
    if child.settings.is_carrier or (
        HEIGHT[wanted] <= HEIGHT[ceiling] and not (child.settings.is_primary_only and ceiling is _SECONDARY)
    ):
        return wanted
    return ModuleState.DOWN if child.settings.is_primary_only else ceiling


def step_down(children: Mapping[str, Child], event: Withdrawn, now_ns: int) -> list[Effect]:
    """Mark all backplanes with primary state as stepping down, and drain the primary-only ones."""
    concerned = [child for child in children.values() if _is_primary(child)]
    going = frozenset(child.name for child in concerned if child.settings.is_primary_only and child.process.is_movable)
    for child in concerned:
        child.departure.step_down(event.gone_by_ns)
        if child.name in going:
            child.departure.order()
            child.departure.begin(going)
            draining.order(child)
            draining.limit_hooks(child, now_ns)
    names = ", ".join(sorted(child.name for child in concerned)) or "nobody"
    return [Say(f"this node is to be secondary: {event.because}; stepping down: {names}")]


def is_clear(children: Mapping[str, Child]) -> bool:
    """Whether no backplane of this node is primary, or may still do work of a primary."""
    return not any(_is_primary(child) for child in children.values())


def overdue(children: Mapping[str, Child], now_ns: int) -> Iterable[Child]:
    """The backplanes to kill, because another node may be primary soon. Unmarks those that have stepped down."""
    for child in children.values():
        gone_by_ns = child.departure.gone_by_ns
        if child.departure.is_stepping_down and not _is_primary(child):
            child.departure.end_step_down()
        elif gone_by_ns is not None and gone_by_ns <= now_ns and child.process.phase is not Phase.KILLED:
            yield child


def wakes_at_ns(children: Mapping[str, Child]) -> int | None:
    """When the next backplane is overdue; None: none is stepping down within a limit."""
    killed = Phase.KILLED
    waits = (child.departure.gone_by_ns for child in children.values() if child.process.phase is not killed)
    return min((at_ns for at_ns in waits if at_ns is not None), default=None)


def offered(
    registrations: Iterable[Registration], children: Mapping[str, Child], ceiling: ModuleState
) -> list[Registration]:
    """The registrations for the routing table: all of them, or on a secondary node only routes that it serves."""
    if ceiling is not _SECONDARY:
        return list(registrations)
    return [_of_secondary(registration, children[registration.backplane]) for registration in registrations]


def _of_secondary(registration: Registration, child: Child) -> Registration:
    if child.settings.is_primary_only and child.departure.is_stepping_down:
        return registration  # it finishes its work, and new callers get an error that says so
    components: tuple[ComponentEntry, ...] = ()
    if not child.settings.is_primary_only:
        components = tuple(
            msgspec.structs.replace(
                component, operations=tuple(each for each in component.operations if _SECONDARY.value in each.states)
            )
            for component in registration.components
        )
    return msgspec.structs.replace(registration, components=components)


def _is_primary(child: Child) -> bool:
    """Whether its process lives and has a component that is, or is moving, above `secondary`. A primary-only backplane counts
    from its first move until its process is dead, because its work may outlive the order to stop.
    """
    if child.settings.is_carrier or not child.process.is_living:
        return False
    if child.settings.is_primary_only:
        has_begun = child.components.has_begun or bool(child.components.failures)
        return child.process.phase is not Phase.STARTING and has_begun
    states = (*child.components.states.values(), *child.components.moving.values())
    return any(HEIGHT[state] > HEIGHT[_SECONDARY] for state in states)
