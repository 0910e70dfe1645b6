"""Plan: checks whether the components can be started together at all, and in which order.

It works on the backplanes' `Registration`s, so `check` and `up` judge alike. Errors are spelled out: a cycle link by link, a
missing component with its dependent. Deadlocks of calls (one that returns to its origin, DESIGN 12.6, and crossing chains)
are found in the routes that operations declare to call. Replicas share their components and routes; no other backplanes may
share a name.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping

import msgspec

from appbackplane.transport.addressing import BACKPLANE, CONTROL, OF_NODE, SUPERVISOR
from appbackplane.transport.directory import ComponentEntry, OperationEntry, Registration

from .graph import rings


class PlanFinding(msgspec.Struct, frozen=True):
    """One line about the plan. An error keeps the system from starting, a warning does not."""

    text: str
    is_error: bool = True


def find(
    registrations: Iterable[Registration], replica_of: Mapping[str, str] | None = None, *, has_node: bool = False
) -> list[PlanFinding]:
    """All errors and warnings about these backplanes together. `replica_of`: the common name of each replica.
    `has_node`: other nodes may serve routes that none of these serves.
    """
    registrations = [_in_common(r, (replica_of or {}).get(r.backplane)) for r in registrations]
    components = {c.name: c for r in registrations for c in r.components}
    findings = [
        *_names(registrations),
        *_missing(registrations, components),
        *_dependency_cycles(components),
        *_call_findings(components.values(), has_node=has_node),
    ]
    return list(dict.fromkeys(findings))  # a finding about all replicas is listed once


def order(registrations: Iterable[Registration]) -> list[str]:
    """The components, each after all its dependencies. Only for a plan without errors."""
    components = {c.name: c for r in registrations for c in r.components}
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name not in ordered:
            for dependency in components[name].depends_on:
                visit(dependency)
            ordered.append(name)

    for name in components:
        visit(name)
    return ordered


def dependants(registrations: Iterable[Registration]) -> dict[str, set[str]]:
    """For each backplane, the other backplanes with a component that depends on one of its components."""
    registrations = list(registrations)
    homes: dict[str, list[str]] = {}
    for registration in registrations:
        for component in registration.components:
            homes.setdefault(component.name, []).append(registration.backplane)
    found: dict[str, set[str]] = {r.backplane: set() for r in registrations}
    for registration in registrations:
        for component in registration.components:
            for needed in component.depends_on:
                places = homes.get(needed, ())
                if registration.backplane not in places:  # a component in the same backplane is used alone
                    for place in places:
                        found[place].add(registration.backplane)
    return found


def _in_common(registration: Registration, name: str | None) -> Registration:
    return registration if name is None else msgspec.structs.replace(registration, backplane=name)


def _names(registrations: list[Registration]) -> Iterable[PlanFinding]:
    home: dict[str, str] = {}
    serves: dict[str, str] = {}
    for registration in registrations:
        own: set[str] = set()
        for component in registration.components:
            place = f"backplane {registration.backplane!r}"
            if component.name in (SUPERVISOR, BACKPLANE, CONTROL):
                yield PlanFinding(
                    f"{place}: a component may not be named {component.name!r}: the word is reserved for routes"
                )
            if home.get(component.name, place) != place or component.name in own:
                both = f"{home[component.name]} and {place}"
                yield PlanFinding(
                    f"two components are named {component.name!r}, in {both}: set component_name on one of them"
                )
                continue
            home[component.name] = place
            own.add(component.name)
            for operation in component.operations:
                owner = f"component {component.name!r} in {place}"
                if serves.get(operation.route, owner) != owner:
                    yield PlanFinding(
                        f"route {operation.route!r} is served twice: by {serves[operation.route]} and by {owner}"
                    )
                serves[operation.route] = owner


def _missing(registrations: list[Registration], components: Mapping[str, ComponentEntry]) -> Iterable[PlanFinding]:
    for registration in registrations:
        for component in registration.components:
            for name in component.depends_on:
                if name not in components:
                    where = f"component {component.name!r} (backplane {registration.backplane!r})"
                    yield PlanFinding(f"{where} depends on {name!r}, which no backplane has{hint(name, components)}")


def _dependency_cycles(components: Mapping[str, ComponentEntry]) -> Iterable[PlanFinding]:
    graph = {name: tuple(d for d in c.depends_on if d in components) for name, c in components.items()}
    for ring in rings(graph):
        yield PlanFinding(f"components depend on each other in a cycle: {' -> '.join(ring)}")


def _call_findings(components: Iterable[ComponentEntry], *, has_node: bool) -> Iterable[PlanFinding]:
    operations = {operation.route: operation for component in components for operation in component.operations}
    for operation in operations.values():
        for route in operation.calls:
            if route not in operations and not has_node and route.partition(".")[0] not in (SUPERVISOR, BACKPLANE):
                why = "and there is no [node] in the TOML" if OF_NODE in route else "which nobody serves"
                text = f"{operation.route} declares to call {route!r}, {why}{hint(route, operations)}"
                yield PlanFinding(text, is_error=False)
    graph = {route: tuple(r for r in o.calls if r in operations) for route, o in operations.items()}
    told: list[set[str]] = []
    for ring in rings(graph):
        told.append({_component_of(route) for route in ring})
        yield from _judge(ring, operations)
    yield from _crossings(operations, told)


def _crossings(operations: Mapping[str, OperationEntry], told: list[set[str]]) -> Iterable[PlanFinding]:
    """Call chains that may wait for each other for ever, although none of them returns to its origin.

    An object that awaits a reply serves nothing else meanwhile. If operations of two objects call each other at the same
    time, both wait for ever. `told`: the sets of components in rings found before; they are not reported again.
    """
    ways: dict[str, dict[str, tuple[str, str]]] = {}
    for operation in operations.values():
        for route in operation.calls:
            here, there = _component_of(operation.route), _component_of(route)
            if route in operations and here != there:
                known = ways.setdefault(here, {}).setdefault(there, (operation.route, route))
                if operations[known[1]].reentrant:
                    ways[here][there] = operation.route, route
    for ring in rings({name: ways.get(name, {}) for name in dict.fromkeys(map(_component_of, operations))}):
        steps = [ways[here][there] for here, there in itertools.pairwise(ring)]
        strict = list(dict.fromkeys(called for _, called in steps if not operations[called].reentrant))
        if strict and set(ring) not in told:
            calls = ", ".join(f"{caller} calls {called}" for caller, called in steps)
            text = (
                f"chains of calls may wait for each other: {calls}. If they meet, one call is refused "
                f"(mark {', '.join(strict)} reentrant=True, or call without waiting)"
            )
            yield PlanFinding(text, is_error=False)


def _component_of(route: str) -> str:
    return route.partition(".")[0]


def _judge(ring: list[str], operations: Mapping[str, OperationEntry]) -> Iterable[PlanFinding]:
    spelled, strict = " -> ".join(ring), [route for route in ring[1:] if not operations[route].reentrant]
    if len(strict) == len(ring) - 1:
        yield PlanFinding(f"calls form a cycle and would deadlock: {spelled} (break it, or mark one reentrant=True)")
    elif strict:
        text = f"calls form a cycle: {spelled}; a call that returns to {', '.join(strict)} is refused (not reentrant)"
        yield PlanFinding(text, is_error=False)


def hint(name: str, known: Iterable[str]) -> str:
    """What stands behind an unknown name in a message; "": none is like it."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
