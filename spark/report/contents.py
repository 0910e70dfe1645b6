"""Contents: all data of a report as plain rows. The renderers (terminal.py, page.py) compute nothing and fetch nothing.

Durations are ns, points in time are Unix time in ns; a row is one line of a table. `--json` prints this.
"""

from __future__ import annotations

from typing import Any

import msgspec


class BackplaneLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Load and limits of one backplane."""

    name: str
    node: str
    records: int
    #: Number of processes it had, one after the other.
    generations: int
    #: Actions a second over the whole time.
    rate: float
    threads: int | None
    #: Percent of a core; None: unlimited.
    cpu_limit: float | None
    #: Run time as a share of the threads' time, and CPU time as a share of a core: the mean, and the busiest bin.
    busy: float
    busy_max: float
    cpu: float
    cpu_max: float
    #: Number of queued actions: the mean, and the busiest bin.
    waiting: float
    waiting_max: float
    errors: int
    missed: int


class TimeSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One backplane over time, one value a bin."""

    backplane: str
    rate: list[float]
    #: None for a bin in which no action began.
    p99_ns: list[float | None]
    #: Run time as a share of the threads' time (1: all of it), and CPU time as a share of a core.
    busy: list[float]
    cpu: list[float]
    #: Mean number of queued actions.
    waiting: list[float]


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """Histogram of latency over time: `counts[time][latency]`. Latency bin n is from `edges_ns[n]` to `edges_ns[n + 1]`."""

    begin_ns: int
    width_ns: int
    edges_ns: list[float]
    counts: list[list[int]]
    p50_ns: list[float | None]
    p99_ns: list[float | None]


class OperationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of an operation at a priority."""

    component: str
    operation: str
    priority: int
    count: int
    errors: int
    wait_mean_ns: float
    wait_p50_ns: float
    wait_p90_ns: float
    wait_p99_ns: float
    wait_max_ns: float
    run_mean_ns: float
    run_p50_ns: float
    run_p90_ns: float
    run_p99_ns: float
    run_max_ns: float
    cpu_ns: int


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """Missed deadlines of an operation at a priority."""

    component: str
    operation: str
    priority: int
    with_deadline: int
    missed: int
    #: Of these, missed only because of their time in the queue.
    by_waiting: int
    #: Lateness of the missed ones.
    late_p50_ns: float
    late_max_ns: float


class Inversion(msgspec.Struct, frozen=True, kw_only=True):
    """Priority inversions that one priority of a backplane suffered."""

    backplane: str
    priority: int
    count: int
    #: Queued for a second or more.
    starved: int
    #: Actions that queued while less urgent work ran; total time of that, and the longest of one action.
    inverted: int
    inversion_ns: int
    inversion_max_ns: int
    #: The same for less urgent work that was boosted because of them.
    boosted_ns: int
    #: Less urgent actions that began meanwhile, and more urgent ones.
    overtaken: int
    passed_by: int
    wait_p50_ns: float
    wait_p99_ns: float
    wait_max_ns: float


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """An operation on the critical paths of the slowest traces."""

    component: str
    operation: str
    traces: int
    actions: int
    #: Time of these traces spent in its queues, in its run, and in neither.
    queue_ns: int
    run_ns: int
    other_ns: int
    total_ns: int
    share: float


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """One of the slowest actions."""

    when_ns: int
    backplane: str
    component: str
    operation: str
    object: str
    priority: int
    wait_ns: int
    run_ns: int
    cpu_ns: int
    took_ns: int
    outcome: int
    #: Median of its operation.
    typical_ns: float
    trace: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call on a path, with times relative to the path's begin."""

    backplane: str
    operation: str
    depth: int
    from_ns: int
    wait_ns: int
    took_ns: int
    #: Its own run time within that.
    own_ns: int


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one slow trace."""

    trace: str
    when_ns: int
    total_ns: int
    #: Number of all calls; `steps` holds the longest.
    calls: int
    steps: list[Step]


class ProposedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed change to one line of TOML."""

    target: str
    key: str
    old: Any
    new: Any
    evidence: str
    figure: str
    now_ms: float
    predicted_ms: float
    #: Relative error of the simulation under the present settings: how far to trust the prediction.
    error: float


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """All data of one report."""

    system: str
    where: str
    #: Time at which the report was made, and the program that made it.
    made_ns: int
    by: str
    #: Actions that began earlier are left out; None: none are.
    since_ns: int | None = None
    first_ns: int
    last_ns: int
    records: int
    #: Data left out as unreadable: one line for each cause, and the number of records.
    skipped: list[str]
    skipped_records: int
    latency_p50_ns: float | None
    latency_p99_ns: float | None
    backplanes: list[BackplaneLoad]
    heat: Heat
    timeline: list[TimeSeries]
    operations: list[OperationSummary]
    misses: list[Miss]
    inversions: list[Inversion]
    slow: list[Slow]
    culprits: list[Culprit]
    paths: list[Path]
    advice: list[ProposedChange]
    #: One line for each backplane that is in trouble but gets no advice, with the reason.
    notes: list[str]
    #: TOML to merge into the system's file before `appbackplane reload`.
    patch: str
