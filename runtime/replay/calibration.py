"""Calibration: how well the simulation knows a backplane. With the settings that it had, its recorded waits must come out.

Three things are found out first. What a worker does between two actions is read from the records: how long after an action
has ended, with others queued, the next begins. What was recorded as blocked holds what the simulation adds itself, waiting
for the GIL and for the kernel's limit: it is taken out until the runs come out as long as they were. And nobody has written
down who held a CPU limit and when its ticks fell: what fits best is taken. What still differs is `error`, and is told with every prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .load import Load
from .prediction import Key, Prediction, predict, recorded
from .setting import Setting
from .simulation import Costs, Replayed, simulate

#: Rounds in which blocked time is corrected: after the third nothing moves by more than a few percent.
_ROUNDS = 3
#: A gap that is longer is no work of the worker's: the kernel had others to run, or the objects were busy.
_GAP_MAX_NS = 1_000_000
#: Gaps to believe their mean.
_GAPS_MIN = 20
#: What a worker does between two actions where nothing can be read: a call and its answer on this side (scripts/bench).
_BETWEEN_NS = 15_000
#: Of a load, the first actions by which guesses are compared.
_GUESS_COUNT = 20_000
_PHASES = 8
#: Waits below this are as good as none: 10 us against 20 us is no error of a half.
_WAIT_MIN_NS = 50_000


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
    costs = Costs(between_ns=between_ns_of(load, setting.threads))
    head = load.first(_GUESS_COUNT)
    head_told = recorded(head, setting)
    guesses = list(_guesses(setting, costs))
    if len(guesses) > 1:
        tried = [(difference(head_told, _corrected(head, *guess)[1]), n) for n, guess in enumerate(guesses)]
        setting, costs = guesses[min(tried)[1]]
    corrected, simulated = _corrected(load, setting, costs)
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


def between_ns_of(load: Load, threads: int) -> int:
    """What a worker does between two actions, from the gaps where others were queued and all were busy."""
    arrivals = sorted(load.arrival)
    starts = sorted(arrival + wait for arrival, wait in zip(load.arrival, load.wait, strict=True))
    ends = sorted(map(sum, zip(load.arrival, load.wait, load.took, strict=True)))
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
    return sum(gaps) // len(gaps) if len(gaps) >= _GAPS_MIN else _BETWEEN_NS


def _guesses(setting: Setting, costs: Costs) -> Iterator[tuple[Setting, Costs]]:
    """Who may have held the CPU limit, and how."""
    if setting.cpu_limit is None:
        yield setting, costs
        return
    if not setting.cpu_exempt:
        for share in (1.0, 0.95, 0.9, 0.85):
            yield setting.with_(is_limited_by_kernel=True), replace(costs, limit_share=share)
    for phase in range(_PHASES):
        after_ns = setting.tick_ns * (phase + 1) // _PHASES
        yield setting.with_(is_limited_by_kernel=False), replace(costs, tick_after_ns=after_ns)


def _corrected(load: Load, setting: Setting, costs: Costs) -> tuple[Load, Prediction]:
    """The load without what the simulation adds by itself, and what it then says."""
    corrected = load
    for _ in range(_ROUNDS):
        replayed = simulate(corrected, setting, costs)
        if not any(replayed.held_up) and not any(replayed.wait_later):
            return corrected, predict(corrected, replayed, setting)
        corrected = _without(load, replayed)
    return corrected, predict(corrected, simulate(corrected, setting, costs), setting)


def _without(load: Load, replayed: Replayed) -> Load:
    """A load without what it was held up, and waited for in the middle; its arrivals were later by as much as that."""
    later = replayed.wait_later
    run = [max(cpu, run - held) for cpu, run, held in zip(load.cpu, load.run, replayed.held_up, strict=True)]
    awaited = [max(0, took - run) for took, run in zip(load.took, load.run, strict=True)]
    return load.changed(
        run=run,
        took=[run + max(0, each - waited) for run, each, waited in zip(run, awaited, later, strict=True)],
        arrival=[arrival + min(waited, wait) for arrival, waited, wait in zip(load.arrival, later, load.wait, strict=True)],
    )
