"""Case: one promise, how to measure it, and what it has to reach.

A round is one slice of ours and one of the reference; each gives figures by name, with the unit at the end of the name.
A requirement is judged on every round and holds if the median does: a ratio of two slices that ran within the same second
says more than a ratio of two medians, because what the machine does meanwhile falls out of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

#: What one slice found: name with unit ("p50_us") to figure.
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One bound of a target. `value` is what is bounded, of one round: (ours, reference) -> figure."""

    #: What is bounded, for people: "p50 ratio".
    what: str
    value: Callable[[Figures, Figures], float]
    at_most: float = math.inf
    at_least: float = -math.inf
    unit: str = ""

    @property
    def text(self) -> str:
        bounds = [f"≥ {self.at_least:g}"] if self.at_least > -math.inf else []
        bounds += [f"≤ {self.at_most:g}"] if self.at_most < math.inf else []
        return f"{self.what} {' and '.join(bounds)}{self.unit and ' ' + self.unit}"

    def holds(self, value: float) -> bool:
        """Whether it is met; what could not be measured is not."""
        return self.at_least <= value <= self.at_most  # False for NaN


def ratio(figure: str) -> Callable[[Figures, Figures], float]:
    """Ours to the reference's."""
    return lambda ours, reference: ours[figure] / reference[figure] if reference[figure] else math.nan


def ours(figure: str) -> Callable[[Figures, Figures], float]:
    return lambda ours, _reference: ours[figure]


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides, up and ready. Each call measures one slice."""

    ours: Callable[[], Figures]
    #: None: the promise is absolute.
    reference: Callable[[], Figures] | None = None
    #: Other programs, measured in each round, by name; shown, never judged.
    peers: Mapping[str, Callable[[], Figures]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    #: What is measured, against what.
    what: str
    #: All must hold; the first one's value is shown as the ratio.
    requirements: tuple[Requirement, ...]
    #: Brings both sides up: `open(is_quick)`.
    open: Callable[[bool], AbstractContextManager[Sides]]
    rounds: int
    quick_rounds: int
    #: Whether a first round is run and thrown away: what starts up with it is not the promise.
    is_warmed_up: bool = True
    #: Names of further programs that do the same work, and how to measure one that is installed; shown, never judged.
    peers: Callable[[str, bool], Figures] | None = None

    @property
    def target(self) -> str:
        """What has to hold, for people."""
        return "; ".join(requirement.text for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class Result:
    case: str
    target: str
    ours: Figures
    reference: Figures
    ratio: float
    is_passed: bool
    #: What was missed, or why it could not be measured.
    note: str = ""
    peers: dict[str, Figures] = field(default_factory=dict)


def judge(case: Case, rounds: Sequence[tuple[Figures, Figures]]) -> Result:
    """Medians over the rounds, and whether each requirement holds."""
    values = [statistics.median(each.value(*found) for found in rounds) for each in case.requirements]
    missed = [
        f"{each.what} is {value:.3g}{each.unit and ' ' + each.unit}"
        for each, value in zip(case.requirements, values, strict=True)
        if not each.holds(value)
    ]
    return Result(
        case.name, case.target, medians([ours for ours, _ in rounds]), medians([other for _, other in rounds]),
        values[0], not missed, "; ".join(missed),
    )  # fmt: skip


def failed(case: Case, why: str) -> Result:
    """It could not be measured, which is not a pass."""
    return Result(case.name, case.target, {}, {}, math.nan, False, why)


def medians(found: Sequence[Figures]) -> Figures:
    return {name: statistics.median(each[name] for each in found) for name in found[0]} if found else {}
