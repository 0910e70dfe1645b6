"""many_objects: what 100,000 objects cost: memory each, and scheduling when there are so many.

Both in a process of its own, so that nobody else's memory counts. Bytes are what the process grew by, keys and registry
included. The cost of an action is measured on two backplanes by turns, one with 100 objects and one with 100,000, each
visited in a random order. A surprise would be a cost that grows with the number: then something walks over all objects.

    python -m bench_cases.many_objects
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.runtime.objects.registry import Registry

from .harness.case import Case, Figures, Requirement, Sides, ours, ratio
from .harness.inside import BATCH, Counting, Holder, inside
from .harness.machine import rss_mib
from .harness.processes import hear, program, say

FEW, MANY = 100, 100_000
BATCHES = 20


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with program("many_objects") as child:
        bytes_each = float(hear(child))

        def measured(word: str) -> Figures:
            say(child, word)
            figures: Figures = json.loads(hear(child))
            return figures

        yield Sides(
            lambda: {"action_us": measured("many")["action_us"], "object_bytes": bytes_each}, lambda: measured("few")
        )


def bytes_each() -> float:
    """What the process grows by for an object that is added and registered."""
    gc.collect()
    before_mib = rss_mib(os.getpid())
    registry, component = Registry("bench", 8), Holder()
    for number in range(MANY):
        component.add(Counting(), key=f"object-{number}")
    registry.add_component(component)
    return (rss_mib(os.getpid()) - before_mib) * (1 << 20) / MANY


def main() -> None:
    """The program: says what an object costs, then measures what it is told to."""
    print(bytes_each(), flush=True)
    with inside(FEW) as few, inside(MANY) as many:
        gc.collect()
        gc.freeze()  # as a backplane does once it is set up
        for line in sys.stdin:
            per_s = (many if line.strip() == "many" else few).per_s(BATCHES)
            print(json.dumps({"action_us": 1e6 / per_s}), flush=True)


CASE = Case(
    name="many_objects",
    what=f"100,000 AppObjects: bytes each, and an action's cost with {BATCH} in flight; reference: its cost with 100",
    requirements=(
        Requirement("cost of an action to that with 100", ratio("action_us"), at_most=1.2, at_least=0.8),
        Requirement("an object", ours("object_bytes"), at_most=700, unit="B"),
    ),
    open=both,
    rounds=30,
    quick_rounds=10,
)

if __name__ == "__main__":
    main()
