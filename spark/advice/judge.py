"""Judge: has the simulation try what a rule proposes, and takes the mildest change that helps enough.

Enough: the figure reaches the goal of the rule, or gains most of what it gains with the best of the proposals; the rest costs
more than it brings. Nothing, if the best gains too little, or others pay too much: moving trouble elsewhere is no advice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from appbackplane.runtime.replay import Prediction, Setting

from .facts import WAIT_MIN_NS, Facts
from .rules.finding import Finding

#: What a figure must gain, as a share of it. Less is what the next hour's load changes by itself; and whoever has followed
#: an advice has left so much at most, and is not given the next one.
GAIN_MIN: Final = 0.4
#: By how much others may be delayed more, on average: half as much again is what they would hardly notice beside the noise.
HARM_MAX: Final = 1.5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to set, and what comes of it."""

    new: Any
    setting: Setting
    prediction: Prediction


def judge(finding: Finding, facts: Facts, setting: Setting) -> Verdict | None:
    """The best of the proposals, beside what is proposed already (`setting`); None: none helps."""
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


def judge_pair(one: Finding, other: Finding, facts: Facts, setting: Setting) -> tuple[Verdict, Verdict] | None:
    """Two of which none helps alone: who is both limited and short of threads gains nothing by one of them."""
    generous = setting.with_(**{one.key: one.candidates[-1]})
    second = judge(other, facts, generous)
    if second is None:
        return None
    first = judge(one, facts, setting.with_(**{other.key: second.new}))
    return None if first is None else (first, second)


def is_fair(before: Prediction, after: Prediction, finding: Finding) -> bool:
    """Whether others pay no more than may be asked of them. Some pay always: of work that is equally long, all the
    waiting there is stays the same, whoever goes first.
    """
    for key, was in before.delays.items():
        is_later = after.waits[key].late > before.waits[key].late
        if key != finding.figure and (after.delays[key] > max(was * HARM_MAX, WAIT_MIN_NS) or is_later):
            return False
    return True
