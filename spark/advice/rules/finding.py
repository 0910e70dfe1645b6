"""Finding: what a rule has seen, and what it would try."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..facts import Key


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of trouble of one backplane."""

    rule: str
    #: The key of its table that is to change, and the values to be tried, the mildest change first.
    key: str
    candidates: tuple[Any, ...]
    #: Whose mean wait is the figure that is to get better.
    figure: Key
    #: In a sentence.
    evidence: str
    #: What the figure should come to, ns: the mildest that reaches it is taken, or else the mildest that is nearly the best.
    goal_ns: float = 0.0
    #: Of which priorities the waits may grow by what the figure gains; of more urgent ones they may not.
    data: dict[str, Any] = field(default_factory=dict)
