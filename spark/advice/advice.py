"""Advice: all items and notes about one system, as data and as a patch of its TOML.

The patch has one table a backplane, with the evidence as comments above each key for the person who merges it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..report.words import shown
from .item import Item

_WIDTH = 110


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


def patch_of(items: Iterable[Item]) -> str:
    """Format the items as TOML; empty if there are none."""
    tables: dict[str, list[Item]] = {}
    for item in items:
        tables.setdefault(item.target, []).append(item)
    return "\n".join(_table(target, items) for target, items in tables.items())


def _table(target: str, items: list[Item]) -> str:
    lines = [f"[{target}]"]
    for item in items:
        lines += [f"# {line}" for line in textwrap.wrap(shown(item.evidence), _WIDTH)]
        lines += [
            f"# Predicted: {shown(item.figure)} {shown_ms(item.now)} -> {shown_ms(item.predicted)}"
            f" (with the present settings, the simulation says {shown_ms(item.simulated_now)}: {item.error:+.0%})",
            f"{item.key} = {_value(item.new)}  # was {_was(item.old)}",
        ]
    return "\n".join(lines) + "\n"


def shown_ms(ms: float) -> str:
    """Format ms with three digits: "12.3 ms"; "1.23 s"."""
    if ms >= 1000:
        return f"{ms / 1000:.3g} s"
    return f"{ms:.3g} ms" if ms >= 0.01 else "0 ms"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + " }"
    return str(value)


def _was(value: Any) -> str:
    if value is None:
        return "not set"
    if value in ((), []):
        return "the default"
    return _value(value)
