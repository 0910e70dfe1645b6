"""Tables: which table of the TOML a backplane was made of. Replicas, NAME-1, NAME-2, …, have one in common, `[backplane.NAME]`.

The records know backplanes only. Those that are numbered from 1 without a gap, were allowed the same and did the same
operations are taken for replicas; what helps the one that needs it most is said once, of their table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from .gather import Gathered
from .item import Item

_NUMBERED = re.compile(r"(.+)-([1-9]\d*)")


def tables(several: Iterable[Gathered]) -> dict[str, str]:
    """The name of its table by that of each backplane."""
    by_name = {each.backplane: each for each in several}
    common: dict[str, dict[int, Gathered]] = {}
    for name, each in by_name.items():
        if found := _NUMBERED.fullmatch(name):
            common.setdefault(found[1], {})[int(found[2])] = each
    result = {name: name for name in by_name}
    for table, numbered in common.items():
        if table not in by_name and are_replicas(numbered):
            result |= {each.backplane: table for each in numbered.values()}
    return result


def are_replicas(numbered: dict[int, Gathered]) -> bool:
    """Whether these, by their numbers, are made of one table, as far as one can see."""
    if sorted(numbered) != list(range(1, len(numbered) + 1)) or len(numbered) < 2:
        return False
    one = numbered[1]
    return all(
        each.setting == one.setting and set(each.operations) == set(one.operations) for each in numbered.values()
    )


def merged(items: Sequence[Item], table_of: dict[str, str]) -> list[Item]:
    """Items of backplanes as items of tables: of replicas with the same advice, the one whose figure is the worst."""
    found: dict[tuple[str, str], Item] = {}
    for item in items:
        backplane = item.target.removeprefix("backplane.")
        table = table_of[backplane]
        if table != backplane:
            evidence = f"{item.evidence} (Seen of {backplane}; it holds for all replicas.)"
            item = replace(item, target=f"backplane.{table}", evidence=evidence)
        key = (item.target, item.key)
        if key not in found or item.now > found[key].now:
            found[key] = item
    return list(found.values())
