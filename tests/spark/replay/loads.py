"""Loads made by hand, in ms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from appbackplane.spark.replay import NEVER, Load

MS = 1_000_000
#: So that nobody relies on a load that begins at 0.
BEGIN = 1_767_225_600_000 * MS


def load(*rows: dict[str, Any]) -> Load:
    """Each row: `at`, and what is not the default: an object of its own, operation 0, priority 4, 10 ms that are blocked."""

    def column(name: str, default: float) -> list[int]:
        return [round(row.get(name, default) * MS) for row in rows]

    run = column("run", 10)
    return Load(
        arrival=[BEGIN + at for at in column("at", 0)],
        operation=[row.get("operation", 0) for row in rows],
        object=[row.get("object", 1000 + number) for number, row in enumerate(rows)],
        priority=[row.get("priority", 4) for row in rows],
        run=run,
        cpu=[round(row.get("cpu", 0) * MS) for row in rows],
        awaited=column("awaited", 0),
        deadline=[BEGIN + round(row["deadline"] * MS) if "deadline" in row else NEVER for row in rows],
        wait=column("wait", 0),
        lane=[row.get("lane", 0) for row in rows] if any("lane" in row for row in rows) else (),
    )


def in_ms(waits: Iterable[int]) -> list[float]:
    """Rounded to a hundredth."""
    return [round(wait / MS, 2) if wait >= 0 else -1 for wait in waits]
