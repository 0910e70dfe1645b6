"""Replicas in the graph: a component that several backplanes have is a node in each, and who depends on it on which. Pure.

A node is called as its component, and in a replica BACKPLANE/COMPONENT, as its object is. Who has what it depends on in its
own backplane depends on that one alone, since its calls stay there, too; all others on each of the replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .child import Child
from .lifecycle import Standing


def linked(standings: Mapping[str, Standing]) -> dict[str, Standing]:
    """The same, with nodes instead of components in `depends_on`; what nobody has stays as it is called."""
    places: dict[str, dict[str, str]] = {}
    for name, standing in standings.items():
        places.setdefault(standing.component, {})[standing.backplane] = name
    if len(places) == len(standings):  # no replicas: each is its own node
        return dict(standings)
    return {name: replace(standing, depends_on=_nodes(standing, places)) for name, standing in standings.items()}


def _nodes(standing: Standing, places: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    found: list[str] = []
    for component in standing.depends_on:
        homes = places.get(component, {"": component})
        found += [homes[standing.backplane]] if standing.backplane in homes else homes.values()
    return tuple(found)


def in_common(children: Mapping[str, Child]) -> dict[str, str]:
    """To each replica the name that it has in common with the others."""
    return {child.name: child.replica_of for child in children.values() if child.replica_of is not None}


def unready(children: Mapping[str, Child]) -> frozenset[str]:
    """Replicas that are not to be called where another can be: on their way up, or down, or not there."""
    return frozenset(
        child.name
        for child in children.values()
        if child.replica_of is not None and child.registration is not None and not child.is_in_service
    )
