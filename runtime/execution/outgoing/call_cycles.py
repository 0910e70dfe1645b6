"""Call cycles: a call that returns to an object that waits in the call's own chain (law 6).

The chain travels with the call, so the cycle is found where the call arrives. Chains that cross are found by ring_detector.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from appbackplane.transport.errors import FailedPrecondition

from ...objects.action import Action

#: [object, route] of each action that waits for the next.
Path = Sequence[Sequence[str]]


def check_return(action: Action, chain: Path, *, is_reentrant: bool, key: str | None = None) -> bool:
    """Whether a call has returned to an object that waits in its own chain, and may run there because it is reentrant.

    Raises `FailedPrecondition` if it may not. `key`: its idempotency key, if `action` is the work of an earlier call.
    """
    name = action.object.name
    for index, (waiting, _) in enumerate(chain):
        if waiting != name:
            continue
        if is_reentrant:
            return True
        cycle = spelled([*chain[index:], (name, action.name)])
        with_key = "" if key is None else f" with idempotency_key {key!r}"
        remedy = f"declare {action.name} reentrant=True{'' if key is None else ' and take another key'}"
        raise FailedPrecondition(
            f"call cycle: {cycle}{with_key}, which waits for this very call; {remedy}, or call without waiting (cast)"
        )
    return False


def spelled(way: Path) -> str:
    """The way, for an error message."""
    return " -> ".join(f"{route} on {object}" for object, route in way)
