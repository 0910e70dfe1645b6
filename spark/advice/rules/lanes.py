"""A lane that is too narrow: its work waited while workers were free."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..facts import Facts
from .finding import AdviceFinding

#: Share of the workers' time while work was queued; above it the workers are the shortage, not the lane.
_BUSY: Final = 0.75


def too_narrow_a_lane(facts: Facts) -> AdviceFinding | None:
    """Propose a wider lane if its work waited although workers were free."""
    lanes, lane = facts.setting.lanes, np.asarray(facts.gathered.load.lane)
    if not lanes or not len(lane) or not facts.harmed or not facts.queued_ns:
        return None
    busy = facts.while_queued("run") / facts.queued_ns / facts.setting.threads
    if busy >= _BUSY:
        return None
    for key, waits in facts.harmed.items():
        number = int(np.bincount(lane[facts.mask(key)]).argmax())
        limit = lanes.get(number)
        if limit is None or limit >= facts.setting.threads:
            continue
        return AdviceFinding(
            "lanes",
            "lanes",
            tuple({**lanes, number: wider} for wider in range(limit + 1, facts.setting.threads + 1)),
            key,
            f"{facts.name_of(key)} waited {waits.mean / 1e6:.0f} ms on average while the workers were busy {busy:.0%} of the"
            f" time: of its lane, {number}, no more than {limit} may run at once.",
            goal_ns=facts.run_ns(key),
            data={"lane": number, "limit": limit, "busy_while_queued": busy},
        )
    return None
