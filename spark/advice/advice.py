"""Advice: all items and notes about one system, as data and as a patch of its TOML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .item import Item
from .patch import patch_of


@dataclass(frozen=True, slots=True)
class Advice:
    """All proposed changes; empty if nothing is wrong."""

    items: tuple[Item, ...] = ()
    #: One line for each backplane that is in trouble but gets no advice, with the reason.
    notes: tuple[str, ...] = ()

    @property
    def patch(self) -> str:
        """TOML: only the keys that change, in their tables, with the evidence as comments; empty without advice."""
        return patch_of(self.items)

    def as_dict(self) -> dict[str, Any]:
        """The advice as plain data, for JSON."""
        return {"items": [item.as_dict() for item in self.items], "notes": list(self.notes), "patch": self.patch}
