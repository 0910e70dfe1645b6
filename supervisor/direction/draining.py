"""Draining: who finishes what it has before its components go down, and when that may begin. Part of the director, as pure.

Whoever goes down because somebody wants it is drained: `down`, an ordered restart. Not what a crash pulls along (there the
crashed one has to be back first, also where the crash comes while they are drained already), and not what serves nobody
yet. A backplane is drained after those that depend on it have gone down, since until then they need it to finish their own
work; backplanes that depend on each other are drained at the same time. What a process does while it drains:
runtime/execution/draining.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from appbackplane.runtime.objects.module_state import ModuleState

from . import effects
from .child import Child, Drain, Phase
from .events import Drained
from .group_restart import registrations
from .plan import dependants

#: Beyond both of its limits a process answers within a turn of its sentinel; on a machine that is overloaded, within this.
ANSWER_NS = 2_000_000_000
RESTARTING, GOING_DOWN, SECONDARY = "is being restarted", "is going down", "is on a node that is not primary any more"
_SERVING = (ModuleState.PRIMARY, ModuleState.SECONDARY)


def order(child: Child) -> None:
    """Have it go down, and forget what an earlier order cut off. One that is being drained already goes on with that."""
    if child.drain is not Drain.NONE:
        return
    child.unfinished = []
    if child.phase is Phase.UP and _serves(child):
        child.drain = Drain.DUE


def begin(children: Mapping[str, Child], now_ns: int, *, is_going_down: bool) -> list[effects.Effect]:
    """Those whose turn has come. Whoever calls sends a directory before these effects."""
    due = [child for child in children.values() if child.drain is Drain.DUE and _is_at_rest(child)]
    if not due:
        return []
    for child in [child for child in due if not _serves(child)]:  # it had begun to go down before it was ordered to
        child.drain = Drain.NONE
        due.remove(child)
    above = dependants(registrations(children))
    begun: list[effects.Effect] = []
    for child in due:
        before = [
            children[name] for name in _users(child.name, children, above) if child.name not in _all_above(name, above)
        ]
        if all(other.holds_nothing() for other in before if is_going_down or other.is_leaving):
            child.drain = Drain.RUNNING
            limit_ns, stop_limit_ns = _limits(child, now_ns)
            child.enter(Phase.DRAINING, now_ns, now_ns + limit_ns + stop_limit_ns + ANSWER_NS)
            because = GOING_DOWN if is_going_down or child.is_removed else RESTARTING
            because = SECONDARY if child.is_stepping_down else because
            begun.append(effects.Drain(child.name, child.generation, limit_ns, stop_limit_ns, because))
    return begun


def ended(child: Child, event: Drained) -> list[effects.Effect]:
    """Its components may go down now, whatever it could not finish."""
    if not child.is_at(event.generation, Phase.DRAINING) or child.drain is not Drain.RUNNING:
        return []
    child.drain, child.deadline_ns = Drain.DONE, None
    child.has_finished = not (event.error or event.running)
    left = child.unfinished
    if event.error:
        left.append(f"did not say how far it came: {event.error}")
    if event.refused_count:
        left.append(f"{event.refused_count} not begun within {child.drain_limit_ns / 1e9:g} s, and refused")
    if event.running:
        left.append(f"not ended, and cut off: {', '.join(event.running)}")
    if event.unread_count:
        left.append(f"{event.unread_count} callers do not read, and lose what they were answered last")
    return [effects.Say(f"backplane {child.name!r}: drained, but {'; '.join(left)}", is_error=True)] if left else []


def let_go(children: Mapping[str, Child], now_ns: int, *, is_going_down: bool) -> list[effects.Effect]:
    """Tell those to go that are to, and hold nothing any more."""
    told: list[effects.Effect] = []
    for child in children.values():
        if (is_going_down or child.is_leaving) and child.is_movable and child.holds_nothing():
            child.enter(Phase.STOPPING, now_ns, now_ns + child.stop_limit_ns)
            told.append(effects.Stop(child.name, child.generation))
    return told


def cut(children: Mapping[str, Child], died: Child) -> list[effects.Effect]:
    """Where `died` is to be started again once others have gone, they go now, whatever they have not finished.

    Their calls to it would wait for it, and it for them: until the calls' deadlines, or the limits of each drain in turn.
    """
    said: list[effects.Effect] = []
    if died.phase is not Phase.WAITING:
        return said
    for name in sorted(died.spawns_after):
        child = children.get(name)
        if child is None or not child.is_leaving or child.drain not in (Drain.DUE, Drain.RUNNING):
            continue
        if child.drain is Drain.RUNNING:
            child.drain, child.deadline_ns = Drain.DONE, None
        else:
            child.drain = Drain.NONE
        because = f"does not finish what it has: {died.name!r} has died, and comes back only after it has gone"
        child.unfinished.append(because)
        said.append(effects.Say(f"backplane {name!r}: {because}", is_error=True))
    return said


def limit_hooks(child: Child, now_ns: int) -> None:
    """While it goes down: a hook on its way up gets no longer than one on its way down, which has its own limit."""
    if child.is_movable and child.drain is not Drain.RUNNING:
        rising = any(to is not ModuleState.DOWN for to in child.moving.values())
        if not rising:
            child.deadline_ns = None
        elif child.deadline_ns is None:
            child.deadline_ns = now_ns + child.stop_limit_ns


def too_late(child: Child) -> str:
    """Why one that goes down is killed at its limit; noted as unfinished."""
    because = f"did not stop within {child.stop_limit_ns / 1e9:g} s"
    if child.drain is Drain.RUNNING:
        limit_ns = child.drain_limit_ns + child.stop_limit_ns + ANSWER_NS
        because = f"did not answer within {limit_ns / 1e9:g} s of being drained"
    child.unfinished.append(f"{because}: killed")
    return because


def unfinished(children: Iterable[Child]) -> list[str]:
    """What these have refused or cut off as they went down the last time, a line each."""
    return [f"backplane {child.name!r}: {'; '.join(child.unfinished)}" for child in children if child.unfinished]


def _limits(child: Child, now_ns: int) -> tuple[int, int]:
    """How long it may work off what it has, and then finish what has begun: a third each of the time that there is at most."""
    if child.gone_by_ns is None:
        return child.drain_limit_ns, child.stop_limit_ns
    third_ns = max(0, child.gone_by_ns - now_ns) // 3
    return min(child.drain_limit_ns, third_ns), min(child.stop_limit_ns, third_ns)


def _serves(child: Child) -> bool:
    return any(state in _SERVING for state in child.states.values())


def _is_at_rest(child: Child) -> bool:
    """No hook runs: one on its way up ends first, or the process is killed at its limit."""
    return child.phase is Phase.UP and not child.moving


def _users(name: str, children: Mapping[str, Child], above: Mapping[str, Collection[str]]) -> set[str]:
    """Those that depend on it; through one that is gone, also those that depend on that one."""
    found, ahead = set(above[name]), list(above[name])
    while ahead:
        if not children[other := ahead.pop()].is_movable:
            news = set(above[other]) - found
            found |= news
            ahead += news
    return found


def _all_above(name: str, above: Mapping[str, Collection[str]]) -> set[str]:
    """It, and those that depend on it, and so on."""
    found, ahead = {name}, [name]
    while ahead:
        news = set(above[ahead.pop()]) - found
        found |= news
        ahead += news
    return found
