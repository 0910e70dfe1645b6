"""Calibration: how well the simulation knows a backplane. With its recorded settings, its recorded waits must come out.

Three unknowns are estimated first. A worker's overhead between two actions: the gap from an end to the next start, while others
are queued. The part of recorded blocked time that was in truth held up by the GIL or the kernel's limit, which the simulation
adds itself: as little blocked time as possible is believed, and more until runs come out as long as recorded. And, if not
recorded, whether kernel or scheduler enforced a CPU limit, and when ticks fell: the best fit is taken. The remaining
difference is `error`, reported with every prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from .load import Load
from .prediction import Key, Prediction, predict, recorded
from .setting import ReplaySetting
from .simulation import AWAITS_NS, Costs, Replayed, simulate

#: Rounds of correcting blocked time, at most; they end when runs are as long as recorded, to this share of the total.
_ROUNDS = 8
_RUNS_GOOD = 0.003
#: At least this share of the actions of an operation is assumed to have been held up by nothing.
_LEAST = 0.05
#: A longer gap is not a worker's overhead: the kernel had others to run, or the objects were busy.
_GAP_MAX_NS = 1_000_000
#: Simulated gaps this near to the recorded ones count as equal.
_GAP_GOOD_NS = 5_000
#: Fewest gaps of which the mean is believed.
_GAPS_MIN = 20
#: Overhead between two actions if no gaps can be read: a call and its answer on this side (scripts/bench).
_BETWEEN_NS = 15_000
#: Number of first actions of a load by which guesses are compared.
_GUESS_COUNT = 5_000
_PHASES = 8
#: A guess up to this error, or up to this multiple of the best error, may be believed although another one fits better.
_GOOD, _NEARLY = 0.15, 2.0
#: Guesses with smaller errors count as equally good.
_ALIKE = 0.02
#: Shorter waits count as this long: 0.1 ms against 0.2 ms is no error of a half.
_WAIT_MIN_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A load corrected for the simulation, and how well its recording is reproduced."""

    load: Load
    setting: ReplaySetting
    costs: Costs
    recorded: Prediction
    simulated: Prediction

    @property
    def error(self) -> float:
        """Difference of the mean waits, as a share of them; operations are weighted by their number of actions."""
        return difference(self.recorded, self.simulated)

    def error_of(self, key: Key, figure: str) -> float:
        """The relative error of one figure: simulated / recorded - 1."""
        was = float(getattr(self.recorded.waits[key], figure))
        now = float(getattr(self.simulated.waits[key], figure))
        return (max(now, _WAIT_MIN_NS) / max(was, _WAIT_MIN_NS)) - 1

    def predict(self, setting: ReplaySetting) -> Prediction:
        """The prediction for its load under another setting."""
        return predict(self.load, simulate(self.load, setting, self.costs), setting)


def calibrate(load: Load, setting: ReplaySetting) -> Calibrated:
    """Estimate the facts that were not recorded, and how well the recording is reproduced."""
    told = recorded(load, setting)
    gap_ns = gap_ns_of(load, setting.threads)
    costs = Costs(between_ns=_BETWEEN_NS if gap_ns is None else gap_ns)
    head = load.first(_GUESS_COUNT)
    head_told = recorded(head, setting)
    guesses = list(_guesses(setting, costs))
    if len(guesses) > 1:
        setting, costs = _best([_tried(head, head_told, *guess) for guess in guesses])
    corrected, costs, simulated = _corrected(load, setting, costs)
    return Calibrated(corrected, setting, costs, told, simulated)


def difference(one: Prediction, other: Prediction) -> float:
    """Difference of the mean waits of two predictions of one load, as a share of the first's."""
    apart = whole = 0.0
    for key, waits in one.waits.items():
        also = other.waits[key]
        weight = waits.count + waits.late
        apart += weight * abs(max(also.mean, _WAIT_MIN_NS) - max(waits.mean, _WAIT_MIN_NS))
        whole += weight * max(waits.mean, _WAIT_MIN_NS)
    return apart / whole if whole else 0.0


def gap_ns_of(load: Load, threads: int) -> int | None:
    """Mean gap from the end of an action to the next start, while others were queued and all workers busy; None: unknown.

    It contains the overhead of a worker between two actions, and its delays meanwhile.
    """
    if sum(awaited > AWAITS_NS for awaited in load.awaited) * 10 > len(load):
        return None  # the record does not show when they had a worker
    arrivals = sorted(load.arrival)
    starts = sorted(map(sum, zip(load.arrival, load.wait, strict=True)))
    ends = sorted(map(sum, zip(load.arrival, load.wait, load.run, load.awaited, strict=True)))
    gaps: list[int] = []
    started = arrived = 0
    count = len(load)
    for ended, end_ns in enumerate(ends):
        while started < count and starts[started] < end_ns:
            started += 1
        while arrived < count and arrivals[arrived] < end_ns:
            arrived += 1
        if started < count and arrived > started and started - ended >= threads:
            gap_ns = starts[started] - end_ns
            if gap_ns < _GAP_MAX_NS:
                gaps.append(gap_ns)
    return sum(gaps) // len(gaps) if len(gaps) >= _GAPS_MIN else None


def _guesses(setting: ReplaySetting, costs: Costs) -> Iterator[tuple[ReplaySetting, Costs]]:
    """Ways in which the CPU limit may have been enforced, as far as it was not recorded."""
    if setting.cpu_limit is None:
        yield setting, costs
        return
    if not setting.cpu_exempt and setting.cpu_limit_by != "scheduler":
        for share in (1.0, 0.95, 0.9, 0.85, 0.8):
            yield setting.with_(is_limited_by_kernel=True), replace(costs, limit_share=share)
    if setting.cpu_limit_by == "os":
        return
    for phase in range(_PHASES):
        after_ns = setting.tick_ns * (phase + 1) // _PHASES
        yield setting.with_(is_limited_by_kernel=False), replace(costs, tick_after_ns=after_ns)


