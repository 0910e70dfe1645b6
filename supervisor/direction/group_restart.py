"""Group restart: restarts the backplanes that the strategy of a dead (or restarting) one names with it (restart.py). Pure.

As in OTP, first all of them go down, in order, then all are started, so no hook of a new process meets one of an old.
A backplane whose components have not left `start` is left alone: it cannot hold any state of the dead one. Called by the
director; changes only children.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from appbackplane.transport.directory import Registration

from .child.child import Child
from .child.process import Phase
from .plan import dependants
from .restart import group


def begin(children: Mapping[str, Child], died: Child, at_ns: int, now_ns: int) -> list[Child]:
    """Plan to spawn `died` at `at_ns`, after the returned backplanes have gone down; marks those as leaving."""
    others = others_of(children, died)
    leaving = [other for other in others if other.has_begun()]
    names = frozenset(other.name for other in leaving)
    died.process.enter(Phase.WAITING, now_ns, at_ns)
    died.departure.spawn_after(names)
    for other in others:
        if other.name in names:
            other.departure.begin(names)
        elif other.process.phase is Phase.ENDED and other.settings.policy.type == "transient":
            # OTP restarts ended ones, too.
            other.departure.spawn_after(names)
            other.process.enter(Phase.WAITING, now_ns, now_ns)
    return leaving


def begin_ordered(children: Mapping[str, Child], child: Child, now_ns: int, *, is_alone: bool = False) -> list[Child]:
    """Mark a living `child`, and the returned backplanes that its strategy names, as leaving in order to restart."""
    others = [] if is_alone else [other for other in others_of(children, child) if other.has_begun()]
    names = frozenset((child.name, *(other.name for other in others)))
    for one in (child, *others):
        one.departure.begin(names)
    return others


def has_gone(child: Child, now_ns: int) -> None:
    """Set the next phase of a backplane that went down in order: it is spawned again, unless it is removed or temporary."""
    if child.departure.is_removed:
        child.process.enter(Phase.DOWN, now_ns)
    elif child.settings.policy.type == "temporary" and not child.departure.is_ordered:
        because = "stopped because another backplane died; it is temporary, so it is not restarted"
        child.stay_down(Phase.ENDED, because, now_ns)
    else:
        child.process.enter(Phase.WAITING, now_ns, now_ns)


def others_of(children: Mapping[str, Child], child: Child) -> list[Child]:
    """The other backplanes that the strategy of `child` names, whether or not they have left `start`."""
    above: dict[str, set[str]] = {name: set() for name in children}
    above |= dependants(registrations(children))
    return [children[name] for name in sorted(group(child.settings.policy, child.name, above))]


def is_held(children: Mapping[str, Child], child: Child) -> bool:
    """Whether it waits for the exit of others before it may be spawned."""
    return child.process.phase is Phase.WAITING and any(
        name in children and children[name].departure.is_leaving for name in child.departure.spawns_after
    )


def registrations(children: Mapping[str, Child]) -> list[Registration]:
    """The registrations of all backplanes that have ever registered. One that restarts after a configuration change
    contributes, until it registers again, only routes that no other backplane has taken, and no dependencies: so its routes
    stay known, and the plan finds no error in them.
    """
    known = [
        (child, child.components.registration)
        for child in children.values()
        if child.components.registration is not None
    ]
    found = [registration for child, registration in known if not child.is_past]
    for child, registration in known:
        if child.is_past:
            family = child.settings.replica_of or child.name
            others = [
                other for one, other in known if not one.is_past and (one.settings.replica_of or one.name) != family
            ]
            taken = {component.name for other in others for component in other.components}
            taken |= {o.route for other in others for component in other.components for o in component.operations}
            found.append(_what_remains(registration, taken))
    return found


def _what_remains(registration: Registration, taken: set[str]) -> Registration:
    components = tuple(
        msgspec.structs.replace(
            component,
            depends_on=(),
            operations=tuple(
                msgspec.structs.replace(operation, calls=())
                for operation in component.operations
                if operation.route not in taken
            ),
        )
        for component in registration.components
        if component.name not in taken
    )
    return msgspec.structs.replace(registration, components=components)
