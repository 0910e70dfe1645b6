"""Status: the supervisor's answers to `supervisor.status` and `supervisor.why`, as typed data. Pure.

It reads fewer fields than `supervisor/live/sample.py`, which this folder may not import, and ignores the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

#: The phases of a process, as `appbackplane status` shows them (supervisor/direction/child/process.py).
ProcessState = Literal["waiting", "starting", "up", "draining", "stopping", "killed", "failed", "ended", "down"]
#: States of a process that has registered and lives.
REGISTERED: Final = frozenset(("up", "draining", "stopping"))
#: Steps of a chain of reasons that are written out. Chains are rarely longer, and a person reads this on one line.
STEPS_MAX: Final = 4


class BoardEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The figures that a backplane writes four times a second. Times are in seconds."""

    heartbeat_age: float | None = None
    queued: int
    #: Objects that wait for a reply.
    waiting: int
    running_for: float | None = None
    #: CPU time of the process since its start.
    cpu: float


class OldestObject(msgspec.Struct, frozen=True):
    """An object, and the age of its first queued action."""

    object: str
    oldest_ms: float


class OldestCall(msgspec.Struct, frozen=True):
    """An accepted call that has not ended, and its age."""

    call: str
    age_ms: float


class OldestWork(msgspec.Struct, frozen=True):
    """The longest outstanding work of a backplane, at most 10 entries each."""

    objects: tuple[OldestObject, ...] = ()
    calls: tuple[OldestCall, ...] = ()


class RunningEntry(msgspec.Struct, frozen=True):
    """A running action that is not declared to take long."""

    route: str


class StatisticsEntry(msgspec.Struct, frozen=True):
    """A backplane's own report. At most 10 running actions are listed."""

    running: tuple[RunningEntry, ...] = ()
    oldest: OldestWork = OldestWork()


class BackplaneEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One backplane. `statistics`: None if they were not asked for, or did not come in time."""

    name: str
    state: ProcessState
    generation: int
    #: Its processes after the first one.
    restarts: int
    #: How often a process of it has ended without an order, or could not be started.
    deaths: int
    replica_of: str | None = None
    pid: int | None = None
    #: How its last process ended; None: it has not, or in order.
    reason: str | None = None
    board: BoardEntry | None = None
    statistics: StatisticsEntry | None = None

    @property
    def group(self) -> str:
        """The name that its replicas share; its own if it has none."""
        return self.replica_of or self.name

    @property
    def is_registered(self) -> bool:
        """Whether its process has registered, and lives."""
        return self.state in REGISTERED

    @property
    def is_busy(self) -> bool:
        """Whether work was queued, running or waiting when the board was written."""
        board = self.board
        return board is not None and bool(board.queued or board.waiting or board.running_for)

    @property
    def oldest(self) -> tuple[float, str] | None:
        """(seconds, name of a call or object) of the longest outstanding work, running work included, as `why` chooses it."""
        if self.statistics is None:
            return None
        work = self.statistics.oldest
        ages = [(each.oldest_ms / 1e3, each.object) for each in work.objects]
        return max(ages + [(each.age_ms / 1e3, each.call) for each in work.calls], default=None)


class SystemStatus(msgspec.Struct, frozen=True):
    """One answer. `uptime`: seconds since the supervisor's start, the clock of two answers."""

    uptime: float
    backplanes: tuple[BackplaneEntry, ...]


def status_of(answer: Any) -> SystemStatus:
    """The answer to `supervisor.status`. Raises `msgspec.ValidationError` for that of a supervisor of another version."""
    return msgspec.convert(answer, SystemStatus)


def reason_of(answer: Mapping[str, Any]) -> str:
    """The answer to `supervisor.why` on one line: each step of the chain with its first reason, at most STEPS_MAX."""
    steps = answer["steps"]
    words = [
        f"{step.get('route') or step.get('object') or step['asked']}: {step['reasons'][0]['text']}"
        for step in steps[:STEPS_MAX]
        if step["reasons"]
    ]
    return "; ".join(words) + (f"; and {len(steps) - STEPS_MAX} more" if len(steps) > STEPS_MAX else "")
