"""Lifecycle: where each component is to be, and who may move there now. One graph, whose edges cross backplanes.

Nobody is to be higher than what it depends on: a component that is moved to secondary or down takes along what depends on
it. Up: a component moves when all it depends on have reached the state, and are to stay there. Down: when all that depend
on it, and are to come down, are there. The steps are those of the module table (runtime/objects/module_state.py), and
nothing else decides the order: no list is kept, so a process that comes back late, or twice, is fitted in by the same rule.
One that is gone keeps its place in the order: those above it go down before those below it.
Who is driven by its backplane knows no edge that leaves it. A component of replicas is a node in each (replicas.py): who
depends on it may be as high as the highest of them, and on its way up waits for all of them, but for those missed by nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from appbackplane.runtime.objects.module_state import MOVES, ModuleState

#: How far up a state is. A component that is down, or whose process is dead, has reached nothing.
HEIGHT = {
    ModuleState.DOWN: 0,
    ModuleState.START: 0,
    ModuleState.INITIALIZING: 1,
    ModuleState.SECONDARY: 2,
    ModuleState.PRIMARY: 3,
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one component is."""

    state: ModuleState
    depends_on: tuple[str, ...] = ()
    backplane: str = ""
    #: Its name, where that is not the node's: replicas have it in common.
    component: str = ""
    #: Its process is there, has registered, and is not being killed: it can be moved.
    is_reachable: bool = True
    #: The state it is on its way to, its hook running.
    moving_to: ModuleState | None = None
    #: The state whose hook has failed, and is not to be tried now.
    refuses: ModuleState | None = None
    #: Its process has ended, as it was meant to: nobody waits for it any more.
    has_ended: bool = False
    is_driven_by_backplane: bool = False
    #: Its process is coming back, leaving or given up, or a hook in it has failed: nobody waits for it where another
    #: replica has come so far.
    may_be_missing: bool = False

    @property
    def is_idle(self) -> bool:
        return self.is_reachable and self.moving_to is None

    @property
    def reached(self) -> int:
        """The height that others can rely on: of a move, the lower end."""
        if self.has_ended:
            return HEIGHT[ModuleState.PRIMARY]
        if not self.is_reachable:
            return 0
        return HEIGHT[self.state] if self.moving_to is None else min(HEIGHT[self.state], HEIGHT[self.moving_to])

    @property
    def holds(self) -> int:
        """The height up to which it may use others: of a move, the upper end."""
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
    """Where each component is to be: in the system's `role`, unless ordered elsewhere (`wanted`), and never above what it
    depends on. `ceilings`: of components that were given up, the state above which nobody that depends on them is to be.
    """
    found = {name: wanted.get(name, role) for name in standings}
    is_settled = False
    while not is_settled:  # once more for each link of a chain that lies in the wrong order; no recursion
        is_settled = True
        for name in standings:
            for places in _needs(name, standings):
                bounds = [
                    min(found[place], ceilings.get(place, found[place]), key=_height)
                    for place in places
                    if place in standings
                ]
                bound = max(bounds, key=_height, default=found[name])
                if HEIGHT[bound] < HEIGHT[found[name]]:
                    found[name], is_settled = bound, False
    return found


def moves(standings: Standings, targets: Mapping[str, ModuleState]) -> list[tuple[str, ModuleState]]:
    """The moves towards their targets that may begin now."""
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
    """Those that have to move before it may: what `status` shows when something does not move."""
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
    """The next state on the way to `target`; None: it is there, or has nothing to let go of."""
    if state is target or HEIGHT[state] == HEIGHT[target] == 0:
        return None
    return target if target in MOVES[state] else ModuleState.INITIALIZING


def is_there(standing: Standing, target: ModuleState) -> bool:
    """Whether it rests where it is to be."""
    return standing.moving_to is None and next_step(standing.state, target) is None


def is_down(standing: Standing) -> bool:
    """Whether it holds nothing any more: at the bottom and staying there, or its process is dead."""
    return standing.holds == 0


def dependants(standings: Standings) -> dict[str, list[str]]:
    """To each component those that depend on it directly."""
    found: dict[str, list[str]] = {name: [] for name in standings}
    for name, standing in standings.items():
        for dependency in standing.depends_on:
            if dependency in found:
                found[dependency].append(name)
    return found


def all_above(names: Collection[str], standings: Standings) -> set[str]:
    """These, and all whose moves depend on theirs."""
    found, is_settled = set(names), False
    while not is_settled:
        news = {
            name for name in standings if name not in found and not found.isdisjoint(_dependencies(name, standings))
        }
        found |= news
        is_settled = not news
    return found


def _users(name: str, standings: Standings, dependants: Mapping[str, Collection[str]]) -> list[str]:
    """Those that depend on it directly; in the place of one that is gone, those that depend on that one."""
    found: dict[str, None] = {}
    ahead = list(dependants[name])
    while ahead:
        other = ahead.pop(0)
        if other not in found:
            found[other] = None
            ahead += [] if standings[other].is_reachable else dependants[other]
    return list(found)


def _missed(places: list[str], height: int, standings: Standings, targets: Mapping[str, ModuleState]) -> list[str]:
    """Of the places of one component those that keep whoever depends on it below `height`: they have not reached it, or
    are to go below it (their process starts again: those above stay where they are, but do not rise on what is leaving).
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
    """To each component that its own moves wait for, where that is: in one place, or in each replica."""
    found: dict[str, list[str]] = {}
    for other in _dependencies(name, standings):
        component = standings[other].component if other in standings else ""
        found.setdefault(component or other, []).append(other)
    return list(found.values())


def _height(state: ModuleState) -> int:
    return HEIGHT[state]


def _dependencies(name: str, standings: Standings) -> tuple[str, ...]:
    """Those that its own moves wait for."""
    standing = standings[name]
    if not standing.is_driven_by_backplane:
        return standing.depends_on
    return tuple(
        other
        for other in standing.depends_on
        if other in standings and standings[other].backplane == standing.backplane
    )
