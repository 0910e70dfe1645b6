"""Calibration: how well the simulation knows a backplane. With the settings that it had, its recorded waits must come out.

Three things are found out first. What a worker does between two actions: how long after one has ended, with others queued,
the next begins. What of the time that was recorded as blocked was held up by what the simulation adds itself, the GIL and the
kernel's limit: as little as possible is believed, and more until runs come out as long as recorded. And nobody has written
down who held a CPU limit, and when its ticks fell: what fits best is taken. What still differs is `error`, and told with every
prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from .load import Load
from .prediction import Key, Prediction, predict, recorded
from .setting import Setting
from .simulation import AWAITS_NS, Costs, Replayed, simulate

#: Rounds in which blocked time is corrected, at most; until runs come out as long as recorded, to so much of them all.
_ROUNDS = 8
_RUNS_GOOD = 0.003
#: Of the actions of an operation so many at least are taken to have been held up by nothing.
_LEAST = 0.05
#: A gap that is longer is no work of the worker's: the kernel had others to run, or the objects were busy.
_GAP_MAX_NS = 1_000_000
#: Gaps that come out as near to those recorded as this are the same.
_GAP_GOOD_NS = 5_000
#: Gaps to believe their mean.
_GAPS_MIN = 20
#: What a worker does between two actions where nothing can be read: a call and its answer on this side (scripts/bench).
_BETWEEN_NS = 15_000
#: Of a load, the first actions by which guesses are compared.
_GUESS_COUNT = 5_000
_PHASES = 8
#: An error with which a guess may be believed, although another one fits better; and by how much.
_GOOD, _NEARLY = 0.15, 2.0
#: Guesses with smaller errors fit as well as each other.
_ALIKE = 0.02
#: Waits below this are as good as none: 0.1 ms against 0.2 ms is no error of a half.
_WAIT_MIN_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A load as the simulation has to be fed with it, and how well that goes."""

    load: Load
    setting: Setting
    costs: Costs
    recorded: Prediction
    simulated: Prediction

    @property
    def error(self) -> float:
        """By how much mean waits differ, as a share of the waits; each operation by its number of actions."""
        return difference(self.recorded, self.simulated)

    def error_of(self, key: Key, figure: str) -> float:
        """Of one figure: simulated / recorded - 1."""
        was = float(getattr(self.recorded.waits[key], figure))
        now = float(getattr(self.simulated.waits[key], figure))
        return (max(now, _WAIT_MIN_NS) / max(was, _WAIT_MIN_NS)) - 1

    def predict(self, setting: Setting) -> Prediction:
        """What would become of it under other settings."""
        return predict(self.load, simulate(self.load, setting, self.costs), setting)


def calibrate(load: Load, setting: Setting) -> Calibrated:
    """Find out what the records do not say, and how well they are reproduced."""
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
    """Between two of one load: of the mean waits, as a share of the first's."""
    apart = whole = 0.0
    for key, waits in one.waits.items():
        also = other.waits[key]
        weight = waits.count + waits.late
        apart += weight * abs(max(also.mean, _WAIT_MIN_NS) - max(waits.mean, _WAIT_MIN_NS))
        whole += weight * max(waits.mean, _WAIT_MIN_NS)
    return apart / whole if whole else 0.0


def gap_ns_of(load: Load, threads: int) -> int | None:
    """How long after an action has ended the next begins, where others were queued and all workers busy; None: not known.

    That is what a worker does between two, and what holds it up meanwhile.
    """
    if sum(awaited > AWAITS_NS for awaited in load.awaited) * 10 > len(load):
        return None  # when they had a worker, and when not, is not recorded
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


def _guesses(setting: Setting, costs: Costs) -> Iterator[tuple[Setting, Costs]]:
    """Who may have held the CPU limit, if that was not recorded, and how."""
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
    """A guess, and what became of it."""

    error: float
    #: Of the time that was recorded as blocked, what had to be believed for it.
    believed: float
    setting: Setting
    costs: Costs


def _tried(load: Load, told: Prediction, setting: Setting, costs: Costs) -> _Tried:
    corrected, _, simulated = _corrected(load, setting, costs)
    blocked_ns, believed_ns = (sum(each.run) - sum(each.cpu) for each in (load, corrected))
    return _Tried(difference(told, simulated), believed_ns / max(1, blocked_ns), setting, costs)


def _best(tried: list[_Tried]) -> tuple[Setting, Costs]:
    """The guess that fits best; of the kernel and the account the kernel, if it fits well. With the account's, a run that
    the kernel stretched passes for blocked, and fits just as well: but for another limit it would say nonsense.

    So does one that leaves actions too much of the kernel's limit. Of those that fit well, the one that has to believe least is
    taken; tenths make no difference.
    """
    best = min(tried, key=lambda each: each.error)
    kernels = [each for each in tried if each.setting.is_limited_by_kernel]
    of_kernel = min(kernels, key=lambda each: each.error, default=best)
    if of_kernel.error > max(_GOOD, _NEARLY * best.error):
        return best.setting, best.costs
    good = [each for each in kernels if each.error <= max(_ALIKE, _NEARLY * of_kernel.error)]
    taken = min(good, key=lambda each: (round(each.believed, 1), each.error), default=of_kernel)
    return taken.setting, taken.costs


def _corrected(load: Load, setting: Setting, costs: Costs) -> tuple[Load, Costs, Prediction]:
    """The load, and the costs, without what the simulation adds by itself; and what it then says."""
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


def _gap_told_ns(load: Load, replayed: Replayed, setting: Setting) -> int | None:
    """The gaps, had this been recorded: a run is what it was without what its worker did afterwards."""
    run = [own + held for own, held in zip(load.run, replayed.held_up, strict=True)]
    return gap_ns_of(load.changed(run=run, wait=replayed.wait), setting.threads)


def _at_least(load: Load) -> dict[int, float]:
    """By operation, what part of the time that was recorded as blocked it was so for certain: as those that were least so.

    From below, because a run that was stretched explains itself if it is believed: with so much time blocked between, the
    limit is never reached, nor the GIL wanted by two. Those that came alone were held up by nothing.
    """
    blocked: dict[int, list[int]] = {}
    for operation, run, cpu in zip(load.operation, load.run, load.cpu, strict=True):
        blocked.setdefault(operation, []).append(run - cpu)
    return {
        operation: min(1.0, sorted(each)[int(len(each) * _LEAST)] * len(each) / max(1, sum(each)))
        for operation, each in blocked.items()
    }


def _believing(load: Load, believed: dict[int, float], replayed: Replayed | None) -> Load:
    """With so much of what was recorded as blocked. What was waited for in the middle moves the arrival by as much."""
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
    """By operation: by how much runs were recorded longer than they came out; and all that was recorded as blocked."""
    apart: dict[int, float] = {}
    whole: dict[int, float] = {}
    columns = zip(load.operation, load.run, load.cpu, corrected.run, replayed.held_up, replayed.wait, strict=True)
    for operation, run, cpu, own, held, wait in columns:
        if wait >= 0:
            apart[operation] = apart.get(operation, 0.0) + run - own - held
            whole[operation] = whole.get(operation, 0.0) + run - cpu
    return apart, whole
