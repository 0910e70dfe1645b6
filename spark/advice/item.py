"""Item: one line of advice, with all that a person or a program needs to judge it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Item:
    """Advice to set `key` of table `target` to `new` instead of `old`."""

    #: Table of the TOML, such as "backplane.shop".
    target: str
    key: str
    old: Any
    new: Any
    #: One or two sentences, with figures and times.
    evidence: str
    #: Name of the figure that improves, such as "mean wait of shop.buy (priority 1)"; `now`: its recorded value in ms;
    #: `predicted`: the value simulated with the whole patch.
    figure: str
    now: float
    predicted: float
    #: Simulated value under the present settings; its distance from `now` shows how far to trust the prediction.
    simulated_now: float
    #: Name of the rule that proposed the change.
    rule: str = ""
    #: The evidence in machine-readable form.
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Error of the simulation under the present settings, relative to the recording: 0.03 is 3 % too much."""
        return self.simulated_now / self.now - 1 if self.now else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The item as plain data, for JSON."""
        return {
            "target": self.target, "key": self.key, "old": self.old, "new": self.new, "rule": self.rule,
            "evidence": self.evidence, "figure": self.figure, "unit": "ms", "now": self.now, "predicted": self.predicted,
            "simulated_now": self.simulated_now, "error": self.error, "data": self.data,
        }  # fmt: skip
