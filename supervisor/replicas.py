"""Replicas: several backplanes of one table of the TOML. What they are called, and what may not be called so. Pure.

`replicas = 3` of `web` are the backplanes `web-1`, `web-2` and `web-3`: processes like any others, with the same components
and settings. They have the name `web` in common, which no backplane bears: a command that is given it means all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any


def names(name: str, count: int) -> tuple[str, ...]:
    """Of the backplanes of one table. One alone bears the name of the table."""
    return (name,) if count == 1 else tuple(f"{name}-{number}" for number in range(1, count + 1))


def counts(sections: Mapping[str, Any], count_max: int) -> dict[str, int]:
    """How many backplanes each table makes; one where that is not said, or is nonsense, which is found elsewhere."""
    given = {name: section.get("replicas", 1) if isinstance(section, dict) else 1 for name, section in sections.items()}
    return {name: count if type(count) is int and 0 < count <= count_max else 1 for name, count in given.items()}


def problems(counts: Mapping[str, int]) -> Iterable[tuple[str, str]]:
    """(table, what is wrong): names that two backplanes would have, or a backplane and several in common."""
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
    """Those that have `name` in common, where only their own names are known; none where one is called so itself."""
    if name in backplanes:
        return ()
    return tuple(each for each in backplanes if each.startswith(f"{name}-") and each[len(name) + 1 :].isdecimal())
