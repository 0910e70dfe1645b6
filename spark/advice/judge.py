"""Judge: simulate the proposals of a rule, and take the mildest change that helps enough.

A change helps enough if the figure reaches the rule's goal, or gains most of the best proposal's gain: the rest costs more
than it brings. If the best gains too little or delays other operations too much, none is taken: moved trouble is no advice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..replay import Prediction, ReplaySetting
from .facts import WAIT_MIN_NS, Facts
from .rules.finding import AdviceFinding

#: Share by which a figure must improve. The next hour's load alone changes it by less. After an advice is followed, at most so
#: much is left to gain, so the same advice is not repeated.
GAIN_MIN: Final = 0.4
#: Factor by which the mean delay of other operations may grow: half as much again is hardly noticed beside the noise.
HARM_MAX: Final = 1.5


@dataclass(frozen=True, slots=True)
class Verdict:
    """The chosen value, the setting that results from it, and the simulated outcome."""

    new: Any
    setting: ReplaySetting
    prediction: Prediction


def judge(finding: AdviceFinding, facts: Facts, setting: ReplaySetting) -> Verdict | None:
    """Choose among the proposals of `finding`, each applied on top of `setting`; None: none helps."""
    calibrated = facts.calibrated
    before = calibrated.simulated if setting == calibrated.setting else calibrated.predict(setting)
    was = before.delays[finding.figure]
    tried: list[tuple[float, Verdict]] = []
    for new in finding.candidates:
        changed = setting.with_(**{finding.key: new})
        after = calibrated.predict(changed)
        if is_fair(before, after, finding):
            tried.append((after.delays[finding.figure], Verdict(new, changed, after)))
            if tried[-1][0] <= finding.goal_ns:
                break
    if not tried:
        return None
    best = min(delay for delay, _ in tried)
    if best > was * (1 - GAIN_MIN):
        return None
    enough = max(was - (was - best) * finding.worth, finding.goal_ns)
    harmless = facts.harmless_ns(finding.figure)
    if best <= harmless:
        enough = min(enough, harmless)
    return next(verdict for delay, verdict in tried if delay <= enough)


def judge_pair(
    one: AdviceFinding, other: AdviceFinding, facts: Facts, setting: ReplaySetting
) -> tuple[Verdict, Verdict] | None:
    """Judge two findings that help only together, such as a CPU limit and a shortage of threads; None: they do not help."""
    generous = setting.with_(**{one.key: one.candidates[-1]})
    second = judge(other, facts, generous)
    if second is None:
        return None
    first = judge(one, facts, setting.with_(**{other.key: second.new}))
    return None if first is None else (first, second)


def is_fair(before: Prediction, after: Prediction, finding: AdviceFinding) -> bool:
    """Whether the other operations are delayed no more than is acceptable.

    Some are always delayed: among work of equal length the total wait is constant, whatever the order.
    """
    for key, was in before.delays.items():
        is_later = after.waits[key].late > before.waits[key].late
        if key != finding.figure and (after.delays[key] > max(was * HARM_MAX, WAIT_MIN_NS) or is_later):
            return False
    return True
