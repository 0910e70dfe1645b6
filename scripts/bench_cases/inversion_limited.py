"""inversion_limited: as `inversion`, with a CPU limit on the callee, on the hog, and on both.

A backplane with a limit sits in a group of its own, where nice says nothing to others: the group's weight has to move. The
limit is the whole core, so that it decides nothing by itself. A surprise would be that one of the three is not helped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .harness.case import Case, Requirement, Sides
from .harness.inverted import MODULE, NICE, urgent_ms
from .harness.machine import one_core
from .harness.systems import running

TABLES = {
    "callee": f'components = ["{MODULE}:Callee"]',
    "hog": f'components = ["{MODULE}:Hog"]',
    "limited_callee": f'components = ["{MODULE}:LimitedCallee"]\ncpu_limit = 100',
    "limited_hog": f'components = ["{MODULE}:LimitedHog"]\ncpu_limit = 100',
}
#: Who has a limit: (the callee, the hog).
PAIRS = {
    "both": ("limited_callee", "limited_hog"),
    "callee": ("limited_callee", "hog"),
    "hog": ("callee", "limited_hog"),
}


@contextmanager
def sides(is_quick: bool) -> Iterator[Sides]:
    with one_core(), running(TABLES, NICE) as system:
        yield Sides(
            lambda: {f"{who}_ms": urgent_ms(system.client, callee, hog) for who, (callee, hog) in PAIRS.items()},
            lambda: {f"{who}_ms": urgent_ms(system.client, callee, None) for who, (callee, _) in PAIRS.items()},
        )


def limited(who: str) -> Requirement:
    return Requirement(
        f"{who} limited", lambda ours, reference: ours[f"{who}_ms"] / reference[f"{who}_ms"], at_most=1.8
    )


CASE = Case(
    name="inversion_limited",
    what="inversion with cpu_limit on both, on the callee, on the hog; reference: no hog",
    requirements=tuple(limited(who) for who in PAIRS),
    open=sides,
    rounds=5,
    quick_rounds=2,
)
