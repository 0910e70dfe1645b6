"""Twins: the further queues of an object that serves several requests at the same time (`concurrency`).

A queue serves one action at a time (law 1), and an object is its queue (schedulable.py). An object with `concurrency` gets
twins: objects of its class that share its attributes, each with a queue of its own. They are made when all that exist are busy,
so an object that is seldom busy has few. A request that finds all busy waits in the object's own queue, and goes to the first
that is idle (execution/actions/shared_queues.py). Timers and topics reach it once.
"""

from __future__ import annotations

from typing import Any, Final

from .app_object import AppObject
from .operation import DeclarationError
from .state_machine import StateMachine

#: An admission looks for an idle queue among all: 13 us with a thousand busy ones. For more, add several objects.
CONCURRENCY_MAX: Final = 1_000


def check_concurrency(object: AppObject) -> None:
    """Give an object with `concurrency` above 1 its list of twins. Raises `DeclarationError` if it cannot have any."""
    count: Any = object.concurrency
    name = type(object).__qualname__
    if type(count) is not int or not 1 <= count <= CONCURRENCY_MAX:
        raise DeclarationError(f"{name}.concurrency: expected a whole number, 1 to {CONCURRENCY_MAX:,}, got {count!r}")
    if count == 1:
        return
    if isinstance(object, StateMachine):
        raise DeclarationError(
            f"{name}.concurrency: {count} actions at a time would meet a state that changes under them"
        )
    if any(spec.batched is not None for spec in type(object).__operations__.values()):
        raise DeclarationError(f"{name}.concurrency: its batches gather in one queue; add several objects instead")
    if object._component is object:
        raise DeclarationError(f"{name}.concurrency is for objects: add one that has the operations")
    own = [slot for cls in type(object).__mro__ for slot in _slots_of(cls) if not issubclass(AppObject, cls)]
    if own:
        raise DeclarationError(
            f"{name}.concurrency: its attributes are shared by several queues, so it has no __slots__"
        )
    object._twins = [object]


def another(object: AppObject) -> AppObject | None:
    """One more twin of an object with `concurrency`; None: it has as many as it may."""
    twins = object._twins
    assert twins is not None
    if len(twins) >= object.concurrency:
        return None
    twin: Any = AppObject.__new__(type(object))  # its class may have a `__new__` with arguments
    twin.__dict__ = vars(twins[0])
    twin._component, twin._key, twin._name, twin._twins = object._component, object._key, object._name, twins
    made: AppObject = twin
    twins.append(made)
    return made


def _slots_of(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
