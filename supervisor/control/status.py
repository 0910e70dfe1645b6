"""Status: what the supervisor tells of its system, as plain maps for the wire. Pure.

What is shown of the board was written by the backplane itself a moment ago and costs it nothing; what health.py makes of it
is shown in a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from appbackplane.runtime.build import BUILD

from ..direction.child import Child, Phase
from ..direction.director import Director

if TYPE_CHECKING:
    from appbackplane.runtime.execution.board import BoardSlot

#: How long backplanes may take to hand in their statistics. Sentinels answer between two turns, in 10 ms where all is busy
#: with the most urgent; where an extension keeps the interpreter to itself, whoever looks should not wait for a second.
STATISTICS_LIMIT_NS = 750_000_000
#: Askers that may wait for statistics at one time.
GATHERINGS_MAX = 64


def status(
    director: Director,
    slot_of: Callable[[str], BoardSlot | None],
    more_of: Callable[[str], dict[str, Any]],
    log: Mapping[str, Any],
    *,
    pid: int,
    now_ns: int,
    wall_s: float,
    statistics: Mapping[str, Any] | None = None,
    unanswered: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The answer to `supervisor.status`. `since` is Unix time, the rest of the times are seconds.

    `more_of`: what others know of a backplane (where it sits, what it has logged). `log`: where it is all written.
    `unanswered`: when a backplane was asked the last question that it did not answer in time.
    """
    missed = unanswered or {}
    return {
        "system": director.system,
        "pid": pid,
        "build": BUILD,
        "state": state(director),
        "role": director.movement.role.value,
        "since": wall_s - (now_ns - director.since_ns) / 1e9,
        "uptime": (now_ns - director.begun_ns) / 1e9,
        "reason": director.reason or None,
        "log": log,
        "backplanes": [
            {**_backplane(director, child, slot_of(child.name), now_ns, statistics, missed), **more_of(child.name)}
            for child in director.children.values()
        ],
    }


def state(director: Director) -> str:
    """ "starting", "up", "degraded" (up, but something has failed, and is not well again), "stopping" or "down"."""
    return "degraded" if director.mode == "up" and director.movement.problems() else director.mode


def headline(director: Director) -> str:
    """The state in a line, with the reason if it is not what it should be."""
    said = state(director)
    if said == "degraded":
        first, *others = director.movement.problems()
        return f"degraded: {first}" + (f" (and {len(others)} more)" if others else "")
    return f"{said}: {director.reason}" if said in ("stopping", "down") and director.reason else said


def routes(director: Director) -> list[dict[str, Any]]:
    """The answer to `supervisor.routes`: every operation once, where it is served, and where it can be called now."""
    entries: dict[str, dict[str, Any]] = {}
    for child in director.children.values():
        for component in child.registration.components if child.registration is not None else ():
            for operation in component.operations:
                entry = entries.setdefault(
                    operation.route,
                    {
                        **msgspec.to_builtins(operation),
                        "backplane": child.replica_of or child.name,
                        "component": component.name,
                        "is_up": False,
                        "places": {},
                    },
                )
                is_up = child.states[component.name].value in operation.states and child.phase is Phase.UP
                entry["places"][child.name] = is_up
                entry["is_up"] |= is_up
    return list(entries.values())


@dataclass(slots=True)
class Gathering:
    """Statistics of all backplanes that are up, for one who asked; None for one that did not answer."""

    expected: set[str]
    answers: dict[str, Any] = field(default_factory=dict)

    def take(self, backplane: str, answer: Any) -> bool:
        """True: that was the last."""
        self.answers[backplane] = answer
        self.expected.discard(backplane)
        return not self.expected


def _backplane(
    director: Director,
    child: Child,
    slot: BoardSlot | None,
    now_ns: int,
    statistics: Mapping[str, Any] | None,
    unanswered: Mapping[str, int],
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": child.name,
        "replica_of": child.replica_of,
        "state": child.phase.value,
        "pid": child.pid,
        "generation": child.generation,
        "restarts": child.restarts,
        "since": (now_ns - child.since_ns) / 1e9,
        "reason": child.reason,
        "components": {name: state.value for name, state in child.states.items()},
        "wanted": {name: to.value for name, to in director.movement.wanted.items() if name in child.states},
        "moving": {name: to.value for name, to in child.moving.items()},
        "failed": _failures(director, child, now_ns),
        "waits_for": _waits_for(director, child),
        "health": director.health.of(child, slot, now_ns, unanswered.get(child.name, 0)).value,
        "board": None if slot is None else _board(slot, now_ns),
    }
    if statistics is not None:
        entry["statistics"] = statistics.get(child.name)
    return entry


def _board(slot: BoardSlot, now_ns: int) -> dict[str, Any]:
    return {
        "heartbeat_age": (now_ns - slot.heartbeat_ns) / 1e9 if slot.heartbeat_ns else None,
        "finished": slot.finished_count,
        "queued": slot.queued_count,
        "waiting": slot.waiting_count,
        "running_for": (now_ns - slot.running_since_ns) / 1e9 if slot.running_since_ns else None,
        "cpu": slot.cpu_ns / 1e9,
        "throttled": slot.throttled_count,
        "slow": slot.slow_count,
        "boosts": slot.boosts_count,
        "failing": slot.failing_count,
        "highest_priority": slot.highest_priority,
    }


def _waits_for(director: Director, child: Child) -> dict[str, list[str]]:
    """Component to those that keep it from its next step; those that run a hook wait for nobody."""
    if director.mode == "stopping":
        return {}
    waiting = director.movement.waiting()
    return {name: waiting[node] for name in child.states if (node := child.node(name)) in waiting}


def _failures(director: Director, child: Child, now_ns: int) -> dict[str, Any]:
    """Component to why its hook failed, when it is tried again (s; None: being tried, or given up), and who waits for it."""
    return {
        name: {
            "to": failure.to.value,
            "reason": failure.reason,
            "since": (now_ns - failure.since_ns) / 1e9,
            "is_given_up": failure.is_given_up,
            "retry_in": None if failure.retry_ns is None else max(0.0, (failure.retry_ns - now_ns) / 1e9),
            "holds_up": director.movement.held_up_by(child.node(name)),
        }
        for name, failure in child.failures.items()
    }
