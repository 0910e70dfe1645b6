"""Figures: activity of a system between two samples.

Rates and percentiles are those of the interval: histograms are subtracted, because a p99 since the beginning of time hides
the bad minute. Samples are subtracted only within one generation; after a restart the first interval has no rates. Where a
backplane did not answer, its board stands in: queues by priority and percentiles are then unknown, never zero.
Pure; also the output of `top --json`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from appbackplane.runtime.observation.histogram import Histogram

from .edges import EdgeFigures, edges
from .sample import BackplaneReport, BackplaneSample, OperationAccount, Requests, RunningAction, Sample

RANKS = (0.5, 0.99)


class Percentiles(msgspec.Struct, frozen=True):
    """Percentiles of actions that ended in the interval."""

    p50_ns: int
    p99_ns: int


class OperationFigures(msgspec.Struct, frozen=True):
    """One operation. Totals are since the backplane's start; None is unknown."""

    name: str
    rate: float | None
    #: Share of one core.
    cpu: float | None
    wait: Percentiles | None
    run: Percentiles | None
    count: int
    errors: int
    refused: int
    expired: int
    cancelled: int
    slow: int
    #: Increase of these totals in the interval.
    errors_new: int
    refused_new: int
    slow_new: int


class RequestFigures(msgspec.Struct, frozen=True):
    """One request kernel: its present state, and how many requests ended a second."""

    component: str
    now: Requests
    rate: float | None


class BackplaneFigures(msgspec.Struct, frozen=True):
    """One backplane. None is unknown."""

    name: str
    state: str
    health: str
    #: States of its components, each once.
    roles: tuple[str, ...]
    components: Mapping[str, str]
    pid: int | None
    since_s: float
    reason: str | None
    restarts: int
    #: How old the figures are, where the backplane did not answer and the board stands in; None: fresh.
    age_s: float | None
    #: Share of one core, of the whole process.
    cpu: float | None
    limit_percent: int | None
    limit_by: str | None
    rate: float | None
    wait: Percentiles | None
    run: Percentiles | None
    queued: int | None
    #: Objects in each ready queue, the most urgent first, and the age of the oldest in each.
    ready: tuple[int, ...] | None
    oldest_ms: tuple[float | None, ...] | None
    #: Objects that wait for a reply.
    waiting: int | None
    running_for_s: float | None
    threads: int | None
    boosts: int | None
    throttled: int | None
    slow: int | None
    #: Increase of these totals in the interval.
    boosts_new: int
    throttled_new: int
    slow_new: int
    operations: tuple[OperationFigures, ...]
    #: One for each request kernel; None: unknown.
    requests: tuple[RequestFigures, ...] | None
    #: Errors of all its operations, None: unknown; and those of the interval.
    errors: int | None = None
    errors_new: int = 0
    #: Running actions, the longest first; empty where that is unknown.
    running: tuple[RunningAction, ...] = ()
    #: Name that it shares with other replicas.
    replica_of: str | None = None


class SystemFigures(msgspec.Struct, frozen=True):
    """Activity of one system from one sample to the next."""

    system: str
    state: str
    pid: int
    build: str
    uptime_s: float
    reason: str | None
    #: None: there was no sample before.
    interval_s: float | None
    backplanes: tuple[BackplaneFigures, ...]
    #: Edges of flows.
    edges: tuple[EdgeFigures, ...] = ()


def figures(before: Sample | None, now: Sample) -> SystemFigures:
    """Figures of the time from `before` to `now`. A `before` of another supervisor counts as none."""
    if before is not None and (before.pid != now.pid or before.uptime_s >= now.uptime_s):
        before = None
    earlier = {} if before is None else {each.name: each for each in before.backplanes}
    interval_s = None if before is None else now.uptime_s - before.uptime_s
    return SystemFigures(
        system=now.system,
        state=now.state,
        pid=now.pid,
        build=now.build,
        uptime_s=now.uptime_s,
        reason=now.reason,
        interval_s=interval_s,
        backplanes=tuple(_backplane(earlier.get(each.name), each, interval_s) for each in now.backplanes),
        edges=edges(earlier, now.backplanes, interval_s),
    )


