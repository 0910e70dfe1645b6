"""inversion_chain: as `inversion`, but the low-priority work that is in the way is two calls further on: A -> B -> C.

The urgent call comes to A, which awaits B, which awaits C, each in a backplane of its own; C works, and the hog would
rather have the core. A surprise would be that only B is helped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .harness.case import Case, Requirement, Sides, ratio
from .harness.inverted import MODULE, NICE, beside_a_hog, urgent_ms
from .harness.machine import one_core
from .harness.systems import running

TABLES = {name.lower(): f'components = ["{MODULE}:{name}"]' for name in ("Callee", "Middle", "Front", "Hog")}


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with one_core(), running(TABLES, NICE) as system:
        yield Sides(
            lambda: beside_a_hog(system.client, "front", "hog"),
            lambda: {"inherited_ms": urgent_ms(system.client, "front", None)},
        )


CASE = Case(
    name="inversion_chain",
    what="inversion through A → B → C, each in its own backplane; reference: no hog",
    requirements=(Requirement("with inheritance", ratio("inherited_ms"), at_most=1.8),),
    open=both,
    rounds=7,
    quick_rounds=3,
)
