"""Item: one line of advice, with all that a person or a program needs to judge it. Advice: all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .patch import patch_of


@dataclass(frozen=True, slots=True)
class Item:
    """`key` of `target` is to be `new` instead of `old`."""

    #: "backplane.shop": the table of the TOML.
    target: str
    key: str
    old: Any
    new: Any
    #: In a sentence or two, with figures and times.
    evidence: str
    #: What gets better: "mean wait of shop.buy (priority 1)". ms, as recorded, and as simulated with the whole patch.
    figure: str
    now: float
    predicted: float
    #: What the simulation says of the settings as they are: how far it is from `now` is how far it may be trusted.
    simulated_now: float
    #: The rule that found it.
    rule: str = ""
    #: The same evidence as data.
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """How far the simulation was from what was recorded: 0.03 is 3 % too much."""
        return self.simulated_now / self.now - 1 if self.now else 0.0

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "target": self.target, "key": self.key, "old": self.old, "new": self.new, "rule": self.rule,
            "evidence": self.evidence, "figure": self.figure, "unit": "ms", "now": self.now, "predicted": self.predicted,
            "simulated_now": self.simulated_now, "error": self.error, "data": self.data,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Advice:
    """What should be changed, if anything."""

    items: tuple[Item, ...] = ()
    #: Of whom something might be said and is not, and why; a line each.
    notes: tuple[str, ...] = ()

    @property
    def patch(self) -> str:
        """TOML: only the keys that change, in their tables, with the evidence as comments; empty without advice."""
        return patch_of(self.items)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"items": [item.as_dict() for item in self.items], "notes": list(self.notes), "patch": self.patch}