def _backplane(before: BackplaneSample | None, now: BackplaneSample, interval_s: float | None) -> BackplaneFigures:
    if before is not None and before.generation != now.generation:
        before = None
    seen, board = now.statistics, now.board
    earlier = None if before is None else before.statistics
    rate = cpu = wait = run = None
    operations: tuple[OperationFigures, ...] = ()
    requests: tuple[RequestFigures, ...] | None = None
    if seen is not None:
        seconds = None if earlier is None or seen.at_ns <= earlier.at_ns else (seen.at_ns - earlier.at_ns) / 1e9
        if seconds is not None and earlier is not None:
            rate = (seen.actions - earlier.actions) / seconds
            cpu = (seen.process_cpu_ns - earlier.process_cpu_ns) / 1e9 / seconds
            wait = _percentiles(_all_since(seen, earlier, "wait"))
            run = _percentiles(_all_since(seen, earlier, "run"))
        operations = tuple(
            _operation(name, None if earlier is None else earlier.operations.get(name), account, seconds)
            for name, account in seen.operations.items()
        )
        requests = tuple(
            _requests(component, None if earlier is None else earlier.requests.get(component), kernel, seconds)
            for component, kernel in seen.requests.items()
        )
    elif before is not None:
        rate, cpu = _by_the_board(before, now, interval_s)
    figures_of = seen if seen is not None else board
    was = earlier if seen is not None else (None if before is None else before.board)
    return BackplaneFigures(
        name=now.name,
        state=now.state,
        health=now.health,
        roles=tuple(sorted(set(now.components.values()))),
        components=now.components,
        pid=now.pid,
        since_s=now.since_s,
        reason=now.reason,
        restarts=now.restarts,
        age_s=None if seen is not None or board is None else board.age_s,
        cpu=cpu,
        limit_percent=now.cpu_limit.percent,
        limit_by=now.cpu_limit.by,
        rate=rate,
        wait=wait,
        run=run,
        queued=None if figures_of is None else figures_of.queued,
        ready=None if seen is None else seen.ready,
        oldest_ms=None if seen is None else seen.oldest_ms,
        waiting=None if figures_of is None else figures_of.waiting,
        running_for_s=None if board is None else board.running_for_s,
        threads=None if seen is None else seen.threads,
        boosts=None if figures_of is None else figures_of.boosts,
        throttled=None if figures_of is None else figures_of.throttled,
        slow=None if figures_of is None else figures_of.slow,
        boosts_new=0 if figures_of is None or was is None else max(0, figures_of.boosts - was.boosts),
        throttled_new=0 if figures_of is None or was is None else max(0, figures_of.throttled - was.throttled),
        slow_new=0 if figures_of is None or was is None else max(0, figures_of.slow - was.slow),
        operations=operations,
        requests=requests,
        errors=None if seen is None else sum(each.errors for each in operations),
        errors_new=sum(each.errors_new for each in operations),
        running=() if seen is None else seen.running,
        replica_of=now.replica_of,
    )


def _by_the_board(
    before: BackplaneSample, now: BackplaneSample, interval_s: float | None
) -> tuple[float | None, float | None]:
    """(rate, CPU) between two heartbeats; None: there was no second one."""
    first, last = before.board, now.board
    if first is None or last is None or first.age_s is None or last.age_s is None or interval_s is None:
        return None, None
    seconds = interval_s + first.age_s - last.age_s
    if seconds < 1e-3:  # no heartbeat between them: the ages are of the same one, measured twice
        return None, None
    return (last.finished - first.finished) / seconds, (last.cpu_s - first.cpu_s) / seconds


def _requests(component: str, before: Requests | None, now: Requests, seconds: float | None) -> RequestFigures:
    return RequestFigures(component, now, (now.ended - before.ended) / seconds if before and seconds else None)


def _operation(
    name: str, before: OperationAccount | None, now: OperationAccount, seconds: float | None
) -> OperationFigures:
    """`seconds`: the length of the interval; None: there was none."""
    began = before or _NOTHING
    return OperationFigures(
        name=name,
        rate=(now.count - began.count) / seconds if seconds else None,
        cpu=(now.cpu_ms - began.cpu_ms) / 1e3 / seconds if seconds else None,
        wait=_percentiles(now.wait.since(began.wait)) if seconds else None,
        run=_percentiles(now.run.since(began.run)) if seconds else None,
        count=now.count,
        errors=now.errors,
        refused=now.refused,
        expired=now.expired,
        cancelled=now.cancelled,
        slow=now.slow,
        errors_new=max(0, now.errors - began.errors) if seconds else 0,
        refused_new=max(0, now.refused - began.refused) if seconds else 0,
        slow_new=max(0, now.slow - began.slow) if seconds else 0,
    )


#: Account of an operation that is new in this interval: it did nothing before.
_NOTHING = OperationAccount(0, 0, 0, 0, 0, 0, 0, Histogram(), Histogram())


def _all_since(now: BackplaneReport, before: BackplaneReport, which: str) -> Histogram:
    """Histogram of all operations together, since `before`."""
    result = Histogram()
    for name, account in now.operations.items():
        was = before.operations.get(name, _NOTHING)
        result.merge(getattr(account, which).since(getattr(was, which)))
    return result


def _percentiles(histogram: Histogram) -> Percentiles | None:
    """Percentiles of a histogram; None: it is empty."""
    if not histogram.count:
        return None
    return Percentiles(*histogram.percentiles_ns(RANKS))
