"""Group restart: those that start again with one that died, or is to, because its strategy says so (restart.py). Pure.

As OTP has it: first all of them go down, in order, then all are started; so no hook of a new process meets one of an old.
Who has not begun is left alone, since nothing of the dead one can be in it. The director asks; only children are changed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from appbackplane.transport.directory import Registration

from .child import Child, Phase
from .plan import dependants
from .restart import group


def begin(children: Mapping[str, Child], died: Child, at_ns: int, now_ns: int) -> list[Child]:
    """`died` is to be spawned at `at_ns`, once those that are returned have gone down."""
    others = others_of(children, died)
    leaving = [other for other in others if other.has_begun()]
    names = frozenset(other.name for other in leaving)
    died.enter(Phase.WAITING, now_ns, at_ns)
    died.spawns_after = names
    for other in others:
        if other.name in names:
            other.is_leaving, other.spawns_after = True, names
        elif other.phase is Phase.ENDED and other.policy.type == "transient":  # OTP starts all that it knows
            other.spawns_after = names
            other.enter(Phase.WAITING, now_ns, now_ns)
    return leaving


def begin_ordered(children: Mapping[str, Child], child: Child, now_ns: int, *, is_alone: bool = False) -> list[Child]:
    """`child`, which lives, is to start again, and with it those that are returned; each begins to leave."""
    others = [] if is_alone else [other for other in others_of(children, child) if other.has_begun()]
    names = frozenset((child.name, *(other.name for other in others)))
    for one in (child, *others):
        one.is_leaving, one.spawns_after = True, names
    return others


def has_gone(child: Child, now_ns: int) -> None:
    """One that went down in order: it is spawned again, unless nobody wants it back."""
    if child.is_removed:
        child.enter(Phase.DOWN, now_ns)
    elif child.policy.type == "temporary" and not child.is_ordered:
        child.reason = "went down with another that died; it is temporary, and not started again"
        child.enter(Phase.ENDED, now_ns)
    else:
        child.enter(Phase.WAITING, now_ns, now_ns)


def others_of(children: Mapping[str, Child], child: Child) -> list[Child]:
    """Those that the strategy of `child` names, whether they have begun or not."""
    above: dict[str, set[str]] = {name: set() for name in children}
    above |= dependants(registrations(children))
    return [children[name] for name in sorted(group(child.policy, child.name, above))]


def is_held(children: Mapping[str, Child], child: Child) -> bool:
    """Others have to be gone before it may be spawned."""
    return child.phase is Phase.WAITING and any(
        name in children and children[name].is_leaving for name in child.spawns_after
    )


def registrations(children: Mapping[str, Child]) -> list[Registration]:
    """Of all that have ever registered. Of one that has gone because its configuration has changed, until its next
    generation registers, what others do not have meanwhile, and nothing that it needs: its routes are known, and nobody is
    at fault for them.
    """
    known = [(child, child.registration) for child in children.values() if child.registration is not None]
    found = [registration for child, registration in known if not child.is_past]
    for child, registration in known:
        if child.is_past:
            family = child.replica_of or child.name
            others = [other for one, other in known if not one.is_past and (one.replica_of or one.name) != family]
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
