"""Drains: the body of an order to drain, and the event made from its reply (direction/draining.py).

The reply has only counts and a few names: refused callers have been told by the backplane itself.
"""

from __future__ import annotations

from typing import Any

from ..direction.effects import Drain
from ..direction.events import Drained
from .control_socket import Answered

#: Names of running actions that are kept; more would tell a reader no more.
NAMES_MAX = 5


def drain_body(effect: Drain) -> dict[str, Any]:
    """The body of `control.drain`; limits in seconds."""
    return {"limit": effect.limit_ns / 1e9, "stop_limit": effect.stop_limit_ns / 1e9, "because": effect.because}


def drained(effect: Drain, answered: Answered) -> Drained:
    """The event for the director, from the reply or the error of `control.drain`."""
    if answered.error is not None:
        return Drained(effect.backplane, effect.generation, error=answered.error.message)
    result = answered.result if isinstance(answered.result, dict) else {}
    names = [str(name) for name in result.get("running") or ()]
    more = (f"and {len(names) - NAMES_MAX} more",) if len(names) > NAMES_MAX else ()
    running = (*names[:NAMES_MAX], *more)
    refused_count, unread_count = (int(result.get(key) or 0) for key in ("refused", "unread"))
    return Drained(effect.backplane, effect.generation, refused_count, running, unread_count)
