"""Priorities of messages: as declared, or rate-monotonic: a more frequent message is more urgent (Liu and Layland, 1973).

Seed 003, section 3.1: "either role-based or by rate-monotonic scheduling". Pure: rates come in, priorities go out. If there
are more rates than priorities, neighbouring rates share one, so that the order is never inverted. A message without a rate
ranks below all messages with one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..objects.operation import PRIORITY_DEFAULT
from .message import MessageSpec


def declared(specs: Sequence[MessageSpec], priorities: int) -> dict[str, int]:
    """Priority by message name, from `@message(priority=…)` or the default."""
    default = min(PRIORITY_DEFAULT, priorities - 1)
    return {spec.name: default if spec.priority is None else spec.priority for spec in specs}


def rate_monotonic(specs: Sequence[MessageSpec], priorities: int) -> dict[str, int]:
    """Priority by message name, from `@message(rate=…)`; a declared priority takes precedence."""
    rates = sorted({spec.rate for spec in specs if spec.rate is not None and spec.priority is None}, reverse=True)
    has_others = any(spec.rate is None and spec.priority is None for spec in specs)
    levels = max(1, priorities - has_others)
    by_rate = {
        rate: place if len(rates) <= levels else place * levels // len(rates) for place, rate in enumerate(rates)
    }
    last = min(len(rates), levels) if rates else min(PRIORITY_DEFAULT, priorities - 1)
    others = min(last, priorities - 1)
    found: dict[str, int] = {}
    for spec in specs:
        if spec.priority is not None:
            found[spec.name] = spec.priority
        else:
            found[spec.name] = others if spec.rate is None else by_rate[spec.rate]
    return found
