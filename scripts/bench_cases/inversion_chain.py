"""inversion_chain: as `inversion`, but the low-priority work that is in the way is two calls further on: A -> B -> C.

The urgent call comes to A, which awaits B, which awaits C, each in a backplane of its own; C works, and the hog would
rather have the core. A surprise would be that only B is helped.
"""

from __future__ import annotations

from .harness.case import Case, Requirement, ratio
from .harness.inverted import beside_a_hog

CASE = Case(
    name="inversion_chain",
    what="inversion through A → B → C, each in its own backplane; reference: no hog",
    requirements=(Requirement("with inheritance", ratio("inherited_ms"), at_most=1.8),),
    open=beside_a_hog("Front", "Middle", "Callee"),
    rounds=7,
    quick_rounds=3,
)
