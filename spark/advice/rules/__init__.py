"""Rules: one kind of trouble a file. Each inspects `Facts` and returns the trouble with possible remedies, or None.

A rule is a function `Facts -> Finding | None`, pure and without a simulation. It proposes settings, the mildest change first,
and `judge.py` simulates them. `RULES` is in order: trouble that distorts all other figures comes first.
"""

from collections.abc import Callable

from ..facts import Facts
from .cpu_limit import too_low_a_limit
from .finding import AdviceFinding
from .lanes import too_narrow_a_lane
from .quotas import starved_priority
from .threads import too_few_threads

RULES: tuple[Callable[[Facts], AdviceFinding | None], ...] = (
    too_low_a_limit,
    too_few_threads,
    too_narrow_a_lane,
    starved_priority,
)

__all__ = ["RULES", "AdviceFinding", "starved_priority", "too_few_threads", "too_low_a_limit", "too_narrow_a_lane"]
