"""Judge: has the simulation try what a rule proposes, and takes the mildest change that helps enough.

Enough: the figure reaches the goal of the rule, or gains most of what it gains with the best of the proposals: the rest costs
more than it brings. Nothing, if the best gains less than a third, or others pay too much: a patch that moves trouble elsewhere is no advice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from appbackplane.runtime.replay import Calibrated, Prediction, Setting

from .facts import WAIT_MIN_NS
from .rules.finding import Finding

#: What a figure must gain, as a share of it.
GAIN_MIN: Final = 1 / 3
#: By how much the mean wait of others may grow: half as much again is what they would hardly notice beside the noise.
HARM_MAX: Final = 1.5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to set, and what comes of it."""

    new: Any
    setting: Setting
    prediction: Prediction


def judge(finding: Finding, calibrated: Calibrated, setting: Setting) -> Verdict | None:
    """The best of the proposals, beside what is proposed already (`setting`); None: none helps."""
    before = calibrated.simulated if setting == calibrated.setting else calibrated.predict(setting)
    was = before.waits[finding.figure].mean
    tried: list[tuple[float, Verdict]] = []
    for new in finding.candidates:
        changed = setting.with_(**{finding.key: new})
        after = calibrated.predict(changed)
        mean = after.waits[finding.figure].mean
        if is_fair(before, after, finding):
            tried.append((mean, Verdict(new, changed, after)))
            if mean <= finding.goal_ns:
                break
    if not tried:
        return None
    best = min(mean for mean, _ in tried)
    if best > was * (1 - GAIN_MIN):
        return None
    enough = max(was - (was - best) * finding.worth, finding.goal_ns)
    return next(verdict for mean, verdict in tried if mean <= enough)


def is_fair(before: Prediction, after: Prediction, finding: Finding) -> bool:
    """Whether others pay no more than may be asked of them. Some pay always: of work that is equally long, all the
    waiting there is stays the same, whoever goes first.
    """
    for key, waits in before.waits.items():
        then = after.waits[key]
        if key != finding.figure and (then.mean > max(waits.mean * HARM_MAX, WAIT_MIN_NS) or then.late > waits.late):
            return False
    return True
