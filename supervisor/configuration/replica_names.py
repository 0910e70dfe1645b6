"""Replica names: those of several backplanes made from one TOML table, and the names that collide. Pure.

`replicas = 3` of `web` makes the backplanes `web-1`, `web-2` and `web-3`: ordinary processes with the same components and
settings. No backplane is called `web`: a command that is given this name means all three.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any


def names(name: str, count: int) -> tuple[str, ...]:
    """Names of one table's backplanes. A single one bears the table's name."""
    return (name,) if count == 1 else tuple(f"{name}-{number}" for number in range(1, count + 1))


def counts(sections: Mapping[str, Any], count_max: int) -> dict[str, int]:
    """Number of backplanes of each table; 1 where `replicas` is absent, or invalid (reported elsewhere)."""
    given = {name: section.get("replicas", 1) if isinstance(section, dict) else 1 for name, section in sections.items()}
    return {name: count if type(count) is int and 0 < count <= count_max else 1 for name, count in given.items()}


def problems(counts: Mapping[str, int]) -> Iterable[tuple[str, str]]:
    """(table, problem): names that two backplanes would bear, or a backplane and a group of replicas."""
    makers: dict[str, str] = {name: name for name, count in counts.items() if count == 1}
    common = [name for name, count in counts.items() if count > 1]
    for table in common:
        for name in names(table, counts[table]):
            if name in makers or name in common:
                other = makers.get(name, name)
                yield table, f"{name!r} would be one of them, and is the name of [backplane.{other}], too: rename one"
                break
            makers[name] = table


def numbered(name: str, backplanes: Collection[str]) -> tuple[str, ...]:
    """Replicas that share `name`, recognised by their own names alone; none if a backplane is called `name`."""
    if name in backplanes:
        return ()
    return tuple(each for each in backplanes if each.startswith(f"{name}-") and each[len(name) + 1 :].isdecimal())
