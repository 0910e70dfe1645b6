"""Sample: one reply to `supervisor.status`, with buckets, as typed data.

A backplane that did not answer in time has no `statistics`; only its board is left, with the board's age. Pure. A field that
an older or newer supervisor leaves out is an error of the command, not a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from appbackplane.runtime.observation.histogram import Histogram


class OperationAccount(msgspec.Struct, frozen=True):
    """The account of one operation since its backplane's start."""

    count: int
    errors: int
    refused: int
    expired: int
    cancelled: int
    slow: int
    cpu_ms: float
    wait: Histogram
    run: Histogram


class Requests(msgspec.Struct, frozen=True):
    """Present state of a request kernel, and the requests ended since its backplane's start."""

    ready: int
    ready_max: int
    executing: int
    workers: int
    #: Executing requests that wait for others.
    blocked: int
    #: Posters that wait for room.
    posting: int
    rejoinable: int
    rejoinable_max: int
    ended: int


class RunningAction(msgspec.Struct, frozen=True):
    """A running action, and for how long."""

    route: str
    object: str
    seconds: float


class FlowEdge(msgspec.Struct, frozen=True):
    """The edge from a part of a flow to the next stage: totals of items since its backplane's start, and its present state."""

    to: str
    credits: int
    used: int
    #: Items that wait for credits.
    waiting: int
    oldest_ms: float | None
    ended: int
    resent: int
    lost: int


class FlowPartAccount(msgspec.Struct, frozen=True):
    """A part of a flow in one backplane. The last stage has no edge."""

    flow: str
    stage: str
    dead_letters: int
    edge: FlowEdge | None


class BackplaneReport(msgspec.Struct, frozen=True):
    """A backplane's own report, if it answered in time."""

    #: On the machine's monotonic clock.
    at_ns: int
    process_cpu_ns: int
    actions: int
    threads: int
    #: Objects in each ready queue, and how long the oldest of each has been there.
    ready: tuple[int, ...]
    oldest_ms: tuple[float | None, ...]
    queued: int
    waiting: int
    throttled: int
    slow: int
    boosts: int
    operations: Mapping[str, OperationAccount]
    #: By component; few components are request kernels.
    requests: Mapping[str, Requests]
    #: Running actions, the longest first.
    running: tuple[RunningAction, ...]
    flows: tuple[FlowPartAccount, ...]


class BoardWords(msgspec.Struct, frozen=True):
    """A backplane's slot on the board, written four times a second."""

    age_s: float | None = msgspec.field(name="heartbeat_age")
    finished: int
    queued: int
    waiting: int
    running_for_s: float | None = msgspec.field(name="running_for")
    cpu_s: float = msgspec.field(name="cpu")
    throttled: int
    slow: int
    boosts: int


class CpuLimit(msgspec.Struct, frozen=True):
    """A limit in percent of one core, and its holder; None: no limit."""

    percent: int | None
    by: str | None


class BackplaneSample(msgspec.Struct, frozen=True):
    """One backplane: its status, its board, and its statistics if it answered."""

    name: str
    state: str
    health: str
    pid: int | None
    generation: int
    restarts: int
    since_s: float = msgspec.field(name="since")
    reason: str | None
    components: Mapping[str, str]
    cpu_limit: CpuLimit
    board: BoardWords | None
    statistics: BackplaneReport | None
    #: Name that it shares with other replicas.
    replica_of: str | None = None


class Sample(msgspec.Struct, frozen=True):
    """State of a system at one moment."""

    system: str
    state: str
    pid: int
    build: str
    #: Seconds the supervisor has been running: the clock that two samples have in common.
    uptime_s: float = msgspec.field(name="uptime")
    reason: str | None
    backplanes: tuple[BackplaneSample, ...]


def sample_of(answer: Mapping[str, Any]) -> Sample:
    """Convert a reply to `supervisor.status` with `buckets`."""
    entries = [
        {**each, "statistics": each["statistics"] and _statistics(each["statistics"])} for each in answer["backplanes"]
    ]
    return msgspec.convert({**answer, "backplanes": entries}, Sample)


def _statistics(told: Mapping[str, Any]) -> BackplaneReport:
    queues, os_priority = told["queues"], told["os_priority"]
    return BackplaneReport(
        at_ns=told["at_ns"],
        process_cpu_ns=round(told["cpu"]["process_ms"] * 1e6),
        actions=told["actions"],
        threads=told["threads"],
        ready=tuple(queues["ready"]),
        oldest_ms=tuple(queues["oldest_ms"]),
        queued=queues["actions"],
        waiting=queues["waiting"],
        throttled=sum(component["refused"] for component in told["components"].values()),
        slow=told["slow_actions"],
        boosts=0 if os_priority is None else os_priority["boosts"],
        operations=msgspec.convert(
            told["operations"], dict[str, OperationAccount], dec_hook=lambda _kind, data: Histogram.from_data(data)
        ),
        requests={component: _requests(kernel) for component, kernel in told["requests"].items()},
        running=tuple(RunningAction(one["route"], one["object"], one["running_ms"] / 1e3) for one in told["running"]),
        flows=tuple(msgspec.convert(part, FlowPartAccount) for part in told["flows"].values()),
    )


def _requests(kernel: Mapping[str, Any]) -> Requests:
    return Requests(
        ready=sum(kernel["ready"]),
        ready_max=kernel["limits"]["ready"],
        executing=sum(kernel["executing"]),
        workers=kernel["limits"]["workers"],
        blocked=kernel["blocked"],
        posting=kernel["posting"],
        rejoinable=sum(kernel["rejoinable"]),
        rejoinable_max=kernel["limits"]["rejoin"],
        ended=kernel["ended"],
    )
