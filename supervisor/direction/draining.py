"""Draining: which backplanes finish their accepted work before their components go down, and when. Part of the director; pure.

A backplane that goes down by an order (`down`, an ordered restart) is drained. One that goes down because of another's crash
is not, and stops draining if it had begun: the crashed one, whose replies it may await, comes back only afterwards. Nor is one
that does not serve yet. A backplane is drained after its dependents have gone down, because they need it to finish their own
work; backplanes that depend on each other are drained at the same time. The process's part: execution/sentinel/draining.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.errors import BackplaneError

from . import effects
from .child.child import Child
from .child.drain import DrainPhase
from .child.process import Phase
from .events import Drained
from .graph import reached
from .group_restart import registrations
from .plan import dependants

#: Names of running actions that are kept of a reply; more would tell a reader no more.
NAMES_MAX = 5
#: After both limits a process replies within one iteration of its sentinel; on an overloaded machine, within this time.
ANSWER_NS = 2_000_000_000
RESTARTING, GOING_DOWN, SECONDARY = "is being restarted", "is going down", "is on a node that is no longer primary"
_SERVING = (ModuleState.PRIMARY, ModuleState.SECONDARY)


def order(child: Child) -> None:
    """Mark it for draining, if it serves, and forget the unfinished work of an earlier order. A running drain goes on."""
    if child.drain.phase is not DrainPhase.NONE:
        return
    child.drain.forget_unfinished()
    if child.process.phase is Phase.UP and _serves(child):
        child.drain.order()


def begin(children: Mapping[str, Child], now_ns: int, *, is_going_down: bool) -> list[effects.Effect]:
    """Start to drain the backplanes whose dependents are down. The caller sends a routing table before these effects."""
    due = [child for child in children.values() if child.drain.phase is DrainPhase.DUE and _is_at_rest(child)]
    if not due:
        return []
    for child in [child for child in due if not _serves(child)]:  # it had begun to go down before the order
        child.drain.skip()
        due.remove(child)
    above = dependants(registrations(children))
    begun: list[effects.Effect] = []
    for child in due:
        users = _users(child.name, children, above)
        before = [children[name] for name in users if child.name not in reached([name], above.__getitem__)]
        if all(other.holds_nothing() for other in before if is_going_down or other.departure.is_leaving):
            child.drain.begin()
            limit_ns, stop_limit_ns = _limits(child, now_ns)
            child.process.enter(Phase.DRAINING, now_ns, now_ns + limit_ns + stop_limit_ns + ANSWER_NS)
            because = GOING_DOWN if is_going_down or child.departure.is_removed else RESTARTING
            because = SECONDARY if child.departure.is_stepping_down else because
            begun.append(effects.Drain(child.name, child.process.generation, limit_ns, stop_limit_ns, because))
    return begun


def body_of(effect: effects.Drain) -> dict[str, Any]:
    """The body of `control.drain`; limits in seconds."""
    return {"limit": effect.limit_ns / 1e9, "stop_limit": effect.stop_limit_ns / 1e9, "because": effect.because}


def drained(effect: effects.Drain, result: object, error: BackplaneError | None) -> Drained:
    """The event made of the reply or the error of `control.drain`. A reply has only counts and a few names: refused callers
    have been told by the backplane itself.
    """
    if error is not None:
        return Drained(effect.backplane, effect.generation, error=error.message)
    said = result if isinstance(result, dict) else {}
    names = [str(name) for name in said.get("running") or ()]
    more = (f"and {len(names) - NAMES_MAX} more",) if len(names) > NAMES_MAX else ()
    running = (*names[:NAMES_MAX], *more)
    refused_count, unread_count = (int(said.get(key) or 0) for key in ("refused", "unread"))
    return Drained(effect.backplane, effect.generation, refused_count, running, unread_count)


def ended(child: Child, event: Drained) -> list[effects.Effect]:
    """End the drain: its components may go down now. Unfinished work is noted and logged."""
    if not child.process.is_at(event.generation, Phase.DRAINING) or child.drain.phase is not DrainPhase.RUNNING:
        return []
    left: list[str] = []
    if event.error:
        left.append(f"result of draining unknown: {event.error}")
    if event.refused_count:
        left.append(f"{event.refused_count} not begun within {child.settings.drain_limit_ns / 1e9:g} s, and refused")
    if event.running:
        left.append(f"not ended, and cut off: {', '.join(event.running)}")
    if event.unread_count:
        left.append(f"{event.unread_count} callers do not read: their last replies are lost")
    child.process.set_deadline(None)
    child.drain.end(left, has_finished=not (event.error or event.running))
    if not child.drain.unfinished:
        return []
    return [effects.Say(f"backplane {child.name!r}: drained, but {'; '.join(child.drain.unfinished)}", is_error=True)]


def let_go(children: Mapping[str, Child], now_ns: int, *, is_going_down: bool) -> list[effects.Effect]:
    """Order those leaving backplanes to exit whose components are all down."""
    told: list[effects.Effect] = []
    for child in children.values():
        if (is_going_down or child.departure.is_leaving) and child.process.is_movable and child.holds_nothing():
            child.process.enter(Phase.STOPPING, now_ns, now_ns + child.settings.stop_limit_ns)
            told.append(effects.Stop(child.name, child.process.generation))
    return told


def cut(children: Mapping[str, Child], died: Child) -> list[effects.Effect]:
    """Stop draining the backplanes that must exit before `died` restarts.

    Otherwise their calls would wait for `died`, and `died` for them, until the calls' deadlines or the drains' limits.
    """
    said: list[effects.Effect] = []
    if died.process.phase is not Phase.WAITING:
        return said
    for name in sorted(died.departure.spawns_after):
        child = children.get(name)
        if child is None or not (child.departure.is_leaving and child.drain.is_pending):
            continue
        if child.drain.phase is DrainPhase.RUNNING:
            child.process.set_deadline(None)
        because = f"draining stopped: {died.name!r} died and restarts only after this one has exited"
        child.drain.cut(because)
        said.append(effects.Say(f"backplane {name!r}: {because}", is_error=True))
    return said


def limit_hooks(child: Child, now_ns: int) -> None:
    """While it goes down, limit its running hooks on the way up to `stop_limit_ns`; those on the way down have a limit."""
    if child.process.is_movable and child.drain.phase is not DrainPhase.RUNNING:
        if not child.components.is_rising:
            child.process.set_deadline(None)
        elif child.process.deadline_ns is None:
            child.process.set_deadline(now_ns + child.settings.stop_limit_ns)


def too_late(child: Child) -> str:
    """The reason to kill a leaving process at its limit; also noted in `unfinished`."""
    because = f"did not stop within {child.settings.stop_limit_ns / 1e9:g} s"
    if child.drain.phase is DrainPhase.RUNNING:
        limit_ns = child.settings.drain_limit_ns + child.settings.stop_limit_ns + ANSWER_NS
        because = f"did not answer within {limit_ns / 1e9:g} s of being drained"
    child.drain.add_unfinished(f"{because}: killed")
    return because


def unfinished(children: Iterable[Child]) -> list[str]:
    """The work that these refused or cut off when they last went down, one line per backplane."""
    return [
        f"backplane {child.name!r}: {'; '.join(child.drain.unfinished)}" for child in children if child.drain.unfinished
    ]


def _limits(child: Child, now_ns: int) -> tuple[int, int]:
    """The limits for its queued work and then for running work, in ns: at most a third each of the time until `gone_by_ns`."""
    if child.departure.gone_by_ns is None:
        return child.settings.drain_limit_ns, child.settings.stop_limit_ns
    third_ns = max(0, child.departure.gone_by_ns - now_ns) // 3
    return min(child.settings.drain_limit_ns, third_ns), min(child.settings.stop_limit_ns, third_ns)


def _serves(child: Child) -> bool:
    return any(state in _SERVING for state in child.components.states.values())


def _is_at_rest(child: Child) -> bool:
    """Whether it is up and no hook runs. A hook on its way up ends first, or the process is killed at its limit."""
    return child.process.phase is Phase.UP and not child.components.moving


def _users(name: str, children: Mapping[str, Child], above: Mapping[str, Collection[str]]) -> list[str]:
    """Its dependents; for each one that is not movable, its dependents, too."""
    return reached(above[name], lambda other: () if children[other].process.is_movable else above[other])
