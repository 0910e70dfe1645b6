"""A CPU limit that is too low: while work waited, the backplane computed as fast as its limit lets it."""

from __future__ import annotations

from typing import Final

from ..facts import Facts
from .finding import AdviceFinding

#: Share of the limit from which usage counts as "at the limit": measured usage is a few percent below the kernel's figure,
#: because it lacks the runtime's own work.
_AT_LIMIT: Final = 0.75
#: Share of the gain of a whole core that suffices: a limit protects others, and the last fifth is the most expensive.
_WORTH: Final = 0.8
#: Proposed limits are rounded up to a multiple of this; a limit such as 37 % would pretend a precision that is not there.
_STEP: Final = 5


def too_low_a_limit(facts: Facts) -> AdviceFinding | None:
    """Propose a higher CPU limit if work waited while the backplane used up its limit."""
    limit = facts.setting.cpu_limit
    if limit is None or limit >= 100 or not facts.harmed or not facts.queued_ns:
        return None
    used = facts.while_queued("cpu") * 100 / facts.queued_ns
    if used < _AT_LIMIT * limit:
        return None
    key, waits = next(iter(facts.harmed.items()))
    needed = int(facts.columns["cpu"].sum()) * 100 / facts.lasted_ns
    candidates = tuple(
        dict.fromkeys(
            min(100, -(-int(limit * factor) // _STEP) * _STEP) for factor in (1.25, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 12)
        )
    )
    return AdviceFinding(
        "cpu_limit",
        "cpu_limit",
        tuple(each for each in candidates if each > limit),
        key,
        f"While work waited ({facts.queued_ns / 1e9:.1f} s of {facts.lasted_ns / 1e9:.1f} s) {used:.0f} % of a core was"
        f" used, and {limit} % are allowed; {facts.name_of(key)} waited {waits.mean / 1e6:.0f} ms on average"
        f" and {waits.p99 / 1e6:.0f} ms at the 99th percentile, and ran {facts.run_ns(key) / 1e6:.1f} ms.",
        worth=_WORTH,
        data={
            "limit_percent": limit, "used_while_queued_percent": used, "used_percent": needed,
            "queued_s": facts.queued_ns / 1e9, "lasted_s": facts.lasted_ns / 1e9,
        },
    )  # fmt: skip
