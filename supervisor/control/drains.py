"""Drains: what is said to a backplane that is to drain, and what its answer means (direction/draining.py).

A count and a few names are all that comes back: who was refused has been told by the backplane itself.
"""

from __future__ import annotations

from typing import Any

from ..direction.effects import Drain
from ..direction.events import Drained
from .control_socket import Answered

#: Names of actions that are shown: the first of many say as much.
NAMES_MAX = 5


def drain_body(effect: Drain) -> dict[str, Any]:
    """The body of `control.drain`."""
    return {"limit": effect.limit_ns / 1e9, "stop_limit": effect.stop_limit_ns / 1e9, "because": effect.because}


def drained(effect: Drain, answered: Answered) -> Drained:
    """What has become of it."""
    if answered.error is not None:
        return Drained(effect.backplane, effect.generation, error=answered.error.message)
    result = answered.result if isinstance(answered.result, dict) else {}
    names = [str(name) for name in result.get("running") or ()]
    more = (f"and {len(names) - NAMES_MAX} more",) if len(names) > NAMES_MAX else ()
    running = (*names[:NAMES_MAX], *more)
    refused_count, unread_count = (int(result.get(key) or 0) for key in ("refused", "unread"))
    return Drained(effect.backplane, effect.generation, refused_count, running, unread_count)
