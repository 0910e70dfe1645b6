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
    #: What the figure should come to, ns: the mildest that reaches it is taken.
    goal_ns: float = 0.0
    #: Or so much of what it gains with the best of the candidates.
    worth: float = 0.9
    #: The evidence as data.
    data: dict[str, Any] = field(default_factory=dict)
