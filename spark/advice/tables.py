"""Tables: map backplanes to their tables in the TOML. Replicas NAME-1, NAME-2, … share one table, `[backplane.NAME]`.

The records know backplanes only. Backplanes numbered from 1 without a gap, with equal settings and the same operations, are
taken for replicas. The advice for the replica that needs it most is given once, for their table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from .gather import GatheredWindow
from .item import Item

_NUMBERED = re.compile(r"(.+)-([1-9]\d*)")


def tables(several: Iterable[GatheredWindow]) -> dict[str, str]:
    """Map each backplane's name to the name of its table."""
    by_name = {each.backplane: each for each in several}
    common: dict[str, dict[int, GatheredWindow]] = {}
    for name, each in by_name.items():
        if found := _NUMBERED.fullmatch(name):
            common.setdefault(found[1], {})[int(found[2])] = each
    result = {name: name for name in by_name}
    for table, numbered in common.items():
        if table not in by_name and are_replicas(numbered):
            result |= {each.backplane: table for each in numbered.values()}
    return result


def are_replicas(numbered: dict[int, GatheredWindow]) -> bool:
    """Whether these backplanes, by number, seem to come from one table."""
    if sorted(numbered) != list(range(1, len(numbered) + 1)) or len(numbered) < 2:
        return False
    one = numbered[1]
    return all(
        each.setting == one.setting and set(each.operations) == set(one.operations) for each in numbered.values()
    )


def merged(items: Sequence[Item], table_of: dict[str, str]) -> list[Item]:
    """Turn items of backplanes into items of tables. Of equal advice for replicas, the item with the worst figure remains."""
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
