"""Interleaved: which objects may serve other requests while one awaits a reply (`interleaves`), and which cannot.

The order of such an object's queue is in scheduling/interleaving.py.
"""

from __future__ import annotations

from typing import Any, Final

from .app_object import AppObject
from .operation import DeclarationError
from .state_machine import StateMachine

#: Levels in the queue of one priority: actions that go on, and those that begin.
LEVELS: Final = 2


def check_interleaving(object: AppObject, priorities: int) -> None:
    """Give an object that interleaves the table of its queue. Raises `DeclarationError` if it cannot interleave."""
    wanted: Any = object.interleaves
    name = type(object).__qualname__
    if type(wanted) is not bool:
        raise DeclarationError(f"{name}.interleaves: expected True or False, got {wanted!r}")
    if not wanted:
        return
    if object._component is object:
        raise DeclarationError(f"{name}.interleaves is for objects: add one that has the operations")
    if object.concurrency != 1:
        raise DeclarationError(
            f"{name}: interleaves lets any number of requests wait, and one run; concurrency = {object.concurrency} lets as "
            "many run: declare one of them"
        )
    if isinstance(object, StateMachine):
        raise DeclarationError(f"{name}.interleaves: a request that waits would meet a state that others have changed")
    if any(spec.batched is not None for spec in type(object).__operations__.values()):
        raise DeclarationError(f"{name}.interleaves: a batch is gathered from a queue in the order of arrival")
    object._tails = [None] * (LEVELS * priorities)
