"""Contents: all that a report says, as plain rows. What shows it (terminal.py, page.py) computes nothing, and asks nobody.

Times are ns, moments Unix time; a row is one line of a table. `--json` prints this.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Backplane(msgspec.Struct, frozen=True, kw_only=True):
    """What one did, and what it was allowed."""

    name: str
    node: str
    records: int
    #: Processes that it had, one after the other.
    generations: int
    #: Actions a second over the whole time.
    rate: float
    threads: int | None
    #: Percent of a core; None: unlimited.
    cpu_limit: float | None
    #: Of the time of its threads, what actions ran; and of a core, what they computed. In the mean, and in the busiest bin.
    busy: float
    busy_max: float
    cpu: float
    cpu_max: float
    #: Actions that were queued.
    waiting: float
    waiting_max: float
    errors: int
    missed: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One backplane over time, a value a bin."""

    backplane: str
    rate: list[float]
    #: None where nothing began.
    p99_ns: list[float | None]
    #: Of the time of its threads (1: all of them), and of a core.
    busy: list[float]
    cpu: list[float]
    #: Actions that were queued.
    waiting: list[float]


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """How many took how long, by time. `counts[time][latency]`; a bin of latency begins at `edges_ns`, which has one more."""

    begin_ns: int
    width_ns: int
    edges_ns: list[float]
    counts: list[list[int]]
    p50_ns: list[float | None]
    p99_ns: list[float | None]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
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
    """An operation that came too late."""

    component: str
    operation: str
    priority: int
    with_deadline: int
    missed: int
    #: Of these, those that would have been in time, had they not been queued.
    by_waiting: int
    #: How much too late.
    late_p50_ns: float
    late_max_ns: float


class Inversion(msgspec.Struct, frozen=True, kw_only=True):
    """One priority of a backplane: what waited while less urgent work ran."""

    backplane: str
    priority: int
    count: int
    #: Queued for a second or more.
    starved: int
    #: Of which less urgent work ran while they were queued; for how long, all added up, and the longest of one.
    inverted: int
    inversion_ns: int
    inversion_max_ns: int
    #: The same of less urgent work that was boosted because of them.
    boosted_ns: int
    #: Less urgent ones that began meanwhile, and more urgent ones.
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
    #: Of the time of these traces, what they spent in its queues, running it, and neither.
    queue_ns: int
    run_ns: int
    other_ns: int
    total_ns: int
    share: float


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """One action that took long."""

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
    #: What its operation takes as a rule: the median.
    typical_ns: float
    trace: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a path: who had the call, for how long, counted from its begin."""

    backplane: str
    operation: str
    depth: int
    from_ns: int
    wait_ns: int
    took_ns: int
    #: What of that it ran itself.
    own_ns: int


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """Of one slow trace, its calls."""

    trace: str
    when_ns: int
    total_ns: int
    #: Of these, the longest are the steps.
    calls: int
    steps: list[Step]


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """A line of TOML that should change."""

    target: str
    key: str
    old: Any
    new: Any
    evidence: str
    figure: str
    now_ms: float
    predicted_ms: float
    #: How far the simulation was from what was recorded: what it says is worth as much.
    error: float


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The whole."""

    system: str
    where: str
    #: When it was made, and by what.
    made_ns: int
    by: str
    #: What began earlier is left out; None: nothing is.
    since_ns: int | None = None
    first_ns: int
    last_ns: int
    records: int
    #: What could not be read and was left out: a line each, and how many records.
    skipped: list[str]
    skipped_records: int
    latency_p50_ns: float | None
    latency_p99_ns: float | None
    backplanes: list[Backplane]
    heat: Heat
    timeline: list[Line]
    operations: list[Operation]
    misses: list[Miss]
    inversions: list[Inversion]
    slow: list[Slow]
    culprits: list[Culprit]
    paths: list[Path]
    advice: list[Advice]
    #: Of whom something might be said and is not, and why.
    notes: list[str]
    #: TOML, for `appbackplane reload`.
    patch: str
