"""Lifecycle: the target state of each component, and which may move now. One graph, whose edges cross backplanes.

No component may be higher than its dependencies: one that is moved to secondary or down takes its dependents along. Up: a
component moves when all its dependencies have reached the state and are to stay there. Down: when all dependents that are to
come down are there. The steps are those of the module table (runtime/objects/module_state.py). No list of the order is kept,
so the same rule fits in a process that returns late, or twice. A component whose process has exited keeps its place: its
dependents go down before its dependencies.
For a component driven by its backplane, edges to other backplanes do not count. A component of replicas is a node in each
(replicas.py): dependents may be as high as the highest of them, and on the way up wait for all that are not `may_be_missing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from appbackplane.runtime.objects.module_state import MOVES, ModuleState

from .graph import reached

#: The order of the states. A component that is down, or whose process is dead, has height 0.
HEIGHT = {
    ModuleState.DOWN: 0,
    ModuleState.START: 0,
    ModuleState.INITIALIZING: 1,
    ModuleState.SECONDARY: 2,
    ModuleState.PRIMARY: 3,
}


@dataclass(frozen=True, slots=True)
class Standing:
    """The position of one component (one node of the graph) in its lifecycle."""

    state: ModuleState
    depends_on: tuple[str, ...] = ()
    backplane: str = ""
    #: The component's name. In a replica the node's name differs from it; all replicas share it.
    component: str = ""
    #: Its process has registered and is not stopping or being killed: it can be moved.
    is_reachable: bool = True
    #: The state whose hook is running.
    moving_to: ModuleState | None = None
    #: The state whose hook has failed, and is not to be tried now.
    refuses: ModuleState | None = None
    #: Its process has exited as intended (restart.type): no other component waits for it.
    has_ended: bool = False
    is_driven_by_backplane: bool = False
    #: Its process is restarting, leaving or given up, or one of its hooks has failed: dependents do not wait for it if
    #: another replica has reached the state.
    may_be_missing: bool = False

    @property
    def is_idle(self) -> bool:
        return self.is_reachable and self.moving_to is None

    @property
    def reached(self) -> int:
        """The height that dependents can rely on: of a running move, the lower end."""
        if self.has_ended:
            return HEIGHT[ModuleState.PRIMARY]
        if not self.is_reachable:
            return 0
        return HEIGHT[self.state] if self.moving_to is None else min(HEIGHT[self.state], HEIGHT[self.moving_to])

    @property
    def holds(self) -> int:
        """The height up to which it may use its dependencies: of a running move, the upper end. 0: it is down or at `start` and
        stays there, or its process cannot be reached.
        """
        if not self.is_reachable:
            return 0
        return HEIGHT[self.state] if self.moving_to is None else max(HEIGHT[self.state], HEIGHT[self.moving_to])


Standings = Mapping[str, Standing]


def targets(
    standings: Standings,
    role: ModuleState,
    wanted: Mapping[str, ModuleState],
    ceilings: Mapping[str, ModuleState],
) -> dict[str, ModuleState]:
    """The target of each component: the system's `role`, unless ordered otherwise (`wanted`), and never above its
    dependencies. `ceilings`: for components that were given up, the highest state allowed to their dependents.
    """
    found = {name: wanted.get(name, role) for name in standings}
    is_settled = False
    while not is_settled:  # one more pass for each link of a chain that is listed in the wrong order; no recursion
        is_settled = True
        for name in standings:
            for places in _needs(name, standings):
                bounds = [
                    min(found[place], ceilings.get(place, found[place]), key=HEIGHT.__getitem__)
                    for place in places
                    if place in standings
                ]
                bound = max(bounds, key=HEIGHT.__getitem__, default=found[name])
                if HEIGHT[bound] < HEIGHT[found[name]]:
                    found[name], is_settled = bound, False
    return found


def moves(standings: Standings, targets: Mapping[str, ModuleState]) -> list[tuple[str, ModuleState]]:
    """The (node, next state) pairs of moves that may begin now."""
    above = dependants(standings)
    return [
        (name, to)
        for name, standing in standings.items()
        if standing.is_idle
        and (to := next_step(standing.state, targets[name])) is not None
        and to is not standing.refuses
        and not waits_for(name, to, standings, targets, above)
    ]


def waits_for(
    name: str,
    to: ModuleState,
    standings: Standings,
    targets: Mapping[str, ModuleState],
    dependants: Mapping[str, Collection[str]],
) -> list[str]:
    """The nodes that have to move before it may move to `to`; `status` shows them for a component that does not move."""
    standing, height = standings[name], HEIGHT[to]
    if height > HEIGHT[standing.state]:
        return [other for places in _needs(name, standings) for other in _missed(places, height, standings, targets)]
    return [
        other
        for other in _users(name, standings, dependants)
        if standings[other].holds > height
        and HEIGHT[targets[other]] <= height
        and not (standing.is_driven_by_backplane and standings[other].backplane != standing.backplane)
    ]


def next_step(state: ModuleState, target: ModuleState) -> ModuleState | None:
    """The next state on the way to `target`; None: it is there, or is to go down and never left `start`."""
    if state is target or HEIGHT[state] == HEIGHT[target] == 0:
        return None
    return target if target in MOVES[state] else ModuleState.INITIALIZING


def is_there(standing: Standing, target: ModuleState) -> bool:
    """Whether it is at its target and no hook of it runs."""
    return standing.moving_to is None and next_step(standing.state, target) is None


def dependants(standings: Standings) -> dict[str, list[str]]:
    """The direct dependents of each node."""
    found: dict[str, list[str]] = {name: [] for name in standings}
    for name, standing in standings.items():
        for dependency in standing.depends_on:
            if dependency in found:
                found[dependency].append(name)
    return found


def all_above(names: Collection[str], standings: Standings) -> set[str]:
    """The named nodes, and all their direct and indirect dependents."""
    users: dict[str, list[str]] = {}
    for name in standings:
        for other in _dependencies(name, standings):
            users.setdefault(other, []).append(name)
    return set(reached(names, lambda name: users.get(name, ())))


def _users(name: str, standings: Standings, dependants: Mapping[str, Collection[str]]) -> list[str]:
    """Its direct dependents; for each one that cannot be reached, its dependents, too."""
    return reached(dependants[name], lambda other: () if standings[other].is_reachable else dependants[other])


def _missed(places: list[str], height: int, standings: Standings, targets: Mapping[str, ModuleState]) -> list[str]:
    """The nodes of one component that keep its dependents below `height`: they have not reached it, or are to go below it
    (if their process restarts, dependents keep their state but do not rise).
    """
    behind = [
        place
        for place in places
        if place not in standings or min(standings[place].reached, HEIGHT[targets[place]]) < height
    ]
    if len(behind) == len(places):
        return behind
    return [place for place in behind if not standings[place].may_be_missing]


def _needs(name: str, standings: Standings) -> list[list[str]]:
    """For each component that its moves wait for, the nodes of that component: one, or one for each replica."""
    found: dict[str, list[str]] = {}
    for other in _dependencies(name, standings):
        component = standings[other].component if other in standings else ""
        found.setdefault(component or other, []).append(other)
    return list(found.values())


def _dependencies(name: str, standings: Standings) -> tuple[str, ...]:
    """The nodes that its moves wait for."""
    standing = standings[name]
    if not standing.is_driven_by_backplane:
        return standing.depends_on
    return tuple(
        other
        for other in standing.depends_on
        if other in standings and standings[other].backplane == standing.backplane
    )
