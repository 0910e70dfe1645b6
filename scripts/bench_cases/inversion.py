"""inversion: an urgent call behind low-priority work of the same object, with a hog of middle priority on the only core.

Against the same without the hog. What it would take without inheritance is measured as well (harness/inverted.py): if that
were no longer, the case would prove nothing. A surprise would be an urgent call as slow as that.
"""

from __future__ import annotations

from .harness.case import Case, Figures, Requirement, ratio
from .harness.inverted import beside_a_hog


def not_inherited(ours: Figures, reference: Figures) -> float:
    """How much longer it would take."""
    return ours["not_inherited_ms"] / reference["inherited_ms"]


CASE = Case(
    name="inversion",
    what="one core: an urgent call behind 50 ms of low-priority work, a hog at middle nice; reference: no hog",
    requirements=(
        Requirement("with inheritance", ratio("inherited_ms"), at_most=1.6),
        Requirement("without", not_inherited, at_least=4.0),
    ),
    open=beside_a_hog("Callee"),
    rounds=7,
    quick_rounds=3,
)
