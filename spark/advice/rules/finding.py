"""Finding: the trouble that a rule has seen, and the settings that it would try."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..facts import Key


@dataclass(frozen=True, slots=True)
class AdviceFinding:
    """One kind of trouble of one backplane, with candidate remedies."""

    rule: str
    #: Key to change in the backplane's table, and the values to try, the mildest change first.
    key: str
    candidates: tuple[Any, ...]
    #: Operation and priority of which the mean wait is to improve.
    figure: Key
    #: One or two sentences with figures.
    evidence: str
    #: Target for the figure, ns: the mildest candidate that reaches it is taken.
    goal_ns: float = 0.0
    #: A candidate is also enough if it reaches this share of the best candidate's gain.
    worth: float = 0.9
    #: The evidence in machine-readable form.
    data: dict[str, Any] = field(default_factory=dict)
