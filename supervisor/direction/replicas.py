"""Replicas in the graph: a component that runs in several backplanes is a node in each. Resolves dependencies to nodes. Pure.

A node is named COMPONENT, or BACKPLANE/COMPONENT in a replica, like its object. A dependency found in the same backplane is
used alone, because calls stay local, too; otherwise each of its replicas is a dependency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .child.child import Child
from .lifecycle import Standing


def linked(standings: Mapping[str, Standing]) -> dict[str, Standing]:
    """The standings with node names instead of component names in `depends_on`; unknown names stay unchanged."""
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
    """The common name of each replica, by backplane; others are left out."""
    return {
        child.name: child.settings.replica_of for child in children.values() if child.settings.replica_of is not None
    }


def unready(children: Mapping[str, Child]) -> frozenset[str]:
    """The registered replicas that callers should avoid while another one serves: they are starting, stopping or down."""
    return frozenset(
        child.name
        for child in children.values()
        if child.settings.replica_of is not None
        and child.components.registration is not None
        and not child.is_in_service
    )