class _Tried(NamedTuple):
    """A guess, and how well it fits."""

    error: float
    #: Share of the recorded blocked time that had to be believed for it.
    believed: float
    setting: ReplaySetting
    costs: Costs


def _tried(load: Load, told: Prediction, setting: ReplaySetting, costs: Costs) -> _Tried:
    corrected, _, simulated = _corrected(load, setting, costs)
    blocked_ns, believed_ns = (sum(each.run) - sum(each.cpu) for each in (load, corrected))
    return _Tried(difference(told, simulated), believed_ns / max(1, blocked_ns), setting, costs)


def _best(tried: list[_Tried]) -> tuple[ReplaySetting, Costs]:
    """The guess that fits best; but one with the kernel as enforcer is preferred if it fits well. With the scheduler as
    enforcer, runs that the kernel stretched pass for blocked and fit just as well, but predict nonsense for other limits.

    The same is true of a guess that leaves actions too much of the kernel's limit. So of the guesses that fit well, the one
    that has to believe least is taken, compared in steps of a tenth.
    """
    best = min(tried, key=lambda each: each.error)
    kernels = [each for each in tried if each.setting.is_limited_by_kernel]
    of_kernel = min(kernels, key=lambda each: each.error, default=best)
    if of_kernel.error > max(_GOOD, _NEARLY * best.error):
        return best.setting, best.costs
    good = [each for each in kernels if each.error <= max(_ALIKE, _NEARLY * of_kernel.error)]
    taken = min(good, key=lambda each: (round(each.believed, 1), each.error), default=of_kernel)
    return taken.setting, taken.costs


def _corrected(load: Load, setting: ReplaySetting, costs: Costs) -> tuple[Load, Costs, Prediction]:
    """The load and costs without the delays that the simulation adds by itself; and its prediction for them."""
    believed = _at_least(load)
    gap_ns = gap_ns_of(load, setting.threads)
    corrected, replayed = load, None
    for _ in range(_ROUNDS):
        corrected = _believing(load, believed, replayed)
        replayed = simulate(corrected, setting, costs)
        apart, whole = _apart(load, corrected, replayed)
        told_ns = gap_ns and _gap_told_ns(corrected, replayed, setting)
        is_gap_good = not gap_ns or not told_ns or abs(told_ns - gap_ns) <= max(_GAP_GOOD_NS, gap_ns // 10)
        if is_gap_good and sum(map(abs, apart.values())) <= _RUNS_GOOD * sum(load.run):
            break
        for operation, each in apart.items():
            if whole[operation]:
                believed[operation] = min(1.0, max(0.0, believed[operation] + each / whole[operation]))
        if gap_ns and told_ns:
            costs = replace(costs, between_ns=min(2 * gap_ns, costs.between_ns * gap_ns // told_ns))
    assert replayed is not None
    return corrected, costs, predict(corrected, replayed, setting)


def _gap_told_ns(load: Load, replayed: Replayed, setting: ReplaySetting) -> int | None:
    """The gap that a recording of the simulation would show: recorded runs end before the overhead of their worker."""
    run = [own + held for own, held in zip(load.run, replayed.held_up, strict=True)]
    return gap_ns_of(load.changed(run=run, wait=replayed.wait), setting.threads)


def _at_least(load: Load) -> dict[int, float]:
    """By operation, the share of recorded blocked time that is certain: taken from its least blocked actions.

    An estimate from below, because a stretched run explains itself if it is believed: with so much blocked time, the limit is
    never reached, and no two actions want the GIL. Actions that came alone were held up by nothing.
    """
    blocked: dict[int, list[int]] = {}
    for operation, run, cpu in zip(load.operation, load.run, load.cpu, strict=True):
        blocked.setdefault(operation, []).append(run - cpu)
    return {
        operation: min(1.0, sorted(each)[int(len(each) * _LEAST)] * len(each) / max(1, sum(each)))
        for operation, each in blocked.items()
    }


def _believing(load: Load, believed: dict[int, float], replayed: Replayed | None) -> Load:
    """The load with these shares of its blocked time. Queueing in the middle of an action moves its arrival by as much."""
    columns = zip(load.operation, load.run, load.cpu, strict=True)
    run = [cpu + int((run - cpu) * believed[operation]) for operation, run, cpu in columns]
    if replayed is None or not any(replayed.wait_later):
        return load.changed(run=run)
    later = replayed.wait_later
    moved = [min(waited, max(0, wait)) for waited, wait in zip(later, load.wait, strict=True)]
    return load.changed(
        run=run,
        awaited=[max(0, awaited - waited) for awaited, waited in zip(load.awaited, later, strict=True)],
        arrival=[arrival + each for arrival, each in zip(load.arrival, moved, strict=True)],
    )


def _apart(load: Load, corrected: Load, replayed: Replayed) -> tuple[dict[int, float], dict[int, float]]:
    """By operation: recorded minus simulated run time; and the recorded blocked time."""
    apart: dict[int, float] = {}
    whole: dict[int, float] = {}
    columns = zip(load.operation, load.run, load.cpu, corrected.run, replayed.held_up, replayed.wait, strict=True)
    for operation, run, cpu, own, held, wait in columns:
        if wait >= 0:
            apart[operation] = apart.get(operation, 0.0) + run - own - held
            whole[operation] = whole.get(operation, 0.0) + run - cpu
    return apart, whole
