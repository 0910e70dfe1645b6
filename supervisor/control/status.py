"""Status: describes the system as plain maps for the wire. Pure.

Figures of the board were written by the backplane itself a moment ago and cost it nothing; health.py sums them up in a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from appbackplane.runtime.build import BUILD

from ..direction.child.child import Child
from ..direction.child.process import Phase
from ..direction.director import Director

if TYPE_CHECKING:
    from appbackplane.runtime.execution.urgency.board import BoardSlot

#: Time-out for a backplane's statistics. Sentinels answer within an iteration, in 10 ms while the most urgent work keeps all
#: busy. Where an extension holds the interpreter lock, a caller should not wait for a second.
STATISTICS_LIMIT_NS = 750_000_000
#: Callers that may wait for statistics at one time.
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
    """The reply to `supervisor.status`. `since` is Unix time, all other times are seconds.

    `more_of`: further facts about a backplane (placement, log). `log`: where the log is written.
    `unanswered`: when a backplane was sent the last question that it did not answer in time.
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
    """ "starting", "up", "degraded" (up, with a failure that has not recovered), "stopping" or "down"."""
    return "degraded" if director.mode == "up" and director.movement.problems() else director.mode


def headline(director: Director) -> str:
    """The state in one line, with the reason unless all is well."""
    said = state(director)
    if said == "degraded":
        first, *others = director.movement.problems()
        return f"degraded: {first}" + (f" (and {len(others)} more)" if others else "")
    return f"{said}: {director.reason}" if said in ("stopping", "down") and director.reason else said


def routes(director: Director) -> list[dict[str, Any]]:
    """The reply to `supervisor.routes`: each operation once, with its backplanes and whether each can be called now."""
    entries: dict[str, dict[str, Any]] = {}
    for child in director.children.values():
        for component in child.components.entries:
            for operation in component.operations:
                entry = entries.setdefault(
                    operation.route,
                    {
                        **msgspec.to_builtins(operation),
                        "backplane": child.settings.replica_of or child.name,
                        "component": component.name,
                        "is_up": False,
                        "places": {},
                    },
                )
                is_in_state = child.components.states[component.name].value in operation.states
                is_up = is_in_state and child.process.phase is Phase.UP
                entry["places"][child.name] = is_up
                entry["is_up"] |= is_up
    return list(entries.values())


class StatisticsGathering(msgspec.Struct):
    """Statistics of all backplanes that are up, for one caller; None for a backplane that did not answer."""

    expected: set[str]
    answers: dict[str, Any] = {}

    def take(self, backplane: str, answer: Any) -> bool:
        """Store one answer. True: it was the last."""
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
        "replica_of": child.settings.replica_of,
        "state": child.process.phase.value,
        "pid": child.process.pid,
        "generation": child.process.generation,
        "restarts": child.process.restarts,
        "deaths": child.history.deaths_count,
        "since": (now_ns - child.process.since_ns) / 1e9,
        "reason": child.history.reason,
        "components": {name: state.value for name, state in child.components.states.items()},
        "wanted": {name: to.value for name, to in director.movement.wanted.items() if name in child.components.states},
        "moving": {name: to.value for name, to in child.components.moving.items()},
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
    """Component to the components that keep it from its next step; a running hook waits for none."""
    if director.mode == "stopping":
        return {}
    waiting = director.movement.waiting()
    return {name: waiting[node] for name in child.components.states if (node := child.node(name)) in waiting}


def _failures(director: Director, child: Child, now_ns: int) -> dict[str, Any]:
    """Component to its failed hook: reason, seconds to its retry (None: being tried, or given up), components held up."""
    return {
        name: {
            "to": failure.to.value,
            "reason": failure.reason,
            "since": (now_ns - failure.since_ns) / 1e9,
            "is_given_up": failure.is_given_up,
            "retry_in": None if failure.retry_ns is None else max(0.0, (failure.retry_ns - now_ns) / 1e9),
            "holds_up": director.movement.held_up_by(child.node(name)),
        }
        for name, failure in child.components.failures.items()
    }
