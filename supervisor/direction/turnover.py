"""Turnover: adds, removes and restarts backplanes after a change of the configuration (reconfiguration.py). Pure.

As in a group restart (group_restart.py), first all leaving backplanes go down, in order, then all are started: a component
that moves from one backplane to another is never in both. Their dependents keep their state and are not notified. These
restarts do not count in the restart policy; only later deaths do. Called by the director; changes children, and the movement's
role.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appbackplane.runtime.objects.module_state import ModuleState

from . import draining
from .child.child import Child
from .child.process import ChildProcess, Phase
from .child.settings import settings_of
from .effects import Effect, Kill, Say
from .events import Reconfigured
from .movement import Movement


@dataclass(slots=True)
class Past:
    """The removed backplanes: a generation of a name is never reused in a run directory."""

    first_generation: int
    #: The last generation of each removed name.
    generations: dict[str, int] = field(default_factory=dict)

    def before(self, name: str) -> int:
        """The last used generation of this name; if it was never used, the one before `first_generation`."""
        return self.generations.get(name, self.first_generation - 1)


def begin(children: dict[str, Child], movement: Movement, event: Reconfigured, now_ns: int, past: Past) -> list[Effect]:
    """Bring all backplanes to the new configuration: restart, add and remove them, and set their limits and policies."""
    config, plan = event.new, event.plan
    if config.system.role != event.old.system.role:
        movement.become(ModuleState(config.system.role))
    effects: list[Effect] = []
    going = frozenset((*plan.restarted, *plan.removed))
    for name in going:
        effects += _let_go(children[name], going, now_ns, is_removed=name in plan.removed)
    settings = settings_of(config)
    for name in plan.added:
        child = children[name] = Child(name, settings[name], ChildProcess(past.before(name)))
        child.departure.spawn_after(going)
        child.process.enter(Phase.WAITING, now_ns, now_ns)
    for name in settings:
        children[name].configure(settings[name])
    if plan:
        parts = [
            f"{word}: {', '.join(names)}"
            for word, names in (("restarts", plan.restarted), ("new", plan.added), ("removed", plan.removed))
            if names
        ]
        effects.append(Say(f"reconfigured: {len(plan.changes)} keys changed; {'; '.join(parts) or 'no restarts'}"))
    return effects


def _let_go(child: Child, going: frozenset[str], now_ns: int, *, is_removed: bool) -> list[Effect]:
    """Order the end of a backplane's process: drain it, or kill it if it is still starting.

    `going`: backplanes that end with it. Its next process, if it is not removed, is spawned after all of these have exited.
    """
    child.departure.order()
    if is_removed:
        child.departure.remove()
    child.components.outdate()
    child.drain.forget_unfinished()
    child.forget_restarts()
    if not child.process.is_living:
        child.departure.spawn_after(going)
        child.process.enter(Phase.DOWN if is_removed else Phase.WAITING, now_ns, None if is_removed else now_ns)
        return []
    child.departure.begin(going)
    if child.process.phase is Phase.STARTING:  # it has no callers yet
        child.kill("started with a configuration that has changed since", now_ns)
        return [Kill(child.name, child.process.generation)]
    draining.order(child)
    draining.limit_hooks(child, now_ns)
    return []


def sweep(children: dict[str, Child], past: Past) -> bool:
    """Forget removed backplanes whose processes have exited. True: there were some."""
    gone = [child for child in children.values() if child.departure.is_removed and not child.process.is_living]
    for child in gone:
        past.generations[child.name] = child.process.generation
        del children[child.name]
    return bool(gone)
